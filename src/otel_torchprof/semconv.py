"""The names of span and link attributes: what each means, its type, its unit, where it stands.

`docs/semantic-conventions.md` is made from this module; the recorder's native half has the same names, and a
test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from otel_torchprof.semconv_spans import SPAN_KINDS

SCHEMA_URL = "https://github.com/otel-torchprof/otel-torchprof/schemas/0.1.0"

AttributeType = Literal["string", "string[]", "int", "int[]", "double", "boolean"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute. `unit` is a UCUM code, "" where there is none; `on` says which spans carry it."""

    name: str
    type: AttributeType
    unit: str
    on: str
    meaning: str


THREAD_ID = "thread.id"
THREAD_NAME = "thread.name"
CODE_FUNCTION_NAME = "code.function.name"
CODE_FILE_PATH = "code.file.path"
CODE_LINE_NUMBER = "code.line.number"
ERROR_TYPE = "error.type"
CUDA_DEVICE_INDEX = "cuda.device.index"
CUDA_STREAM_ID = "cuda.stream.id"
ORIGINAL_NAME = "torch.original_name"
SCOPE = "torch.scope"
EVENT_KIND = "torch.event.kind"
OP_OVERLOAD = "torch.op.overload"
MODULE_PATH = "torch.module.path"
MODULE_TRAINING = "torch.module.training"
SELF_TIME_NS = "torch.self_time_ns"
SEQUENCE_NUMBER = "torch.sequence_number"
FORWARD_THREAD_ID = "torch.forward_thread.id"
AUTOGRAD_THREAD_ID = "torch.autograd_thread.id"
ASYNC = "torch.async"
END_THREAD_ID = "torch.end_thread.id"
UNFINISHED = "torch.unfinished"
INPUT_SHAPES = "torch.input.shapes"
INPUT_TYPES = "torch.input.types"
INPUT_STRIDES = "torch.input.strides"
INPUT_VALUES = "torch.input.values"
INPUT_CUT = "torch.input.cut"
DEVICE_TIME_NS = "torch.device.time_ns"
KERNEL_COUNT = "torch.kernel.count"
KERNEL_NAMES = "torch.kernel.names"
KERNEL_GRID = "torch.kernel.grid"
KERNEL_BLOCK = "torch.kernel.block"
KERNEL_REGISTERS = "torch.kernel.registers"
KERNEL_SHARED_MEMORY_BYTES = "torch.kernel.shared_memory_bytes"
MEMCPY_SIZE_BYTES = "torch.memcpy.size_bytes"
MEMCPY_BYTES_PER_SECOND = "torch.memcpy.bytes_per_s"
LAUNCH_DELAY_NS = "torch.launch.delay_ns"
LAUNCH_QUEUE_DEPTH = "torch.launch.queue_depth"
GRAPH_ID = "torch.graph.id"
GRAPH_NODE_ID = "torch.graph.node_id"
SYNC_STREAM_ID = "torch.sync.stream_id"
SYNC_EVENT_ID = "torch.sync.event_id"
SYNC_CORRELATION_ID = "torch.sync.correlation_id"
CORRELATION_ID = "torch.correlation_id"
CORRELATION_IDS = "torch.correlation_ids"
MEMORY_ALLOCATED_BYTES = "torch.memory.allocated_bytes"
MEMORY_FREED_BYTES = "torch.memory.freed_bytes"
MEMORY_PEAK_BYTES = "torch.memory.peak_bytes"
MEMORY_FAILED_BYTES = "torch.memory.failed_bytes"
DEVICE_MEMORY_ALLOCATED_BYTES = "torch.device.memory.allocated_bytes"
DEVICE_MEMORY_FREED_BYTES = "torch.device.memory.freed_bytes"
DEVICE_MEMORY_PEAK_BYTES = "torch.device.memory.peak_bytes"
LINK_TYPE = "torch.link.type"
FOLDED_COUNT = "torch.folded.count"
FOLDED_TIME_NS = "torch.folded.time_ns"
FOLDED_DEVICE_TIME_NS = "torch.folded.device_time_ns"
FOLDED_NAMES = "torch.folded.names"
STEP_NUMBER = "torch.step.number"
STEP_PHASE = "torch.step.phase"
STEP_PARTIAL = "torch.step.partial"
STEP_CROSSING = "torch.step.crossing"
PATTERN_EVENT = "torch.pattern"
PATTERN_NAME = "torch.pattern.name"
PATTERN_TITLE = "torch.pattern.title"
PATTERN_SEVERITY = "torch.pattern.severity"
PATTERN_CONFIDENCE = "torch.pattern.confidence"
PATTERN_DETAIL = "torch.pattern.detail"
PATTERN_MODULE = "torch.pattern.module"
PATTERN_OP = "torch.pattern.op"
PATTERN_COUNT = "torch.pattern.count"
PATTERN_COST_NS = "torch.pattern.cost_ns"
PATTERN_SAVING_MIN_NS = "torch.pattern.saving_min_ns"
PATTERN_SAVING_MAX_NS = "torch.pattern.saving_max_ns"
PATTERN_ADVICE = "torch.pattern.advice"
PATTERN_URL = "torch.pattern.url"
CPU_COUNTER = "torch.cpu.<counter>"
CPU_ESTIMATED = "torch.cpu.estimated"

