"""What a program is told at its end when none of its steps was recorded: one line, with the way out."""

from __future__ import annotations

import logging

from otel_torchprof.config import Settings, StepRule

_logger = logging.getLogger(__name__)


def say_that_no_step_ended(settings: Settings, *, ran_ops: bool) -> None:
    """A program that was to call step(), or ran ops, may miss something; any other may just import torch."""
    is_explicit = settings.step is StepRule.EXPLICIT
    if is_explicit:
        way_out = (
            "call otel_torchprof.step() where one ends, "
            "which OTEL_PYTHON_TORCHPROF_STEP=explicit leaves to the program"
        )
    else:
        way_out = (
            "in a program that serves set OTEL_PYTHON_TORCHPROF_STEP=module, in any other call "
            "otel_torchprof.step() where one ends"
        )
    _logger.log(
        logging.WARNING if is_explicit or ran_ops else logging.INFO,
        "otel-torchprof: no step was seen: %s",
        way_out,
    )


def say_that_it_was_too_short(settings: Settings, steps: int) -> None:
    """For a program of so many whole steps."""
    if settings.schedule is None:
        why = (
            "and by default the third is the first to be recorded; "
            "OTEL_PYTHON_TORCHPROF_SCHEDULE=active=1,repeat=1 records the first"
        )
    else:
        why = "before one that OTEL_PYTHON_TORCHPROF_SCHEDULE records had run an op"
    ended = f"the program ended after {steps} step{'s' if steps != 1 else ''}"
    _logger.warning("otel-torchprof: nothing was recorded: %s, %s", ended, why)
