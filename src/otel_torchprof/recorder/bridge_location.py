"""Where the torch bridge for the installed torch is, and making one where it is not.

It is looked for beside the compiled core (prebuilt in the wheel, or built into an image), then in the
per-user cache; else it is compiled into that cache.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from otel_torchprof.recorder import bridge_cache
from otel_torchprof.recorder.bridge_build import (
    COMPILE_TIMEOUT_S,
    CompileError,
    compile_bridge,
    find_compiler,
)
from otel_torchprof.recorder.torch_build import TorchBuild

BridgeSource = Literal["prebuilt", "cached", "to be compiled"]

_logger = logging.getLogger("otel_torchprof")

_GET_A_BRIDGE = (
    "install a C++ compiler or set CXX, or run `otel-torchprof build` where there is one; "
    'profile(fallback="torch") records without a bridge'
)


class BridgeUnavailable(RuntimeError):
    """Ops cannot be recorded with this torch on this machine; the message says why and the way out."""


@dataclass(frozen=True)
class BridgeStatus:
    """How the bridge for the installed torch stands."""

    available: bool
    source: BridgeSource | None
    path: Path | None
    torch_version: str | None
    reason: str  # why it is not available and what to do; empty when it is


@dataclass(frozen=True)
class _Found:
    path: Path
    source: BridgeSource


def installed_torch() -> TorchBuild:
    """The build of the torch of this process, imported if it was not yet.

    Raises:
        BridgeUnavailable: there is none.
    """
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: one of its libraries does not load
        raise BridgeUnavailable(f"torch cannot be imported ({error}): install torch") from None
    return TorchBuild.of(torch)


def locate_bridge(build: TorchBuild) -> Path:
    """The bridge for `build`; compiled when there is none, which takes some seconds.

    Raises:
        BridgeUnavailable: there is none and none can be made.
    """
    found = _find(build)
    return _compile_into_cache(build, rebuild=False) if found is None else found.path


def build_bridge(*, in_package: bool = False) -> Path:
    """Compiles the bridge for the installed torch ahead of time.

    Args:
        in_package: put it beside the package's compiled core, for every user of an image, instead of into
            this user's cache.

    Returns:
        The library.

    Raises:
        BridgeUnavailable: it cannot be made.
    """
    build = installed_torch()
    if not in_package:
        return _compile_into_cache(build, rebuild=True)
    output = _package_dir() / _bridge_name(build)
    try:
        _compile(build, output, mode=0o755)
    except OSError as error:
        raise BridgeUnavailable(
            f"cannot write {output}: {error.strerror}; run as the user that installed the package"
        ) from None
    return output


def bridge_status() -> BridgeStatus:
    """Whether ops can be recorded here, and from which bridge. Imports torch; compiles and loads nothing."""
    try:
        build = installed_torch()
    except BridgeUnavailable as error:
        return BridgeStatus(False, None, None, None, str(error))
    try:
        found = _find(build)
    except BridgeUnavailable as error:
        return BridgeStatus(False, None, None, build.version, str(error))
    if found is not None:
        return BridgeStatus(True, found.source, found.path, build.version, "")
    if find_compiler(os.environ) is None:
        reason = f"no bridge for torch {build.version} and no C++ compiler to make one: {_GET_A_BRIDGE}"
        return BridgeStatus(False, None, None, build.version, reason)
    return BridgeStatus(True, "to be compiled", None, build.version, "")


def _package_dir() -> Path:
    from otel_torchprof._native import core

    return Path(core.__file__).parent


def _sources_dir() -> Path:
    return _package_dir() / "bridge"


def _bridge_name(build: TorchBuild) -> str:
    try:
        return build.bridge_name(_sources_dir())
    except OSError as error:
        raise BridgeUnavailable(
            f"sources of the torch bridge are missing ({error}): reinstall otel-torchprof"
        ) from None


def _find(build: TorchBuild) -> _Found | None:
    name = _bridge_name(build)
    prebuilt = _package_dir() / name
    if prebuilt.is_file():
        return _Found(prebuilt, "prebuilt")
    try:
        cached = bridge_cache.find(bridge_cache.cache_dir(os.environ), name)
    except bridge_cache.UntrustedCache as error:
        raise _untrusted(error) from None
    except OSError:
        return None  # no cache to look in; making one says what is wrong
    return None if cached is None else _Found(cached, "cached")


def _compile_into_cache(build: TorchBuild, *, rebuild: bool) -> Path:
    name = _bridge_name(build)
    try:
        directory = bridge_cache.cache_dir(os.environ)
        bridge_cache.prepare(directory)
        with bridge_cache.build_lock(directory, COMPILE_TIMEOUT_S):
            made_meanwhile = None if rebuild else bridge_cache.find(directory, name)
            if made_meanwhile is None:
                if not rebuild:
                    # The program waits, in its first step perhaps: it should not look as if it hung.
                    _logger.warning(
                        "Compiling the torch bridge for torch %s, once: some ten seconds; "
                        "`otel-torchprof build` does it ahead of time",
                        build.version,
                    )
                _compile(build, directory / name, mode=0o700)
    except bridge_cache.UntrustedCache as error:
        raise _untrusted(error) from None
    except OSError as error:
        raise BridgeUnavailable(
            f"no bridge for torch {build.version} and no cache to make one in ({error}): "
            "set XDG_CACHE_HOME to a folder of yours that can be written"
        ) from None
    return directory / name


def _compile(build: TorchBuild, output: Path, *, mode: int) -> None:
    try:
        compile_bridge(build, _sources_dir(), output, os.environ)
    except CompileError as error:
        raise BridgeUnavailable(f"no bridge for torch {build.version}: {error}: {_GET_A_BRIDGE}") from None
    output.chmod(mode)


def _untrusted(error: bridge_cache.UntrustedCache) -> BridgeUnavailable:
    return BridgeUnavailable(f"the cache of torch bridges is not safe to load from: {error}: delete it")
