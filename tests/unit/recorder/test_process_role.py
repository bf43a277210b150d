"""Which processes are left alone, read off command lines as they really are."""

from __future__ import annotations

import pytest

from otel_torchprof.recorder.process_role import is_multiprocessing_child, reason_not_to_record

SPAWNED = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("python /venv/bin/torchrun --nproc-per-node 2 train.py", "the agent of torchrun"),
        ("python -u -X dev -W ignore /venv/bin/torchrun train.py", "the agent of torchrun"),
        ("python -m torch.distributed.run train.py", "the agent of torchrun"),
        ("python -m torch.distributed.launch train.py", "the agent of torchrun"),
        (
            "python /lib/torch/_inductor/compile_worker/__main__.py --pickler=x --workers=2",
            "a worker of torch.compile",
        ),
        ("python -m torch._inductor.compile_worker", "a worker of torch.compile"),
    ],
)
def test_processes_that_do_not_train(command: str, reason: str) -> None:
    said = reason_not_to_record(command.split())
    assert said is not None
    assert said.startswith(reason)


@pytest.mark.parametrize(
    "command",
    [
        "python",
        "python -",
        "python -m",
        "python train.py torchrun",
        "python -m trainer --launcher torchrun",
        "python -u -m torch.distributed.run_training",
        "python my_torchrun.py",
        "python -c import_torch torchrun",
    ],
)
def test_programs_are_recorded(command: str) -> None:
    assert reason_not_to_record(command.split()) is None


def test_spawned_processes_are_recorded_and_known_as_such() -> None:
    command = ["python", "-c", SPAWNED, "--multiprocessing-fork"]
    assert reason_not_to_record(command) is None
    assert is_multiprocessing_child(command)
    assert is_multiprocessing_child(["python", "-c", "from multiprocessing.forkserver import main; main(1)"])
    assert not is_multiprocessing_child(["python", "train.py"])
