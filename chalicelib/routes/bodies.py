"""Request bodies: from what the gateway hands over to a batch of log lines.

JSON: a string is the log as it is, an object is OpenMetadata's LogBatch, nothing at all is a keep-alive. ``text/plain``,
``application/x-ndjson`` and ``application/octet-stream`` are log lines as they are, ``application/gzip`` the same, packed.
``Content-Encoding: gzip`` goes with all of them.

API Gateway decompresses a body that has ``Content-Encoding: gzip`` itself, and hands it over with the header still there.
Whatever is unpacked here is unpacked piece by piece, and no further than the limit.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from chalice.app import ChaliceViewError
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.runlog.batch import Batch

_JSON = "application/json"
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_PLAIN = frozenset({"text/plain", "application/x-ndjson", "application/octet-stream"})

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_AS_TEXT = "\x1f\ufffd"  # what is left of the magic where a gateway took bytes for text
_PIECE_BYTES = 1024 * 1024
_SURROGATE = re.compile("[\ud800-\udfff]")


class UnsupportedMediaTypeError(ChaliceViewError):
    """A body of a type that is no log."""

    STATUS_CODE = 415


class LogBatch(BaseModel):
    """OpenMetadata's LogBatch; its ``timestamp`` and ``lineCount`` are not needed. Strings may hold lone surrogates."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        json_schema_extra={
            "description": "OpenMetadata's batch of lines. Without `logs` it is an init or a keep-alive: nothing is stored. Its "
            "`timestamp` and `lineCount` are accepted, and not looked at.",
            "examples": [
                {"connectorId": "host-17", "logs": "one\ntwo\n"},
                {"logs": "H4sIAAAAAAACA8vPS+UqKc/nAgDmC7oSCAAAAA==", "compressed": True},
            ],
        },
    )

    logs: InstanceOf[str] | None = Field(None, description="The lines, each ended by a newline; base64 of gzip if `compressed`.")
    connector_id: InstanceOf[str] | None = Field(
        None, alias="connectorId", description="Who writes: kept beside the lines, not in them."
    )
    compressed: bool | None = False

    def to_batch(self, limit_bytes: int) -> Batch:
        """The lines. Raises InvalidBatchError, BatchTooLargeError."""
        connector = _SURROGATE.sub("\ufffd", self.connector_id or "")
        if self.logs and self.compressed:
            return Batch.from_bytes(gunzip(_base64(self.logs), limit_bytes), connector)
        return Batch.from_text(self.logs or "", connector)


def batch_of(event: Mapping[str, Any], headers: Mapping[str, str], limit_bytes: int) -> Batch:
    """The batch in an API Gateway event. Raises InvalidBatchError, BatchTooLargeError, UnsupportedMediaTypeError."""
    if not event.get("body"):
        return Batch.from_bytes(b"")
    content_type, content = content_of(event, headers, limit_bytes)
    if content_type == _JSON:
        return _from_json(content, limit_bytes)
    if content_type in _PLAIN or content_type in _GZIP:
        return Batch.from_bytes(content) if isinstance(content, bytes) else Batch.from_text(content)
    raise UnsupportedMediaTypeError(f"a log is application/json, text/plain or application/gzip content_type={content_type!r}")


def content_of(event: Mapping[str, Any], headers: Mapping[str, str], limit_bytes: int) -> tuple[str, str | bytes]:
    """The type of a body, and its content, unpacked. Raises InvalidBatchError, BatchTooLargeError, UnsupportedMediaTypeError."""
    body = event.get("body") or ""
    content_type = headers.get("content-type", _JSON).partition(";")[0].strip().lower()
    content: str | bytes = _base64(body) if event.get("isBase64Encoded") else body
    if len(content) > limit_bytes:
        raise BatchTooLargeError(f"body is too large bytes={len(content)} limit={limit_bytes}")
    if _is_packed(content_type, headers):
        content = _unpacked(content, content_type in _GZIP, by_gateway=not isinstance(body, bytes), limit_bytes=limit_bytes)
    return content_type, content


def gunzip(packed: bytes, limit_bytes: int) -> bytes:
    """Unpack gzip, of several members too, in memory bounded by the limit. Raises InvalidBatchError, BatchTooLargeError."""
    unpacked = bytearray()
    while packed:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = _inflated(member, packed)
            unpacked += piece
            if len(unpacked) > limit_bytes:
                raise BatchTooLargeError(f"gzip body expands too far limit={limit_bytes}")
            packed = member.unconsumed_tail
            if not piece and not packed and not member.eof:
                raise InvalidBatchError("gzip body ends too early")
        packed = member.unused_data.lstrip(b"\0")
    return bytes(unpacked)


def _inflated(member: Any, packed: bytes) -> bytes:
    try:
        piece: bytes = member.decompress(packed, _PIECE_BYTES)
        return piece
    except zlib.error as error:
        raise InvalidBatchError(f"gzip body is broken reason={str(error)!r}") from error


def _is_packed(content_type: str, headers: Mapping[str, str]) -> bool:
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaTypeError(f"a body is packed with gzip or not at all content_encoding={encoding!r}")
    return content_type in _GZIP or encoding in ("gzip", "x-gzip")


def _unpacked(content: str | bytes, is_gzip_type: bool, *, by_gateway: bool, limit_bytes: int) -> str | bytes:
    if isinstance(content, str):
        if is_gzip_type or content.startswith(_GZIP_AS_TEXT):
            raise InvalidBatchError("gzip body came as text: send it as application/gzip")
        return content  # the gateway has unpacked it
    if by_gateway and not is_gzip_type and not content.startswith(_GZIP_MAGIC):
        return content
    return gunzip(content, limit_bytes)


def _from_json(content: str | bytes, limit_bytes: int) -> Batch:
    try:
        # Bytes that are no UTF-8 would cost the batch: they become U+FFFD, as lone surrogates do.
        value = json.loads(content if isinstance(content, str) else content.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise InvalidBatchError(f"body is not json reason={str(error)!r}") from error
    if isinstance(value, str):
        return Batch.from_text(value)
    if isinstance(value, dict):
        return _log_batch(value).to_batch(limit_bytes)
    if value is None:
        return Batch.from_bytes(b"")
    raise InvalidBatchError(f"a json body is a string or a LogBatch object type={type(value).__name__}")


def _log_batch(value: dict[str, Any]) -> LogBatch:
    try:
        return LogBatch.model_validate(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        raise InvalidBatchError(f"not a LogBatch: {wrong['msg'].lower()} field={wrong['loc'][0]}") from error


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InvalidBatchError(f"body is not base64 reason={str(error)!r}") from error
