"""No recording makes a pattern fail: names that patterns look for, at any place, with any inputs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.patterns import find_patterns, own_patterns
from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.recording import EventFlags, EventKind, LinkType, RecordingBuilder, TrackKind

_NAMES = (
    "aten::to", "aten::_to_copy", "aten::copy_", "aten::zeros", "aten::fill_", "aten::empty",
    "aten::detach_", "aten::lift_fresh", "aten::select", "aten::cat", "aten::mm", "aten::matmul",
    "aten::softmax", "aten::add", "aten::conv2d", "aten::batch_norm", "aten::repeat", "aten::expand",
    "aten::contiguous", "aten::norm", "aten::item", "aten::isnan", "aten::any", "aten::zero_",
    "aten::_foreach_add_", "aten::dropout", "aten::bernoulli_", "autograd::engine::evaluate_function: X",
    "Optimizer.step#Adam.step", "Optimizer.zero_grad#Adam.zero_grad",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "DataLoader._get_iterator",
    "BaseProcess.start", "TorchDynamo Cache Lookup", "Torch-Compiled Region: 0/1",
    "Torch-Compiled Region: 0/2", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMalloc",
    "cudaFree", "gc.collect", "ampere_sgemm_32x128_nn", "nchwToNhwcKernel",
    "Memcpy HtoD (Pageable -> Device)", "BatchNorm2d",
    "aten::t", "aten::transpose", "aten::permute", "aten::clone", "aten::bmm",
)  # fmt: skip
_TIMES = st.integers(0, 60_000_000)
_SIZES = st.lists(st.integers(-1, 300), max_size=4)


@st.composite
def _inputs(draw: st.DrawFn) -> bytes:
    kinds = draw(st.lists(st.sampled_from(["tensor", "none", "number", "numbers", "tensors"]), max_size=4))
    encoder = InputsEncoder(len(kinds))
    for kind in kinds:
        if kind == "tensor":
            encoder.tensor(draw(st.sampled_from(["float32", "bfloat16"])), draw(_SIZES), draw(_SIZES))
        elif kind == "none":
            encoder.none()
        elif kind == "number":
            encoder.value(draw(st.integers(-3, 3)))
        elif kind == "numbers":
            sizes = draw(_SIZES)
            encoder.begin_list(len(sizes))
            for size in sizes:
                encoder.value(size)
        else:
            encoder.begin_list(2, is_tensors=True)
            encoder.tensor("float32", draw(_SIZES), None)
            encoder.tensor("float32", draw(_SIZES), None)
    return encoder.finish()


@st.composite
def _builders(draw: st.DrawFn) -> RecordingBuilder:
    builder = RecordingBuilder()
    tracks = [
        builder.add_track("main", torch_thread_id=1),
        builder.add_track("stream", TrackKind.STREAM, device=0),
    ]
    count = draw(st.integers(1, 40))
    for _ in range(count):
        start_ns, end_ns = sorted([draw(_TIMES), draw(_TIMES)])
        builder.add_event(
            draw(st.sampled_from(_NAMES)),
            start_ns,
            end_ns,
            overload=draw(st.sampled_from(["", "/me/a.py:3", "layers.0", ":", "a.py:x"])),
            track=draw(st.sampled_from(tracks)),
            kind=draw(st.sampled_from(EventKind)),
            scope=draw(st.integers(0, 1)),
            flags=draw(st.sampled_from([EventFlags(0), EventFlags.TRAINING, EventFlags.EVALUATION])),
            sequence=draw(st.integers(-1, 5)),
            forward_thread=draw(st.integers(0, 1)),
            inputs=draw(st.just(b"") | _inputs() | st.binary(max_size=10)),
        )
    for number in range(draw(st.integers(0, 4))):
        start_ns, end_ns = sorted([draw(_TIMES), draw(_TIMES)])
        builder.add_step(start_ns, end_ns, number)
    for _ in range(draw(st.integers(0, 10))):
        ends = draw(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)))
        builder.add_link(*ends, LinkType.LAUNCH)
    return builder


@given(_builders())
def test_no_pattern_fails(builder: RecordingBuilder) -> None:
    recording = builder.finish()
    report = find_patterns(recording)
    names = {one.name for one in own_patterns()}
    for finding in report.findings:
        assert finding.pattern in names - {one.pattern for one in report.not_checked}
        assert 0 <= finding.saving.low_ns <= finding.saving.high_ns <= max(finding.cost_ns, 0)
        assert sorted(set(finding.rows.tolist())) == finding.rows.tolist() != []
        assert finding.rows[-1] < len(recording)
