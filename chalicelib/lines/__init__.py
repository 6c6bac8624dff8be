"""Parses log lines into time, level, logger and message. Standard library only: Spark workers and functions share it."""
