"""Findings of one cause are one finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from otel_torchprof.analysis.patterns.finding import Finding
from otel_torchprof.analysis.patterns.pattern import Pattern
from otel_torchprof.analysis.patterns.view import View


def merge_causes(view: View, findings: Iterable[Finding], patterns: Mapping[str, Pattern]) -> list[Finding]:
    """Leaves out findings whose events all are, or lie within, those of a finding that explains them."""
    kept = list(findings)
    for cause in list(kept):
        explained = set(patterns[cause.pattern].explains)
        if not explained & {finding.pattern for finding in kept}:
            continue
        covered = np.zeros(len(view), dtype=bool)
        covered[cause.rows] = True
        covered |= view.inside(covered)
        parts = [
            finding
            for finding in kept
            if finding.pattern in explained and finding is not cause and covered[finding.rows].all()
        ]
        if parts:
            also = {*cause.also, *(name for part in parts for name in (part.pattern, *part.also))}
            kept = [finding for finding in kept if finding not in parts and finding is not cause]
            kept.append(replace(cause, also=tuple(sorted(also))))
    return kept
