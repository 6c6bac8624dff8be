"""Logs as events: writing apart from browsing, with completeness that can be relied on (Jenkins JEP-212; docs/events.md)."""
