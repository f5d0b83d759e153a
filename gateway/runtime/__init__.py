"""The kernel joined to the world."""
