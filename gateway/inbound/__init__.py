"""The third floor: who comes to us. Translates, decides nothing."""
