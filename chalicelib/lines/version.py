"""The version of the layouts of lines (``lines.formats``)."""

LAYOUTS_VERSION = 1
"""Raise it with a release that reads stored lines otherwise: another time, level, logger or message, or other borders of events. Artifacts of
runs and entries of a dataset's ledger have it; those without one, and of any version so far, are read by the present layouts."""
