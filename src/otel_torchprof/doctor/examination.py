"""What works on this machine and, for what does not, why and the way out.

Every check looks at the real thing: it loads the core, asks the recorder for its bridge and the kernel for
its barrier, writes a file.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

from otel_torchprof.config import SettingError, Settings
from otel_torchprof.doctor.check import Check
from otel_torchprof.doctor.collector import COLLECTOR_CHECKS
from otel_torchprof.doctor.device import DEVICE_CHECKS
from otel_torchprof.doctor.exporters import EXPORTER_CHECKS
from otel_torchprof.doctor.places import PLACE_CHECKS
from otel_torchprof.doctor.sources import SOURCE_CHECKS
from otel_torchprof.environment_variables import (
    OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB,
    OTEL_PYTHON_TORCHPROF_ENABLED,
)
from otel_torchprof.recorder.bridge import bridge_status
from otel_torchprof.recorder.bridge_build import find_compiler
from otel_torchprof.setting_mistakes import unaccepted_values, unknown_settings


def examine(environ: Mapping[str, str]) -> list[Check]:
    """All checks, in the order they are best read. A check that itself fails is reported as missing."""
    return [_run(check, environ) for check in CHECKS]


def _run(check: Callable[[Mapping[str, str]], Check], environ: Mapping[str, str]) -> Check:
    try:
        return check(environ)
    except Exception as error:  # the doctor must outlive the patient
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return Check(
            name, "missing", f"the check failed: {type(error).__name__}: {error}", "please report this"
        )


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def check_native_core(_environ: Mapping[str, str]) -> Check:
    try:
        core = importlib.import_module("otel_torchprof._native.core")
    except ImportError as error:
        return Check(
            "native core", "missing", str(error), "reinstall: pip install --force-reinstall otel-torchprof"
        )
    return Check("native core", "ok", Path(str(core.__file__)).name)


def check_torch(_environ: Mapping[str, str]) -> Check:
    version = _version("torch")
    if version is None:
        return Check(
            "torch", "off", "not installed: recordings can be read, not made", "pip install torch to record"
        )
    return Check("torch", "ok", version)


def check_bridge(_environ: Mapping[str, str]) -> Check:
    status = bridge_status()
    if status.torch_version is None:
        return Check("torch bridge", "off", status.reason)
    if not status.available:
        return Check("torch bridge", "missing", status.reason)
    if status.path is None:
        return Check(
            "torch bridge",
            "ok",
            "none yet: compiled when the first capture starts, which takes some ten seconds",
            "otel-torchprof build compiles it now",
        )
    return Check("torch bridge", "ok", f"{status.source}: {status.path}")


def check_compiler(environ: Mapping[str, str]) -> Check:
    command = find_compiler(environ)
    if command is None:
        return Check(
            "C++ compiler",
            "off",
            f"{environ['CXX']} (from CXX) not found" if environ.get("CXX") else "none found",
            "needed only for a torch without a prebuilt bridge: install g++ or clang, or set CXX",
        )
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20, check=False)
    return Check("C++ compiler", "ok", (said.stdout.splitlines() or command)[0])


def check_membarrier(_environ: Mapping[str, str]) -> Check:
    number = {"x86_64": 324, "aarch64": 283}.get(platform.machine())
    private_expedited, register_private_expedited = 1 << 3, 1 << 4
    needed = private_expedited | register_private_expedited
    without = "each op carries barriers of its own and costs more"
    if number is None:
        return Check("membarrier", "off", f"unknown on {platform.machine()}: {without}")
    libc = ctypes.CDLL(None, use_errno=True)
    commands = libc.syscall(ctypes.c_long(number), 0, 0)
    if commands < 0:
        why = os.strerror(ctypes.get_errno())
        return Check("membarrier", "off", f"{why}: {without}", "allow it in the seccomp profile")
    if commands & needed != needed:
        return Check(
            "membarrier", "off", f"no private expedited barrier: {without}", "use Linux 4.14 or newer"
        )
    return Check("membarrier", "ok", "private expedited")


OTEL_DISTRIBUTIONS = (
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-instrumentation",
    "opentelemetry-distro",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-exporter-otlp-proto-http",
)


def check_opentelemetry(_environ: Mapping[str, str]) -> Check:
    versions = {name: _version(name) for name in OTEL_DISTRIBUTIONS}
    found = ", ".join(
        f"{name.removeprefix('opentelemetry-')} {version}" for name, version in versions.items() if version
    )
    absent = [name for name, version in versions.items() if version is None]
    if absent:
        return Check(
            "OpenTelemetry",
            "off",
            f"{found or 'nothing installed'}; without {', '.join(absent)}",
            "pip install 'otel-torchprof[otlp]' to send spans",
        )
    return Check("OpenTelemetry", "ok", found)


def check_instrumentation(environ: Mapping[str, str]) -> Check:
    name = "instrumentation"
    points = metadata.entry_points(group="opentelemetry_instrumentor")
    if "torchprof" not in points.names:
        return Check(
            name,
            "missing",
            "the entry point torchprof is not registered",
            "install with pip, not by copying files",
        )
    disabled = environ.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "")
    if {"torchprof", "*"} & {part.strip() for part in disabled.split(",")}:
        return Check(name, "off", "turned off by OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "unset it")
    with contextlib.suppress(SettingError):  # reported by check_settings
        if not Settings.from_options({}, environ).enabled:
            return Check(name, "off", f"turned off by {OTEL_PYTHON_TORCHPROF_ENABLED}", "unset it")
    return Check(name, "ok", "opentelemetry-instrument loads torchprof")


def check_settings(environ: Mapping[str, str]) -> Check:
    """Of what is not ours names only: a header or an endpoint may hold a secret."""
    mistakes = [*unaccepted_values(environ), *unknown_settings(environ)]
    if mistakes:
        ways_out = dict.fromkeys(mistake.way_out for mistake in mistakes)
        return Check("settings", "missing", "; ".join(one.what for one in mistakes), "; ".join(ways_out))
    names = sorted(name for name in environ if name.startswith("OTEL_"))
    return Check("settings", "ok", ", ".join(names) if names else "no OTEL_ variable is set: defaults")


def check_memory_limit(environ: Mapping[str, str]) -> Check:
    """What a container or a job leaves to recordings at this moment."""
    # Not at load: they need the core.
    from otel_torchprof.recorder.memory_budget import describe_shortage, memory_budget

    name = "memory limit"
    bound = memory_budget.bound()
    if bound is None:
        return Check(name, "ok", "none")
    settings = Settings()
    with contextlib.suppress(SettingError):  # reported by check_settings
        settings = Settings.from_options({}, environ)
    wanted_bytes = settings.capture_options().buffer_size_bytes
    if bound.recordings_bytes < wanted_bytes:
        way_out = f"raise the limit, or set {OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB} to less"
        return Check(name, "off", describe_shortage(bound, wanted_bytes), way_out)
    limit = bound.limit
    return Check(
        name, "ok", f"{limit.limit_bytes >> 20} MiB, {limit.left_bytes >> 20} MiB of them left: {limit.group}"
    )


CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (
    check_native_core,
    check_torch,
    check_bridge,
    check_compiler,
    check_membarrier,
    check_opentelemetry,
    check_instrumentation,
    check_settings,
    *EXPORTER_CHECKS,
    *COLLECTOR_CHECKS,
    *PLACE_CHECKS,
    check_memory_limit,
    *DEVICE_CHECKS,
    *SOURCE_CHECKS,
)
