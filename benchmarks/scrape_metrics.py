"""A scrape while ops of many names are counted: how long it holds the GIL, and what the counts take."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from urllib.request import Request, urlopen

import psutil
import torch
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from benchmarks.pairing import paired
from benchmarks.rows import Row, Target
from otel_torchprof.metrics.live_ops import LiveOps
from otel_torchprof.recorder.op_counts import TABLE_FULL_NAME, OpCounts
from otel_torchprof.telemetry.prometheus import TorchprofCollector
from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint
from otel_torchprof.telemetry.work_time import work_time

_ANY_PORT = 0
# User scopes get at most half of the table of names.
_NAMES = 10_000
_MAX_NAMES = 2 * _NAMES
_THREADS = 8
_MB = 1e6
_MS = 1e6
# docs/architecture.md: what a thread takes that met 10,000 names.
_MAX_MEMORY = Target("at most", 1.3, of="ours")


def run(quick: bool) -> list[Row]:
    """Measures a scrape of few and of many names, over HTTP, and the memory of many names on each thread."""
    repeats = 3 if quick else 15
    return [
        *_scrape_rows(50, repeats),
        *_scrape_rows(_NAMES, repeats),
        Row(
            f"counts of {_NAMES:,} names on each of {_THREADS} threads",
            _memory_of_a_thread() / _MB,
            "MB/thread",
            target=_MAX_MEMORY,
        ),
    ]


def _scrape_rows(names: int, repeats: int) -> list[Row]:
    """What a scrape takes, beside gauges of `prometheus_client` itself with as many series."""
    with _counting() as counts:
        _meet(_names(names))
        ops = LiveOps(0, table_full=TABLE_FULL_NAME)
        collector = TorchprofCollector(lambda: ops.families(counts.collect(), 1))
        series = sum(len(metric.samples) for metric in collector.collect())
        gauges = _gauges(series)
        endpoint = PrometheusEndpoint(collector, port=_ANY_PORT)
        if not endpoint.start():
            raise RuntimeError("no port to listen on")
        try:
            request = Request(f"http://127.0.0.1:{endpoint.port}/metrics")
            work_ms: list[float] = []

            def scrape_ms() -> float:
                worked_ns, start_ns = work_time.total_ns, time.perf_counter_ns()
                with urlopen(request) as response:
                    response.read()
                work_ms.append((work_time.total_ns - worked_ns) / _MS)
                return (time.perf_counter_ns() - start_ns) / _MS

            def gauges_ms() -> float:
                start_ns = time.perf_counter_ns()
                generate_latest(gauges)
                return (time.perf_counter_ns() - start_ns) / _MS

            wall = paired(scrape_ms, gauges_ms, repeats)
        finally:
            endpoint.stop()
    what = f"a scrape, {names:,} names counted, {series:,} series"
    return [
        Row(what, wall.a, "ms", "gauges, no HTTP", wall.b, ratio_quartiles=wall.ratio_quartiles),
        Row(f"{what}: processor time", median(work_ms), "ms"),
    ]


def _gauges(series: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    gauge = Gauge("torch_op_calls", "Calls.", ["torch_op_name", "torch_phase"], registry=registry)
    for number in range(series):
        gauge.labels(f"aten::op_{number}", "forward").set(number)
    return registry


def _memory_of_a_thread() -> float:
    """Bytes that the process grows by for each thread that meets all names."""
    names = _names(_NAMES)
    both = threading.Barrier(_THREADS + 1)

    def meet_twice() -> None:
        _meet(names)  # what torch itself takes of a thread
        both.wait()
        both.wait()
        _meet(names)
        both.wait()
        both.wait()

    threads = [threading.Thread(target=meet_twice, daemon=True) for _ in range(_THREADS)]
    for thread in threads:
        thread.start()
    both.wait()
    with _counting():
        _meet(names)  # what all threads share
        before_bytes = _resident_bytes()
        both.wait()
        both.wait()
        grown_bytes = _resident_bytes() - before_bytes
        both.wait()
        for thread in threads:
            thread.join()
    return grown_bytes / _THREADS


def _resident_bytes() -> int:
    gc.collect()
    resident: int = psutil.Process().memory_info().rss
    return resident


@contextmanager
def _counting() -> Iterator[OpCounts]:
    counts = OpCounts(max_names=_MAX_NAMES)
    counts.start()
    try:
        yield counts
    finally:
        counts.stop()


def _names(count: int) -> list[str]:
    return [f"scope {number}" for number in range(count)]


def _meet(names: list[str]) -> None:
    for name in names:
        with torch.profiler.record_function(name):
            pass
