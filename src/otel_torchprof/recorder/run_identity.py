"""Which run this process is part of: run id, restart, rank and world size."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass

# Where launchers say it, the more specific first: (rank, world size).
_RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun and most launchers
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
_RESTART_VARIABLES = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
_NO_RUN_ID = "none"  # torchelastic's default is the word, shared by all runs that set none

# One for the whole process, where no launcher gives one.
_random_run_id = secrets.token_hex(8)


@dataclass(frozen=True)
class RunIdentity:
    """The same on all ranks of a run except for `rank`; None where it is not a distributed run."""

    run_id: str
    restart: int
    rank: int | None
    world_size: int | None

    @classmethod
    def detect(cls, environ: Mapping[str, str], run_id: str | None = None) -> RunIdentity:
        """Asks torch.distributed when it is initialised, else the launcher's variables.

        Args:
            environ: the environment.
            run_id: the user's own, which goes before the launcher's.
        """
        rank, world_size = _from_torch_distributed() or _from_launcher(environ) or (None, None)
        restart = next(
            (n for name in _RESTART_VARIABLES if (n := _whole_number(environ, name)) is not None), 0
        )
        return cls(run_id or _launcher_run_id(environ) or _random_run_id, restart, rank, world_size)


def _launcher_run_id(environ: Mapping[str, str]) -> str | None:
    elastic = environ.get("TORCHELASTIC_RUN_ID")
    if elastic and elastic.lower() != _NO_RUN_ID:
        return elastic
    return environ.get("SLURM_JOB_ID")


def _from_torch_distributed() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    try:
        return int(distributed.get_rank()), int(distributed.get_world_size())
    except (RuntimeError, ValueError):  # destroyed by another thread meanwhile
        return None


def _from_launcher(environ: Mapping[str, str]) -> tuple[int, int] | None:
    for rank_name, size_name in _RANK_VARIABLES:
        rank, size = _whole_number(environ, rank_name), _whole_number(environ, size_name)
        if rank is not None and size is not None and rank < size:
            return rank, size
    return None


def _whole_number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
