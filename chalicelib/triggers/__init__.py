"""Event sources other than HTTP: one module each."""
