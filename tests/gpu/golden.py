"""Records of a real GPU to keep: each program's recording, torch's own trace of it, and what they came from.

python -m tests.gpu.golden FOLDER
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from otel_torchprof import __version__
from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers import load
from tests.gpu.programs import OURS_AND_TORCHS, PROGRAMS, record, recording_path
from tests.support.device_comparison import differences, unlinked, work


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
        "otel_torchprof": __version__,
    }


def main(folder: Path) -> int:
    """Fills the folder, and prints what is in it and how the two recorders differ; 0 = all is there."""
    import torch

    if not torch.cuda.is_available():
        print("there is no NVIDIA GPU")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps(facts(), indent=2) + "\n", encoding="utf-8")
    print((folder / "machine.json").read_text(encoding="utf-8"), flush=True)
    failed = 0
    for recorder in OURS_AND_TORCHS:
        try:
            print(record(recorder, folder), end="", flush=True)
        except AssertionError as error:
            failed += 1
            print(error, flush=True)
    alike = sum(_describe(folder, program) for program in PROGRAMS)
    print(f"{alike} of {len(PROGRAMS)} programs have the same work in both, {failed} recorders failed")
    return 1 if failed else 0


def _describe(folder: Path, program: str) -> bool:
    """Prints what was recorded of a program; whether both recorders tell the same."""
    paths = [recording_path(folder, program, recorder) for recorder in OURS_AND_TORCHS]
    if not all(path.is_file() for path in paths):
        print(f"{program}: not recorded by both")
        return False
    try:
        ours, torchs = (load(path)[0] for path in paths)
    except UnreadableInputError as error:
        print(f"{program}: {error}")
        return False
    print(f"{program}: {len(ours)} events, torch's trace {len(torchs)}; {ours.metadata.get('device')}")
    print(f"  sources {ours.metadata['sources']}, dropped {ours.drops}, problems {ours.problems}")
    for (kind, name), count in sorted(work(ours).items()):
        print(f"  {count:6} {kind} {name}")
    print(f"  without a call that launched it: {dict(unlinked(ours))}; in torch's: {dict(unlinked(torchs))}")
    found = differences(ours, torchs)
    print(f"  differences: {found or 'none'}", flush=True)
    return not found and bool(work(ours))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
