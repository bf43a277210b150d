"""Spans in a file, as the Collector's file exporter writes them: JSON lines, one TracesData a line.

The OTLP file exporter specification fixes the format but no variable for the path, so the path is
`OTEL_PYTHON_TORCHPROF_OTLP_FILE`, `spans.jsonl` where that is unset. Many processes may write to one file:
each request is one line, appended under a file lock.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_torchprof.environment_variables import OTEL_PYTHON_TORCHPROF_OTLP_FILE
from otel_torchprof.telemetry.otlp_json import request_to_json_line
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.telemetry.send_result import FILE_ERROR, SHUT_DOWN, SendResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_logger = logging.getLogger(__name__)

DEFAULT_PATH = "spans.jsonl"
_LOCK_TIMEOUT_S = 5.0
_LOCK_POLL_S = 0.005


class OtlpFileSender:
    """Appends encoded requests to a file (mode 0600, never through a symbolic link). Nothing of it raises.

    The file is opened anew for each request, so that rotation, removal and fork need no care. A line that
    does not fit on the disk is taken back whole and its spans are counted as dropped.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, log: ReasonLog | None = None) -> None:
        # Absolute: the program may change its directory.
        self.path = Path(
            path or os.environ.get(OTEL_PYTHON_TORCHPROF_OTLP_FILE, "").strip() or DEFAULT_PATH
        ).absolute()
        self._log = log or ReasonLog(_logger)
        self._cancelled = False

    def send(self, payload: bytes, spans: int, *, timeout_s: float | None = None) -> SendResult:
        """Append the request; see `RequestSender.send`."""
        return self._append(lambda: ExportTraceServiceRequest.FromString(payload), spans, timeout_s)

    def send_message(self, request: ExportTraceServiceRequest, spans: int) -> SendResult:
        """Append a request that is not encoded yet."""
        return self._append(lambda: request, spans, None)

    @property
    def address(self) -> str:
        """See `RequestSender.address`."""
        return str(self.path)

    def cancel(self) -> None:
        """See `RequestSender.cancel`."""
        self._cancelled = True

    def close(self) -> None:
        """See `RequestSender.close`."""
        self._cancelled = True

    def _append(
        self, request: Callable[[], ExportTraceServiceRequest], spans: int, timeout_s: float | None
    ) -> SendResult:
        if self._cancelled:
            return SendResult.dropped(SHUT_DOWN, spans)
        lock_timeout_s = _LOCK_TIMEOUT_S if timeout_s is None else min(timeout_s, _LOCK_TIMEOUT_S)
        try:
            line = request_to_json_line(request())
            with _open_for_append(self.path) as descriptor:
                _lock(descriptor, lock_timeout_s)
                _write_whole(descriptor, line)
        except OSError as error:
            cause = error.strerror or str(error)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
        else:
            return SendResult(delivered=spans)
        self._log.warn(
            FILE_ERROR,
            f"spans not written to {self.path} (set by {OTEL_PYTHON_TORCHPROF_OTLP_FILE}): {cause}",
        )
        return SendResult.dropped(FILE_ERROR, spans, cause)


class OtlpFileSpanExporter(SpanExporter):
    """The same for the SDK's span processors: `OTEL_TRACES_EXPORTER=otlp_file`."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.sender = OtlpFileSender(path)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        if not spans:
            return SpanExportResult.SUCCESS
        result = self.sender.send_message(encode_spans(spans), len(spans))
        return SpanExportResult.SUCCESS if result.delivered else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.sender.close()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is held back: always True."""
        return True


@contextmanager
def _open_for_append(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    # O_NONBLOCK: a FIFO nobody reads must not block the open; it means nothing for a regular file.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, timeout_s: float) -> None:
    """Take the file's lock, which closing gives back. OSError where another process keeps it too long."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise OSError(errno.ETIMEDOUT, "another process keeps the file locked") from None
            time.sleep(_LOCK_POLL_S)
        else:
            return


def _write_whole(descriptor: int, line: bytes) -> None:
    size_before = os.fstat(descriptor).st_size
    written = 0
    try:
        while written < len(line):
            written += os.write(descriptor, memoryview(line)[written:])
    except OSError:
        if written:
            os.ftruncate(descriptor, size_before)
        raise
