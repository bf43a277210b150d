"""What a program says to the instrumentation while it runs, and asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_torchprof.telemetry.prometheus import TorchprofCollector


def set_mode(mode: str) -> bool:
    """Switch what is produced: `both`, `metrics`, `trace` or `off`.

    A window of recorded steps under way is ended and sent. Metrics go on where they stopped, also when
    recording and counting had switched themselves off. In a forked child, which else begins with metrics at
    its first step, the call begins with them at once. While there is the file that `OFF_FILE` names, nothing
    is produced: the mode holds once it is gone.

    Returns:
        Whether the program is instrumented, so that the mode holds.

    Raises:
        SettingError: `mode` is another word.
    """
    from otel_torchprof.config import Mode, SettingError
    from otel_torchprof.instrumentor import TorchprofInstrumentor

    try:
        wanted = Mode(mode)
    except ValueError:
        accepted = ", ".join(one.value for one in Mode)
        raise SettingError("mode", mode, f"one of {accepted}", "unknown word") from None
    return bool(TorchprofInstrumentor().set_mode(wanted))


def batch(requests: Iterable[Any] = (), *, weights: Sequence[float] = ()) -> AbstractContextManager[None]:
    """The work for several requests together, as a context manager: `with batch(spans): model(inputs)`.

    When the schedule wants it, the block becomes a trace of its own: a span `torch.batch` with a link to
    each request, and the ops in it below. At its end each request's span that is still open gets an event
    `torch.batch` with the batch's trace id, its CPU time and the request's share. Without requests it makes
    one trace of a block, such as the loop over the tokens of a text. Never raises; nothing where the program
    is not instrumented.

    Args:
        requests: what the block works for: OpenTelemetry spans, or contexts that hold one; of a
            `SpanContext` or `Link` only the link is made.
        weights: of the requests, such as their numbers of tokens; by default all have the same share.
    """
    from otel_torchprof.instrumentor import TorchprofInstrumentor

    return TorchprofInstrumentor().batch(requests, weights)


def prometheus_collector() -> TorchprofCollector:
    """The metrics for a registry of the application: `REGISTRY.register(prometheus_collector())`.

    It yields nothing while the program is not instrumented.

    Raises:
        ImportError: prometheus_client is not installed (`pip install 'otel-torchprof[prometheus]'`).
    """
    from otel_torchprof.instrumentor import TorchprofInstrumentor
    from otel_torchprof.telemetry.prometheus import TorchprofCollector

    instrumentor = TorchprofInstrumentor()
    return TorchprofCollector(instrumentor.collect_metrics, instrumentor.resource)
