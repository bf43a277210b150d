"""What this process is for, read off its command line: not every Python process of a job trains."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePath

_COMPILE_WORKERS = ("torch/_inductor/compile_worker/__main__.py", "torch/_inductor/__autotune_main__.py")
_COMPILE_WORKER_MODULES = ("torch._inductor.compile_worker", "torch._inductor.__autotune_main__")
_ELASTIC_AGENT_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def reason_not_to_record(command: Sequence[str] = sys.orig_argv) -> str | None:
    """Say why this process is left alone, or None when it may train.

    Args:
        command: the interpreter and its arguments.
    """
    script, module = _program(command)
    path = PurePath(script).as_posix()
    if path.endswith(_COMPILE_WORKERS) or module.startswith(_COMPILE_WORKER_MODULES):
        return "a worker of torch.compile"
    if PurePath(script).name == "torchrun" or module in _ELASTIC_AGENT_MODULES:
        return "the agent of torchrun, whose workers are recorded"
    return None


def is_multiprocessing_child(command: Sequence[str] = sys.orig_argv) -> bool:
    """Whether `multiprocessing` spawned this process: a rank, or a worker that only loads data."""
    return "--multiprocessing-fork" in command or any(
        "multiprocessing.forkserver" in argument for argument in command[1:]
    )


def _program(command: Sequence[str]) -> tuple[str, str]:
    """Return the script and the module (`-m`) of a Python command line; one of them is empty."""
    arguments = iter(command[1:])
    for argument in arguments:
        if argument == "-m":
            return "", next(arguments, "")
        if argument == "-c":
            break
        if argument in _OPTIONS_WITH_VALUE:
            next(arguments, None)
        elif not argument.startswith("-"):
            return argument, ""
    return "", ""
