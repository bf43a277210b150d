"""What a program says to the instrumentation while it runs, and asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
