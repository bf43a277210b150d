"""Writes the dashboards: `python -m dashboard_source`, in the folder above this one."""

from __future__ import annotations

import json
from pathlib import Path

from dashboard_source.memory import MEMORY
from dashboard_source.operators import OPERATORS
from dashboard_source.panels import Dashboard
from dashboard_source.recorder import RECORDER
from dashboard_source.training import TRAINING

DASHBOARDS = (TRAINING, OPERATORS, MEMORY, RECORDER)
FOLDER = Path(__file__).parents[1] / "dashboards"


def rendered(dashboard: Dashboard) -> str:
    """The text of the dashboard's file."""
    return json.dumps(dashboard.to_json(), indent=2) + "\n"


def main() -> None:
    """Write one file a dashboard."""
    FOLDER.mkdir(exist_ok=True)
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.uid}.json").write_text(rendered(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
