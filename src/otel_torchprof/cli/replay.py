"""`otel-torchprof replay`: sends a recording or a trace, however old, to the servers of today."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from otel_torchprof.cli.input import file_name
from otel_torchprof.cli.progress import progress_bar
from otel_torchprof.cli.replay_metrics import add_options as add_metric_options
from otel_torchprof.cli.replay_metrics import replay_metrics
from otel_torchprof.cli.text import OutputConsole, cell, printable
from otel_torchprof.errors import TorchprofError
from otel_torchprof.importers import load
from otel_torchprof.spans import SpanLimits

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands
    from otel_torchprof.recording import Recording
    from otel_torchprof.spans import EncodedRequest, SpanPlan
    from otel_torchprof.telemetry.reason_log import ReasonLog

_DEFAULT_PROTOCOL = "http/protobuf"
# Small enough that spans arrive about when they ended.
_REALTIME_REQUEST_SPANS = 512
_BYTES_PER_SPAN = 1000  # as the default budget has them
_SIGNAL_PATH = re.compile(r"/v1/(?:traces|metrics)/?$")


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "replay",
        help="send any recording or trace to an OTLP server, or its metrics also to Prometheus",
        description="Sends the spans of a recording or trace to an OTLP server, with the times it was "
        "recorded at, or its metrics. The server's other settings are those of OTEL_EXPORTER_OTLP_* in the "
        "environment.",
    )
    parser.add_argument(
        "input", metavar="IN", type=file_name, help="a recording or trace of any known format"
    )
    parser.add_argument("--endpoint", metavar="URL", type=_url, help="as http://localhost:4318")
    parser.add_argument(
        "--protocol",
        choices=("http/protobuf", "grpc"),
        default=_DEFAULT_PROTOCOL,
        help=f"default: {_DEFAULT_PROTOCOL}",
    )
    parser.add_argument(
        "--realtime", action="store_true", help="as fast as it happened, not as fast as it goes"
    )
    parser.add_argument(
        "--max-spans-per-trace",
        type=_count,
        default=SpanLimits().max_spans_per_trace,
        metavar="N",
        help="the rest is folded into what encloses it; 0 = no bound (default: %(default)s)",
    )
    add_metric_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    parser.set_defaults(run=run)


def _url(text: str) -> str:
    if not re.match(r"https?://[^/]", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL like http://localhost:4318")
    # The path of a signal is added to what is typed, which so may have it or not.
    return _SIGNAL_PATH.sub("", text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of spans")
    return int(text)


@dataclass
class Outcome:
    """What became of the spans."""

    spans: int
    delivered: int = 0
    rejected: int = 0
    dropped: int = 0
    reason: str = ""
    cause: str = ""
    unreachable: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the server took every span."""
        return self.delivered == self.spans


def run(options: argparse.Namespace) -> int:
    _check_together(options)
    recording, _report = load(options.input)
    if options.metrics:
        return replay_metrics(recording, options)
    outcome = _send(recording, options)
    if options.json:
        print(json.dumps({**asdict(outcome), "endpoint": options.endpoint}))
    elif outcome.delivered:
        console = OutputConsole()
        console.print(cell(f"{outcome.delivered:,} of {outcome.spans:,} spans sent to {options.endpoint}"))
    if not outcome.is_complete:
        raise TorchprofError(_failure(outcome, options.endpoint))
    return 0


def _check_together(options: argparse.Namespace) -> None:
    if options.metrics:
        if options.realtime:
            raise TorchprofError("--realtime is for spans: leave it out with --metrics")
        if options.endpoint is None and options.prometheus_port is None:
            raise TorchprofError("replay --metrics needs --endpoint URL or --prometheus-port N")
        return
    if options.prometheus_port is not None or options.durations:
        raise TorchprofError("--prometheus-port and --durations are for metrics: add --metrics")
    if options.endpoint is None:
        raise TorchprofError("replay needs --endpoint URL")


