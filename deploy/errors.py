"""What goes wrong, in one line for the person at the keyboard."""

from __future__ import annotations


class DeployError(Exception):
    """Nothing was begun, or CloudFormation has rolled it back; the message says which."""
