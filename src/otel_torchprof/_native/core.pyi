# --- Recordings ---

import os
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Span: TypeAlias = tuple[bytes, bytes]  # trace id, span id
# start ns, end ns, number, track, phase, flags, context, its trace flags, links; the name is for typing only
StepFields: TypeAlias = tuple[int, int, int, int, int, int, _Span, int, list[_Span]]

# row, context, its trace flags, whether the event is that span, links
ContextFields: TypeAlias = tuple[int, _Span, int, bool, list[_Span]]

class Tree:
    @property
    def parent(self) -> npt.NDArray[np.int64]: ...
    @property
    def self_ns(self) -> npt.NDArray[np.int64]: ...

class Recording:
    def __len__(self) -> int: ...
    @property
    def start_ns(self) -> npt.NDArray[np.int64]: ...
    @property
    def end_ns(self) -> npt.NDArray[np.int64]: ...
    @property
    def name(self) -> npt.NDArray[np.uint32]: ...
    @property
    def track(self) -> npt.NDArray[np.uint32]: ...
    @property
    def kind(self) -> npt.NDArray[np.uint8]: ...
    @property
    def scope(self) -> npt.NDArray[np.uint8]: ...
    @property
    def flags(self) -> npt.NDArray[np.uint16]: ...
    @property
    def sequence(self) -> npt.NDArray[np.int64]: ...
    @property
    def forward_thread(self) -> npt.NDArray[np.uint32]: ...
    @property
    def end_track(self) -> npt.NDArray[np.uint32]: ...
    @property
    def payload(self) -> npt.NDArray[np.uint64]: ...
    @property
    def correlation(self) -> npt.NDArray[np.int64]: ...
    @property
    def error(self) -> npt.NDArray[np.uint32]: ...
    @property
    def link_from(self) -> npt.NDArray[np.uint64]: ...
    @property
    def link_to(self) -> npt.NDArray[np.uint64]: ...
    @property
    def link_type(self) -> npt.NDArray[np.uint32]: ...
    # Records of the tables beside the events: see recording/side_tables.py.
    @property
    def device_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def counter_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def tensor_role_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def memory_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def arguments_records(self) -> npt.NDArray[np.uint8]: ...
    # name, kind, process id, thread id, torch thread id, device, context
    @property
    def tracks(self) -> list[tuple[str, int, int, int, int, int, int]]: ...
    @property
    def steps(self) -> list[StepFields]: ...
    @property
    def contexts(self) -> list[ContextFields]: ...
    @property
    def string_count(self) -> int: ...
    def string(self, id: int, /) -> str: ...
    def overload(self, id: int, /) -> str: ...
    @property
    def metadata_json(self) -> list[bytes]: ...
    @property
    def problems(self) -> dict[str, int]: ...
    @property
    def drops(self) -> dict[str, int]: ...
    @property
    def first_ns(self) -> int: ...
    @property
    def last_ns(self) -> int: ...
    @property
    def clock_source(self) -> int: ...
    @property
    def process_id(self) -> int: ...
    @property
    def process_instance(self) -> int: ...
    @property
    def stopped(self) -> bool: ...
    # ValueError for damaged inputs, IndexError for no such row
    def inputs(self, row: int) -> list[Any] | None: ...
    # by row, example row by id - 1, damaged inputs
    def input_shape_ids(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64], int]: ...
    # records of native/core/tensor_table.h, damaged inputs
    def tensor_records(self) -> tuple[npt.NDArray[np.uint8], int]: ...
    def tree(self) -> Tree: ...
    # by row, 1 for a function of the backward pass
    def backward_events(self) -> npt.NDArray[np.uint8]: ...
    # backward rows, forward rows
    def forward_backward_links(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]: ...
    # allocated, freed, self allocated, self freed, peak bytes by row
    def memory_by_event(
        self, tree: Tree, on_devices: bool
    ) -> tuple[
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
    ]: ...
    # name id, kind, first row, calls, total ns, self ns by group; bytes, self bytes of the host, bytes, self
    # bytes of devices by group, empty without memory; damaged inputs
    def averages(
        self, tree: Tree, by_overload: bool, by_shapes: bool, ranges: Sequence[tuple[int, int]] | None
    ) -> tuple[
        npt.NDArray[np.uint32],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        int,
    ]: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def redacted(self, replace: Callable[[str], str]) -> Recording: ...

