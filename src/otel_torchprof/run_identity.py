"""Which run, which restart of it and which rank this process is, as launchers tell it in the environment.

Values come from many launchers and from users' shells: what is not a number in range is passed over.
"""

from __future__ import annotations

import functools
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from otel_torchprof.environment_variables import OTEL_PYTHON_TORCHPROF_RUN_ID

_MAX_RUN_ID_CHARS = 128
# Slurm's requeues and torchelastic's restarts both start over; together they must not repeat a number.
_RESTARTS_PER_REQUEUE = 1000


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """Process `rank` of `world_size`, in start number `restart` (from 0) of run `run_id`."""

    run_id: str
    restart: int = 0
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0


class _Launcher(NamedTuple):
    rank: str
    world_size: str
    local_rank: str


# In the order of trust: torchrun inside srun sets both, and its ranks are the ones that count. Slurm's are
# those of a step (srun): in a batch script, outside any step, SLURM_PROCID is always 0.
_LAUNCHERS = (
    _Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    _Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    _Launcher("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    _Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    _Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


# How many ranks run on this machine, as some launchers say.
_LOCAL_SIZES = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "SLURM_STEP_TASKS_PER_NODE",
    "MPI_LOCALNRANKS",
)

_FIRST_PROCESS_ID = os.getpid()


@functools.cache
def random_run_id(pid: int) -> str:
    """One for the whole process, but another one in a forked child: ids of steps are made from it."""
    return secrets.token_hex(8)


def read_run_identity(environ: Mapping[str, str], run_id: str | None = None) -> RunIdentity:
    """The identity in `environ`; the only process of a run with a random id where nothing is set.

    Args:
        environ: the environment.
        run_id: goes before what the environment says.
    """
    rank, world_size, local_rank = _rank(environ)
    # A program may name its rank to torch.distributed alone, which then knows better than the launcher.
    rank, world_size = _rank_in_torch() or (rank, world_size)
    return RunIdentity(
        run_id=_own_run_id(run_id or _run_id(environ), world_size),
        restart=_restart(environ),
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
    )


def ranks_on_this_machine(environ: Mapping[str, str]) -> int:
    """How many ranks the launcher started here; 1 where it does not say."""
    sizes = (_count(environ, name) for name in _LOCAL_SIZES)
    return next((size for size in sizes if size), 1)


def _own_run_id(shared: str, world_size: int) -> str:
    """The shared id, where it tells this process from all others of the run; else one of its own."""
    process_id = os.getpid()
    own = random_run_id(process_id)
    if not shared:
        return own
    # Forked workers of a server have no ranks to tell them apart.
    has_siblings = process_id != _FIRST_PROCESS_ID and world_size == 1
    return f"{shared}.{own}" if has_siblings else shared


def _rank_in_torch() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    try:
        return int(distributed.get_rank()), int(distributed.get_world_size())
    except (RuntimeError, ValueError):  # destroyed by another thread meanwhile
        return None


def _rank(environ: Mapping[str, str]) -> tuple[int, int, int]:
    for launcher in _LAUNCHERS:
        rank, world_size = (_count(environ, name) for name in (launcher.rank, launcher.world_size))
        if rank is not None and world_size is not None and rank < world_size:
            local_rank = _count(environ, launcher.local_rank)
            return rank, world_size, rank if local_rank is None else local_rank
    return 0, 1, 0


def _run_id(environ: Mapping[str, str]) -> str:
    run_id = _text(environ, OTEL_PYTHON_TORCHPROF_RUN_ID)
    if run_id:
        return run_id
    job = _text(environ, "SLURM_JOB_ID")
    if job:
        # A job may start several runs, one a step; "123.4" is how Slurm itself writes step 4 of job 123.
        step = _count(environ, "SLURM_STEP_ID")
        return job if step is None else f"{job}.{step}"
    # torchrun's default is the word "none", the same for every job in the world.
    elastic = _text(environ, "TORCHELASTIC_RUN_ID")
    return "" if elastic.lower() == "none" else elastic


def _restart(environ: Mapping[str, str]) -> int:
    requeues = _count(environ, "SLURM_RESTART_COUNT") or 0
    return requeues * _RESTARTS_PER_REQUEUE + (_count(environ, "TORCHELASTIC_RESTART_COUNT") or 0)


def _text(environ: Mapping[str, str], name: str) -> str:
    printable = "".join(char for char in environ.get(name, "") if char.isprintable())
    return printable.strip()[:_MAX_RUN_ID_CHARS]


def _count(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "").strip()
    # A bound on the length: int() of a long text is slow, and no count has ten digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
