"""Turns scanned blocks of trace events into the rows of a recording."""

from __future__ import annotations

from otel_torchprof._native import core
from otel_torchprof.importers.chrome.column_events import add_complete_events, add_flows, add_memory
from otel_torchprof.importers.chrome.decode import decode_batches
from otel_torchprof.importers.chrome.flows import Flows
from otel_torchprof.importers.chrome.links import add_launch_links, add_other_links, infer_torch_thread_ids
from otel_torchprof.importers.chrome.odd_events import OddEvents
from otel_torchprof.importers.chrome.texts import TextTables
from otel_torchprof.importers.chrome.times import MAX_TIME_NS
from otel_torchprof.importers.chrome.trace_builder import TraceBuilder
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording, RecordingBuilder

# Work on a stream that lasts this much longer than until the next one begins has a wrong end.
_STREAM_OVERFLOW_NS = 1_000_000_000
# A child may outlast its parent by this much: where Kineto cut times to microseconds, and where it did not.
_ROUNDING_US_NS = 1_000
_ROUNDING_NS = 1


class TraceReader:
    """Takes the events of a trace in the order of the file.

    Args:
        scanner: knows the texts of the blocks.
        report: where problems are counted.
        base_ns: what times count from.
        max_name_characters: longer names are cut.
        may_be_cut: whether times without fractions were cut to microseconds, as Kineto once did.
    """

    def __init__(
        self,
        scanner: core.TraceScanner,
        report: ImportReport,
        base_ns: int,
        max_name_characters: int,
        *,
        may_be_cut: bool,
    ) -> None:
        self._report = report
        self._may_be_cut = may_be_cut
        self._trace = TraceBuilder(report, base_ns, max_name_characters)
        self._flows = Flows()
        self._texts = TextTables(scanner, self._trace, self._flows)
        self._odd = OddEvents(self._trace, self._flows)

    @property
    def builder(self) -> RecordingBuilder:
        """What the recording is made by."""
        return self._trace.builder

    def add(self, block: core.TraceBlock) -> None:
        """Takes the events of a block."""
        add_complete_events(block, self._texts, self._trace)
        add_memory(block, self._texts, self._trace)
        add_flows(block, self._texts, self._trace, self._flows)
        for events, texts in decode_batches(block.others, self._report):
            self._odd.add(events, texts)

    def finish(self) -> Recording:
        """Pairs begins and ends, links, and returns the recording."""
        trace, report = self._trace, self._report
        draft, builder = trace.draft, trace.builder
        self._odd.pair_scopes(int(draft.column("end_ns").max(initial=-MAX_TIME_NS)))
        self._flows.join(trace.tracks, report)
        trace.tracks.torch_thread_ids = infer_torch_thread_ids(draft)
        devices = trace.hand_over()
        add_launch_links(draft, self._flows, devices, trace.ops_by_external_id, builder, report)
        add_other_links(draft, self._flows, trace.tracks.torch_thread_ids, builder, report)
        is_cut = self._may_be_cut and not trace.clock.has_fractions
        recording, overruns = builder.finish_mended(
            rounding_ns=_ROUNDING_US_NS if is_cut else _ROUNDING_NS, stream_ns=_STREAM_OVERFLOW_NS
        )
        report.add_problem("end_rounded", overruns.rounded)
        report.add_problem("duration_overflows_stream", overruns.overflowed)
        report.add_problem("crossing_slices", overruns.crossing)
        return recording
