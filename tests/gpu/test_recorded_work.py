"""What we record of a GPU, against torch's own profiler in another run of the same program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.gpu.programs import OURS_AND_TORCHS, PROGRAMS, Recorder, record, recording_path
from tests.support.recorded_programs import CHECKS, check_complete, check_same_work, check_structure

Recorded: TypeAlias = Callable[[str, Recorder], Recording]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_work_is_recorded_as_by_torch(program: str, recorded: Recorded) -> None:
    check_same_work(recorded(program, "ours"), recorded(program, "torch"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_dropped_and_all_of_it_is_linked(program: str, recorded: Recorded) -> None:
    check_complete(recorded(program, "ours"))


@pytest.mark.parametrize("recorder", OURS_AND_TORCHS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_structure_is_that_of_any_recording(program: str, recorder: Recorder, recorded: Recorded) -> None:
    check_structure(recorded(program, recorder))


@pytest.mark.parametrize("program", CHECKS)
def test_what_is_particular_to_a_program_is_there(program: str, recorded: Recorded) -> None:
    CHECKS[program](recorded(program, "ours"))


def test_a_graph_from_before_the_process_first_used_cupti_is_recorded_by_its_nodes(
    tmp_path: Path, recorded: Recorded
) -> None:
    record("ours", tmp_path, "graph")
    recording = load(recording_path(tmp_path, "graph", "ours"))[0]
    check_complete(recording)
    CHECKS["graph"](recording)
    check_same_work(recording, recorded("graph", "torch"))
