"""What a recording says about the process it was made in: a fixed list, never arguments or environment."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict

from otel_torchprof.run_identity import RunIdentity
from otel_torchprof.version import __version__

JsonObject = dict[str, object]


def start_metadata(identity: RunIdentity, options: Mapping[str, object]) -> JsonObject:
    """What is known when a capture begins, so that a killed process leaves it too.

    Args:
        identity: the run.
        options: how the capture was configured.
    """
    torch = sys.modules["torch"]
    return {
        **asdict(identity),
        "torch_version": str(torch.__version__),
        "package_version": __version__,
        "python_version": platform.python_version(),
        "options": dict(options),
    }


def stop_metadata(identity: RunIdentity) -> JsonObject:
    """What is known only when it ends: ranks, as torch.distributed may have begun meanwhile."""
    return asdict(identity)