# OSError when it cannot be read, RuntimeError when it is no recording
def open_recording(path: str | os.PathLike[str]) -> Recording: ...

class RecordingBuilder:
    def __init__(self) -> None: ...
    def add_string(self, name: bytes, overload: bytes = b"") -> int: ...
    def add_track(
        self,
        name: bytes,
        kind: int,
        process_id: int,
        thread_id: int,
        torch_thread_id: int,
        device: int,
        context: int,
    ) -> int: ...
    def add_event(
        self,
        start_ns: int,
        end_ns: int,
        name: int,
        track: int,
        kind: int,
        scope: int,
        flags: int,
        sequence: int,
        forward_thread: int,
        end_track: int,
        correlation: int,
        error: int,
        inputs: bytes,
    ) -> int: ...
    def add_events(
        self,
        start_ns: npt.NDArray[np.int64],
        end_ns: npt.NDArray[np.int64],
        name: npt.NDArray[np.uint32],
        track: npt.NDArray[np.uint32],
        kind: npt.NDArray[np.uint8] | None = None,
        scope: npt.NDArray[np.uint8] | None = None,
        flags: npt.NDArray[np.uint16] | None = None,
        sequence: npt.NDArray[np.int64] | None = None,
        forward_thread: npt.NDArray[np.uint32] | None = None,
        end_track: npt.NDArray[np.uint32] | None = None,
        correlation: npt.NDArray[np.int64] | None = None,
        payload: npt.NDArray[np.uint64] | None = None,
        error: npt.NDArray[np.uint32] | None = None,
    ) -> None: ...
    # `keep`: 0 or 1 for each event; `track_of`: a track of this builder, or NO_TRACK, for each track.
    def add_events_of(
        self, source: Recording, keep: npt.NDArray[np.uint8], track_of: npt.NDArray[np.uint32]
    ) -> None: ...
    def add_payload(self, inputs: bytes) -> int: ...
    # Records of the tables beside the events: see recording/side_tables.py.
    def add_device_records(self, records: npt.NDArray[np.uint8]) -> None: ...
    def add_counter_records(self, records: npt.NDArray[np.uint8]) -> None: ...
    def add_memory_records(self, records: npt.NDArray[np.uint8]) -> None: ...
    def add_arguments_records(self, records: npt.NDArray[np.uint8]) -> None: ...
    def add_step(
        self,
        start_ns: int,
        end_ns: int,
        number: int,
        track: int,
        phase: int,
        flags: int,
        context: _Span | None,
        context_trace_flags: int,
        links: Sequence[_Span],
    ) -> None: ...
    def add_link(self, from_event: int, to_event: int, type: int) -> None: ...
    def add_links(
        self, from_event: npt.NDArray[np.uint64], to_event: npt.NDArray[np.uint64], type: int
    ) -> None: ...
    def add_tensor_role_records(self, records: npt.NDArray[np.uint8]) -> None: ...
    def add_metadata(self, json_object: bytes) -> None: ...
    def add_drops(self, reason: str, count: int) -> None: ...
    def set_process(self, process_id: int, process_instance: int) -> None: ...
    def set_this_process(self) -> None: ...
    def set_stopped(self, stopped: bool) -> None: ...
    def cover(self, start_ns: int, end_ns: int) -> None: ...
    def finish(self) -> Recording: ...
    # Counts of slices cut to what they lie in, cut to what follows, and left crossing.
    def finish_mended(self, rounding_ns: int, stream_ns: int) -> tuple[Recording, tuple[int, int, int]]: ...

# --- Spans ---

_AttributeValue: TypeAlias = str | int | bool | tuple[str, ...] | tuple[int, ...]
# trace id, span id, link type
_RootLink: TypeAlias = tuple[bytes, int, str]
# name, time, attributes
_RootEvent: TypeAlias = tuple[str, int, Sequence[tuple[str, int | str]]]
# trace id, span id, parent span id, trace flags, start ns, end ns, step, number, name, links, events, rows,
# is external
_Root: TypeAlias = tuple[
    bytes,
    int,
    int,
    int,
    int,
    int,
    int,
    int,
    str,
    Sequence[_RootLink],
    Sequence[_RootEvent],
    Sequence[int],
    bool,
]
# trace id, span id, attributes
_Link: TypeAlias = tuple[int, int, dict[str, _AttributeValue]]
# name, time, attributes
_Event: TypeAlias = tuple[str, int, dict[str, _AttributeValue]]
# name, trace id, span id, parent span id, start ns, end ns, attributes, links, events, error (empty = none)
_SpanFields: TypeAlias = tuple[
    str, int, int, int, int, int, dict[str, _AttributeValue], list[_Link], list[_Event], str
]

