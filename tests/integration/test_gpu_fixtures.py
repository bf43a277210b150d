"""Recordings that `tests/gpu/run.sh` kept of a GPU, read again by today's code on any machine.

tests/fixtures/gpu holds them: those of one machine, or a folder a machine.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.gpu.programs import OURS_AND_TORCHS, PROGRAMS, Recorder, recording_path
from tests.support.recorded_programs import CHECKS, check_complete, check_same_work, check_structure

FIXTURES = Path(__file__).parents[1] / "fixtures" / "gpu"
MACHINES = sorted(path.parent for path in FIXTURES.rglob("machine.json"))

pytestmark = pytest.mark.skipif(not MACHINES, reason=f"no recordings of a GPU in {FIXTURES}")
machines = pytest.mark.parametrize("machine", MACHINES, ids=[path.name for path in MACHINES])


@cache
def kept(machine: Path, program: str, recorder: Recorder) -> Recording:
    recording, report = load(recording_path(machine, program, recorder))
    if recorder == "ours":
        assert dict(report.problems) == {}
    return recording


@machines
def test_it_is_known_what_they_came_from(machine: Path) -> None:
    facts = json.loads((machine / "machine.json").read_text(encoding="utf-8"))
    assert facts["driver_version"] > 0
    device = kept(machine, "matmul", "ours").metadata["device"]
    for name in ("driver_version", "cupti_version"):
        assert device[name] == facts[name]


@machines
@pytest.mark.parametrize("program", PROGRAMS)
def test_their_work_is_complete_and_that_of_torchs_traces(machine: Path, program: str) -> None:
    check_complete(kept(machine, program, "ours"))
    check_same_work(kept(machine, program, "ours"), kept(machine, program, "torch"))


@machines
@pytest.mark.parametrize("recorder", OURS_AND_TORCHS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_they_have_the_structure_of_any_recording(machine: Path, program: str, recorder: Recorder) -> None:
    check_structure(kept(machine, program, recorder))


@machines
@pytest.mark.parametrize("program", CHECKS)
def test_what_is_particular_to_a_program_is_there(machine: Path, program: str) -> None:
    CHECKS[program](kept(machine, program, "ours"))
