"""Parses blocks of log lines into Arrow columns, with the results of ``chalicelib.lines.events`` and without Python objects for most lines."""
