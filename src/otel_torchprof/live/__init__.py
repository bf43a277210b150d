"""The instrumentation of a running program, from its steps to spans and metrics."""
