"""What became of the spans of one send, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

# Reasons are few and fixed: they become values of a metric attribute.
TIMEOUT = "timeout"  # the deadline passed before the server took the spans
UNAVAILABLE = "unavailable"  # no connection, or the server kept answering "later"
TLS = "tls"  # no trust: certificates do not fit
REFUSED = "refused"  # the server answered with an error that a retry cannot mend
REDIRECTED = "redirected"  # the server answered with another address: headers are not sent there
TOO_LARGE = "too_large"  # a single span is larger than the server takes
EXPORTER_FAILED = "exporter_failed"  # an exporter that is not ours raised or returned FAILURE
FILE_ERROR = "file_error"  # the file could not be opened or written
ENCODE_FAILED = "encode_failed"  # the spans could not be made
INTERNAL_ERROR = "internal_error"  # a bug of ours, kept out of the user's program
QUEUE_FULL = "queue_full"
SHUT_DOWN = "shut_down"

# After these there is no point in asking again at once.
UNREACHABLE_REASONS = frozenset({TIMEOUT, UNAVAILABLE, TLS})


@dataclass(frozen=True, slots=True)
class SendResult:
    """Spans the server took, spans it took and refused (`partial_success`), and spans that never got there.

    The three add up to the spans handed in. `cause` says for people what first went wrong.
    """

    delivered: int = 0
    rejected: int = 0
    dropped_by_reason: Mapping[str, int] = field(default_factory=dict)
    cause: str = field(default="", compare=False)

    @classmethod
    def dropped(cls, reason: str, spans: int, cause: str = "") -> SendResult:
        return cls(dropped_by_reason={reason: spans} if spans else {}, cause=cause)

    def __add__(self, other: SendResult) -> SendResult:
        dropped = dict(self.dropped_by_reason)
        for reason, spans in other.dropped_by_reason.items():
            dropped[reason] = dropped.get(reason, 0) + spans
        return SendResult(
            self.delivered + other.delivered,
            self.rejected + other.rejected,
            dropped,
            self.cause or other.cause,
        )

    @property
    def complete(self) -> bool:
        """Whether there were spans and the server took all of them."""
        return self.delivered > 0 and not self.rejected and not self.dropped_by_reason

    @property
    def unreachable(self) -> bool:
        """Whether the server was out of reach: the next request would most likely fare no better."""
        return self.delivered == 0 and bool(UNREACHABLE_REASONS & self.dropped_by_reason.keys())


class RequestSender(Protocol):
    """Takes encoded `ExportTraceServiceRequest`s. Nothing of it raises."""

    @property
    def address(self) -> str:
        """Where to, fit for a log."""
        ...

    def send(self, payload: bytes, spans: int, *, timeout_s: float | None = None) -> SendResult:
        """Deliver `payload`, which holds `spans` spans, in `timeout_s` or the configured time if shorter."""
        ...

    def cancel(self) -> None:
        """Make a send in progress on another thread end soon. Does not block; later sends are dropped."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
