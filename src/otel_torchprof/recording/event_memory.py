"""What each event allocated and freed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EventMemory:
    """Columns in bytes, one row an event.

    What one event frees another may have allocated. Frees whose size is not known do not count.
    """

    allocated_bytes: Bytes  # by the event and all that it encloses
    freed_bytes: Bytes
    self_allocated_bytes: Bytes  # not within an event that it encloses
    self_freed_bytes: Bytes
    peak_bytes: Bytes  # the most that its thread held more than when it began