_OPS = "ops, user spans"
_THREADS = "ops, user spans, runtime calls, steps"
_DEVICE = "kernels, copies, memsets"
_SYNCS = "synchronizations"
_FUNCTIONS = "events on threads, where Python calls were recorded"
_LAUNCHERS = "steps, lanes, ops and user spans that launched device work or hold such"
_WITH_MEMORY = "steps, ops and user spans that allocated or freed, when memory is recorded"
_FOLDED = "spans with folded ones"
_COUNTED = "steps, captures and user spans that were counted over; ops on request"

SPAN_ATTRIBUTES = (
    Attribute(
        THREAD_ID, "int", "", _THREADS, "The operating system's id of the thread (OpenTelemetry's attribute)."
    ),
    Attribute(THREAD_NAME, "string", "", _THREADS, "The thread's name (OpenTelemetry's attribute)."),
    Attribute(
        CODE_FUNCTION_NAME,
        "string",
        "",
        _FUNCTIONS,
        "The Python function that it is, or else the one that called it (OpenTelemetry's attribute).",
    ),
    Attribute(
        CODE_FILE_PATH, "string", "", _FUNCTIONS, "The file that defines it (OpenTelemetry's attribute)."
    ),
    Attribute(
        CODE_LINE_NUMBER,
        "int",
        "",
        _FUNCTIONS,
        "The first line of its definition (OpenTelemetry's attribute).",
    ),
    Attribute(
        ERROR_TYPE,
        "string",
        "",
        "user spans, batches, module calls that raised",
        "The type of the exception, as `ValueError` (OpenTelemetry's attribute); the status of the span is "
        "an error. Its message is not there, as it may hold anything. No error is what is no `Exception`, as "
        "an interruption or a cancellation, and the end of an iterator.",
    ),
    Attribute(
        CUDA_DEVICE_INDEX, "int", "", f"lanes, {_DEVICE}", "As OpenTelemetry's eBPF instrumentation has it."
    ),
    Attribute(CUDA_STREAM_ID, "int", "", f"lanes, {_DEVICE}", "The stream on which it ran."),
    Attribute(
        ORIGINAL_NAME,
        "string",
        "",
        "spans whose name was shortened",
        "The name as recorded, where the span has a shorter or more general one. Bytes that are not valid "
        "UTF-8 and control characters stand as `\\xNN`, here and in all other text.",
    ),
    Attribute(
        SCOPE,
        "string",
        "",
        _OPS,
        "`at::RecordScope`: `function`, `backward_function`, `torchscript_function`, `user_scope`, ...",
    ),
    Attribute(
        EVENT_KIND,
        "string",
        "",
        f"{_DEVICE}, runtime calls, Python frames, modules",
        "What the span is when it is no op: `kernel`, `memcpy`, `memset`, `sync`, `annotation`, `runtime`, "
        "`driver`, `python`, `python_c`, `module`, `overhead`, `span`, `other`.",
    ),
    Attribute(OP_OVERLOAD, "string", "", "ops", "The overload of the operator: `Tensor`, `out`, ..."),
    Attribute(
        MODULE_PATH,
        "string",
        "",
        "module calls, ops in one",
        "Where the module stands in the outermost module that was called, as `named_modules()` has it: "
        "`encoder.layers.0.attn`. Of ops that of the innermost module around them, of backward ops that of "
        "their forward op. Not there for the outermost module itself, and for what it does not hold.",
    ),
    Attribute(
        MODULE_TRAINING,
        "boolean",
        "",
        "module calls",
        "Whether the module was in training mode; not there where that is not known.",
    ),
    Attribute(
        SELF_TIME_NS,
        "int",
        "ns",
        f"{_OPS}, runtime calls",
        "Duration without what synchronous children on the same thread cover of it.",
    ),
    Attribute(
        SEQUENCE_NUMBER, "int", "", "ops", "Autograd's number: a forward op and its backward op share it."
    ),
    Attribute(
        FORWARD_THREAD_ID,
        "int",
        "",
        "backward ops",
        "Torch's id of the thread on which the forward op ran; equals the forward op's "
        "`torch.autograd_thread.id`.",
    ),
    Attribute(AUTOGRAD_THREAD_ID, "int", "", "forward ops with a linked backward op", "Torch's thread id."),
    Attribute(
        ASYNC, "boolean", "", "asynchronous ops", "True: it ends when its future does; nothing is its child."
    ),
    Attribute(
        END_THREAD_ID, "int", "", "ops that ended on another thread", "Id of the thread on which it ended."
    ),
    Attribute(UNFINISHED, "boolean", "", "spans", "True: still open when recording ended; so is its end."),
    Attribute(
        INPUT_SHAPES,
        "string",
        "",
        "ops, when shapes are recorded",
        "A JSON array with one item an argument: `[[2,3],null]`; null for what is no tensor.",
    ),
    Attribute(
        INPUT_TYPES,
        "string",
        "",
        "ops, when shapes are recorded",
        'A JSON array: dtypes of tensors and types of others: `["float32","int"]`.',
    ),
    Attribute(INPUT_STRIDES, "string", "", "ops, when shapes are recorded", "A JSON array: `[[3,1],null]`."),
    Attribute(
        INPUT_VALUES,
        "string",
        "",
        "ops with arguments that are no tensors",
        "A JSON array: numbers, strings, short lists; null for tensors and None.",
    ),
    Attribute(
        INPUT_CUT, "boolean", "", "ops", "True: the inputs were longer; JSON values may end in the middle."
    ),
    Attribute(
        DEVICE_TIME_NS,
        "int",
        "ns",
        _LAUNCHERS,
        "Time of the kernels, copies and memsets launched by the span and by all within it, folded or not; "
        "of a lane, what ran on it.",
    ),
    Attribute(KERNEL_COUNT, "int", "{kernel}", _LAUNCHERS, "Kernels launched, counted likewise."),
    Attribute(
        KERNEL_NAMES,
        "string[]",
        "",
        _LAUNCHERS,
        "Up to five names, the longest in total first, each with its count: `gemm (3)`.",
    ),
    Attribute(KERNEL_GRID, "int[]", "", "kernels", "Blocks along x, y and z."),
    Attribute(KERNEL_BLOCK, "int[]", "", "kernels", "Threads of a block along x, y and z."),
    Attribute(KERNEL_REGISTERS, "int", "", "kernels", "Registers of a thread."),
    Attribute(
        KERNEL_SHARED_MEMORY_BYTES, "int", "By", "kernels", "Shared memory of a block, static and dynamic."
    ),
    Attribute(MEMCPY_SIZE_BYTES, "int", "By", "copies, memsets", "Bytes copied or set."),
    Attribute(MEMCPY_BYTES_PER_SECOND, "int", "By/s", "copies, memsets", "Bytes divided by the duration."),
    Attribute(
        LAUNCH_DELAY_NS,
        "int",
        "ns",
        f"{_DEVICE} with a known runtime call",
        "From the end of the call that launched it to its start; 0 where it began before the call was over.",
    ),
    Attribute(
        LAUNCH_QUEUE_DEPTH,
        "int",
        "{event}",
        f"{_DEVICE} with a known runtime call",
        "How much work before it on its stream had not ended when that call was over. 0: the stream waited "
        "for the call.",
    ),
    Attribute(GRAPH_ID, "int", "", f"{_DEVICE} of CUDA graphs", "The graph that it is part of."),
    Attribute(GRAPH_NODE_ID, "int", "", f"{_DEVICE} of CUDA graphs", "The node of the graph that it is."),
    Attribute(SYNC_STREAM_ID, "int", "", _SYNCS, "The stream that was waited for, or that waited."),
    Attribute(SYNC_EVENT_ID, "int", "", _SYNCS, "The CUDA event that was waited for."),
    Attribute(SYNC_CORRELATION_ID, "int", "", _SYNCS, "The number of the call that recorded the CUDA event."),
    Attribute(
        CORRELATION_ID,
        "int",
        "",
        f"{_DEVICE}, what launched one of them",
        "The same number on a kernel and on the span that launched it.",
    ),
    Attribute(
        CORRELATION_IDS,
        "int[]",
        "",
        "spans that launched several",
        "The numbers of what the span launched, up to 32.",
    ),
    Attribute(
        MEMORY_ALLOCATED_BYTES,
        "int",
        "By",
        _WITH_MEMORY,
        "Allocated on the CPU by the span and all within it on its thread; by a step, on all threads.",
    ),
    Attribute(MEMORY_FREED_BYTES, "int", "By", _WITH_MEMORY, "Freed on the CPU, counted likewise."),
    Attribute(
        MEMORY_PEAK_BYTES, "int", "By", _WITH_MEMORY, "The most that was held more than when the span began."
    ),
    Attribute(
        MEMORY_FAILED_BYTES,
        "int",
        "By",
        "spans in which memory ran out",
        "The largest request that failed; the status of the span is an error.",
    ),
    Attribute(DEVICE_MEMORY_ALLOCATED_BYTES, "int", "By", _WITH_MEMORY, "As on the CPU, on all devices."),
    Attribute(DEVICE_MEMORY_FREED_BYTES, "int", "By", _WITH_MEMORY, "As on the CPU, on all devices."),
    Attribute(DEVICE_MEMORY_PEAK_BYTES, "int", "By", _WITH_MEMORY, "As on the CPU, on all devices."),
    Attribute(
        LINK_TYPE,
        "string",
        "",
        "links; both spans of a link",
        "Why two spans are linked: `forward_backward`, `launch`, `previous_step`, `context`, `request`, "
        "`crossing`, `other`. On a span with links of several types they are joined by commas. Steps carry "
        "it on their links only.",
    ),
    Attribute(FOLDED_COUNT, "int", "{event}", _FOLDED, "Events that became part of this span."),
    Attribute(FOLDED_TIME_NS, "int", "ns", _FOLDED, "Their CPU self time."),
    Attribute(
        FOLDED_DEVICE_TIME_NS,
        "int",
        "ns",
        "lanes and steps with folded kernels, copies or memsets",
        "Durations of these. With the durations of the kernel spans that were kept it makes the trace's "
        "whole device time.",
    ),
    Attribute(
        FOLDED_NAMES,
        "string[]",
        "",
        _FOLDED,
        "Up to five names, the longest in total first, each with its count: `aten::add (12)`.",
    ),
    Attribute(
        STEP_NUMBER, "int", "", "steps", "Number of the step, from 0; of torch's profiler where it marked it."
    ),
    Attribute(STEP_PHASE, "string", "", "steps", "`train`, `eval` or `infer`, where known."),
    Attribute(
        STEP_PARTIAL,
        "boolean",
        "",
        "steps",
        "True: recording began or ended within it.",
    ),
    Attribute(
        STEP_CROSSING,
        "boolean",
        "",
        "spans not within their step",
        "True: the span began in the step and outlasts it, or lies outside all steps. It stands beside the "
        "step, under the step's parent, with a link to the step.",
    ),
    Attribute(
        CPU_COUNTER,
        "int",
        "",
        _COUNTED,
        "What a perf event counted: on the thread, in a step on all threads. The name ends in that of the "
        "event, its letters made small and whatever is neither letter nor digit an underscore: "
        "`cache-misses` is `torch.cpu.cache_misses`, `cycles:u` is `torch.cpu.cycles_u`. `task_clock` and "
        "`cpu_clock` are ns.",
    ),
    Attribute(
        CPU_ESTIMATED,
        "string[]",
        "",
        _COUNTED,
        "Those of the attributes above that were scaled up, as the event had to share the processor's "
        "counters.",
    ),
)


