"""What this package raises where Python has no fitting exception of its own.

Every message is one line: the cause, and the way out where there is one.
"""

from __future__ import annotations


class TorchprofError(Exception):
    """Base of all errors that are particular to this package."""


class RecordingFormatError(TorchprofError, ValueError):
    """A file that is not a recording, or that nothing can be read of."""


class NothingToWriteError(TorchprofError):
    """A recording holds nothing of what a format is about."""


class UnknownStepError(TorchprofError, ValueError):
    """A step was asked for that the recording does not have."""


class UnreadableInputError(TorchprofError):
    """A file that cannot be read at all, or that is no trace or recording."""
