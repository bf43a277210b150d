"""Metrics as plain data: from recordings and from live counts, for every sink."""
