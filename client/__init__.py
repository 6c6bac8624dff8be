"""The client: its package is below src/."""
