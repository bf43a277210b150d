"""Damaged files: a Recording with problems or one clear error, never a crash, never without an end."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof._native import core
from otel_torchprof.analysis.averages import averages
from otel_torchprof.errors import RecordingFormatError
from otel_torchprof.recording import Recording, RecordingBuilder, SpanContext
from tests.support.core_ops import begin_op, op

GRANULE_BYTES = 16 * 1024
CHUNK_MAGIC = b"CHNK"
_EDGES = [0, 1, 2, 0x7F, 0xFF, 1 << 31, (1 << 32) - 1, (1 << 62) - 1, 1 << 62, 1 << 63, (1 << 64) - 1]


@pytest.fixture(scope="module")
def genuine(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A saved file, a capture's, and one of a capture that is not stopped."""
    directory = tmp_path_factory.mktemp("genuine")
    builder = RecordingBuilder()
    builder.add_track("main", torch_thread_id=1)
    for start_ns in range(50):
        builder.add_event(
            f"op {start_ns % 5}", start_ns, start_ns + 2, sequence=start_ns, inputs=b"\x01\x03\x02"
        )
    builder.add_event("backward", 60, 61, sequence=7, forward_thread=1, correlation=3)
    builder.add_link(0, 1, 3)  # type: ignore[arg-type]
    builder.add_step(0, 60, 1, links=[SpanContext(bytes(16), bytes(8))])
    builder.add_metadata({"rank": 0})
    builder.finish().save(directory / "saved.tprof")

    capture = core.Capture(str(directory / "capture.tprof"), 1 << 20)
    slot = capture.start()
    capture.begin_step(1, 0, 0, bytes(24), 0, bytes(48))
    for number in range(50):
        with op(slot, f"op {number % 5}", inputs=b"\x01\x03\x02"):
            pass
    begin_op(slot, "open")
    live = (directory / "capture.tprof").read_bytes()
    capture.stop()
    return [(directory / "saved.tprof").read_bytes(), (directory / "capture.tprof").read_bytes(), live]


def _open_everything(path: Path) -> None:
    try:
        recording = Recording.open(path)
    except RecordingFormatError:
        return
    rows = len(recording)
    assert rows <= path.stat().st_size // 48
    tree = recording.tree()
    assert (tree.self_ns >= 0).all()
    assert (recording.events.start_ns <= recording.events.end_ns).all()
    assert (recording.events.track < len(recording.tracks)).all()
    assert (recording.events.name < recording.name_count).all()
    assert all(step.track < len(recording.tracks) for step in recording.steps)
    assert (recording.links.to_event < rows).all()
    assert sum(row.calls for row in averages(recording, group_by_shapes=True).rows) == rows
    for row in range(rows):
        recording.event_name(row)
        recording.inputs(row)
    assert all(isinstance(key, str) for key in recording.metadata)
    assert all(count > 0 for count in recording.problems.values())
    recording.links.forward_backward_links()


def _damaged(draw: st.DataObject, content: bytes) -> bytes:
    damaged = bytearray(content)
    chunk_offsets = [
        offset
        for offset in range(GRANULE_BYTES, len(content), GRANULE_BYTES)
        if content.startswith(CHUNK_MAGIC, offset)
    ]
    for _ in range(draw.draw(st.integers(1, 4))):
        kind = draw.draw(st.sampled_from(["flip", "header", "chunk", "record"]))
        if kind == "flip":
            position = draw.draw(st.integers(0, len(damaged) - 1))
            damaged[position] ^= 1 << draw.draw(st.integers(0, 7))
            continue
        value = draw.draw(st.sampled_from(_EDGES) | st.integers(0, (1 << 64) - 1))
        if kind == "header":
            position = 8 * draw.draw(st.integers(1, 40))
        elif kind == "chunk":
            position = draw.draw(st.sampled_from(chunk_offsets)) + 8 * draw.draw(st.integers(0, 4))
        else:
            position = draw.draw(st.sampled_from(chunk_offsets)) + 64 + 8 * draw.draw(st.integers(0, 40))
        struct.pack_into("<Q", damaged, position, value)
    return bytes(damaged)


@given(st.data())
def test_damage_anywhere(
    genuine: list[bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.tprof"
    path.write_bytes(_damaged(data, data.draw(st.sampled_from(genuine))))
    _open_everything(path)


@given(st.data())
def test_files_cut_off_anywhere(
    genuine: list[bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.tprof"
    content = data.draw(st.sampled_from(genuine))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    _open_everything(path)


@given(st.data())
def test_granules_moved_about(
    genuine: list[bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "moved.tprof"
    content = data.draw(st.sampled_from(genuine))
    granules = [content[at : at + GRANULE_BYTES] for at in range(GRANULE_BYTES, len(content), GRANULE_BYTES)]
    moved = data.draw(st.lists(st.sampled_from(granules), max_size=12))
    path.write_bytes(content[:GRANULE_BYTES] + b"".join(moved))
    _open_everything(path)


def test_a_file_truncated_while_it_is_read_is_no_crash(genuine: list[bytes], tmp_path: Path) -> None:
    path = tmp_path / "shrinking.tprof"
    path.write_bytes(genuine[0])
    recording = Recording.open(path)
    path.write_bytes(b"")
    assert recording.inputs(0) == [1]
    recording.save(tmp_path / "copy.tprof")
    assert len(Recording.open(tmp_path / "copy.tprof")) == len(recording)
