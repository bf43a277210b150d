"""The data model: a `Recording` holds what was recorded, in columns, whatever it came from.

Works without torch and without OpenTelemetry.
"""

from otel_torchprof.recording.builder import OverrunCounts, RecordingBuilder
from otel_torchprof.recording.columns import EventColumns, LinkColumns
from otel_torchprof.recording.contexts import EventContext
from otel_torchprof.recording.event_memory import EventMemory
from otel_torchprof.recording.inputs import (
    InputList,
    InputValue,
    NestedTensorInput,
    OtherInput,
    TensorIdentity,
    TensorInput,
    UndefinedTensorInput,
    dtype_number,
)
from otel_torchprof.recording.kinds import (
    ClockSource,
    EventFlags,
    EventKind,
    LinkType,
    MemoryFlags,
    StepFlags,
    StepPhase,
    TensorFlags,
    TensorRole,
    TrackKind,
)
from otel_torchprof.recording.recording import Recording
from otel_torchprof.recording.side_tables import (
    ARGUMENTS_DTYPE,
    COUNTER_DTYPE,
    DEVICE_DTYPE,
    MEMORY_DTYPE,
    TENSOR_DTYPE,
    TENSOR_ROLE_DTYPE,
)
from otel_torchprof.recording.stack import StackFrame
from otel_torchprof.recording.steps import SpanContext, Step
from otel_torchprof.recording.tracks import Track
from otel_torchprof.recording.tree import Tree

__all__ = [
    "ARGUMENTS_DTYPE",
    "COUNTER_DTYPE",
    "DEVICE_DTYPE",
    "MEMORY_DTYPE",
    "TENSOR_DTYPE",
    "TENSOR_ROLE_DTYPE",
    "ClockSource",
    "EventColumns",
    "EventContext",
    "EventFlags",
    "EventKind",
    "EventMemory",
    "InputList",
    "InputValue",
    "LinkColumns",
    "LinkType",
    "MemoryFlags",
    "NestedTensorInput",
    "OtherInput",
    "OverrunCounts",
    "Recording",
    "RecordingBuilder",
    "SpanContext",
    "StackFrame",
    "Step",
    "StepFlags",
    "StepPhase",
    "TensorFlags",
    "TensorIdentity",
    "TensorInput",
    "TensorRole",
    "Track",
    "TrackKind",
    "Tree",
    "UndefinedTensorInput",
    "dtype_number",
]
