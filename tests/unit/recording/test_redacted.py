"""`Recording.redacted`: other names of user scopes and other strings among inputs, and all else the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.recording import EventKind, InputList, OtherInput, Recording, RecordingBuilder
from tests.support.recordings import columns, recordings

USER_SCOPES = (EventKind.USER, EventKind.SPAN, EventKind.ANNOTATION)
LONG = "x" * 200  # its length takes two bytes, and that of its half one


def one_event(inputs: bytes) -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("op", 0, 10, inputs=inputs)
    return builder.finish()


@given(recordings())
def test_nothing_changes_where_every_text_stays(recording: Recording) -> None:
    assert columns(recording.redacted(str)) == columns(recording)


@given(recordings())
def test_names_of_user_scopes_change_and_no_other(recording: Recording) -> None:
    redacted = recording.redacted(lambda text: f"<{text}>")
    for row, kind in enumerate(recording.events.kind.tolist()):
        name = recording.event_name(row)
        wanted = f"<{name}>" if kind in USER_SCOPES and name else name
        assert redacted.event_name(row) == wanted
    names = ("names", "overloads", "inputs")
    before, after = columns(recording), columns(redacted)
    assert {key: after[key] for key in after if key not in (*names, "name")} == {
        key: before[key] for key in before if key not in (*names, "name")
    }


def test_an_op_keeps_the_name_of_a_user_scope() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("aten::add", 0, 10, kind=EventKind.USER)
    builder.add_event("aten::add", 2, 8)
    recording = builder.finish()
    redacted = recording.redacted(lambda _text: "scope")
    assert [redacted.event_name(row) for row in range(2)] == ["scope", "aten::add"]
    assert [recording.event_name(row) for row in range(2)] == ["aten::add", "aten::add"]


@pytest.mark.parametrize("text", ["", "ij,jk->ik", LONG, "\u00e9"])
def test_strings_among_inputs_wherever_they_are(text: str) -> None:
    encoder = InputsEncoder(5)
    encoder.value(7)
    encoder.value(text)
    encoder.begin_list(3)
    encoder.value("in a list")
    encoder.value(text)
    encoder.none()
    encoder.other("a type")
    encoder.value(0.5)
    recording = one_event(encoder.finish())
    swapped = {text: "", "": LONG, "in a list": LONG * 100}
    for shown, in_list, other in (
        (recording, "in a list", text),
        (recording.redacted(swapped.__getitem__), LONG * 100, swapped[text]),
    ):
        nested = InputList((in_list, other, None), 3, False)
        assert shown.inputs(0) == [7, other, nested, OtherInput("a type"), 0.5]


def test_each_distinct_text_is_asked_for_once() -> None:
    encoder = InputsEncoder(2)
    encoder.value("twice")
    encoder.value("once")
    inputs = encoder.finish()
    builder = RecordingBuilder()
    builder.add_track()
    for start_ns in range(0, 100, 10):
        builder.add_event("twice", start_ns, start_ns + 9, kind=EventKind.USER, inputs=inputs)
    asked: list[str] = []

    def replace(text: str) -> str:
        asked.append(text)
        return text

    builder.finish().redacted(replace)
    assert sorted(asked) == ["once", "twice"]


@given(st.binary(min_size=1, max_size=40))
def test_damaged_inputs_are_left_out(inputs: bytes) -> None:
    recording = one_event(inputs)
    redacted = recording.redacted(str)
    assert redacted.inputs(0) == recording.inputs(0)
    assert "damaged_inputs" not in redacted.problems


def test_a_length_in_more_bytes_than_it_needs_counts_as_damage() -> None:
    hidden = b"\x01\x06\x82\x00hi"  # one string of two bytes, their number written in two
    assert one_event(hidden).inputs(0) == ["hi"]
    assert one_event(hidden).redacted(lambda _text: "no").inputs(0) is None


def test_what_the_function_raises_comes_out() -> None:
    def fail(text: str) -> str:
        raise LookupError(text)

    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("scope", 0, 10, kind=EventKind.USER)
    with pytest.raises(LookupError, match="scope"):
        builder.finish().redacted(fail)
