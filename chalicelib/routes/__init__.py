"""HTTP in and out: one Blueprint per resource, and the only place for status codes."""
