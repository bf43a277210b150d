"""What this package instruments. The extra `instruments` in pyproject.toml repeats it."""

_instruments = ("torch>=2.4.dev0",)
