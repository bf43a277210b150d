"""A Prometheus with the shipped configuration, in a hurry: every second instead of every 15 or 30."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.support.dashboards import FOLDER
from tests.support.prometheus import PrometheusServer

JOB = "bert-pretraining"


def shipped_prometheus(folder: Path, ports: Sequence[int]) -> PrometheusServer:
    """A server, not started, that scrapes ranks of the job `JOB` on `ports`; its files lie in `folder`."""
    recording = yaml.safe_load((FOLDER / "recording-rules.yml").read_text("utf-8"))
    for group in recording["groups"]:
        group["interval"] = "1s"
    (folder / "recording-rules.yml").write_text(yaml.safe_dump(recording), "utf-8")
    shutil.copy(FOLDER / "alerts.yml", folder)
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    (folder / "targets").mkdir()
    groups = [{"labels": {"job": JOB}, "targets": [f"127.0.0.1:{port}" for port in ports]}]
    (folder / "targets" / "ranks.yml").write_text(yaml.safe_dump(groups), "utf-8")
    return PrometheusServer(folder, folder / "prometheus.yml")
