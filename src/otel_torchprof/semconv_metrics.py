"""The names of metrics: what each counts, instrument, unit, attributes, and the question it answers.

`docs/metrics.md` is made from this module; dashboards and alerts in `collector-config/` use no other names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

InstrumentKind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `unit` is a UCUM code; `bounds` are the upper bounds of a histogram's explicit buckets.

    `series` says how many of it one rank makes at most; `is_opt_in` those not there unless asked for.
    """

    name: str
    kind: InstrumentKind
    unit: str
    attributes: tuple[str, ...]
    meaning: str
    question: str
    series: str
    bounds: tuple[float, ...] = ()
    is_opt_in: bool = False


# Attributes.
OP_NAME = "torch.op.name"
KERNEL_NAME = "torch.kernel.name"
PHASE = "torch.phase"
STEP_PHASE = "torch.step.phase"
CUDA_DEVICE_INDEX = "cuda.device.index"
MEMCPY_KIND = "torch.memcpy.kind"
DEVICE_WORK = "torch.device.work"
MEMORY_STATE = "torch.memory.state"
COLLECTIVE_NAME = "torch.collective.name"
COLLECTIVE_GROUP = "torch.collective.group"
REASON = "torchprof.reason"
STATE = "torchprof.state"
GC_GENERATION = "torch.python.gc.generation"
CPU_COUNTER = "torch.cpu.counter"
PATTERN_NAME = "torch.pattern.name"

# The states of the recorder: the modes, and what it switches itself to when it takes too much.
TRIPPED = "tripped"
RECORDER_STATES = ("both", "metrics", "trace", "off", TRIPPED)

# What stands for all names beyond the top ones, and how many those are.
OTHER = "other"
TOP_NAMES = 40

# Powers of two, so that each bucket is also one of an exponential histogram of scale 0.
SHORT_BOUNDS_S = tuple(2.0**exponent for exponent in range(-20, 5))  # 1 us to 16 s
STEP_BOUNDS_S = tuple(0.001 * 2.0**exponent for exponent in range(20))  # 1 ms to 524 s

OP_CALLS = "torch.op.calls"
OP_TIME = "torch.op.time"
OP_SELF_TIME = "torch.op.self_time"
OP_DURATION = "torch.op.duration"
KERNEL_LAUNCHES = "torch.kernel.launches"
KERNEL_TIME = "torch.kernel.time"
KERNEL_DURATION = "torch.kernel.duration"
KERNEL_LAUNCH_DELAY = "torch.kernel.launch_delay"
COLLECTIVE_DURATION = "torch.collective.duration"
COLLECTIVE_WAIT = "torch.collective.wait"
MEMCPY_TIME = "torch.memcpy.time"
MEMCPY_SIZE = "torch.memcpy.size"
DEVICE_BUSY_TIME = "torch.device.busy_time"
DEVICE_MEMORY_USAGE = "torch.device.memory.usage"
DEVICE_MEMORY_LIMIT = "torch.device.memory.limit"
MEMORY_OOM = "torch.memory.oom"
STEP_DURATION = "torch.step.duration"
DATALOADER_WAIT = "torch.dataloader.wait"
STEP_LAST_TIMESTAMP = "torch.step.last_timestamp"
STEP_NUMBER = "torch.step.number"
STEP_SKIPPED = "torch.step.skipped"
COMPILE_RECOMPILATIONS = "torch.compile.recompilations"
PYTHON_GC_PAUSE = "torch.python.gc_pause"
CPU_COUNT = "torch.cpu.count"
PATTERN_FINDINGS = "torch.pattern.findings"
EVENTS_RECORDED = "torchprof.events.recorded"
EVENTS_DROPPED = "torchprof.events.dropped"
TEXTS_REDACTED = "torchprof.texts.redacted"
OVERHEAD = "torchprof.overhead"
RECORDER_STATE = "torchprof.state"
EXPORT_SPANS = "torchprof.export.spans"
EXPORT_SIZE = "torchprof.export.size"
EXPORT_FAILED_SPANS = "torchprof.export.failed_spans"
EXPORT_RECORDINGS = "torchprof.export.recordings"
EXPORT_DROPPED_RECORDINGS = "torchprof.export.dropped_recordings"

_BY_OP = (OP_NAME, PHASE)
_BY_KERNEL = (KERNEL_NAME, CUDA_DEVICE_INDEX)
_BY_COLLECTIVE = (COLLECTIVE_NAME, COLLECTIVE_GROUP)
_OP_SERIES = "41 names x 4 phases"
_KERNEL_SERIES = "41 names x devices"

