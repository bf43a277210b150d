"""Where files are written: each place is tried, and left as it was."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from otel_torchprof.doctor.check import Check
from otel_torchprof.environment_variables import (
    OTEL_PYTHON_TORCHPROF_OTLP_FILE,
    OTEL_PYTHON_TORCHPROF_RECORDING_DIR,
)
from otel_torchprof.recorder.mount_table import read_mounts

# Where space that a file was promised is really there when a page is first touched; overlays hand it on.
SAFE_FILE_SYSTEMS = {"ext2", "ext3", "ext4", "overlay", "tmpfs", "xfs"}
_CHOOSE_FOLDER = "choose a folder that this user can write to"
_LEAST_RECORDING_BYTES = 1 << 20


def check_recording_folder(environ: Mapping[str, str]) -> Check:
    name = "recording folder"
    setting = environ.get(OTEL_PYTHON_TORCHPROF_RECORDING_DIR, "").strip()
    if not setting:
        return Check(
            name, "ok", f"{OTEL_PYTHON_TORCHPROF_RECORDING_DIR} is not set: recordings stay in memory"
        )
    folder = Path(setting).absolute()
    try:
        folder = _there(folder)
        refusal = _refusal(folder, _LEAST_RECORDING_BYTES)
    except OSError as error:  # not even looked into
        refusal = str(error.strerror)
    if refusal:
        return Check(name, "missing", f"{setting}: {refusal}", _CHOOSE_FOLDER)
    file_system = file_system_of(folder)
    free_mib = shutil.disk_usage(folder).free >> 20
    detail = f"{setting}: {file_system}, {free_mib} MiB free"
    if file_system not in SAFE_FILE_SYSTEMS:
        return Check(
            name,
            "off",
            f"{detail}; recordings stay in memory: it could lack space that it promised",
            f"use one of {', '.join(sorted(SAFE_FILE_SYSTEMS))}",
        )
    return Check(name, "ok", detail)


def check_otlp_file(environ: Mapping[str, str]) -> Check:
    name = "file of spans"
    setting = environ.get(OTEL_PYTHON_TORCHPROF_OTLP_FILE, "").strip()
    if "otlp_file" not in {part.strip() for part in environ.get("OTEL_TRACES_EXPORTER", "").split(",")}:
        if setting:
            return Check(
                name,
                "off",
                f"{OTEL_PYTHON_TORCHPROF_OTLP_FILE} is set, but OTEL_TRACES_EXPORTER does not name otlp_file",
                "set OTEL_TRACES_EXPORTER=otlp_file, or unset it",
            )
        return Check(name, "ok", "not asked for: OTEL_TRACES_EXPORTER does not name otlp_file")
    # Not at load: it needs the SDK.
    from otel_torchprof.telemetry.otlp_file import DEFAULT_PATH

    path = Path(setting or DEFAULT_PATH).absolute()
    is_there = False
    try:
        is_there = path.exists() or path.is_symlink()
        refusal = _refusal_to_append(path) if is_there else _refusal(_there(path.parent))
    except OSError as error:
        refusal = str(error.strerror)
    if refusal:
        return Check(name, "missing", f"{path}: {refusal}", f"set {OTEL_PYTHON_TORCHPROF_OTLP_FILE}")
    if is_there:
        return Check(name, "ok", f"{path}, which is appended to")
    made = "is made" if path.parent.exists() else "is made, with its folder"
    return Check(name, "ok", f"{path}, which {made}")


def file_system_of(path: Path, mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that holds `path`, or "unknown"."""
    real = os.path.realpath(path)
    best_mount, best_type = "", "unknown"
    for mount in read_mounts(mountinfo):
        inside = real == mount.point or real.startswith(mount.point.rstrip("/") + "/")
        if inside and len(mount.point) >= len(best_mount):
            best_mount, best_type = mount.point, mount.kind
    return best_type


def _there(folder: Path) -> Path:
    """The folder, or what there is of its path: the rest is made when it is needed."""
    while not folder.exists():
        folder = folder.parent
    return folder


def _refusal(folder: Path, size_bytes: int = 1) -> str:
    """Why no file of that size can be made in a folder; empty when it can."""
    if not folder.is_dir():
        return f"{folder} is no folder"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size_bytes)
    except OSError as error:
        return f"nothing can be made in {folder} ({file_system_of(folder)}): {error.strerror}"
    return ""


def _refusal_to_append(path: Path) -> str:
    """Why a file that is there is not appended to; empty when it is. OSError where it cannot be."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        return "a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "not a regular file"
    with path.open("ab"):
        return ""


PLACE_CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (
    check_recording_folder,
    check_otlp_file,
)
