"""Other systems that take events: each module is one, and knows its limits and its answers (docs/forwarding.md)."""