class SpanPlan:
    def __len__(self) -> int: ...
    def span(self, index: int) -> _SpanFields: ...
    def encode(
        self,
        resource: bytes,
        scope_name: str,
        scope_version: str,
        schema_url: str,
        max_request_bytes: int,
        max_request_spans: int,
    ) -> OtlpRequestStream: ...
    # trace id, span id, spans, folded events, largest size in bytes, ns of device time
    def stats(self) -> list[tuple[int, int, int, int, int, int]]: ...

# payload, spans, stripped spans
class OtlpRequestStream:
    def __iter__(self) -> OtlpRequestStream: ...
    def __next__(self) -> tuple[bytes, int, int]: ...

def plan_spans(
    recording: Recording,
    roots: Sequence[_Root],
    max_spans_per_trace: int,
    max_trace_bytes: int,
    min_span_duration_ns: int,
    runtime_spans: bool,
) -> SpanPlan: ...
def step_ids(run_id: str, restart: int, rank: int, number: int) -> tuple[int, int]: ...
def capture_ids(recording: Recording) -> tuple[int, int]: ...
def span_attribute_names() -> list[str]: ...
def span_name(recorded: bytes, kind: int) -> str: ...

# --- Capture ---

class OpAggregator:
    """Counts every op by name and phase without recording it; one at a time in a process.

    In the child of a fork one that was made in the parent is lost: it has counted nothing.
    """

    def __init__(self, max_names: int, with_durations: bool) -> None:
        """Prepares to count; nothing is counted before `start()` and a weight.

        Args:
            max_names: different names that are told apart, 1 to 1,048,576.
            with_durations: whether to keep a histogram of durations for each name and phase.

        Raises:
            MemoryError: no memory for so many names.
            ValueError: `max_names` is out of range.
        """

    @property
    def counted(self) -> int:
        """Ops that were counted, each once whatever its weight."""

    @property
    def lost_in_fork(self) -> bool:
        """Whether it was made in the process that this one was forked from."""

    def start(self) -> None:
        """Counts from now on what the bridge reports.

        Raises:
            RuntimeError: another counts, or this one is lost.
        """

    def stop(self) -> None:
        """Counts no more; idempotent."""

    def set_weight(self, weight: int) -> None:
        """Makes each op count for `weight` from now on; 0 counts none.

        Raises:
            ValueError: it is above 2^31 - 1.
        """

    def set_inference(self, is_inference: bool) -> None:
        """Says whether ops without a phase of their own belong to a forward pass."""

    def collect(
        self,
    ) -> tuple[
        list[str],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint8],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
        npt.NDArray[np.uint64],
    ]:
        """Everything counted so far, a row for each name and phase.

        Returns:
            Names, phases (native/core/aggregate/phase.h), whether user scopes, calls, total ns, self ns, and
            counts by duration: as many a row as there are buckets, nothing without histograms.
        """

    def drops(self) -> dict[str, int]:
        """What was not counted, or not under its name, by reason."""

