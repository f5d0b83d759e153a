"""Hostile bytes for the four places where they come in, found by coverage: `python -m tests.fuzz NAME --seconds N`."""
