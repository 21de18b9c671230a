"""Pure functions: from values to the next step. No clock, no I/O, no randomness."""
