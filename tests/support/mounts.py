"""File systems of a kind and size of their own, for all processes or for one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.required_tools import skip_or_fail


@contextmanager
def mounted(kind: str, at: Path, *options: str) -> Iterator[Path]:
    """Mount a file system of `kind`; skips where that is not allowed, as in most containers."""
    mount = shutil.which("mount")
    if mount is None:
        skip_or_fail("no mount command: install util-linux")
    done = subprocess.run(
        [mount, "-t", kind, *options, kind, str(at)], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount {kind} here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        # Lazily: the mapping of a recording lives as long as its capture.
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def require_own_mounts() -> None:
    """Skips the test where a process may not have mounts that no other sees, as in most containers."""
    unshare = shutil.which("unshare")
    if unshare is None:
        skip_or_fail("no unshare command: install util-linux")
    command = [unshare, "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no mounts of its own for a process here: {done.stderr.strip()}")
