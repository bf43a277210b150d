"""The settings: each declared once, read from the environment or from the options of `instrument()`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from otel_torchprof import environment_variables as variables
from otel_torchprof import setting_values as values
from otel_torchprof.live.rank_share import DEFAULT_RANK_SHARE, RankShare, parse_rank_share
from otel_torchprof.recorder.capture_options import CaptureOptions, CounterScope, DeviceGraphs, DeviceMode
from otel_torchprof.recorder.schedule import CycleSchedule, IntervalSchedule, Schedule, parse_schedule

_logger = logging.getLogger(__name__)


class SettingError(ValueError):
    """A setting has a value that is not accepted. Names the setting, the value and what is accepted."""

    def __init__(self, name: str, value: object, accepted: str, reason: str = "") -> None:
        detail = f" ({reason})" if reason else ""
        super().__init__(f"{name}={value!r} is not accepted{detail}; give {accepted}")
        self.name = name
        self.value = value
        self.accepted = accepted
        self.reason = reason


class Mode(Enum):
    """What is produced."""

    BOTH = "both"
    METRICS = "metrics"
    TRACE = "trace"
    OFF = "off"


class StepRule(Enum):
    """What counts as a step."""

    AUTO = "auto"
    EXPLICIT = "explicit"
    OPTIMIZER = "optimizer"
    MODULE = "module"


class MetricsSampling(Enum):
    """How many steps are counted op by op."""

    AUTO = "auto"
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings of the instrumentation; docs/configuration.md describes each.

    `schedule` is None for the time-based default, `interval_s` seconds between recorded steps. Limits
    of 0 mean none. `recording_dir` None saves no recordings, `prometheus_port` None listens for no scraper,
    `off_file` None is no file that switches everything off, `redact` None redacts nothing.
    """

    enabled: bool = True
    mode: Mode = Mode.BOTH
    schedule: CycleSchedule | None = None
    interval_s: float = 600.0
    step: StepRule = StepRule.AUTO
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_modules: bool = False
    counters: tuple[str, ...] = ()
    counter_scope: CounterScope = "span"
    device: DeviceMode = "auto"
    device_graphs: DeviceGraphs = "nodes"
    patterns: bool = False
    max_spans_per_trace: int = 2_000
    max_trace_bytes: int = 2_000_000
    min_span_duration_us: float = 0.0
    recording_dir: Path | None = None
    buffer_size_mb: int = 256
    run_id: str | None = None
    span_ranks: RankShare = DEFAULT_RANK_SHARE
    redact: Callable[[str], str | None] | str | None = None
    metrics_sampling: MetricsSampling = MetricsSampling.AUTO
    op_histograms: bool = False
    max_overhead: float = 0.02
    off_file: Path | None = None
    prometheus_port: int | None = None
    prometheus_host: str = "127.0.0.1"

    @property
    def records_spans(self) -> bool:
        """Whether steps are recorded and sent as spans."""
        return self.enabled and self.mode in (Mode.BOTH, Mode.TRACE)

    @property
    def makes_metrics(self) -> bool:
        """Whether metrics are counted and exported."""
        return self.enabled and self.mode in (Mode.BOTH, Mode.METRICS)

    def make_schedule(self) -> Schedule:
        """Return a fresh schedule, at its start."""
        return self.schedule or IntervalSchedule(self.interval_s)

    def capture_options(self) -> CaptureOptions:
        """Return how each capture is configured."""
        return CaptureOptions(
            record_shapes=self.record_shapes,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
            counters=self.counters,
            counter_scope=self.counter_scope,
            device=self.device,
            device_graphs=self.device_graphs,
            buffer_size_bytes=self.buffer_size_mb << 20,
        )

    @classmethod
    def from_options(cls, options: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Settings:
        """Read settings from `options` (names of `Configuration`), the rest from `environ`.

        Raises:
            SettingError: a value is not accepted.
            TypeError: an option is unknown.
        """
        unknown = sorted(set(options) - {field.name for field in fields(Configuration)})
        if unknown:
            raise TypeError(
                f"unknown option {', '.join(unknown)}; known are "
                f"{', '.join(field.name for field in fields(Configuration))}"
            )
        return cls(**{setting.field: setting.read(options, environ) for setting in SETTINGS})

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Read settings from `environ`; a bad value is logged and switches that part off. Never raises."""
        values: dict[str, Any] = {}
        switched_off: dict[str, Any] = {}
        for setting in SETTINGS:
            try:
                values[setting.field] = setting.read({}, environ)
            except SettingError as error:
                switched_off.update(setting.when_bad)
                if setting.when_bad:
                    _logger.error("otel-torchprof: nothing is recorded: %s", error)
                else:
                    _logger.error(
                        "otel-torchprof: %s=%r is ignored: %s; give %s",
                        error.name,
                        error.value,
                        error.reason,
                        error.accepted,
                    )
        return cls(**{**values, **switched_off})


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Options of `TorchprofInstrumentor().instrument()` and of `torchprof:` in the declarative file.

    Each stands for the variable `OTEL_PYTHON_TORCHPROF_<NAME>` and wins over it; None leaves it alone.
    """

    enabled: bool | None = None
    mode: str | None = None
    schedule: str | None = None
    interval: float | None = None
    step: str | None = None
    record_shapes: bool | None = None
    profile_memory: bool | None = None
    with_stack: bool | None = None
    with_modules: bool | None = None
    counters: str | Sequence[str] | None = None
    counter_scope: str | None = None
    device: str | None = None
    device_graphs: str | None = None
    patterns: bool | None = None
    max_spans_per_trace: int | None = None
    max_trace_bytes: int | str | None = None
    min_span_duration_us: float | None = None
    recording_dir: str | None = None
    buffer_size_mb: int | None = None
    run_id: str | None = None
    span_ranks: str | int | Sequence[str | int] | None = None
    redact: str | Callable[[str], str | None] | None = None
    metrics_sampling: str | None = None
    op_histograms: bool | None = None
    max_overhead: float | None = None
    off_file: str | None = None
    prometheus_port: int | None = None
    prometheus_host: str | None = None


@dataclass(frozen=True, slots=True)
class Setting:
    """How one setting is read. `parse` raises ValueError; `when_bad` is what a bad value sets instead."""

    variable: str
    field: str
    parse: Callable[[str], Any]
    accepted: str
    when_bad: Mapping[str, Any]
    is_list: bool = False  # an option may be a list or a tuple too
    is_function: bool = False  # an option may be a function too

    @property
    def option(self) -> str:
        """Name of the option of `instrument()`."""
        return self.variable.removeprefix("OTEL_PYTHON_TORCHPROF_").lower()

    def read(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
        """Return the value from `options`, else from `environ`, else the default."""
        name, value = self.option, options.get(self.option)
        if value is None:
            name, value = self.variable, environ.get(self.variable, "").strip()
            if not value:
                return _DEFAULTS[self.field]
        if self.is_function and callable(value):
            return value
        # As declarative files and profile() have it.
        text = ",".join(map(str, value)) if self.is_list and isinstance(value, (list, tuple)) else str(value)
        try:
            return self.parse(text.strip())
        except ValueError as error:
            raise SettingError(name, value, self.accepted, str(error)) from None


_OFF: Mapping[str, Any] = {"mode": Mode.OFF}
_IGNORED: Mapping[str, Any] = {}

SETTINGS = (
    Setting(variables.OTEL_PYTHON_TORCHPROF_ENABLED, "enabled", values.boolean, "true or false", _OFF),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_MODE, "mode", values.choice(Mode), "both, metrics, trace or off", _OFF
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_SCHEDULE,
        "schedule",
        parse_schedule,
        "numbers of steps like skip_first=5,wait=0,warmup=1,active=3,repeat=1",
        _OFF,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_INTERVAL,
        "interval_s",
        values.number(above=0),
        "seconds, more than 0",
        _OFF,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_STEP,
        "step",
        values.choice(StepRule),
        "auto, explicit, optimizer or module",
        _OFF,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_RECORD_SHAPES,
        "record_shapes",
        values.boolean,
        "true or false",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_PROFILE_MEMORY,
        "profile_memory",
        values.boolean,
        "true or false",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_WITH_STACK, "with_stack", values.boolean, "true or false", _IGNORED
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_WITH_MODULES,
        "with_modules",
        values.boolean,
        "true or false",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_COUNTERS,
        "counters",
        values.counter_names,
        "names of events like task-clock,page-faults",
        _IGNORED,
        is_list=True,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_COUNTER_SCOPE,
        "counter_scope",
        values.word("span", "op"),
        "span or op",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_DEVICE,
        "device",
        values.word("auto", "off", "on"),
        "auto, off or on",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_DEVICE_GRAPHS,
        "device_graphs",
        values.word("nodes", "whole"),
        "nodes or whole",
        _IGNORED,
    ),
    Setting(variables.OTEL_PYTHON_TORCHPROF_PATTERNS, "patterns", values.boolean, "true or false", _IGNORED),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_MAX_SPANS_PER_TRACE,
        "max_spans_per_trace",
        values.whole_number(0),
        "a number of spans, 0 for no limit",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_MAX_TRACE_BYTES,
        "max_trace_bytes",
        values.size_bytes,
        "bytes, or a size like 2MB or 2MiB, 0 for no limit",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_MIN_SPAN_DURATION_US,
        "min_span_duration_us",
        values.number(least=0, most=values.MAX_DURATION_US),
        "microseconds, 0 for no limit",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_RECORDING_DIR,
        "recording_dir",
        values.absolute_path,
        "a directory",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB,
        "buffer_size_mb",
        values.whole_number(1, values.MAX_BUFFER_SIZE_MB),
        "MiB, 1 to 32768",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_RUN_ID,
        "run_id",
        values.run_id,
        "up to 128 printable characters",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_SPAN_RANKS,
        "span_ranks",
        parse_rank_share,
        "all, or ranks and the word rotating like 0,rotating",
        _IGNORED,
        is_list=True,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_REDACT,
        "redact",
        values.function_name,
        "a function like package.module:function",
        _OFF,
        is_function=True,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_METRICS_SAMPLING,
        "metrics_sampling",
        values.choice(MetricsSampling),
        "auto or full",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_OP_HISTOGRAMS,
        "op_histograms",
        values.boolean,
        "true or false",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_MAX_OVERHEAD,
        "max_overhead",
        values.number(above=0, most=1),
        "a share of the program's time, more than 0 and at most 1",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_OFF_FILE,
        "off_file",
        values.absolute_path,
        "the path of a file",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT,
        "prometheus_port",
        values.whole_number(1, values.MAX_PORT),
        "a port, 1 to 65535",
        _IGNORED,
    ),
    Setting(
        variables.OTEL_PYTHON_TORCHPROF_PROMETHEUS_HOST,
        "prometheus_host",
        values.host,
        "a host name or an address to listen on",
        _IGNORED,
    ),
)

_DEFAULTS = {field.name: field.default for field in fields(Settings)}
