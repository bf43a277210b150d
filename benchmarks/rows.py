"""A line of the benchmark table: our figure beside its anchor, and the target both are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A bound on our figure (`of="ours"`) or on ours divided by the anchor (`of="ratio"`)."""

    kind: Literal["at most", "at least"]
    limit: float
    of: Literal["ours", "ratio"] = "ratio"

    def met(self, value: float) -> bool:
        return value <= self.limit if self.kind == "at most" else value >= self.limit


@dataclass(frozen=True)
class Row:
    """One measured figure.

    `ours` and `anchor` are medians in `unit` (for example "ns/op", "B/op", "spans/s"). A figure
    without an anchor has `anchor=None`; one that is only reported has `target=None`. Two targets make
    two rows. `ratio_quartiles` is the spread of the ratio over paired runs, where it is of interest.
    """

    name: str
    ours: float
    unit: str
    anchor_name: str = ""
    anchor: float | None = None
    target: Target | None = None
    ratio_quartiles: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """Ours divided by the anchor; None where there is no anchor to divide by."""
        return self.ours / self.anchor if self.anchor else None

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None for a figure that is only reported."""
        if self.target is None:
            return None
        value = self.ours if self.target.of == "ours" else self.ratio
        return None if value is None else self.target.met(value)
