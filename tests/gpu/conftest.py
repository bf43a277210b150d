"""Tests that need an NVIDIA GPU: elsewhere they are skipped, as no machine gets one by installing it.

`TORCHPROF_GPU_RECORDINGS` names a folder that `tests.gpu.golden` filled; what it lacks is recorded anew. Who
sets it wants these tests to run: without a GPU they fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.gpu.programs import Recorder, record, recording_path

FOLDER = Path(__file__).parent
RECORDINGS = "TORCHPROF_GPU_RECORDINGS"


@cache
def _why_not() -> str:
    """What this machine lacks, empty = nothing."""
    import torch

    if torch.version.cuda is None:
        return "this torch knows no CUDA"
    return "" if torch.cuda.is_available() else "there is no NVIDIA GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is in this folder, and skips it where there is no GPU."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if reason := _why_not():
                if RECORDINGS in os.environ:
                    pytest.exit(reason, returncode=1)
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Recorder], Recording]:
    """The recording of a program by a recorder, made once for all tests, or why there is none."""
    made = tmp_path_factory.mktemp("recorded")
    kept = Path(os.environ.get(RECORDINGS, made))

    @cache
    def try_once(program: str, recorder: Recorder) -> Recording | str:
        path = recording_path(kept, program, recorder)
        if not path.is_file():
            path = recording_path(made, program, recorder)
            try:
                record(recorder, made, program)
            except AssertionError as error:
                return str(error)
        return load(path)[0]

    def get(program: str, recorder: Recorder) -> Recording:
        found = try_once(program, recorder)
        assert not isinstance(found, str), found
        return found

    return get
