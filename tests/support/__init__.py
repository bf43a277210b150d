"""Real parts for tests: servers that count what they receive, a collector, certificates."""
