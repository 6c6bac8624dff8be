"""Explains a failed run: finds the lines of its log that state the cause, by rules and without a model."""