class Capture:
    """Records what the hooks of one slot report; once. Nothing here raises into recorded code.

    In the child of a fork a capture that was active in the parent is lost: its methods do nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None, cap_bytes: int) -> None:
        """Creates the recording.

        Args:
            path: the file to record into, replacing a regular file there; None records into memory.
            cap_bytes: bound on everything recorded, 256 KiB to 32 GiB.

        Raises:
            OSError: the file cannot be made, or there is no disk space or memory for a recording.
        """

    @property
    def slot(self) -> int:
        """The slot it records, 0 to 3; -1 while it does not record."""

    @property
    def recorded(self) -> int:
        """Ops recorded so far."""

    @property
    def fallback_reason(self) -> str:
        """Why the recording is in memory although a path was given; empty otherwise."""

    @property
    def lost_in_fork(self) -> bool:
        """Whether it was active in the process that this one was forked from."""

    def start(self) -> int:
        """Claims a slot and returns it.

        Raises:
            RuntimeError: four captures record already, or this one was started before.
        """

    def stop(self) -> None:
        """Waits for threads inside a hook (at most 2 s), ends open ops as unfinished. Idempotent."""

    def begin_step(
        self,
        number: int,
        phase: int,
        flags: int,
        context: bytes,
        context_trace_flags: int,
        links: bytes,
    ) -> None:
        """Begins a step on the calling thread, after ending the open one; nothing while not recording.

        Args:
            number: of the step; -1 = none.
            phase: StepPhase.
            flags: StepFlags.
            context: trace id and span id (24 bytes), or nothing.
            context_trace_flags: trace flags of `context`.
            links: n x 24 bytes of further contexts.

        Raises:
            ValueError: `context` or `links` have another size.
        """

    def end_step(self) -> None:
        """Ends the open step; nothing when there is none."""

    def add_context(self, context: bytes, trace_flags: int, is_root: bool, links: bytes) -> None:
        """Names the span that the innermost event of this thread, which has just begun, belongs under.

        Args:
            context: trace id and span id, 24 bytes.
            trace_flags: of that span.
            is_root: the event itself is that span.
            links: n x 24 bytes of further spans.

        Raises:
            ValueError: `context` or `links` have another size.
        """

    def name_thread(self, os_thread_id: int, name: str) -> None:
        """Names the threads with this id in the recording, in at most 39 bytes; only while it records."""

    def add_metadata(self, json_object: bytes) -> None:
        """Adds one JSON object to the recording's metadata.

        Raises:
            ValueError: it is larger than 1 MiB.
            RuntimeError: the capture has stopped.
        """

    def start_counters(self, names: list[str], over_ops: bool) -> list[tuple[str, bool, str]]: ...
    def stop_counters(self) -> None: ...
    def start_device(
        self,
        cupti_paths: Sequence[str],
        kinds: Sequence[str],
        correlate_ops: bool = True,
        graph_level: bool = False,
        max_buffer_bytes: int = 67_108_864,
    ) -> None:
        """Records the device from now on, once in a capture.

        Args:
            cupti_paths: where libcupti may be, best first, as of device_probe().
            kinds: of "kernel", "memcpy", "memset", "runtime", "driver", "sync" and "overhead".
            correlate_ops: ops push their ids; else they are found by thread and time.
            graph_level: a launched graph is one piece of work, not its nodes.
            max_buffer_bytes: what is not read yet takes no more.

        Raises:
            RuntimeError: it cannot be recorded; the text names cause and way out. The capture goes on.
            ValueError: there is no such kind.
        """

    def start_device_events(self, events: int) -> None:
        """Times ops from now on by events in a device's streams, once in a capture; as start_device().

        Args:
            events: address of a torchprof_device_events that lives as long as the process.

        Raises:
            RuntimeError: the device takes none, or another capture has it; one line with the way out.
        """

    def record_device(self, wanted: bool) -> None:
        """Leaves out what devices are given from now on, or records it again, if any are recorded.

        Raises:
            RuntimeError: CUPTI refused it; one line with the way out.
        """

    def set_own_device_thread(self, thread_id: int) -> None:
        """Calls that this thread of the operating system makes from now on are the recorder's own: neither
        they nor what they wait for is recorded."""

    def stop_device(self) -> bool:
        """What the device has finished is recorded then; idempotent, as stop() does it too. Takes some
        seconds at most; False when what records the device did not end, and records are missing. Who wants
        the work that still runs waits for the device first."""

    def device_counts(self) -> dict[str, int]:
        """Counts of "kernels", "copies", "memsets", "synchronizations", "calls" and "overheads" so far; of
        "unknown_records" and "buffers" that came; "decode_ns" of processor time that reading them took; and
        the "buffer_bytes" that are taken. Drops are in drops()."""

    def intern(self, name: bytes, overload: bytes) -> int:
        """The id of a name, for records; 0 when not recording."""

    def add_tensor_roles(self, records: npt.NDArray[np.uint8]) -> None:
        """Notes what tensors are now: records of recording/side_tables.py, whose times are ignored.

        Raises:
            ValueError: not a whole number of records.
        """

    def drops(self) -> dict[str, int]:
        """What could not be recorded so far: counts by reason, without zeros."""

    def recording(self) -> Recording:
        """What was recorded so far; may be called while recording.

        Raises:
            RuntimeError: the capture is lost in a fork.
        """

def try_counters(names: list[str]) -> tuple[list[tuple[str, bool, str]], float, bool]: ...
def device_probe(cupti_paths: Sequence[str], try_subscribe: bool = False) -> dict[str, Any]:
    """What there is to record a device with; loads it when it is not in the process, and starts the driver of
    CUDA. Never raises.

    Keys: "available"; "reason" why not and what helps, else ""; "library" (a path); "cupti_version" as
    cuptiGetVersion() has it; "driver_version" (13000 is CUDA 13.0, 0 not known); "devices" (-1: not known);
    "properties", a dictionary a device of what is known, with the names of Kineto's traces; "subscriber", who
    else profiles, where `try_subscribe` asks and no capture records.
    """

def bound_recordings(limit_bytes: int) -> None:
    """Bounds the memory that all recordings of this process bring in together; each has 256 KiB all the same.

    What does not fit is dropped and counted as `memory_limit`.
    """

def memory_of_recordings() -> int:
    """Bytes that the recordings of this process have now, those that have stopped included."""

def core_table_address() -> int:
    """Address of the table of functions that a torch bridge calls."""

# --- Modules ---

def start_modules(slot: int, graph_task: Callable[[], int], outermost_only: bool) -> None:
    """Lets the capture in a slot record the calls that `begin_module` reports.

    Args:
        graph_task: torch's function that gives the number of the backward pass on the calling thread.
        outermost_only: only calls that no other is around.
    """

# root class, path, class, module or None
def stop_modules(slot: int) -> list[tuple[str, str, str, Any]]:
    """Ends that, and returns the modules that were called: each path of each root once."""

def forget_modules() -> None:
    """In the child of a fork: nothing is recorded any more."""

def begin_module(module: object) -> bool:
    """Begins a call; False when nothing was recorded, and nothing is to be ended."""

def fail_module(module: object, error_type: type[BaseException]) -> None:
    """Notes that the innermost open call of a module on the calling thread is ended by an exception."""

def end_module(module: object) -> None:
    """Ends the innermost open call of a module on the calling thread."""

# --- Ranges for other tools ---

def start_op_ranges(begin: Callable[[int, str], object], end: Callable[[int], object]) -> int:
    """Calls `begin(key, text)` and `end(key)` for each op, on its thread; the slot, -1 when none is free."""

def stop_op_ranges(slot: int) -> None: ...
def forget_op_ranges() -> None:
    """In the child of a fork: nothing is called any more."""

# --- User scopes ---

class Span:
    """A scope of the program: see `span`."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def __call__(self, function: _Function, /) -> _Function: ...