# Of the events on the spans of steps in which an anti-pattern was found.
_FOUND = "findings"
_PLACED = "findings with a known place"
PATTERN_ATTRIBUTES = (
    Attribute(PATTERN_NAME, "string", "", _FOUND, "Which one it is: see [patterns](patterns.md)."),
    Attribute(PATTERN_TITLE, "string", "", _FOUND, "What it is, in words."),
    Attribute(PATTERN_SEVERITY, "string", "", _FOUND, "`low`, `medium` or `high`."),
    Attribute(PATTERN_CONFIDENCE, "string", "", _FOUND, "`medium` or `high`."),
    Attribute(PATTERN_DETAIL, "string", "", _FOUND, "What was seen, in words."),
    Attribute(CODE_FUNCTION_NAME, "string", "", _PLACED, "The function of the program that it is in."),
    Attribute(CODE_FILE_PATH, "string", "", _PLACED, "The file of that function."),
    Attribute(CODE_LINE_NUMBER, "int", "", _PLACED, "Where its definition begins."),
    Attribute(PATTERN_MODULE, "string", "", _FOUND, "Paths of the modules that it is in."),
    Attribute(PATTERN_OP, "string", "", _FOUND, "Names of the ops that show it."),
    Attribute(PATTERN_COUNT, "int", "{event}", _FOUND, "How many events of this step show it."),
    Attribute(PATTERN_COST_NS, "int", "ns", _FOUND, "What it takes of this step, on the host or the device."),
    Attribute(PATTERN_SAVING_MIN_NS, "int", "ns", _FOUND, "What mending it saves of that at least."),
    Attribute(PATTERN_SAVING_MAX_NS, "int", "ns", _FOUND, "What mending it saves of that at most."),
    Attribute(PATTERN_ADVICE, "string", "", _FOUND, "How to mend it."),
    Attribute(PATTERN_URL, "string", "", _FOUND, "Where there is more about it."),
)


