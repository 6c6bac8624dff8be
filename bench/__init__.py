"""Measurements of Runlake's goals: ``python -m bench`` prints the table of docs/performance.md."""
