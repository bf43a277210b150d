"""What recordings say: each module answers one question about a `Recording` and changes nothing."""
