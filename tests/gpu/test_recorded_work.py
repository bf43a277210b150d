"""What we record of a GPU, against torch's own profiler in another run of the same program."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from otel_torchprof.analysis.event_names import short_kernel_name
from otel_torchprof.recording import EventKind, Recording
from tests.gpu.programs import PROGRAMS, record
from tests.support.device_structure import (
    callers,
    check_lanes,
    check_links,
    check_metrics,
    check_spans,
    work_rows,
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@cache
def recorded(program: str, recorder: str, folder: Path) -> Recording:
    suffix = "tprof" if recorder == "ours" else "json"
    return record(program, recorder, folder / f"{program}.{suffix}")


def work(recording: Recording) -> Counter[tuple[str, str]]:
    """Kind and name of all work."""
    kinds = recording.events.kind
    return Counter(
        (EventKind(kinds[row]).name, short_kernel_name(recording.event_name(row).partition(" (")[0]))
        for row in work_rows(recording)
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_work_is_recorded_as_by_torch(program: str, folder: Path) -> None:
    ours, torchs = recorded(program, "ours", folder), recorded(program, "torch", folder)
    assert work(ours) == work(torchs)
    assert sum(work(ours).values()) > 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_dropped_and_all_of_it_is_linked(program: str, folder: Path) -> None:
    recording = recorded(program, "ours", folder)
    assert recording.drops == {}
    assert recording.metadata["sources"]["device"] == "on"
    assert recording.metadata["device"]["complete"] is True
    assert recording.metadata["device"]["counts"]["unknown_records"] == 0
    assert set(callers(recording)) == set(work_rows(recording))


@pytest.mark.parametrize("recorder", ["ours", "torch"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_structure_is_that_of_any_recording(program: str, recorder: str, folder: Path) -> None:
    recording = recorded(program, recorder, folder)
    assert check_lanes(recording) == len(work_rows(recording))
    assert check_links(recording) > 0
    assert check_spans(recording) > 0
    assert check_metrics(recording) == sum(kind == "KERNEL" for kind, _ in work(recording).elements())


def test_kernels_of_the_backward_lead_to_forward_ops(folder: Path) -> None:
    recording = recorded("training", "ours", folder)
    backward, forward = recording.links.forward_backward_links()
    forward_of = dict(zip(backward.tolist(), forward.tolist(), strict=True))
    parent = recording.tree().parent
    led_to: Counter[str] = Counter()
    for call in callers(recording).values():
        at = int(call)
        while at >= 0 and at not in forward_of:
            at = int(parent[at])
        if at >= 0:
            led_to[recording.event_name(forward_of[at])] += 1
    assert led_to["aten::addmm"] > 0


def test_nodes_of_a_graph_have_their_graph(folder: Path) -> None:
    recording = recorded("graph", "ours", folder)
    of_work = {int(record["event"]): record for record in recording.devices}
    kernels = [row for row in work_rows(recording) if recording.events.kind[row] == EventKind.KERNEL]
    assert all(of_work[row]["graph_id"] > 0 and of_work[row]["graph_node_id"] > 0 for row in kernels)
    assert len({int(of_work[row]["graph_id"]) for row in kernels}) == 1


def test_copies_have_bytes_and_lie_on_their_streams(folder: Path) -> None:
    recording = recorded("copies", "ours", folder)
    copies = [row for row in work_rows(recording) if recording.events.kind[row] == EventKind.MEMCPY]
    sizes = {int(record["event"]): int(record["size_bytes"]) for record in recording.devices}
    assert {sizes[row] for row in copies} == {4 << 20}
    assert len({recording.tracks[recording.events.track[row]].thread_id for row in copies}) == 3
