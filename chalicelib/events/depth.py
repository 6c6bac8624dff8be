"""Limits of the nesting of lists and objects. Each operation on a value may recurse; Python allows 1,000 frames."""

MAX_DEPTH = 100
"""For an event's data, and a record in JSON or MessagePack."""
MAX_OTLP_DEPTH = 64
"""For an OTLP value, each level of which is two levels of JSON."""
