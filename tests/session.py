"""What tests share until the session ends. Not until the process exits: pytest-xdist kills a worker 10 s after its session."""

from contextlib import ExitStack

shared = ExitStack()
"""Closed at the end of the session."""
