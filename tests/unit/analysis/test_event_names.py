"""Names of kernels and operators as metrics have them: few, short, stable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.event_names import is_named, names_of, short_kernel_name, short_op_name
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder
from tests.support.test_data import KINETO, needs_data


@pytest.mark.parametrize(
    ("recorded", "short"),
    [
        (
            "void at::native::(anonymous namespace)::softmax_warp_forward<float, 8>(float*, int)",
            "at::native::softmax_warp_forward",
        ),
        ("_ZN2at6native3sumIfEEvPfi", "at::native::sum"),
        # Of bfloat16, which the C++ runtime need not know yet.
        ("_ZN5aiter20rmsnorm_quant_kernelIDF16bLi256EEEvPT0_", "aiter::rmsnorm_quant_kernel"),
        ("triton_poi_fused_add_0d1d2de", "triton_poi_fused_add"),
        ("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0"),
        ("kernel_123456abcdef", "kernel"),
        (
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_tn>(cutlass_80_x::Params)",
            "cutlass_80_tensorop_s1688gemm_128x64_tn",
        ),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("", "unnamed"),
    ],
)
def test_a_kernel_goes_by_its_function(recorded: str, short: str) -> None:
    assert short_kernel_name(recorded) == short
    assert short_kernel_name(recorded.encode()) == short


def test_operators_lose_what_differs_from_one_compilation_to_the_next() -> None:
    assert short_op_name("aten::add") == "aten::add"
    assert short_op_name("Torch-Compiled Region: 3/1") == "Torch-Compiled Region"
    assert short_op_name("ProfilerStep#12") == "torch.step"


# Pieces that mean something to the parser, in any order.
_PIECES = st.sampled_from(
    (
        *(
            "_Z",
            "N2at6native3sum",
            "IfE",
            "E",
            "vPf",
            "void ",
            "<",
            ">",
            "(",
            ")",
            "::",
            " ",
            "_",
            "operator",
        ),
        *("(anonymous namespace)", "123456abcdef", "0d1d2de", "cutlass::Kernel", "a_b", "1234567", "\u00e9"),
    )
)


@given(st.binary(max_size=400) | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_have_a_short_name_that_stays(recorded: bytes) -> None:
    short = short_kernel_name(recorded)
    assert 0 < len(short) <= 255
    assert short_kernel_name(short) == short


@given(st.lists(_PIECES, max_size=40).map("".join))
def test_a_short_name_stays_as_it_is(recorded: str) -> None:
    short = short_kernel_name(recorded)
    assert short_kernel_name(short) == short


def two_names() -> Recording:
    builder = RecordingBuilder()
    builder.add_track(device=0)
    for index, name in enumerate(["void f<int>(int)", "g", "void f<float>(float)", "h"]):
        builder.add_event(name, index, index + 1, kind=EventKind.KERNEL)
    return builder.finish()


def test_recorded_names_with_one_short_name_are_one() -> None:
    recording = two_names()
    index, names = names_of(recording, recording.tree().roots(), short_kernel_name)
    assert [names[place] for place in index.tolist()] == ["f", "g", "f", "h"]
    assert len(names) == 3


def test_each_event_is_asked_for_by_its_name() -> None:
    assert is_named(two_names(), lambda name: name in {"g", "h"}).tolist() == [False, True, False, True]


@needs_data
def test_kernels_of_real_traces_stay_apart() -> None:
    """Of the kernels of a recommendation model most have names of their own, and none is cut."""
    recording, _report = load(KINETO / "sampled_rank0.json.gz")
    recorded = {
        recording.event_name(row)
        for row, kind in enumerate(recording.events.kind.tolist())
        if kind == EventKind.KERNEL
    }
    short = {short_kernel_name(name) for name in recorded}
    assert (len(recorded), len(short)) == (194, 113)
    assert max(map(len, short)) == 81
    assert not [name for name in short if set("<>() ") & set(name)]
