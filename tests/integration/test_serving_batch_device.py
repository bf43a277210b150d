"""A batch that works on a stand-in device: each request has its part of the time, though it ended before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.required_tools import skip_or_fail

ROOT = Path(__file__).parents[2]
KERNELS, KERNEL_NS = 8, 1_000
PROGRAM = (
    f"""
KERNELS, KERNEL_NS = {KERNELS}, {KERNEL_NS}
"""
    + """
import json
import sys
from pathlib import Path

from tests.support.stand_in_device import launch, load_stand_in

stand_in = load_stand_in(Path(sys.argv[1]))  # before torch, which may bring a libcupti along

import torch
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof import batch
from otel_torchprof.instrumentor import TorchprofInstrumentor

GEMM = b"_Z4gemmPfi"


class Model(torch.nn.Module):
    def forward(self, kernels):
        for _ in range(kernels):
            launch(stand_in, GEMM, duration_ns=KERNEL_NS)
        return torch.ones(3)


program, ours = InMemorySpanExporter(), InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(program))
TorchprofInstrumentor().instrument(
    mode="trace", step="module", schedule="active=1000", device="on",
    span_exporter=ours, tracer_provider=provider,
)
requests = [provider.get_tracer("server").start_span("request") for _ in range(2)]
model = Model()
with batch(requests, weights=[1, 3]):
    model(KERNELS)
model(4)  # of no batch
for request in requests:
    request.end()
TorchprofInstrumentor().uninstrument()

(root,) = [span for span in ours.get_finished_spans() if span.name == "torch.batch"]
shares = [span for span in program.get_finished_spans() if span.name == "torch.batch.share"]
print(json.dumps({
    "device": root.attributes["torch.device.time_ns"],
    "batches": [span.attributes["torch.batch.device_time_ns"] for span in shares],
    "parts": [span.attributes["torch.batch.share.device_time_ns"] for span in shares],
    "requests": [span.parent.span_id == request.context.span_id for span, request in zip(shares, requests)],
    "linked": [span.links[0].context.span_id == root.context.span_id for span in shares],
    "told": [dict(request.events[0].attributes)["torch.batch.share"] for request in requests],
}))
"""
)


def test_each_request_has_its_part_of_the_device_time(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "FileNotFoundError" in done.stderr:
        skip_or_fail("no C++ compiler: apt-get install g++")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    device_ns, (first_ns, second_ns) = told.pop("device"), told.pop("parts")
    # The clock of the device is translated, which may round each end.
    assert device_ns == pytest.approx(KERNELS * KERNEL_NS, abs=KERNELS)
    assert first_ns + second_ns == device_ns
    assert first_ns == pytest.approx(device_ns / 4, abs=1)
    assert told == {
        "batches": [device_ns, device_ns],
        "requests": [True, True],
        "linked": [True, True],
        "told": [0.25, 0.75],
    }
