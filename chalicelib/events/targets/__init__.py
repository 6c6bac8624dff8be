"""Targets: other systems that receive events, one module for each, with its limits and responses (docs/forwarding.md)."""
