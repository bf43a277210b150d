"""What findings cost where that is more than the op that shows it, in recordings made by hand."""

from __future__ import annotations

import pytest

from otel_torchprof.analysis.patterns import Finding, find_patterns
from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.recording import RecordingBuilder
from tests.support.device_programs import US, DeviceProgram

OP_US = 2  # of an op with nothing in it


def the_finding(program: DeviceProgram, pattern: str) -> Finding:
    (found,) = [one for one in find_patterns(program.finish()).findings if one.pattern == pattern]
    return found


@pytest.mark.parametrize(("search_us", "counted_us"), [(5, 5), (500, 2 * 4 * OP_US)])
def test_a_list_is_searched_before_it_is_converted(search_us: int, counted_us: int) -> None:
    program = DeviceProgram()
    program.call("aten::add")
    for _ in range(2):
        program.pause(search_us)
        program.call("aten::empty")
        program.call("aten::to")
        program.call("aten::lift_fresh", ("float32", [1_000]))
        program.call("aten::detach_")
    found = the_finding(program, "tensor-from-list")
    assert found.row_costs_ns.tolist() == [(4 * OP_US + counted_us) * US] * 2
    assert found.saving.high_ns == found.cost_ns


def test_what_was_repeated_is_read_again() -> None:
    program = DeviceProgram()
    with program.op("aten::repeat", ("float32", [256]), [64, 1]):
        program.pause(10)
    with program.op("aten::add", ("float32", [64, 256]), ("float32", [64, 256])):
        program.pause(20)
    found = the_finding(program, "materialized-broadcast")
    assert found.cost_ns == (10 + 20 + 2 * OP_US) * US
    assert found.saving.high_ns < found.cost_ns


@pytest.mark.parametrize(("pause_us", "counted_us"), [(1, 2), (50, 4)])
def test_growing_takes_python_and_frees_what_was_shorter(pause_us: int, counted_us: int) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    now_us = 0
    for length in range(1, 41):
        now_us += pause_us
        builder.add_event("aten::cat", now_us * US, (now_us + 4) * US, inputs=_cat(length))
        now_us += 4
    (found,) = [one for one in find_patterns(builder.finish()).findings if one.pattern == "growing-cat"]
    # The first has nothing before it, the last nothing behind it.
    one_sided_us = min(pause_us, 4)
    assert found.row_costs_ns.tolist() == [
        (4 + one_sided_us) * US, *[(4 + counted_us) * US] * 38, (4 + one_sided_us) * US,
    ]  # fmt: skip


def _cat(length: int) -> bytes:
    encoder = InputsEncoder(2)
    encoder.begin_list(2, is_tensors=True)
    encoder.tensor("float32", [length, 8], None)
    encoder.tensor("float32", [1, 8], None)
    encoder.value(0)
    return encoder.finish()
