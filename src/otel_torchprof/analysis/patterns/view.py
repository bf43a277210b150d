"""What patterns look at: a recording's columns and what follows from them, computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.launches import WORK_KINDS, launches
from otel_torchprof.analysis.merged_stacks import depths, nearest
from otel_torchprof.analysis.patterns.finding import Numbers, Place
from otel_torchprof.analysis.patterns.user_code import is_user_code
from otel_torchprof.analysis.steps import NO_PROBLEMS, NO_STEP, StepTimes
from otel_torchprof.recording import EventKind, InputValue, MemoryFlags, Recording, TensorInput

NONE = NO_STEP  # stands for no row, no step
Mask = npt.NDArray[np.bool_]
Sizes = tuple[int, ...]

_CALL_KINDS = (EventKind.RUNTIME, EventKind.DRIVER)
_MODULE_NAME_PREFIX = "nn.Module: "  # of torch's own profiler


class View:
    """Columns by row, unless something else is said. Rows name events, as everywhere.

    Args:
        problems: what was wrong with the file that the recording was read from.
    """

    def __init__(self, recording: Recording, problems: Mapping[str, int] = NO_PROBLEMS) -> None:
        self.recording = recording
        self._problems = problems
        self.events = recording.events
        self.parent = recording.tree().parent
        self.duration_ns = self.events.end_ns - self.events.start_ns

    def __len__(self) -> int:
        return len(self.recording)

    # What the recording holds.

    @cached_property
    def has_shapes(self) -> bool:
        return bool(self.shape_id.any())

    @cached_property
    def has_stacks(self) -> bool:
        return bool(self.of_kind(EventKind.PYTHON).any())

    @cached_property
    def has_modules(self) -> bool:
        return bool(self.of_kind(EventKind.MODULE).any())

    @cached_property
    def has_device_work(self) -> bool:
        return bool(self.of_kind(*WORK_KINDS).any())

    # Names and kinds.

    def of_kind(self, *kinds: EventKind) -> Mask:
        return np.isin(self.events.kind, kinds)

    def name(self, row: int) -> str:
        return self.recording.event_name(row)

    def where_name(self, wanted: Callable[[str], object]) -> Mask:
        """Whether the name of the event is wanted; each name is asked for once."""
        return self._where(wanted, self.recording.name)

    def where_overload(self, wanted: Callable[[str], object]) -> Mask:
        """Whether what goes with the name is wanted: of a Python function `file:line`."""
        return self._where(wanted, self.recording.overload_name)

    def _where(self, wanted: Callable[[str], object], text: Callable[[int], str]) -> Mask:
        is_wanted = np.zeros(self.recording.name_count, dtype=bool)
        is_wanted[self._used_names] = [bool(wanted(text(name_id))) for name_id in self._used_names.tolist()]
        chosen: Mask = is_wanted[self.events.name]
        return chosen

    def named(self, *names: str) -> Mask:
        return self.where_name(set(names).__contains__)

    def is_at(self, mask: Mask, rows: Numbers) -> Mask:
        """`mask` at these rows, False at `NONE`."""
        chosen: Mask = mask[rows] & (rows != NONE)
        return chosen

    def ops_named(self, *names: str) -> Numbers:
        """Rows of ops with one of these names."""
        return np.flatnonzero(self.named(*names) & self.is_op)

    @cached_property
    def _used_names(self) -> Numbers:
        return np.unique(self.events.name).astype(np.int64)

    @cached_property
    def text_id(self) -> Numbers:
        """A number that is equal where names are, whatever the overload."""
        by_name: dict[str, int] = {}
        of_id = np.zeros(self.recording.name_count, dtype=np.int64)
        for name_id in self._used_names.tolist():
            of_id[name_id] = by_name.setdefault(self.recording.name(name_id), len(by_name) + 1)
        return of_id[self.events.name]

    @cached_property
    def is_op(self) -> Mask:
        return self.of_kind(EventKind.OP)

    # Who encloses whom.

    def around(self, wanted: Mask) -> Numbers:
        """The innermost wanted event around each, not itself."""
        return np.where(self.parent >= 0, nearest(self.parent, wanted)[self.parent], NONE)

    def inside(self, wanted: Mask) -> Mask:
        """Whether a wanted event encloses it."""
        inside: Mask = self.around(wanted) != NONE
        return inside

    def sum_inside(self, values: Numbers) -> Numbers:
        """The sum of `values` over the event and all that it encloses."""
        sums: Numbers = values.copy()
        for level in self._levels:
            np.add.at(sums, self.parent[level], sums[level])
        return sums

    @cached_property
    def _levels(self) -> list[Numbers]:
        """Rows that something encloses, by their depth, innermost first."""
        depth = depths(self.parent)
        order = np.argsort(-depth, kind="stable")
        order = order[depth[order] > 0]
        return np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)

    def holds(self, wanted: Mask) -> Mask:
        """Whether it encloses a wanted event."""
        holds = np.zeros(len(self), dtype=bool)
        last = np.empty(len(self), dtype=np.int64)
        at = self.parent[wanted]
        while len(at := at[(at != NONE) & ~holds[at]]):
            holds[at] = True
            # Of equal ones only the last goes on.
            last[at] = np.arange(len(at))
            at = self.parent[at[last[at] == np.arange(len(at))]]
        return holds

    @cached_property
    def op_around(self) -> Numbers:
        """The innermost op around each; frames, modules and user scopes do not count."""
        return self.around(self.is_op)

    @cached_property
    def next_op(self) -> Numbers:
        """Of an op, the one that its thread runs next within the same op."""
        following, _preceding = self._op_neighbours
        return following

    @cached_property
    def previous_op(self) -> Numbers:
        """Of an op, the one that its thread ran before it within the same op."""
        _following, preceding = self._op_neighbours
        return preceding

    def since_previous_op_ns(self, rows: Numbers) -> Numbers:
        """The time before each op in which its thread ran no op, Python's own time; 0 for the first."""
        before = self.previous_op[rows]
        pause_ns = self.events.start_ns[rows] - self.events.end_ns[before]
        return np.where(before == NONE, 0, np.maximum(pause_ns, 0))

    @cached_property
    def _op_neighbours(self) -> tuple[Numbers, Numbers]:
        rows, group = self.op_sequences
        following, preceding = np.full((2, len(self)), NONE, dtype=np.int64)
        same = group[1:] == group[:-1]
        following[rows[:-1][same]] = rows[1:][same]
        preceding[rows[1:][same]] = rows[:-1][same]
        return following, preceding

    @cached_property
    def op_sequences(self) -> tuple[Numbers, Numbers]:
        """Rows of ops, one sequence after the other, and a number for each that its sequence has.

        A sequence is what an op, or a thread outside ops, ran directly, in order.
        """
        rows = np.flatnonzero(self.is_op)
        around = self.op_around[rows]
        group = np.where(around >= 0, around, -2 - self.events.track[rows].astype(np.int64))
        order = np.argsort(group, kind="stable")
        return rows[order], group[order]

    @cached_property
    def is_outermost_op(self) -> Mask:
        outermost: Mask = self.is_op & (self.op_around == NONE)
        return outermost

    @cached_property
    def in_backward(self) -> Mask:
        """Ops of the backward pass, and all that they enclose."""
        begins = (self.events.scope == 1) | (self.events.forward_thread != 0)
        begins |= self.where_name(lambda name: name.startswith("autograd::engine::evaluate_function: "))
        in_backward: Mask = begins | self.inside(begins)
        return in_backward

    @cached_property
    def in_optimizer(self) -> Mask:
        """What a step of an optimizer encloses."""
        return self.inside(self.where_name(lambda name: name.startswith("Optimizer.step#")))

    @cached_property
    def in_data_loader(self) -> Mask:
        """What the fetch of a batch encloses."""
        return self.inside(self.where_name(lambda name: name.startswith("enumerate(DataLoader)#")))

    # Shapes and other inputs.

    @cached_property
    def shape_id(self) -> npt.NDArray[np.uint32]:
        """Equal where inputs have tensors of equal sizes in equal places, 0 = no inputs."""
        return self.recording.input_shape_ids()

    def inputs(self, row: int) -> list[InputValue]:
        return self.recording.inputs(row) or []

    def where_inputs(self, rows: Numbers, wanted: Callable[[list[InputValue]], object]) -> Numbers:
        """The rows of ops whose name and input sizes are wanted; each combination is asked for once."""
        if not len(rows):
            return rows
        key = self.events.name[rows].astype(np.int64) << 32 | self.shape_id[rows]
        _keys, first, place = np.unique(key, return_index=True, return_inverse=True)
        is_wanted = np.array([bool(wanted(self.inputs(row))) for row in rows[first].tolist()])
        chosen: Numbers = rows[is_wanted[place.reshape(-1)]]
        return chosen

    # Memory.

    @cached_property
    def allocations(self) -> tuple[npt.NDArray[np.uint64], Numbers]:
        """Addresses of allocations in order, and of equal ones their times in order."""
        memory = self.recording.memory
        memory = memory[(memory["size_bytes"] > 0) & (memory["flags"] & MemoryFlags.OUT_OF_MEMORY == 0)]
        memory = memory[np.lexsort((memory["time_ns"], memory["address"]))]
        return memory["address"], memory["time_ns"]

    def allocations_before(self, address: int, time_ns: int) -> Numbers:
        """When memory was allocated at an address up to a time, in order."""
        addresses, times_ns = self.allocations
        first, end = np.searchsorted(addresses, np.array([address, address + 1], dtype=np.uint64))
        times_ns = times_ns[first:end]
        return times_ns[: np.searchsorted(times_ns, time_ns, side="right")]

    # Time.

    @cached_property
    def step_times(self) -> StepTimes:
        """The steps, and which of them figures of a step are of."""
        return StepTimes.of(self.recording, self._problems)

    @cached_property
    def step(self) -> Numbers:
        """Index of the step that was going on when it began, the later of two; `NONE` = none."""
        return self.step_times.at(self.events.start_ns)

    @cached_property
    def steps(self) -> int:
        """How many steps there are; those cut off by the recording do not count unless all are."""
        return self.step_times.counted

    def in_counted_steps(self, rows: Numbers) -> Mask:
        """Which of these began in one of the steps that count."""
        # The last entry stands for no step.
        counted: Mask = np.append(self.step_times.counts, False)[self.step[rows]]
        return counted

    @cached_property
    def window_ns(self) -> int:
        """What costs are compared with: the time from the first event to the last, at least 1."""
        work = self.of_kind(EventKind.OP, EventKind.USER, EventKind.RUNTIME, EventKind.DRIVER, *WORK_KINDS)
        if not work.any():
            return max(1, self.recording.end_ns - self.recording.start_ns)
        return max(1, int(self.events.end_ns[work].max() - self.events.start_ns[work].min()))

    def steps_with(self, rows: Numbers) -> int:
        """In how many steps these events are."""
        step = self.step[rows]
        return len(np.unique(step[step != NONE]))

    # Devices.

    @cached_property
    def launches(self) -> tuple[Numbers, Numbers]:
        """Rows of calls and, in the same places, of the work that they launched."""
        return launches(self.recording)

    @cached_property
    def device_ns(self) -> Numbers:
        """Time of the device work that the event and all within it launched."""
        call, work = self.launches
        launched = np.zeros(len(self), dtype=np.int64)
        np.add.at(launched, call, self.duration_ns[work])
        return self.sum_inside(launched) if len(call) else launched

    @cached_property
    def uses_device(self) -> Mask:
        """Whether it, or anything within it, called the interface of a device."""
        calls = self.of_kind(*_CALL_KINDS)
        calls[self.launches[0]] = True
        return calls | self.holds(calls)

    def launched_by(self, work: Numbers) -> Numbers:
        """The innermost op that launched each piece of work, else the call itself; `NONE` = not known."""
        caller = np.full(len(self), NONE, dtype=np.int64)
        caller[self.launches[1]] = self.launches[0]
        call = caller[work]
        op = nearest(self.parent, self.is_op)[call]
        return np.where(call == NONE, NONE, np.where(op == NONE, call, op))

    # Places.

    def places(self, rows: Numbers) -> list[Place]:
        """The place of each event."""
        frame, module = self._frame_row[rows], self._module_row[rows]
        names = self.events.name.astype(np.int64)
        # Of equal names are equal places.
        keys = np.stack([np.where(at < 0, NONE, names[at]) for at in (frame, module, rows)])
        distinct, place = np.unique(keys, axis=1, return_inverse=True)
        made = [self._place(*column) for column in distinct.T.tolist()]
        return [made[index] for index in place.reshape(-1).tolist()]

    def _place(self, frame: int, module: int, op: int) -> Place:
        recording = self.recording
        function, file, line = "", "", 0
        if frame != NONE:
            function = recording.name(frame)
            file, _colon, number = recording.overload_name(frame).rpartition(":")
            line = int(number)
        path = ""
        if module != NONE:
            path = recording.overload_name(module) or recording.name(module).removeprefix(_MODULE_NAME_PREFIX)
        return Place(function, file, line, path, recording.name(op))

    @cached_property
    def _forward_row(self) -> Numbers:
        """Of what runs in the backward pass the forward op, of all else itself."""
        backward, forward = (rows.astype(np.int64) for rows in self.recording.links.forward_backward_links())
        forward_of = np.full(len(self) + 1, NONE, dtype=np.int64)
        forward_of[backward] = forward
        around = nearest(self.parent, forward_of[:-1] != NONE)
        return np.where(around == NONE, np.arange(len(self)), forward_of[around])

    @cached_property
    def _frame_row(self) -> Numbers:
        """The innermost Python function around it that is the user's, in the backward that of the "
        "forward."""
        recording = self.recording
        is_user = np.zeros(recording.name_count, dtype=bool)
        python = self.of_kind(EventKind.PYTHON)
        for name_id in np.unique(self.events.name[python]).tolist():
            is_user[name_id] = is_user_code(recording.overload_name(name_id))
        frame = nearest(self.parent, python & is_user[self.events.name])
        return np.where(frame[self._forward_row] != NONE, frame[self._forward_row], frame)

    @cached_property
    def _module_row(self) -> Numbers:
        """The innermost module around it, in the backward that of the forward."""
        return nearest(self.parent, self.of_kind(EventKind.MODULE))[self._forward_row]


def tensors_of(inputs: Collection[InputValue]) -> list[TensorInput]:
    """The tensors among inputs, without those in lists."""
    return [value for value in inputs if isinstance(value, TensorInput)]
