"""Runlake: a serverless archive for the logs of pipeline runs."""

__version__ = "0.1.0"
