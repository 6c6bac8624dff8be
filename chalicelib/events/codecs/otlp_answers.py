"""OTLP responses in protobuf: partial success and errors.

They are texts: API Gateway returns binary bodies only to clients whose Accept header asks for them, and most
exporters send none. So these contain only ASCII.
"""

from __future__ import annotations

_MAX_MESSAGE_CHARS = 100
_MAX_REJECTED = 127


def partial_success_protobuf(rejected: int, message: str) -> str:
    """The response; empty if all records were accepted. A count above 127 does not fit ASCII: it is sent as 127, with the number in the message."""
    if not rejected:
        return ""
    described = message if rejected <= _MAX_REJECTED else f"{rejected} records: {message}"
    inner = "\x08" + chr(min(rejected, _MAX_REJECTED)) + _field(2, described)
    return "\x0a" + chr(len(inner)) + inner


def status_protobuf(message: str) -> str:
    """google.rpc.Status of an error, in ASCII."""
    return _field(2, message)


def _field(number: int, text: str) -> str:
    encoded = text.encode("ascii", "replace").decode()[:_MAX_MESSAGE_CHARS]
    return chr(number << 3 | 2) + chr(len(encoded)) + encoded