def span(name: str, /) -> Span:
    """A scope of the program under a name, as a context manager or a decorator.

    Raises:
        TypeError: the name is no str, or what is decorated no function.
    """

def set_span_decorator(decorate: Callable[[Callable[..., Any], str], Callable[..., Any]]) -> None:
    """Sets what a span decorates with: it gets the function and the name."""

def set_span_observer(observer: Callable[[], object] | None) -> None:
    """Sets who is told of every scope that has begun; None = nobody. What it raises is dropped."""

def record_scopes(slot: int, wanted: bool) -> None:
    """Whether a capture slot records the spans that begin from now on."""

def count_scopes(wanted: bool) -> None:
    """Whether the spans that begin from now on are counted, where ops are counted."""

# --- Python calls ---

def start_python_frames(
    slot: int, own_package: str, standard_library: str, site_packages: str, own_threads: Sequence[int]
) -> None:
    """Records the Python calls of all threads into the capture of a slot.

    Args:
        slot: of a capture that has started.
        own_package: folder whose frames are not recorded, with a separator at its end; likewise the others.
        standard_library: folder whose frames are not recorded where `own_package` calls them.
        site_packages: folder inside `standard_library` that is not part of it.

    Raises:
        RuntimeError: this Python cannot.
    """

def watch_python_threads(own_threads: Sequence[int]) -> None:
    """Records the threads that have come since, and those that another profiler has left.

    Args:
        own_threads: idents of threads that are left out.
    """

