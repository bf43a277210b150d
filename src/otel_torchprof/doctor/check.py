"""What a check of the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "off", "missing"]


@dataclass(frozen=True)
class Check:
    """One thing looked at.

    `state` is "ok", "off" (works without it, or turned off) or "missing" (something asked for cannot work).
    `detail` says what was found, `way_out` what to do about it; empty where nothing needs doing.
    """

    name: str
    state: State
    detail: str
    way_out: str = ""
