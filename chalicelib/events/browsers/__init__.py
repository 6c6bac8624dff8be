"""Browsers of logs in other stores, on one base for queries (docs/forwarding.md)."""
