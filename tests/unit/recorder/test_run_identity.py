"""Run id, restart, rank and world size from what launchers leave in the environment."""

from __future__ import annotations

import pytest

from otel_torchprof.recorder.run_identity import RunIdentity


@pytest.mark.parametrize(
    ("environ", "rank", "world_size"),
    [
        ({}, None, None),
        ({"RANK": "3", "WORLD_SIZE": "8"}, 3, 8),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, 0, 2),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, 1, 2),
        # The launcher nearest to the process knows best.
        ({"RANK": "5", "WORLD_SIZE": "16", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, 5, 16),
        # Half of it, nonsense and ranks outside the world are nobody's.
        ({"RANK": "1"}, None, None),
        ({"RANK": "8", "WORLD_SIZE": "8"}, None, None),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, None, None),
        ({"RANK": "one", "WORLD_SIZE": "8"}, None, None),
        ({"RANK": "1", "WORLD_SIZE": "9.0", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, 1, 2),
    ],
)
def test_rank_and_world_size(environ: dict[str, str], rank: int | None, world_size: int | None) -> None:
    identity = RunIdentity.detect(environ)
    assert (identity.rank, identity.world_size) == (rank, world_size)


@pytest.mark.parametrize(
    ("environ", "own", "run_id"),
    [
        ({"TORCHELASTIC_RUN_ID": "job-7", "SLURM_JOB_ID": "991"}, None, "job-7"),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "991"}, None, "991"),
        ({"TORCHELASTIC_RUN_ID": "job-7"}, "mine", "mine"),
    ],
)
def test_run_id(environ: dict[str, str], own: str | None, run_id: str) -> None:
    assert RunIdentity.detect(environ, own).run_id == run_id


def test_the_word_none_is_not_a_run_id() -> None:
    identity = RunIdentity.detect({"TORCHELASTIC_RUN_ID": "None"})
    assert identity.run_id.lower() != "none"
    assert len(identity.run_id) == 16


def test_the_random_run_id_is_one_for_the_process() -> None:
    assert RunIdentity.detect({}).run_id == RunIdentity.detect({}).run_id


@pytest.mark.parametrize(
    ("environ", "restart"),
    [({}, 0), ({"TORCHELASTIC_RESTART_COUNT": "2"}, 2), ({"SLURM_RESTART_COUNT": "1"}, 1)],
)
def test_restart(environ: dict[str, str], restart: int) -> None:
    assert RunIdentity.detect(environ).restart == restart