_INTRODUCTION = f"""\
# Semantic conventions

<!-- Made from src/otel_torchprof/semconv.py by `python -m otel_torchprof.semconv`: change that. -->

The spans that otel-torchprof sends, and their attributes. All spans are of kind INTERNAL with
status unset, but for those that raised or ran out of memory; names have at most 255 characters,
text values at most 2,047 bytes. The schema URL is
`{SCHEMA_URL}`.

Back ends do not join over links, and some drop the attributes of links. So what a link says also
stands as attributes on both of its spans: search for a `torch.correlation_id`, or for a
`torch.sequence_number` together with `torch.forward_thread.id` and `torch.autograd_thread.id`.
"""

_EVENTS = f"""\
## Span events

With `OTEL_PYTHON_TORCHPROF_PATTERNS` (see [configuration](configuration.md)) the span of a step has an
event `{PATTERN_EVENT}` for each anti-pattern that was found in it, at the time of the first thing that shows
it. Findings of low confidence are left out.
"""

_RESOURCE = """\
## Resource

The resource of the program's tracer provider, without `process.command_args` and
`process.command_line`, which may hold secrets, and with:

| attribute | type | meaning |
|---|---|---|
| `service.name` | string | Where none is set, the name of the script, or of the module after `python -m`. |
| `service.instance.id` | string | `run/rank/restart`; after a restart of the job only the last is another. |
| `torch.rank` | int | Rank of the process; 0 outside a distributed job. |
| `torch.world_size` | int | Number of processes; 1 outside a distributed job. |
"""

