"""The numbers that stand in the columns of a recording. They mirror native/core/layout.h."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class EventKind(IntEnum):
    """What an event is."""

    OP = 0
    USER = 1
    RUNTIME = 2
    DRIVER = 3
    KERNEL = 4
    MEMCPY = 5
    MEMSET = 6
    SYNC = 7
    PYTHON = 8
    PYTHON_C = 9
    MODULE = 10
    OVERHEAD = 11
    SPAN = 12
    ANNOTATION = 13
    OTHER = 14


class EventFlags(IntFlag):
    """Bits of `EventColumns.flags`."""

    ASYNC = 1  # began on its track, but what follows there is not part of it
    OTHER_THREAD = 2  # ended on `end_track`
    UNFINISHED = 4  # still open when the recording ended; its end is the recording's
    PAYLOAD_CUT = 8  # more inputs than were recorded
    INSTANT = 16  # a moment that was marked, not something that took no time
    TRAINING = 32  # call of a module in training mode
    EVALUATION = 64  # call of a module in evaluation mode; with neither the mode is not known
    ENTERED_BEFORE = 128  # a frame that was on the stack already; its start is when its thread was first seen


class MemoryFlags(IntFlag):
    """Bits of `flags` in `MEMORY_DTYPE`."""

    FREE = 1
    BEFORE_CAPTURE = 2  # a free of what was not allocated in this capture: its size is not known
    OUT_OF_MEMORY = 4  # a request that failed; `size_bytes` was asked for


class TensorFlags(IntFlag):
    """Bits of `flags` in `TENSOR_DTYPE`."""

    REQUIRES_GRAD = 1


class TensorRole(IntEnum):
    """What a tensor is to the program."""

    PARAMETER = 1
    GRADIENT = 2
    OPTIMIZER_STATE = 3
    BUFFER = 4


class StepFlags(IntFlag):
    """Bits of `Step.flags`."""

    PARTIAL = 1  # the recording began or ended inside it
    IN_PARENT = 2  # belongs to the span of its context; else a root linked to it
    HAS_NUMBER = 4
    UNFINISHED = 8


class StepPhase(IntEnum):
    """What a step does."""

    UNKNOWN = 0
    TRAIN = 1
    EVAL = 2
    INFER = 3


class TrackKind(IntEnum):
    """What a track is a line of."""

    THREAD = 0
    STREAM = 1
    OTHER = 2


class LinkType(IntEnum):
    """Why two events are linked."""

    FORWARD_BACKWARD = 1
    LAUNCH = 2
    OTHER = 3


class ClockSource(IntEnum):
    """What the recorder counted; times are unix ns in any case."""

    TSC = 0
    CNTVCT = 1
    MONOTONIC_RAW = 2
    UNIX_NS = 3
