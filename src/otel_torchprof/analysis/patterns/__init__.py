"""What makes a model slow, where in its code, and what mending it would save.

`find_patterns(recording)` looks for every pattern that the recording holds enough for and names the others.
One module a family of patterns; docs/patterns.md lists them, and how another package adds one.
"""

from otel_torchprof.analysis.patterns.anti_pattern_report import report_all_anti_patterns, rows_named
from otel_torchprof.analysis.patterns.finding import (
    Finding,
    Level,
    NotChecked,
    PatternReport,
    Place,
    Saving,
    SlowStep,
)
from otel_torchprof.analysis.patterns.matcher import find_patterns
from otel_torchprof.analysis.patterns.pattern import Match, Need, Pattern, pattern
from otel_torchprof.analysis.patterns.registry import own_patterns
from otel_torchprof.analysis.patterns.view import View

__all__ = [
    "Finding",
    "Level",
    "Match",
    "Need",
    "NotChecked",
    "Pattern",
    "PatternReport",
    "Place",
    "Saving",
    "SlowStep",
    "View",
    "find_patterns",
    "own_patterns",
    "pattern",
    "report_all_anti_patterns",
    "rows_named",
]
