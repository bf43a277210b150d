"""Records of a real GPU to keep: each program's recording, torch's own trace of it, and what they came from.

python -m tests.gpu.golden FOLDER
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from tests.gpu.programs import PROGRAMS, record


def facts() -> dict[str, object]:
    """The machine, as far as the records depend on it."""
    import torch

    from otel_torchprof._native import core
    from otel_torchprof.recorder.cupti_location import cupti_paths

    found = core.device_probe(cupti_paths(torch.version.cuda))
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver_version": found["driver_version"],
        "cupti_version": found["cupti_version"],
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }


def main(folder: Path) -> None:
    """Fills the folder, and prints a line a program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps(facts(), indent=2) + "\n", encoding="utf-8")
    for name in PROGRAMS:
        ours = record(name, "ours", folder / f"{name}.tprof")
        torchs = record(name, "torch", folder / f"{name}.json")
        counts = ours.metadata["device"]["counts"]
        print(f"{name}: {counts}; torch's trace has {len(torchs)} events, ours {len(ours)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
