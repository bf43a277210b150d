"""Recorded inputs as Python values."""

from __future__ import annotations

import struct

import pytest

from otel_torchprof.recording import (
    InputList,
    InputValue,
    NestedTensorInput,
    OtherInput,
    Recording,
    RecordingBuilder,
    TensorInput,
    UndefinedTensorInput,
)


def _recording_with(*encoded: bytes) -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    for start_ns, inputs in enumerate(encoded):
        builder.add_event("op", start_ns, start_ns + 1, inputs=inputs)
    return builder.finish()


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        (b"\x00", None),
        (b"\x01\x06\x00\x02\x04\x06\x01\x06\x02", TensorInput("float32", "cpu", (2, 3), (3, 1))),
        (b"\x01\x0f\x01\x00\x00", TensorInput("bfloat16", "cuda", (), None)),
        (b"\x01\x2d\x14\x00\x00", TensorInput("float4_e2m1fn_x2", "privateuseone", (), None)),
        (b"\x01\xc8\xc8\x00\x00", TensorInput("unknown 200", "unknown 200", (), None)),
        (b"\x02", UndefinedTensorInput()),
        (b"\x03\x03", -2),
        (b"\x04" + struct.pack("<d", 0.1), 0.1),
        (b"\x04" + struct.pack("<d", float("inf")), float("inf")),
        (b"\x05\x01", True),
        (b"\x06\x03\xe2\x82\xac", "€"),
        (b"\x06\x02\xe2\x82", "\ufffd"),
        (b"\x07" + struct.pack("<dd", 1, -2), 1 - 2j),
        (b"\x08\x02\x03\x02\x08\x01\x00", InputList((1, InputList((None,), 1)), 2)),
        (b"\x09\x01\x02", InputList((UndefinedTensorInput(),), 1)),
        (b"\x0a\xe8\x07\x01\x03\x02", InputList((1,), 1000)),
        (b"\x0b\x06\x00\x03", NestedTensorInput("float32", "cpu", 3)),
        (b"\x0c\x04Enum", OtherInput("Enum")),
        (b"\x0d\x01\x05\x00", InputList((False,), 1, is_tuple=True)),
    ],
)
def test_each_kind_of_argument(encoded: bytes, value: InputValue) -> None:
    recording = _recording_with(b"\x01" + encoded)
    assert recording.inputs(0) == [value]
    assert recording.problems == {}


def test_a_cut_list_says_so() -> None:
    values = _recording_with(b"\x01\x0a\xe8\x07\x01\x03\x02").inputs(0)
    assert values is not None
    assert isinstance(values[0], InputList)
    assert values[0].is_cut


def test_an_event_without_inputs_has_none_and_one_with_no_arguments_an_empty_list() -> None:
    recording = _recording_with(b"", b"\x00")
    assert recording.inputs(0) is None
    assert recording.inputs(1) == []


def test_damaged_inputs_are_counted_once_an_event() -> None:
    recording = _recording_with(b"\x01\x63", b"\x02\x00", b"\x01\x00")
    for _ in range(3):
        assert [recording.inputs(row) for row in range(3)] == [None, None, [None]]
    assert recording.problems == {"damaged_inputs": 2}


def test_a_row_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IndexError, match="no event"):
        _recording_with(b"\x00").inputs(1)


def test_shape_ids_tell_sizes_apart_and_nothing_else() -> None:
    recording = _recording_with(
        b"\x02\x01\x06\x00\x01\x08\x00\x03\x02",  # float32 (4,), 1
        b"\x02\x01\x07\x01\x01\x08\x01\x02\x03\x04",  # float64 (4,) on CUDA with strides, 2
        b"\x02\x01\x06\x00\x01\x0a\x00\x03\x02",  # float32 (5,), 1
        b"\x02\x09\x01\x01\x06\x00\x01\x08\x00\x03\x02",  # [float32 (4,)], 1
        b"",
        b"\x01\x63",
    )
    assert recording.input_shape_ids().tolist() == [1, 1, 2, 3, 0, 0]
