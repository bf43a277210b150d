"""What a capture asks of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from otel_torchprof._native import core
    from otel_torchprof.recorder.bridge import Bridge


class SourceUnavailable(Exception):
    """The source cannot record here: one line with the cause and the way out."""


class SourceTarget(NamedTuple):
    """Where a source records: a running capture, its slot and the bridge to torch."""

    capture: core.Capture
    slot: int
    bridge: Bridge


class Source(ABC):
    """Records one kind of thing into one capture, between `start` and `stop`; `prepare` comes before both."""

    name: str
    """As in the recording's metadata: `sources` there maps it to its state, or to why it is off."""

    state: str = "on"
    """Of one that has started; it may change while it records."""

    def prepare(self) -> None:  # noqa: B027 - most sources have nothing to prepare
        """Does what takes long and needs no running capture: none of it is in the recording.

        Raises:
            SourceUnavailable: it cannot; the capture goes on without it. Nothing of the source is left.
        """

    @abstractmethod
    def start(self, target: SourceTarget) -> None:
        """Begins to record. After an exception nothing of the source is left.

        Raises:
            SourceUnavailable: it cannot; the capture goes on without it.
        """

    def step_begins(self) -> None:  # noqa: B027 - most sources do not care
        """Called on the thread that begins a step, right before it. Must not raise."""

    @abstractmethod
    def stop(self) -> None:
        """Ends recording, before the capture stops; again, it does nothing. Must not raise.

        One that was prepared and not started is stopped too.
        """
