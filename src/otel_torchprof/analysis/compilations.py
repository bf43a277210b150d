"""When torch.compile compiled: the gap between asking its cache and the first run of what it made."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.event_names import is_named
from otel_torchprof.analysis.steps import Mask, Numbers
from otel_torchprof.recording import Recording

_REGION = re.compile(r"^Torch-Compiled Region: (\d+)/(\d+)$")
_ASK = "TorchDynamo Cache Lookup"
MIN_COMPILE_NS = 10_000_000  # a shorter gap is the program's own


@dataclass(frozen=True, eq=False)
class Compilations:
    """Columns, a row for each version of a frame that was compiled in the recording.

    Attributes:
        rows: the first run of each.
        frame, version: as in `Torch-Compiled Region: frame/version`; version 0 is the first.
        cost_ns: from the answer of the cache to the first run.
    """

    rows: Numbers
    frame: Numbers
    version: Numbers
    cost_ns: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, wanted: Mask) -> Compilations:
        """A part of them."""
        return Compilations(self.rows[wanted], self.frame[wanted], self.version[wanted], self.cost_ns[wanted])


def compilations(recording: Recording) -> Compilations:
    """All of a recording; versions that were compiled before it began are not among them."""
    events = recording.events
    regions = np.flatnonzero(is_named(recording, lambda name: _REGION.match(name) is not None))
    asks = np.flatnonzero(is_named(recording, lambda name: name.startswith(_ASK)))
    _names, first = np.unique(events.name[regions], return_index=True)
    rows = np.sort(regions[first])
    place = np.searchsorted(asks, rows) - 1
    rows, place = rows[place >= 0], place[place >= 0]
    before = asks[place]
    cost_ns = events.start_ns[rows] - events.end_ns[before]
    versions = [_REGION.match(recording.event_name(row)) for row in rows.tolist()]
    numbers = [[int(version[1]), int(version[2])] for version in versions if version]
    frame, version = np.array(numbers, dtype=np.int64).reshape(-1, 2).T
    compiled = (events.track[rows] == events.track[before]) & (cost_ns >= MIN_COMPILE_NS)
    return Compilations(rows, frame, version, cost_ns).where(compiled)
