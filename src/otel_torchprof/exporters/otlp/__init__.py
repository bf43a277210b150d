"""OTLP traces in files: every event of the recording a span, nothing folded."""
