"""The per-user folder of compiled bridges. Its files run in the process, so owner and mode are checked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_LOCK_POLL_S = 0.05
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UntrustedCache(Exception):
    """The cache, or a file in it, could have been written by somebody else."""


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where compiled bridges are kept: under XDG_CACHE_HOME when it is an absolute path, else ~/.cache.

    Raises:
        OSError: this user has no home.
    """
    configured = Path(environ.get("XDG_CACHE_HOME", ""))
    if configured.is_absolute():
        return configured / "otel-torchprof"
    try:
        return Path.home() / ".cache" / "otel-torchprof"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from None


def prepare(directory: Path) -> None:
    """Makes the folder, readable by its owner alone, or checks the one that is there.

    Raises:
        UntrustedCache: it is not a folder of ours that only we can write to.
        OSError: it cannot be made.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    _check(directory, stat.S_ISDIR)


def find(directory: Path, name: str) -> Path | None:
    """The file of that name, or None when the cache has none.

    Raises:
        UntrustedCache: there is one, but somebody else could have written it.
    """
    path = directory / name
    try:
        _check(directory, stat.S_ISDIR)
        _check(path, stat.S_ISREG)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return path


def _check(path: Path, is_expected_kind: Callable[[int], bool]) -> None:
    status = path.lstat()  # a link is not followed: where it leads may change
    if not is_expected_kind(status.st_mode):
        raise UntrustedCache(f"{path} is a link or another kind of file than it must be")
    if status.st_uid != os.geteuid():
        raise UntrustedCache(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise UntrustedCache(f"{path} can be written by other users (mode {stat.S_IMODE(status.st_mode):o})")


@contextlib.contextmanager
def build_lock(directory: Path, timeout_s: float) -> Iterator[None]:
    """Lets one process build while the other ranks of the machine wait for its result.

    Only saves work: the result is put in place by a rename, so a builder that never got the lock (the other
    one hangs, or the file system has no locks) does no harm.
    """
    deadline = time.monotonic() + timeout_s
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_LOCK_POLL_S)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)
