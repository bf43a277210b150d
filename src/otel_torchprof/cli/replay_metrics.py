"""`otel-torchprof replay --metrics`: the metrics of a recording, sent once or served to be scraped."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_torchprof.cli.progress import progress_bar
from otel_torchprof.cli.text import OutputConsole, cell, printable
from otel_torchprof.errors import TorchprofError
from otel_torchprof.exporters.otlp.all_spans import resource_attributes
from otel_torchprof.metrics.families import MetricFamily, count_series
from otel_torchprof.metrics.from_recording import families_from_recording

if TYPE_CHECKING:
    from otel_torchprof.recording import Recording
    from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint

_MAX_PORT = 65_535


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `replay` takes besides, of metrics."""
    parser.add_argument("--metrics", action="store_true", help="its metrics, not its spans")
    parser.add_argument(
        "--durations",
        action="store_true",
        help="with --metrics: also histograms of each operator and kernel, which are many series",
    )
    parser.add_argument(
        "--prometheus-port",
        type=_port,
        metavar="N",
        help="with --metrics: be scraped on this port of 127.0.0.1 until interrupted; 0 = a free one",
    )


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= _MAX_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 0 to {_MAX_PORT}")
    return int(text)


@dataclass
class MetricsOutcome:
    """What became of the metrics."""

    metrics: int
    series: int
    delivered: bool = False
    cause: str = ""
    url: str = ""  # where they are scraped


def replay_metrics(recording: Recording, options: argparse.Namespace) -> int:
    """Sends the metrics, serves them, or one after the other.

    Raises:
        TorchprofError: a package is missing, nothing took them, or the port is taken.
    """
    families = families_from_recording(recording, durations=options.durations)
    outcome = MetricsOutcome(len(families), count_series(families))
    try:
        if options.endpoint is not None:
            _send(families, recording, options, outcome)
        server = None if options.prometheus_port is None else _serve(families, recording, options)
    except ImportError as error:
        extra = "prometheus" if error.name == "prometheus_client" else "otlp"
        raise TorchprofError(
            f"replay --metrics needs {error.name}: pip install 'otel-torchprof[{extra}]'"
        ) from None
    outcome.url = "" if server is None else f"http://127.0.0.1:{server.port}/metrics"
    _report(outcome, options)
    if server is not None:
        try:
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
        finally:
            server.stop()
    return 0


def _send(
    families: Sequence[MetricFamily],
    recording: Recording,
    options: argparse.Namespace,
    outcome: MetricsOutcome,
) -> None:
    from otel_torchprof.telemetry.replayed_metrics import send_metrics

    with progress_bar() as progress:
        task = progress.add_task(printable(Path(options.input).name), total=outcome.series)
        outcome.cause = send_metrics(
            families,
            resource_attributes(recording),
            max(recording.end_ns, 0),
            endpoint=options.endpoint,
            protocol=options.protocol,
        )
        progress.advance(task, outcome.series)
    outcome.delivered = not outcome.cause
    if not outcome.delivered:
        if options.json:
            _report(outcome, options)
        raise TorchprofError(
            f"{outcome.series:,} series were not taken by {options.endpoint}: {outcome.cause}"
            "; is a server running there? --endpoint says where to send"
        )


def _serve(
    families: Sequence[MetricFamily], recording: Recording, options: argparse.Namespace
) -> PrometheusEndpoint:
    from otel_torchprof.telemetry.replayed_metrics import serve_metrics

    server = serve_metrics(families, resource_attributes(recording), options.prometheus_port)
    if server is None:
        raise TorchprofError(
            f"port {options.prometheus_port} of 127.0.0.1 cannot be listened on: "
            "--prometheus-port chooses another, 0 a free one"
        )
    return server


def _report(outcome: MetricsOutcome, options: argparse.Namespace) -> None:
    if options.json:
        print(json.dumps({**asdict(outcome), "endpoint": options.endpoint}), flush=True)
        return
    console = OutputConsole()
    what = f"{outcome.series:,} series of {outcome.metrics} metrics"
    if outcome.delivered:
        console.print(cell(f"{what} sent to {options.endpoint}"))
    if outcome.url:
        console.print(cell(f"{what} at {outcome.url} until interrupted"))
        console.file.flush()
