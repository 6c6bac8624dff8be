"""Events of runs. Writing is separate from reading, and completeness is proven, not assumed (Jenkins JEP-212; docs/events.md)."""
