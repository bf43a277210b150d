"""One event in the shape of torch's `FunctionEvent`. Times are microseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

from otel_torchprof.profiling.event_times import FormattedTimesMixin


class Interval:
    """From `start` to `end`, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """End minus start."""
        return self.end - self.start


class Kernel(NamedTuple):
    """Work on a device that an event launched; `duration` in microseconds."""

    name: str
    device: int
    duration: float


class FunctionEvent(FormattedTimesMixin):
    """One event, made by hand. Arguments and attributes are those of torch's class of this name."""

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = None,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: list[Any] | None = None,
        structured_input_strides: list[Any] | None = None,
        input_dtypes: list[str] | None = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
    ) -> None:
        from torch.autograd import DeviceType

        self.id = id
        self.name = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.overload_name = overload_name
        self.fwd_thread = fwd_thread
        self.input_shapes = input_shapes
        self.stack = stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.device_type = DeviceType.CPU if device_type is None else device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy = is_legacy
        self.flops = flops
        self.trace_name = trace_name
        self.concrete_inputs = concrete_inputs
        self.kwinputs = kwinputs
        self.is_user_annotation = is_user_annotation
        self.is_python_function = is_python_function
        self.activity_type = activity_type
        self.metadata_json = metadata_json
        self.flow_id = flow_id
        self.flow_type = flow_type
        self.flow_start = flow_start
        self.external_id = external_id
        self.linked_correlation_id = linked_correlation_id
        self.extra_meta = extra_meta
        self.event_metadata: Any = None
        self.structured_input_shapes = structured_input_shapes
        self.structured_input_strides = structured_input_strides
        self.input_dtypes = input_dtypes
        self.python_id = python_id
        self.python_parent_id = python_parent_id
        self.python_module_id = python_module_id
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.count = 1

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Notes work on a device that this event launched; `duration` in microseconds."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Notes an event that ran directly in this one."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Notes the event that this one ran directly in."""
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """What averages are grouped by."""
        return self.name

    @property
    def is_on_cpu(self) -> bool:
        """Whether it ran on a thread, not on a device."""
        return str(self.device_type).endswith(".CPU")

    @property
    def cpu_time_total(self) -> float:
        """Its duration, on the CPU."""
        return self.time_range.elapsed_us() if self.is_on_cpu else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Its duration without that of its children; 0 of what is asynchronous."""
        if self.is_async or not self.is_on_cpu:
            return 0
        return max(self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children), 0.0)

    @property
    def device_time_total(self) -> float:
        """Of the work on devices that it and its children launched; of such work itself, its duration."""
        if self.is_async or not self.use_device:
            return 0
        if not self.is_on_cpu:
            return self.time_range.elapsed_us()
        launched = sum(kernel.duration for kernel in self.kernels)
        if self.is_legacy:
            return launched  # measured by device events around it, children included
        return launched + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """`device_time_total` without that of its children."""
        if self.is_async or not self.use_device:
            return 0
        if not self.is_on_cpu:
            return self.device_time_total
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """`cpu_memory_usage` without that of its children, in bytes."""
        if self.is_async or not self.is_on_cpu:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """`device_memory_usage` without that of its children, in bytes."""
        if self.is_async or not self.is_on_cpu:
            return 0
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={[child.id for child in self.cpu_children]} "
            f"{self.use_device}_time={self.device_time_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )
