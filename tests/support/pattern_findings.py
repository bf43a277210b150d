"""Running a program under the recorder and looking for one anti-pattern in it."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import torch

from otel_torchprof.analysis.patterns import Finding, find_patterns
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.step_details import STEP_HAS_NUMBER, StepDetails
from otel_torchprof.recording import Recording

STEPS = 4
Program = Callable[[int], object]


def record_steps(program: Program, steps: int = STEPS) -> Recording:
    """Runs `program(step)` once a step and records all there is."""
    torch.manual_seed(0)
    options = CaptureOptions(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True)
    capture = Capture(None, options)
    capture.start()
    try:
        for step in range(steps):
            capture.begin_step(step, StepDetails(flags=STEP_HAS_NUMBER))
            program(step)
    finally:
        recording = capture.stop()
    return recording


def findings_of(program: Program, pattern: str, steps: int = STEPS) -> list[Finding]:
    """What is found of one pattern, which was looked for, when `program` runs once a step."""
    report = find_patterns(record_steps(program, steps))
    assert pattern not in {one.pattern for one in report.not_checked}
    return [finding for finding in report.findings if finding.pattern == pattern]


def only(findings: list[Finding], program: Program) -> Finding:
    """The one finding, which is in the function `program`."""
    assert isinstance(program, FunctionType)
    (finding,) = findings
    code = program.__code__
    place = (finding.place.file, finding.place.line, finding.place.function.rpartition(".")[2])
    assert place == (code.co_filename, code.co_firstlineno, code.co_name)
    return finding
