"""Hours of a simulated training in a Prometheus, without waiting for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.samples import Sample

from otel_torchprof.telemetry.prometheus import to_prometheus
from tests.support.prometheus import PrometheusServer
from tests.support.simulated_training import WORLD_SIZE, SimulatedRank

SCRAPE_INTERVAL_S = 180.0
JOB = "bert-pretraining"
# A fixed time, so that pages made from it are always the same.
END_UNIX_S = 1_767_268_800.0
_DAY_S = 86_400.0
_SHOWN_S = 3 * 3600.0
# What a panel reads before the time that it shows.
_BEFORE_S = 1 * 3600.0
_AGE_AT_END_S = _DAY_S + 5 * 3600.0


@contextmanager
def history_server(folder: Path) -> Iterator[tuple[PrometheusServer, tuple[float, float]]]:
    """A running Prometheus that holds the history, and the begin and end of what pages show of it."""
    samples = folder / "history.openmetrics"
    write_history(samples)
    config = folder / "prometheus.yml"
    config.write_text("scrape_configs: []\n", "utf-8")
    server = PrometheusServer(folder, config)
    server.backfill(samples)
    with server:
        yield server, (END_UNIX_S - _SHOWN_S, END_UNIX_S)


def write_history(path: Path) -> None:
    """Write what scrapes of all ranks would have found, today and at the same hours of yesterday."""
    with path.open("w", encoding="utf-8") as file:
        for end_s in (END_UNIX_S - _DAY_S, END_UNIX_S):
            time_s = end_s - _SHOWN_S - _BEFORE_S
            while time_s <= end_s:
                elapsed_s = _AGE_AT_END_S - (END_UNIX_S - time_s)
                for rank in range(WORLD_SIZE):
                    file.writelines(_lines(SimulatedRank(rank), elapsed_s, time_s))
                time_s += SCRAPE_INTERVAL_S
        file.write("# EOF\n")


def _lines(rank: SimulatedRank, elapsed_s: float, time_s: float) -> Iterator[str]:
    target = {"job": JOB, "instance": f"node-{rank.rank // 2}:{9464 + rank.rank % 2}"}
    samples = [
        sample for family in rank.families(elapsed_s, time_s) for sample in to_prometheus(family).samples
    ]
    own = {"up": 1.0, "scrape_samples_scraped": float(len(samples)), "scrape_duration_seconds": 0.004}
    for sample in (*samples, *(Sample(name, {}, value) for name, value in own.items())):
        labels = ",".join(f'{label}="{value}"' for label, value in {**target, **sample.labels}.items())
        yield f"{sample.name}{{{labels}}} {sample.value!r} {time_s:.0f}\n"