def _failure(outcome: Outcome, endpoint: str) -> str:
    """One line: what was lost, why, and what to change of what was typed."""
    lost = f"{outcome.spans - outcome.delivered:,} of {outcome.spans:,} spans were not taken by {endpoint}"
    way_out = "; is a server running there? --endpoint says where to send" if outcome.unreachable else ""
    reason = outcome.reason or "rejected"
    cause = outcome.cause or "the server gave no reason"
    if cause.lower().startswith(f"{reason}: "):  # as gRPC says it itself
        cause = cause[len(reason) + 2 :]
    return f"{lost}: {reason}: {cause}{way_out}"


def _send(recording: Recording, options: argparse.Namespace) -> Outcome:
    try:
        from otel_torchprof.telemetry.exporters import otlp_sender
    except ImportError as error:
        raise TorchprofError(f"replay needs {error.name}: pip install 'otel-torchprof[otlp]'") from None
    plan = _plan(recording, options.max_spans_per_trace)
    schedule = _Schedule(plan, recording.start_ns) if options.realtime else None
    try:
        sender = otlp_sender(_environment(options.endpoint), options.protocol, _silent_log())
    except ImportError as error:
        raise TorchprofError(
            f"{options.protocol} needs {error.name}: pip install 'otel-torchprof[otlp]'"
        ) from None
    outcome = Outcome(len(plan))
    try:
        with progress_bar() as progress:
            task = progress.add_task(printable(Path(options.input).name), total=len(plan))
            for request in _requests(plan, recording, realtime=options.realtime):
                if schedule is not None:
                    schedule.wait_for(request.spans)
                result = sender.send(request.payload, request.spans)
                outcome.delivered += result.delivered
                outcome.rejected += result.rejected
                outcome.dropped += sum(result.dropped_by_reason.values())
                outcome.reason = outcome.reason or next(iter(result.dropped_by_reason), "")
                outcome.cause = outcome.cause or result.cause
                progress.advance(task, request.spans)
                if result.unreachable:
                    outcome.unreachable = True
                    break
    finally:
        sender.close()
    return outcome


def _silent_log() -> ReasonLog:
    """For a sender whose failures are the command's own: one line at its end, not log lines before it."""
    from otel_torchprof.telemetry.reason_log import ReasonLog

    logger = logging.getLogger(f"{__name__}.silent")
    logger.disabled = True
    return ReasonLog(logger)


def _plan(recording: Recording, max_spans_per_trace: int) -> SpanPlan:
    from otel_torchprof.exporters.otlp.all_spans import plan_recording

    limits = SpanLimits(
        max_spans_per_trace=max_spans_per_trace,
        max_trace_bytes=max_spans_per_trace * _BYTES_PER_SPAN,
        runtime_spans=not max_spans_per_trace,
    )
    return plan_recording(recording, limits)


def _requests(plan: SpanPlan, recording: Recording, *, realtime: bool) -> Iterator[EncodedRequest]:
    from otel_torchprof.exporters.otlp.all_spans import resource_attributes
    from otel_torchprof.exporters.otlp.resource import encode_resource

    resource = encode_resource(resource_attributes(recording))
    if realtime:
        return plan.encode(resource, max_request_spans=_REALTIME_REQUEST_SPANS)
    return plan.encode(resource)


class _Schedule:
    """When spans are due, from the first one on."""

    def __init__(self, plan: SpanPlan, start_ns: int) -> None:
        self._spans = plan.spans()
        self._start_ns = start_ns
        self._started_s = time.monotonic()

    def wait_for(self, spans: int) -> None:
        """Waits until as many further spans had ended."""
        ends_ns = [span.end_ns for span in islice(self._spans, spans)]
        due_s = self._started_s + (max(ends_ns, default=self._start_ns) - self._start_ns) / 1e9
        time.sleep(max(due_s - time.monotonic(), 0))


def _environment(endpoint: str) -> dict[str, str]:
    environ = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    environ.pop("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", None)
    return environ