def watch_current_python_thread() -> None:
    """Records the calling thread, if a capture wants Python calls."""

def stop_python_frames(slot: int) -> None:
    """Ends recording into a slot, and gives threads their own profile functions back; idempotent."""

# --- pickles ---

# In one line; empty where nothing stands in the way of unpickling it as plain data.
def why_not_plain_pickle(pickle: npt.NDArray[np.uint8], max_memory_bytes: int) -> str: ...

# --- Chrome traces ---

# Counts by name. What `write` raises comes through; it gets pieces of about 1 MiB.
def write_chrome(
    recording: Recording,
    header: bytes,
    process_names: dict[int, bytes],
    categories_of_2021: bool,
    left_out_kinds: Sequence[int],
    occupancy_percent: bytes,  # float32 of each row of the device records
    write: Callable[[bytes], object],
) -> dict[str, int]: ...

# --- Chrome traces, read ---

NO_TEXT: int  # stands for no text in a column of numbers

class TraceState(Enum):
    READING = 0  # sound so far
    WHOLE = 1  # the document has ended
    MALFORMED = 2  # no JSON, or `traceEvents` is no array

# Columns of complete events, records beside them, columns of flows; texts by number of the scanner's tables.
class TraceBlock:
    @property
    def start_ns(self) -> npt.NDArray[np.int64]: ...
    @property
    def duration_ns(self) -> npt.NDArray[np.int64]: ...
    @property
    def name(self) -> npt.NDArray[np.uint32]: ...
    @property
    def category(self) -> npt.NDArray[np.uint32]: ...
    @property
    def place(self) -> npt.NDArray[np.uint32]: ...
    @property
    def inputs(self) -> npt.NDArray[np.uint32]: ...
    @property
    def flags(self) -> npt.NDArray[np.uint16]: ...
    @property
    def sequence(self) -> npt.NDArray[np.int64]: ...
    @property
    def forward_thread(self) -> npt.NDArray[np.uint32]: ...
    @property
    def correlation(self) -> npt.NDArray[np.int64]: ...
    @property
    def external_id(self) -> npt.NDArray[np.int64]: ...
    @property
    def device_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def arguments_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def memory_records(self) -> npt.NDArray[np.uint8]: ...
    @property
    def flow_category(self) -> npt.NDArray[np.uint32]: ...
    @property
    def flow_id(self) -> npt.NDArray[np.int64]: ...
    @property
    def flow_is_start(self) -> npt.NDArray[np.uint8]: ...
    @property
    def flow_place(self) -> npt.NDArray[np.uint32]: ...
    @property
    def flow_time_ns(self) -> npt.NDArray[np.int64]: ...
    @property
    def arguments_left_out(self) -> int: ...
    # the texts of all other events
    @property
    def others(self) -> list[bytes]: ...

class TraceScanner:
    # by category in lower case: 0 other, 1 work on a device, 2 calls to one, 3 all arguments are counters
    def __init__(self, category_classes: dict[str, int], header_keys: list[str]) -> None: ...
    def feed(self, piece: bytes) -> None: ...
    def finish(self) -> None: ...
    def add_event(self, text: bytes) -> None: ...
    # the events since the last call
    def take(self) -> TraceBlock: ...
    @property
    def state(self) -> TraceState: ...
    @property
    def has_events(self) -> bool: ...
    # while reading: nothing but more events is missing, and a search would find the same
    @property
    def is_among_events(self) -> bool: ...
    @property
    def is_in_event(self) -> bool: ...
    @property
    def arrays_begun(self) -> int: ...
    # JSON by key
    @property
    def header(self) -> dict[str, bytes]: ...
    # JSON of name, overload name and hexadecimal bytes; empty = none
    def names(self, first: int) -> list[tuple[bytes, ...]]: ...
    def categories(self, first: int) -> list[bytes]: ...
    # process and thread
    def places(self, first: int) -> list[tuple[bytes, ...]]: ...
    # sizes, types, strides and values
    def inputs(self, first: int) -> list[tuple[bytes, ...]]: ...
    def arguments(self, first: int) -> list[bytes]: ...

# What no column holds of the arguments of an event, as JSON; empty = nothing. ValueError when too long.
def other_arguments(event: bytes, category_class: int) -> bytes: ...
