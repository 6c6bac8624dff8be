"""How deeply lists and objects may stand within one another. Every step over a value may recurse: Python's limit is 1,000 frames."""

MAX_DEPTH = 100
"""Of an event's data, as of a record in JSON or MessagePack."""
MAX_OTLP_DEPTH = 64
"""Of an OTLP value, each level of which is two of JSON."""
