"""The documents: checked against the code."""
