"""The table of work on devices while a file is being read: a row of known fields an event."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import DEVICE_DTYPE


class DeviceRows:
    """Collects rows of DEVICE_DTYPE; what is not given, or None, is not known."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add(self, event: int, **fields: Any) -> None:
        """Adds what is known of an event, by the names of DEVICE_DTYPE."""
        self._rows.append({"event": event, **fields})

    def table(self) -> npt.NDArray[np.void]:
        """All rows."""
        table = np.zeros(len(self._rows), dtype=DEVICE_DTYPE)
        for name in DEVICE_DTYPE.names or ():
            if DEVICE_DTYPE[name].kind == "i":
                table[name] = -1
            elif DEVICE_DTYPE[name].kind == "f":
                table[name] = np.nan
        for place, fields in enumerate(self._rows):
            for name, value in fields.items():
                if value is not None:
                    table[name][place] = value
        return table
