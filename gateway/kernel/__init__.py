"""The first floor: pure functions from facts to decisions. No clock, no I/O, no logging, no randomness."""
