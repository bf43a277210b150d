"""The sources of one capture, started and stopped together; one that fails leaves the others whole."""

from __future__ import annotations

from collections.abc import Iterable

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable


class SourceGroup:
    """Raises nothing of its sources; a source that cannot start is reported once a reason."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._wanted = tuple(sources)
        self._running: list[Source] = []
        self.states: dict[str, str] = {}
        """Of each wanted source `on`, or why it is off."""

    def start(self, target: SourceTarget) -> None:
        """Starts each source that can."""
        for source in self._wanted:
            try:
                source.start(target)
            except SourceUnavailable as error:
                self.states[source.name] = f"off: {error}"
                failures.report(f"{source.name} is not recorded", error)
            except Exception as error:
                self.states[source.name] = f"off: {type(error).__name__}"
                failures.report(f"{source.name} is not recorded", error)
            else:
                self.states[source.name] = "on"
                self._running.append(source)

    def step_begins(self) -> None:
        """Tells them that a step is about to begin."""
        for source in self._running:
            with failures.guard(f"{source.name} of a step was not recorded"):
                source.step_begins()

    def stop(self) -> None:
        """Stops them, in reverse; idempotent."""
        while self._running:
            source = self._running.pop()
            with failures.guard(f"{source.name} was not stopped"):
                source.stop()
