"""The table of events and averages, with torch's columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from otel_torchprof.profiling.units import flops_unit, format_memory, format_share, format_time

# What tables are sorted by; any other attribute that has an order will do.
SORT_KEYS = (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time", "device_time_total",
    "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
    "self_device_memory_usage", "count",
)  # fmt: skip
_NUMBER_WIDTH = 12
_GAP = "  "
_DEVICE_WORDS = ("cuda", "xpu", "privateuse1")


class TableLimits(NamedTuple):
    """How much of a table is written; widths in characters, None = as needed. `rows` -1 = all."""

    rows: int = 100
    source_width: int | None = 75
    name_width: int | None = 55
    shapes_width: int | None = 80
    top_level_only: bool = False
    time_unit: str | None = None


class _Column(NamedTuple):
    header: str
    width: int
    cells: list[str]
    is_left_aligned: bool = False


def device_attribute(name: str) -> str:
    """The attribute of a metric that may be named after a kind of device: `cuda_time` is `device_time`."""
    for word in _DEVICE_WORDS:
        name = name.replace(word, "device")
    return name


def make_table(
    events: Sequence[Any],
    *,
    sort_by: str | None,
    header: str | None,
    limits: TableLimits,
    with_memory: bool,
    with_flops: bool,
    totals: TableTotals,
    contents: TableContents,
) -> str:
    """Writes events or averages as a table; nothing for none.

    Args:
        sort_by: an attribute, greatest first; None keeps the order.
        contents: what any of the events has gets a column, so that `limits` take none away.

    Raises:
        AttributeError: there is no attribute `sort_by`; it names those to sort by.
    """
    if not events:
        return ""
    if sort_by is not None:
        attribute = device_attribute(sort_by)
        if not hasattr(events[0], attribute):
            raise AttributeError(
                f"{type(events[0]).__name__!r} object has no attribute {sort_by!r}: "
                f"sort_by is one of {', '.join(SORT_KEYS)}"
            )
        events = sorted(events, key=lambda event: getattr(event, attribute), reverse=True)
    shown = _shown(events, limits)
    columns = _columns(shown, totals, contents, limits, with_memory=with_memory, with_flops=with_flops)
    return _write(columns, _sources(shown, limits), header, limits, totals)


class TableTotals(NamedTuple):
    """Over all events, shown or not; times in microseconds."""

    device: str  # what the device columns are called
    self_cpu_us: float
    self_device_us: float
    has_device_time: bool
    has_device_memory: bool


class TableContents(NamedTuple):
    """What any of the events has, shown or not; `least_flops` is the least above 0, 0 = none has any."""

    overloads: bool
    node_ids: bool
    shapes: bool
    stacks: bool
    least_flops: int


def look_through(events: Iterable[Any]) -> TableContents:
    """The contents of events or averages, one by one."""
    overloads = node_ids = shapes = stacks = False
    flops: list[int] = []
    for event in events:
        overloads |= bool(event.overload_name)
        node_ids |= event.node_id != -1
        shapes |= bool(event.input_shapes)
        stacks |= bool(event.stack)
        if event.flops:
            flops.append(event.flops)
    return TableContents(overloads, node_ids, shapes, stacks, min(flops, default=0))


def sum_up(events: Iterable[Any]) -> TableTotals:
    """Totals of events or averages, one by one."""
    device, self_cpu_us, self_device_us = "", 0.0, 0.0
    has_device_time = has_device_memory = False
    for event in events:
        device = device or (event.use_device or "").upper()
        self_cpu_us += event.self_cpu_time_total
        has_device_time |= event.self_device_time_total > 0
        has_device_memory |= event.self_device_memory_usage > 0
        is_on_cpu = str(event.device_type).endswith(".CPU")
        # Work counts once: where it ran, not where it was launched.
        if event.is_legacy if is_on_cpu else not event.is_user_annotation:
            self_device_us += event.self_device_time_total
    return TableTotals(device, self_cpu_us, self_device_us, has_device_time, has_device_memory)


def _shown(events: Sequence[Any], limits: TableLimits) -> list[Any]:
    shown: list[Any] = []
    for event in events:
        if len(shown) == limits.rows:
            break
        if not limits.top_level_only or event.cpu_parent is None:
            shown.append(event)
    return shown


def _columns(
    shown: list[Any],
    totals: TableTotals,
    contents: TableContents,
    limits: TableLimits,
    *,
    with_memory: bool,
    with_flops: bool,
) -> list[_Column]:
    name_width = _width((event.key for event in shown), limits.name_width)
    columns = [_Column("Name", name_width, [_cut(event.key, limits.name_width) for event in shown])]
    if contents.overloads:
        overloads = [_cut(event.overload_name or "", limits.name_width) for event in shown]
        columns.append(_Column("Overload Name", name_width, overloads))

    def add(header: str, cells: list[str], width: int = _NUMBER_WIDTH) -> None:
        columns.append(_Column(header, width, cells))

    def times(attribute: str) -> list[str]:
        return [format_time(getattr(event, attribute), limits.time_unit) for event in shown]

    def memory(attribute: str) -> list[str]:
        return [format_memory(getattr(event, attribute)) for event in shown]

    cpu_us = totals.self_cpu_us
    add("Self CPU %", [format_share(event.self_cpu_time_total, cpu_us) for event in shown])
    add("Self CPU", times("self_cpu_time_total"))
    shares = [format_share(event.cpu_time_total, cpu_us) if not event.is_async else "0" for event in shown]
    add("CPU total %", shares)
    add("CPU total", times("cpu_time_total"))
    add("CPU time avg", times("cpu_time"))
    if totals.has_device_time:
        device = totals.device
        add(f"Self {device}", times("self_device_time_total"))
        shares = [format_share(event.self_device_time_total, totals.self_device_us) for event in shown]
        add(f"Self {device} %", shares)
        add(f"{device} total", times("device_time_total"))
        add(f"{device} time avg", times("device_time"))
    if with_memory:
        add("CPU Mem", memory("cpu_memory_usage"))
        add("Self CPU Mem", memory("self_cpu_memory_usage"))
        if totals.device and totals.has_device_memory:
            add(f"{totals.device} Mem", memory("device_memory_usage"))
            add(f"Self {totals.device} Mem", memory("self_device_memory_usage"))
    add("# of Calls", [str(event.count) for event in shown])
    if contents.node_ids:
        add("Node ID", [str(event.node_id) for event in shown])
    if contents.shapes:
        header = "Input Shapes"
        width = _width((header, *(str(event.input_shapes) for event in shown)), limits.shapes_width)
        add(header, [str(event.input_shapes)[:width] for event in shown], width)
    if contents.stacks:
        sources = _sources(shown, limits)
        header = "Source Location"
        lines = (line for event in shown for line in event.stack or ())
        width = _width((header, *lines), limits.source_width)
        firsts = [lines[0] if lines else "" for lines in sources]
        columns.append(_Column(header, width, firsts, is_left_aligned=True))
    if with_flops and contents.least_flops:
        scale, unit = flops_unit(contents.least_flops)
        add(f"Total {unit}", [f"{event.flops * scale:8.3f}" if event.flops else "--" for event in shown])
    return columns


def _sources(shown: list[Any], limits: TableLimits) -> list[list[str]]:
    return [[_cut_front(line, limits.source_width) for line in event.stack or ()] for event in shown]


def _write(
    columns: list[_Column],
    sources: list[list[str]],
    header: str | None,
    limits: TableLimits,
    totals: TableTotals,
) -> str:
    rule = "".join("-" * column.width + _GAP for column in columns)
    double_rule = "=" * (len(rule) - len(_GAP))
    lines = [double_rule, header] if header is not None else []
    if limits.top_level_only:
        lines += [double_rule, "This report only display top-level ops statistics"]
    lines += [rule, _line(columns, [column.header for column in columns]), rule]
    source_place = next((i for i, column in enumerate(columns) if column.is_left_aligned), None)
    for number, more in enumerate(sources):
        lines.append(_line(columns, [column.cells[number] for column in columns]))
        if source_place is not None:
            for source in [*more[1:], ""]:
                cells = [""] * len(columns)
                cells[source_place] = source
                lines.append(_line(columns, cells))
    lines.append(rule)
    lines.append(f"Self CPU time total: {format_time(totals.self_cpu_us, limits.time_unit)}")
    if totals.has_device_time:
        lines.append(
            f"Self {totals.device} time total: {format_time(totals.self_device_us, limits.time_unit)}"
        )
    return "\n".join(lines) + "\n"


def _line(columns: list[_Column], cells: list[str]) -> str:
    return "".join(
        f"{cell:{'<' if column.is_left_aligned else '>'}{column.width}}{_GAP}"
        for column, cell in zip(columns, cells, strict=True)
    )


def _width(texts: Any, most: int | None) -> int:
    width = max(map(len, texts), default=0) + 4
    return width if most is None else min(width, most)


def _cut(text: str, most: int | None) -> str:
    return text if most is None or len(text) < most - 3 else text[: most - 3] + "..."


def _cut_front(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    return "..." + text[len(text) - most + 3 :] if most > 3 else text[-most:]
