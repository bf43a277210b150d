"""Our own threads among those of the program, by their names."""

OWN_THREAD_PREFIX = "otel-torchprof-"
"""How the names of all of them begin."""
