"""Run, restart and rank from what launchers set, and from garbage."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.run_identity import random_run_id, read_run_identity

NAMES = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OTEL_PYTHON_TORCHPROF_RUN_ID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
]


@pytest.mark.parametrize(
    ("environ", "rank", "world_size", "local_rank"),
    [
        ({}, 0, 1, 0),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}, 5, 8, 1),
        (
            {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
            3,
            4,
            0,
        ),
        ({"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "0"}, 2, 4, 0),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2, 1),
        # In a batch script, outside a step: one process, whatever the job was given.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "64"}, 0, 1, 0),
        # torchrun inside srun.
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "RANK": "9", "WORLD_SIZE": "16"}, 9, 16, 9),
        # Half set, out of range, not numbers: passed over.
        ({"RANK": "1"}, 0, 1, 0),
        ({"RANK": "8", "WORLD_SIZE": "8"}, 0, 1, 0),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, 0, 1, 0),
        ({"RANK": "one", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, 1, 2, 1),
        ({"RANK": "9" * 5000, "WORLD_SIZE": "8"}, 0, 1, 0),
    ],
)
def test_rank(environ: dict[str, str], rank: int, world_size: int, local_rank: int) -> None:
    identity = read_run_identity(environ)
    assert (identity.rank, identity.world_size, identity.local_rank) == (rank, world_size, local_rank)


@pytest.mark.parametrize(
    ("environ", "run_id"),
    [
        ({"OTEL_PYTHON_TORCHPROF_RUN_ID": "mine", "SLURM_JOB_ID": "1"}, "mine"),
        ({"SLURM_JOB_ID": "123"}, "123"),
        ({"SLURM_JOB_ID": "123", "SLURM_STEP_ID": "4", "TORCHELASTIC_RUN_ID": "elastic"}, "123.4"),
        ({"TORCHELASTIC_RUN_ID": "elastic"}, "elastic"),
        ({"OTEL_PYTHON_TORCHPROF_RUN_ID": "a\nb\x00"}, "ab"),
        ({"OTEL_PYTHON_TORCHPROF_RUN_ID": "x" * 1000}, "x" * 128),
    ],
)
def test_run_id(environ: dict[str, str], run_id: str) -> None:
    assert read_run_identity(environ).run_id == run_id


@pytest.mark.parametrize("environ", [{}, {"OTEL_PYTHON_TORCHPROF_RUN_ID": "mine"}])
def test_forked_workers_without_ranks_are_told_apart(environ: dict[str, str]) -> None:
    assert len({run_id_in_child(environ), run_id_in_child(environ), read_run_identity(environ).run_id}) == 3


def test_forked_ranks_share_the_id_of_their_run() -> None:
    ranked = {"RANK": "1", "WORLD_SIZE": "2", "OTEL_PYTHON_TORCHPROF_RUN_ID": "mine"}
    assert run_id_in_child(ranked) == "mine"


def run_id_in_child(environ: dict[str, str]) -> str:
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writable, read_run_identity(environ).run_id.encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as answer:
        run_id = answer.read()
    os.waitpid(child, 0)
    return run_id


@pytest.mark.parametrize("none", ["none", "None", "NONE"])
def test_the_word_none_is_not_an_id(none: str) -> None:
    run_id = read_run_identity({"TORCHELASTIC_RUN_ID": none}).run_id
    assert re.fullmatch(r"[0-9a-f]{16}", run_id)
    assert run_id == read_run_identity({}).run_id, "one for the whole process"


def test_a_forked_child_has_an_id_of_its_own() -> None:
    assert random_run_id(os.getpid()) == read_run_identity({}).run_id
    assert random_run_id(os.getpid()) != random_run_id(0)


@pytest.mark.parametrize(
    ("environ", "restart"),
    [
        ({}, 0),
        ({"TORCHELASTIC_RESTART_COUNT": "2"}, 2),
        ({"SLURM_RESTART_COUNT": "1", "TORCHELASTIC_RESTART_COUNT": "0"}, 1000),
        ({"SLURM_RESTART_COUNT": "0", "TORCHELASTIC_RESTART_COUNT": "1"}, 1),
        ({"TORCHELASTIC_RESTART_COUNT": "-3"}, 0),
    ],
)
def test_restart(environ: dict[str, str], restart: int) -> None:
    assert read_run_identity(environ).restart == restart


@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20)))
def test_any_environment_gives_a_sound_identity(environ: dict[str, str]) -> None:
    identity = read_run_identity(environ)
    assert 0 <= identity.rank < identity.world_size
    assert identity.restart >= 0
    assert identity.run_id
    assert identity.run_id.isprintable()
