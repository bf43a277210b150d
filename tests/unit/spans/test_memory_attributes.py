"""What was allocated and freed stands on the spans it happened in; running out of it is an error."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_torchprof.spans import SpanData, SpanLimits, plan_spans, roots_from_steps
from tests.support.memory_recordings import memory_recording
from tests.unit.spans.scenes import Run


def memory_of(span: SpanData) -> dict[str, object]:
    return {name: value for name, value in span.attributes.items() if "memory" in name}


def test_steps_and_ops_have_their_memory() -> None:
    recording = memory_recording()
    step, op = plan_spans(recording, roots_from_steps(recording, Run())).spans()
    used = {
        "torch.memory.allocated_bytes": 64,
        "torch.memory.freed_bytes": 24,
        "torch.memory.peak_bytes": 64,
        "torch.device.memory.allocated_bytes": 16,
        "torch.device.memory.freed_bytes": 0,
        "torch.device.memory.peak_bytes": 16,
    }
    assert memory_of(step) == used
    assert step.error is None
    assert memory_of(op) == {**used, "torch.memory.failed_bytes": 1 << 40}
    assert op.error == "out of memory"


def test_the_error_of_what_is_folded_goes_to_what_it_is_folded_into() -> None:
    recording = memory_recording()
    limits = SpanLimits(max_spans_per_trace=1)
    (step,) = plan_spans(recording, roots_from_steps(recording, Run()), limits).spans()
    assert step.error == "out of memory"


def test_the_error_is_a_status_on_the_wire() -> None:
    recording = memory_recording()
    plan = plan_spans(recording, roots_from_steps(recording, Run()))
    (request,) = plan.encode(b"")
    message = ExportTraceServiceRequest.FromString(request.payload)
    statuses = {span.name: span.status for span in message.resource_spans[0].scope_spans[0].spans}
    assert statuses["torch.step"] == Status()
    assert statuses["aten::add"] == Status(code=Status.STATUS_CODE_ERROR, message="out of memory")
