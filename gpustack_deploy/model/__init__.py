"""Pure values: what is declared, what is observed, what is recorded."""
