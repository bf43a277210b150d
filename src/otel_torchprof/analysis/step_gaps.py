"""Steps of which it is not known what they did: events of theirs were lost, or they are a remainder."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import is_step_mark
from otel_torchprof.recording import Recording, TrackKind

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Reasons for which any event of any thread is dropped from some moment on.
_DROPS = ("byte_cap", "disk_full", "memory_limit", "no_thread_state")
# What takes whole parts out of a file.
_DAMAGE = (
    "file_cut_off",
    "bad_chunk_header",
    "unknown_chunk_kind",
    "wrong_record_size",
    "committed_too_large",
)
# Files that were cut off and need not be in order of time: what is missing may be of any step.
_CUT_OFF = (
    "array_not_closed",
    "last_event_cut_off",
    "last_message_cut_off",
    "compressed_data_cut_off",
    "damaged_table",
)
# Less than this part of the events that are usual in a step is no such step.
_FEW = 0.5


class StepEvents:
    """When events began, on the threads that have steps and on those beside them; without marks of steps."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        is_mark, start_ns = is_step_mark(recording), recording.events.start_ns
        # Rows are in order of their tracks.
        first = np.searchsorted(recording.events.track, np.arange(len(recording.tracks) + 1))
        rows = [slice(begin, end) for begin, end in itertools.pairwise(first.tolist())]
        self._starts_ns = [
            start_ns[of][~is_mark[of]] if track.kind == TrackKind.THREAD else start_ns[:0]
            for track, of in zip(recording.tracks, rows, strict=True)
        ]
        steps = recording.steps
        self._bounds_ns = np.array([(step.start_ns, step.end_ns) for step in steps], dtype=np.int64)
        self._track = [step.track for step in steps]
        self.count: Numbers = np.array(
            [
                self._in_steps(step.track, self._bounds_ns[place : place + 1])[0]
                for place, step in enumerate(steps)
            ],
            dtype=np.int64,
        )

    def _in_steps(self, track: int, bounds_ns: Numbers) -> Numbers:
        """How many events of a thread begin between bounds."""
        first, after = np.searchsorted(self._starts_ns[track], bounds_ns.reshape(-1, 2).T)
        counts: Numbers = after - first
        return counts

    def are_lost(self, problems: Mapping[str, int]) -> Mask:
        """The steps of which events are missing.

        That any are is said by the recording; where, by the threads that work in steps: nothing is known from
        the last event on that one of them began. Where there was room again later, a step in between has few.
        Of a trace of another format that was cut off, all of any step may be missing: Kineto writes calls of
        the runtime after all ops.

        Args:
            problems: what was wrong with the file, besides what the recording itself says.
        """
        lost = np.zeros(len(self._track), dtype=bool)
        recording = self._recording
        if any(problems.get(problem, 0) for problem in _CUT_OFF):
            return ~lost
        lacks = [recording.drops.get(reason, 0) for reason in _DROPS]
        lacks += [recording.problems.get(problem, 0) for problem in _DAMAGE]
        if not any(lacks):
            return lost
        for track in set(self._track):
            of_track = np.array([one == track for one in self._track])
            lost |= of_track & (self._bounds_ns[:, 1] > self._known_until_ns(track))
            sound = of_track & ~lost
            if sound.any():
                lost |= sound & (self.count < _FEW * np.median(self.count[sound]))
        return lost

    def _known_until_ns(self, track: int) -> int:
        """When the first of the threads that work in the steps of one began its last event."""
        own = self._starts_ns[track]
        if not len(own):
            return int(np.iinfo(np.int64).min)
        until_ns = int(own[-1])
        known = self._bounds_ns[self._bounds_ns[:, 1] <= until_ns]
        process_id = self._recording.tracks[track].process_id
        for other, starts_ns in enumerate(self._starts_ns):
            if len(starts_ns) and self._recording.tracks[other].process_id == process_id:
                works = np.count_nonzero(self._in_steps(other, known)) > len(known) / 2
                until_ns = min(until_ns, int(starts_ns[-1])) if works else until_ns
        return until_ns

    def are_left_over(self, whole: Sequence[bool]) -> Mask:
        """The last step of a thread where it has next to no events beside the others.

        A loop that marks its steps at their ends begins one more, which lasts until the recording ends.
        """
        left_over = np.zeros(len(self._track), dtype=bool)
        for track in set(self._track):
            steps = [place for place, one in enumerate(self._track) if one == track and whole[place]]
            if len(steps) > 1:
                *others, last = steps
                left_over[last] = self.count[last] < _FEW * self.count[others].min()
        return left_over
