"""What to say of JSON without a trace in it: what it is, where that is known, and what to give instead."""

from __future__ import annotations

from otel_torchprof.importers.input_file import InputFile

# The name of a node that every one has, among the first.
_EXECUTION_TRACE_MARK = b'"[pytorch|profiler|execution_trace|'


def refusal_of(file: InputFile) -> str:
    """One line, with the way out where there is one."""
    if b'"nodes"' in file.head and _EXECUTION_TRACE_MARK in file.head:
        return (
            f"{file.path} is an execution trace of torch's ExecutionTraceObserver, which holds operators and "
            "their inputs but no times: give the trace that the profiler wrote of the same run "
            "(export_chrome_trace)"
        )
    return f"{file.path} is JSON, but there is no trace in it"
