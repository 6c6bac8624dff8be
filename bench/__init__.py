"""Measurements of what Runlake promises: ``python -m bench`` prints the table of docs/performance.md."""
