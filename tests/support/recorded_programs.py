"""What must hold of the programs of tests/gpu as we recorded them, and of torch's own traces of them.

Both the tests on a GPU and those of recordings that were kept of one ask this.
"""

from __future__ import annotations

from collections import Counter

from otel_torchprof.recording import EventKind, Recording
from tests.gpu.programs import COPIED_BYTES, GRAPH_REPLAYS, MATMULS
from tests.support.device_comparison import differences, unlinked, work
from tests.support.device_structure import (
    callers,
    check_lanes,
    check_links,
    check_metrics,
    check_spans,
    work_rows,
)


def check_same_work(ours: Recording, torchs: Recording) -> None:
    """The same kernels, copies and fills, as often."""
    assert sum(work(ours).values()) > 0
    found = differences(ours, torchs)
    assert not found, f"\n{found}"


def check_complete(recording: Recording) -> None:
    """Nothing dropped, nothing unknown, and a call for all work."""
    assert recording.metadata["sources"]["device"] == "on"
    device = recording.metadata["device"]
    assert dict(recording.drops) == {}, device
    assert dict(recording.problems) == {}, device
    assert device["complete"] is True, device
    assert device["counts"]["unknown_records"] == 0, device
    assert unlinked(recording) == {}


def check_structure(recording: Recording) -> None:
    """What holds of any recording with device work."""
    assert check_lanes(recording) == len(work_rows(recording))
    assert check_links(recording) > 0
    assert check_spans(recording) > 0
    assert check_metrics(recording) == sum(kind == "KERNEL" for kind, _ in work(recording).elements())


def check_ops(recording: Recording) -> None:
    """All work has the id of the op that was innermost when it was launched."""
    ids = {int(record["event"]): int(record["external_id"]) for record in recording.devices}
    kinds = recording.events.kind
    without = Counter(
        (EventKind(kinds[row]).name, recording.event_name(row))
        for row in work_rows(recording)
        if ids.get(row, -1) < 0
    )
    assert without == {}, f"without the id of an op: {without}"


def check_matmul(recording: Recording) -> None:
    """The kernels lie in the ops that the program calls."""
    parent = recording.tree().parent
    kinds = recording.events.kind
    within: Counter[str] = Counter()
    for call in callers(recording).values():
        outermost, at = "nothing", int(parent[call])
        while at >= 0:
            outermost = recording.event_name(at) if kinds[at] == EventKind.OP else outermost
            at = int(parent[at])
        within[outermost] += 1
    assert within.keys() == {"aten::matmul", "aten::relu"}, within
    assert within["aten::matmul"] >= within["aten::relu"] == MATMULS, within
    check_ops(recording)


def check_training(recording: Recording) -> None:
    """Kernels of the backward pass lead to the forward op that made its inputs."""
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
    assert led_to["aten::addmm"] > 0, led_to
    check_ops(recording)


def check_graph(recording: Recording) -> None:
    """All nodes of one graph, each once a replay."""
    kernels = [row for row in work_rows(recording) if recording.events.kind[row] == EventKind.KERNEL]
    of_work = {int(record["event"]): record for record in recording.devices}
    nodes: Counter[tuple[int, int, str]] = Counter()
    for row in kernels:
        record = of_work[row]
        nodes[int(record["graph_id"]), int(record["graph_node_id"]), recording.event_name(row)] += 1
    of_graph = {node: count for node, count in nodes.items() if node[0] > 0 and node[1] > 0}
    assert len(of_graph) > 1, nodes
    assert set(of_graph.values()) == {GRAPH_REPLAYS}, nodes
    assert len({graph for graph, _node, _name in of_graph}) == 1, nodes


def check_copies(recording: Recording) -> None:
    """Copies with their bytes on the lines of three streams, of all three ways."""
    copies = [row for row in work_rows(recording) if recording.events.kind[row] == EventKind.MEMCPY]
    sizes = {int(record["event"]): int(record["size_bytes"]) for record in recording.devices}
    assert Counter(sizes[row] for row in copies) == {COPIED_BYTES: len(copies)}
    streams = Counter(recording.tracks[int(recording.events.track[row])].name for row in copies)
    assert len(streams) == 3, streams
    assert len(set(streams.values())) == 1, streams
    ways = Counter(recording.event_name(row).split(" ")[1] for row in copies)
    assert ways.keys() == {"HtoD", "DtoD", "DtoH"}, ways
    check_ops(recording)


CHECKS = {"matmul": check_matmul, "training": check_training, "graph": check_graph, "copies": check_copies}
