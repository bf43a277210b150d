"""One call, interrupted by a signal where it holds a lock; the handler calls into the same part.

The argument names the scenario. Ends with 0 and prints what came of the handler's call, or hangs.
"""

import itertools
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof import profile, torch_fallback
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.recorder import bridge
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.sources import modules
from otel_torchprof.telemetry.cancellation import Cancellation
from otel_torchprof.telemetry.context import CurrentSpan, StepPlacer
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.send_result import SendResult


def interrupting(owner: Any, name: str) -> None:
    """Has the next call of a function of `owner` raise the signal before it does its work."""
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        setattr(owner, name, original)
        signal.raise_signal(signal.SIGUSR1)
        return original(*args, **kwargs)

    setattr(owner, name, call)


def on_signal(handle: Callable[[], object]) -> None:
    def run(*_arguments: object) -> None:
        try:
            handle()
        except RuntimeError as error:
            print(type(error).__name__)
        else:
            print("done")

    signal.signal(signal.SIGUSR1, run)


def stop_while_stopping() -> None:
    capture = Capture()
    capture.start()
    torch.ones(2)
    on_signal(capture.halt)
    interrupting(capture._session, "_name_threads")
    assert len(capture.stop()) == 3


def stop_while_starting() -> None:
    first, second = Capture(), Capture()
    first.start()
    on_signal(first.halt)
    loaded = bridge.load_bridge()
    loaded._table = Interrupting(loaded._table)
    second.start()
    torch.ones(2)
    assert len(second.stop()) == 3


def start_while_stopping_modules() -> None:
    options = CaptureOptions(with_modules=True)
    first, second = Capture(options=options), Capture(options=options)
    first.start()
    on_signal(second.start)
    interrupting(modules._wrapper, "_take_out")  # under the lock of the wrapper
    first.halt()
    torch.ones(2)
    assert len(second.stop()) == 3


class Interrupting:
    """A bridge's table whose first `enable` raises the signal, under the bridge's lock."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.disable = table.disable
        self._calls = itertools.count()

    def enable(self, slot: int, flags: int) -> int:
        if next(self._calls) == 0:
            signal.raise_signal(signal.SIGUSR1)
        return int(self._table.enable(slot, flags))


def load_while_loading() -> None:
    on_signal(bridge.load_bridge)
    interrupting(bridge, "locate_bridge")
    assert bridge.load_bridge() is bridge.load_bridge()


def place_while_placing() -> None:
    def unix_ns() -> int:
        if next(calls) == 0:
            signal.raise_signal(signal.SIGUSR1)
        return 10

    calls = itertools.count()
    placer = StepPlacer(unix_ns=unix_ns)
    span = CurrentSpan(1, 2, 1, start_ns=5, is_recording=True, is_remote=False)
    parents = []
    on_signal(lambda: parents.append(placer.place(span, 3).parent))
    parents.append(placer.place(span, 3).parent)
    assert parents == [span, None]  # the span holds one step


class InterruptingReasons(dict[str, int]):
    """Raises the signal when it is added to the counts, under their lock."""

    def items(self) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return super().items()


def count_while_counting() -> None:
    counters = ExportCounters()
    on_signal(lambda: counters.add_dropped_recordings("shut_down", 2))
    counters.add_result(SendResult(dropped_by_reason={"timeout": 1}))
    reasons: Mapping[str, int] = InterruptingReasons(timeout=3)
    counters.add_result(SendResult(dropped_by_reason=reasons))
    counts = counters.counts()
    assert (counts.failed_spans, counts.dropped_recordings) == ({"timeout": 4}, {"shut_down": 2})


def cancel_while_waiting() -> None:
    cancellation = Cancellation()
    on_signal(cancellation.set)
    interrupting(cancellation, "is_set")
    assert cancellation.wait(30.0)


def uninstrument_while_uninstrumenting() -> None:
    exporter = InMemorySpanExporter()
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(span_exporter=exporter, schedule="active=1", step="explicit")
    on_signal(instrumentor.uninstrument)
    assert instrumentor._runtime is not None
    interrupting(instrumentor._runtime._windows, "_finish")  # under the lock of the windows
    instrumentor.uninstrument()
    assert exporter.get_finished_spans()


def step_while_stepping() -> None:
    exporter = InMemorySpanExporter()
    instrumentor = TorchprofInstrumentor()
    instrumentor.instrument(span_exporter=exporter, schedule="active=1", step="explicit")
    from otel_torchprof import step

    on_signal(step)
    assert instrumentor._runtime is not None
    interrupting(instrumentor._runtime._windows, "_open_capture")
    step()
    step()
    instrumentor.uninstrument()
    assert exporter.get_finished_spans()


def start_through_torch_while_starting() -> None:
    prof = profile(recorder="torch")
    on_signal(profile(recorder="torch").start)
    interrupting(torch.profiler._KinetoProfile, "start")
    with prof:
        torch.ones(2)
    assert len(prof.recording) == 3


def stop_through_torch_while_stopping() -> None:
    prof = profile(recorder="torch")
    on_signal(prof.stop)
    interrupting(torch_fallback, "read_trace")
    with prof:
        torch.ones(2)
    assert len(prof.recording) == 3


def scenarios() -> Iterator[tuple[str, Callable[[], None]]]:
    for name, value in list(globals().items()):
        if "_while_" in name:
            yield name, value


if __name__ == "__main__":
    dict(scenarios())[sys.argv[1]]()
