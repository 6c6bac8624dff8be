"""Errors of a deployment, each with a message of one line for the user."""

from __future__ import annotations


class DeployError(Exception):
    """Nothing was started, or CloudFormation has rolled it back; the message says which."""
