"""A native PyTorch recorder that speaks OpenTelemetry. Importing it imports neither torch nor an SDK."""

from otel_torchprof.version import __version__

__all__ = ["__version__"]