METRICS = (
    Metric(
        OP_CALLS,
        "counter",
        "{call}",
        _BY_OP,
        "Calls of the operator that have ended.",
        "How often does the program call what?",
        _OP_SERIES,
    ),
    Metric(
        OP_TIME,
        "counter",
        "s",
        _BY_OP,
        "Time between start and end of the operator, what it called included.",
        "Which operators, with all they call, take the time of the CPU threads?",
        _OP_SERIES,
    ),
    Metric(
        OP_SELF_TIME,
        "counter",
        "s",
        _BY_OP,
        "Time of the operator without what it called on its own thread: adds up over names.",
        "Where does the time of the CPU threads go?",
        _OP_SERIES,
    ),
    Metric(
        OP_DURATION,
        "histogram",
        "s",
        _BY_OP,
        "Durations of the operator.",
        "Are a few calls slow, or all of them?",
        f"{_OP_SERIES} x {len(SHORT_BOUNDS_S) + 3}",
        SHORT_BOUNDS_S,
        is_opt_in=True,
    ),
    Metric(
        KERNEL_LAUNCHES,
        "counter",
        "{launch}",
        _BY_KERNEL,
        "Kernels that have run.",
        "How often does which kernel run?",
        _KERNEL_SERIES,
    ),
    Metric(
        KERNEL_TIME,
        "counter",
        "s",
        _BY_KERNEL,
        "Time between start and end of the kernel on the device.",
        "Which kernels take the time of the device?",
        _KERNEL_SERIES,
    ),
    Metric(
        KERNEL_DURATION,
        "histogram",
        "s",
        _BY_KERNEL,
        "Durations of the kernel.",
        "Is a kernel slow always or sometimes?",
        f"{_KERNEL_SERIES} x {len(SHORT_BOUNDS_S) + 3}",
        SHORT_BOUNDS_S,
        is_opt_in=True,
    ),
    Metric(
        KERNEL_LAUNCH_DELAY,
        "histogram",
        "s",
        (CUDA_DEVICE_INDEX,),
        "From the end of the launching call to the start of the kernel.",
        "Does the device wait for the program (short), or queue work (long)?",
        f"devices x {len(SHORT_BOUNDS_S) + 3}",
        SHORT_BOUNDS_S,
    ),
    Metric(
        COLLECTIVE_DURATION,
        "histogram",
        "s",
        _BY_COLLECTIVE,
        "Durations of collective kernels or operators.",
        "Which communication takes the time?",
        f"collectives x groups x {len(SHORT_BOUNDS_S) + 3}",
        SHORT_BOUNDS_S,
    ),
    Metric(
        COLLECTIVE_WAIT,
        "histogram",
        "s",
        _BY_COLLECTIVE,
        "What a collective took longer than the shortest of its kind and size in the same recording: the "
        "wait for the last rank.",
        "Which rank do the others wait for? (It waits least.)",
        f"collectives x groups x {len(SHORT_BOUNDS_S) + 3}",
        SHORT_BOUNDS_S,
    ),
    Metric(
        MEMCPY_TIME,
        "counter",
        "s",
        (MEMCPY_KIND, CUDA_DEVICE_INDEX),
        "Time of copies and fills on the device; `HtoD`, `DtoH`, `DtoD`, `PtoP`, `memset`, ...",
        "How long does the device copy, and in which direction?",
        "7 kinds x devices",
    ),
    Metric(
        MEMCPY_SIZE,
        "counter",
        "By",
        (MEMCPY_KIND, CUDA_DEVICE_INDEX),
        "Bytes copied or filled.",
        "How much is copied?",
        "7 kinds x devices",
    ),
    Metric(
        DEVICE_BUSY_TIME,
        "counter",
        "s",
        (CUDA_DEVICE_INDEX, DEVICE_WORK),
        "Time in which at least one piece of work of this kind ran on the device: `compute`, `copy`, "
        "`collective`, and `any` of them.",
        "How much of the time is the device idle?",
        "4 kinds x devices",
    ),
    Metric(
        DEVICE_MEMORY_USAGE,
        "gauge",
        "By",
        (CUDA_DEVICE_INDEX, MEMORY_STATE),
        "Memory of torch's caching allocator: `allocated`, `reserved`, `peak`.",
        "How much memory is used?",
        "3 x devices",
    ),
    Metric(
        DEVICE_MEMORY_LIMIT,
        "gauge",
        "By",
        (CUDA_DEVICE_INDEX,),
        "Memory of a device that the process uses, or the share of it that the process may take.",
        "How much memory is left?",
        "devices",
    ),
    Metric(
        MEMORY_OOM,
        "counter",
        "{request}",
        (CUDA_DEVICE_INDEX,),
        "Requests for memory that failed.",
        "Does the program run out of memory again and again?",
        "devices",
    ),
    Metric(
        STEP_DURATION,
        "histogram",
        "s",
        (STEP_PHASE,),
        "Wall time of steps.",
        "How long do steps take, and which were slow?",
        f"3 phases x {len(STEP_BOUNDS_S) + 3}",
        STEP_BOUNDS_S,
    ),
    Metric(
        DATALOADER_WAIT,
        "histogram",
        "s",
        (STEP_PHASE,),
        "Time in which the program waited for the next batch of a DataLoader.",
        "Is the input too slow?",
        f"3 phases x {len(STEP_BOUNDS_S) + 3}",
        STEP_BOUNDS_S,
    ),
    Metric(
        STEP_LAST_TIMESTAMP,
        "gauge",
        "s",
        (),
        "Unix time at which the last step ended.",
        "Does the program still make steps?",
        "1",
    ),
    Metric(STEP_NUMBER, "gauge", "{step}", (), "Number of the step under way.", "How far is it?", "1"),
    Metric(
        STEP_SKIPPED,
        "counter",
        "{step}",
        (),
        "Steps that a gradient scaler skipped, as gradients were not finite.",
        "Is training unstable?",
        "1",
    ),
    Metric(
        COMPILE_RECOMPILATIONS,
        "counter",
        "{compilation}",
        (),
        "Frames that torch.compile compiled again after the first time.",
        "Does the program compile again and again?",
        "1",
    ),
    Metric(
        PYTHON_GC_PAUSE,
        "counter",
        "s",
        (GC_GENERATION,),
        "Time in Python's garbage collector.",
        "Does the collector hold up steps?",
        "3 generations",
    ),
    Metric(
        CPU_COUNT,
        "counter",
        "{event}",
        (CPU_COUNTER,),
        "Events of the processor or the kernel, of all threads, in captured steps, as `COUNTERS` names them.",
        "Is the CPU side held up by memory, page faults, the scheduler?",
        "counters",
    ),
    Metric(
        PATTERN_FINDINGS,
        "counter",
        "{finding}",
        (PATTERN_NAME,),
        "Anti-patterns found in recorded steps, one for each place in each recording; those of low "
        "confidence are left out.",
        "What is known to make the program slow?",
        "patterns",
        is_opt_in=True,
    ),
    Metric(
        EVENTS_RECORDED,
        "counter",
        "{event}",
        (),
        "Events counted or recorded.",
        "Does the recorder work?",
        "1",
    ),
    Metric(
        EVENTS_DROPPED,
        "counter",
        "{event}",
        (REASON,),
        "Events that were lost, by reason.",
        "Can the numbers be trusted?",
        "16 reasons",
    ),
    Metric(
        TEXTS_REDACTED,
        "counter",
        "{text}",
        (REASON,),
        "Distinct texts sent as `redacted`, as the redaction hook gave none for them, by reason.",
        "Does the redaction hook work?",
        "3 reasons",
        is_opt_in=True,
    ),
    Metric(
        OVERHEAD,
        "gauge",
        "1",
        (),
        "Share of the program's time that measuring takes: of its threads for ops, and of ours for exports.",
        "What does it cost?",
        "1",
    ),
    Metric(
        RECORDER_STATE,
        "gauge",
        "{state}",
        (STATE,),
        "1 for the state it is in: `both`, `metrics`, `trace`, `off`, `tripped`.",
        "Is it on?",
        "5 states",
    ),
    Metric(EXPORT_SPANS, "counter", "{span}", (), "Spans that were delivered.", "Do traces arrive?", "1"),
    Metric(
        EXPORT_SIZE,
        "counter",
        "By",
        (),
        "Bytes of delivered spans, before compression.",
        "How much is sent?",
        "1",
    ),
    Metric(
        EXPORT_FAILED_SPANS,
        "counter",
        "{span}",
        (REASON,),
        "Spans that were not delivered, by reason.",
        "Why do traces not arrive?",
        "10 reasons",
    ),
    Metric(
        EXPORT_RECORDINGS,
        "counter",
        "{recording}",
        (),
        "Recordings all of whose spans were tried.",
        "Do traces leave?",
        "1",
    ),
    Metric(
        EXPORT_DROPPED_RECORDINGS,
        "counter",
        "{recording}",
        (REASON,),
        "Recordings whose spans were not tried, by reason.",
        "Why are traces missing?",
        "10 reasons",
    ),
)
METRIC_BY_NAME = {metric.name: metric for metric in METRICS}
