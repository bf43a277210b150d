"""The sources of one capture, started and stopped together; one that fails leaves the others whole."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable


class SourceGroup:
    """Raises nothing of its sources; a source that cannot start is reported once a reason."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._wanted = tuple(sources)
        self._working: list[Source] = []
        self.states: dict[str, str] = {}
        """Of each wanted source its state, `on` as a rule, or why it is off."""

    def prepare(self) -> None:
        """Prepares each source that can; before `start`, and before the capture records."""
        for source in self._wanted:
            if self._succeeds(source, source.prepare):
                self._working.append(source)

    def start(self, target: SourceTarget) -> None:
        """Starts each source that is prepared and can."""
        for source in tuple(self._working):
            if self._succeeds(source, functools.partial(source.start, target)):
                self.states[source.name] = source.state
            else:
                self._working.remove(source)

    def _succeeds(self, source: Source, action: Callable[[], None]) -> bool:
        try:
            action()
        except SourceUnavailable as error:
            self.states[source.name] = f"off: {error}"
            failures.report(f"{source.name} is not recorded", error)
        except Exception as error:
            self.states[source.name] = f"off: {type(error).__name__}"
            failures.report(f"{source.name} is not recorded", error)
        else:
            return True
        return False

    def step_begins(self) -> None:
        """Tells them that a step is about to begin."""
        for source in self._working:
            with failures.guard(f"{source.name} of a step was not recorded"):
                source.step_begins()

    def stop(self) -> None:
        """Stops them, in reverse; idempotent."""
        while self._working:
            source = self._working.pop()
            with failures.guard(f"{source.name} was not stopped"):
                source.stop()
            self.states[source.name] = source.state