_FOLDING = """\
## Folding

A trace holds at most `MAX_SPANS_PER_TRACE` spans and `MAX_TRACE_BYTES` bytes (see
[configuration](configuration.md)). Above that, the cheapest subtrees become part of the span that
encloses them, which counts them in `torch.folded.*`. The cost of a subtree is the larger of its CPU
self time and its device time; spans on devices have half of the budget, and either side has what
the other leaves. The outermost events that make up 95 % of the step's own thread are kept before
all others. A link to or from a folded span moves to the span it became part of.

Nothing is lost: in each trace, the sum of `torch.self_time_ns` and `torch.folded.time_ns` over all
spans is the same whatever the budget, to the nanosecond, and so is the sum of the durations of
kernels, copies and memsets and of `torch.folded.device_time_ns`.
"""


def render_page() -> str:
    """The text of docs/semantic-conventions.md."""
    from otel_torchprof.semconv_batch import BATCH_ATTRIBUTES, BATCH_EVENTS

    lines = [_INTRODUCTION, "## Spans", "", "| event | span name | parent | links |", "|---|---|---|---|"]
    lines += [f"| {kind.event} | {kind.name} | {kind.parent} | {kind.links} |" for kind in SPAN_KINDS]
    lines += ["", "## Attributes", "", *_table(SPAN_ATTRIBUTES), "", _EVENTS, *_table(PATTERN_ATTRIBUTES)]
    lines += ["", BATCH_EVENTS, *_table(BATCH_ATTRIBUTES)]
    return "\n".join([*lines, "", _RESOURCE, _FOLDING])


def _table(attributes: tuple[Attribute, ...]) -> list[str]:
    return [
        "| attribute | type | unit | on | meaning |",
        "|---|---|---|---|---|",
        *(
            f"| `{attribute.name}` | {attribute.type} | {attribute.unit} | {attribute.on} "
            f"| {attribute.meaning} |"
            for attribute in attributes
        ),
    ]


if __name__ == "__main__":
    print(render_page(), end="")
