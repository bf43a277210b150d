"""Training again and again in children of one process, each with surroundings of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.instrumented import instrumented_environment

PROGRAM = Path(__file__).parents[1] / "integration" / "programs" / "trainings.py"


class Trainings:
    """Children of one process that trains; see the program, which imports torch once."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env=instrumented_environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        limits: Mapping[str, int] | None = None,
        **surroundings: Any,
    ) -> str:
        """What a training says, which must end with 0; `loss` is its last one then.

        Args:
            folder: for what it writes.
            settings: as `run_instrumented` takes them.
            limits: names of `resource` and their values.
            surroundings: further keys of the program's cases.
        """
        settings = {
            "SCHEDULE": "skip_first=2,active=2,repeat=2",
            "OTLP_FILE": str(folder / "spans.jsonl"),
            **settings,
        }
        environ = instrumented_environment(settings)
        changed = {name: value for name, value in environ.items() if os.environ.get(name) != value}
        case = {"environ": changed, "limits": dict(limits or {}), "output": str(folder / "output")}
        case |= surroundings
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        said = (folder / "output").read_text("utf-8")
        assert status == "0", said
        self.loss = (folder / "output.loss").read_text("utf-8")
        return said

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
