"""Answers of OTLP: what was rejected of a request, and why one was refused, in JSON and in protobuf.

In protobuf they are texts: a gateway hands bytes over only to clients that ask for their type, and most exporters do not. So they are
made of ASCII alone.
"""

from __future__ import annotations

from typing import Any

_MAX_MESSAGE_CHARS = 100
_MAX_REJECTED = 127


def partial_success_json(rejected: int, message: str) -> dict[str, Any]:
    """The answer in JSON: an empty object where all was taken."""
    return {"partialSuccess": {"rejectedLogRecords": str(rejected), "errorMessage": message}} if rejected else {}


def partial_success_protobuf(rejected: int, message: str) -> str:
    """The answer in protobuf. More than 127 rejected are told as 127, which ASCII has room for, and in the message by their number."""
    if not rejected:
        return ""
    described = message if rejected <= _MAX_REJECTED else f"{rejected} records: {message}"
    inner = "\x08" + chr(min(rejected, _MAX_REJECTED)) + _field(2, described)
    return "\x0a" + chr(len(inner)) + inner


def status_protobuf(message: str) -> str:
    """google.rpc.Status of a refusal, of ASCII alone."""
    return _field(2, message)


def _field(number: int, text: str) -> str:
    encoded = text.encode("ascii", "replace").decode()[:_MAX_MESSAGE_CHARS]
    return chr(number << 3 | 2) + chr(len(encoded)) + encoded
