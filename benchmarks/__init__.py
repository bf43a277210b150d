"""The figures of the project, each beside its anchor, measured in one run: `python -m benchmarks`."""
