"""What metrics that are always on take of the two examples: of all steps counted, and of a sample of them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

from benchmarks.count_op import counting
from benchmarks.pairing import elapsed_ns, paired
from benchmarks.record_op import added_ns
from benchmarks.rows import Row, Target
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.metrics.families import NumberPoint
from otel_torchprof.semconv_metrics import EVENTS_RECORDED, STEP_NUMBER

_EXAMPLES = Path(__file__).parents[1] / "examples" / "zero-code"
_PERCENT = 100
# The bound on what sampled counting takes of a step.
_MAX_SHARE = Target("at most", 1.0, of="ours")
_MS = 1e6

Sampling = Literal["auto", "full"]


def run(quick: bool) -> list[Row]:
    """Measures, for each example, ns an op x ops / step, and the wall time of a step beside that without."""
    blocks, repeats, rounds = (20, 1, 1) if quick else (100, 7, 4)
    op_cost_ns = median(added_ns(counting(), blocks) for _ in range(repeats))
    rows: list[Row] = []
    for name in ("transformer", "cnn"):
        main = _example(name)
        rows += _rows_of(name, main, "full", op_cost_ns, repeats, rounds)
        rows += _rows_of(name, main, "auto", op_cost_ns, repeats, rounds)
    return rows


def _rows_of(
    name: str, main: Callable[[], None], sampling: Sampling, op_cost_ns: float, repeats: int, rounds: int
) -> list[Row]:
    counted: list[_Counted] = []

    def counted_ms() -> float:
        counted.append(_counted(main, sampling, rounds))
        return counted[-1].wall_ns / counted[-1].steps / _MS

    def plain_ms() -> float:
        wall_ns = sum(elapsed_ns(main) for _ in range(rounds))
        return wall_ns / counted[-1].steps / _MS

    wall = paired(counted_ms, plain_ms, repeats)
    ops, steps = sum(run.ops for run in counted), sum(run.steps for run in counted)
    share = _PERCENT * ops * op_cost_ns / sum(run.wall_ns for run in counted)
    which = "sampled steps" if sampling == "auto" else "all steps"
    return [
        Row(
            f"{name}: count {which} ({op_cost_ns:.0f} ns an op x {ops / steps:,.0f} ops / step)",
            share,
            "% of a step",
            target=_MAX_SHARE if sampling == "auto" else None,
        ),
        Row(
            f"{name}: train a step, {which} counted",
            wall.a,
            "ms/step",
            "not counted",
            wall.b,
            ratio_quartiles=wall.ratio_quartiles,
        ),
    ]


@dataclass(frozen=True)
class _Counted:
    """Some runs of an example: ops that were counted, steps, and the wall time of all."""

    ops: int
    steps: int
    wall_ns: int


def _counted(main: Callable[[], None], sampling: Sampling, rounds: int) -> _Counted:
    with _instrumented(sampling) as value_of:
        main()  # the sampler learns what a step costs
        before = value_of(EVENTS_RECORDED), value_of(STEP_NUMBER)
        wall_ns = sum(elapsed_ns(main) for _ in range(rounds))
        return _Counted(value_of(EVENTS_RECORDED) - before[0], value_of(STEP_NUMBER) - before[1], wall_ns)


@contextlib.contextmanager
def _instrumented(sampling: Sampling) -> Iterator[Callable[[str], int]]:
    """Metrics as with `opentelemetry-instrument`; gives a function for the value of one of them."""
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(mode="metrics", metrics_sampling=sampling, metric_exporter=_Discarding())

    def value_of(name: str) -> int:
        (point,) = next(f for f in instrumentor.collect_metrics() if f.metric.name == name).points
        assert isinstance(point, NumberPoint)
        return int(point.value)

    try:
        yield value_of
    finally:
        instrumentor.uninstrument()


class _Discarding(MetricExporter):
    """Takes the metrics and does nothing with them."""

    def export(self, *_: Any, **__: Any) -> MetricExportResult:
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0.0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0.0, **_: Any) -> None:
        pass


def _example(name: str) -> Callable[[], None]:
    """The program of an example, without what it prints."""
    path = _EXAMPLES / f"train_{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def main() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            module.main()

    return main
