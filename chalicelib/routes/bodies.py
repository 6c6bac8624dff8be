"""Request bodies: converts API Gateway's events to batches of log lines.

JSON: a string is the log, an object is OpenMetadata's LogBatch, an empty body is a keep-alive. ``text/plain``, ``application/x-ndjson`` and
``application/octet-stream`` are log lines, ``application/gzip`` the same, compressed. All of them allow ``Content-Encoding: gzip``.

API Gateway decodes a body as UTF-8, unless its type is binary: other bytes become U+FFFD. It does not pass on ``Content-Length``, so U+FFFD
in ``text/plain`` is refused where nothing shows that the client sent it.

API Gateway decompresses a body with ``Content-Encoding: gzip`` itself, and passes it on with the header. The expansion of a body is limited by
its size as sent (``Allowance``); for a body that the gateway decompressed, that size is estimated.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalice.app import ChaliceViewError
from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.routes.allowance import GZIP_MAGIC, Allowance
from chalicelib.routes.budgets import Budget
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.zone import checked_zone

_JSON = "application/json"
_GZIP = frozenset({"application/gzip", "application/x-gzip"})
_PLAIN = frozenset({"text/plain", "application/x-ndjson", "application/octet-stream"})

_PACKED = frozenset({"application/msgpack", "application/x-msgpack", "application/x-protobuf"})
"""Types without a charset."""
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s";]*)', re.IGNORECASE)
_UTF8 = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii"})
_CONVERTED = re.compile(r"iso-8859-[0-9]{1,2}|windows-125[0-9]|utf-16(?:le|be)?", re.ASCII)
"""Charsets that become UTF-8. Not all that Python knows: some take quadratic time."""
_CONVERTED_BYTES = 6 * 1024 * 1024
"""Of a body to convert: in UTF-8 it may have three times as many, which no allowance counts."""
_REPLACED = "\ufffd"
_GZIP_AS_TEXT = "\x1f\ufffd"  # the magic number after a gateway decoded bytes as text
_SMALL_BYTES = 256 * 1024
"""Up to this decompressed size the limits are those of a small body: the size as sent does not matter."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class UnsupportedMediaTypeError(ChaliceViewError):
    """A body of an unsupported content type."""

    STATUS_CODE = 415


class LogBatch(BaseModel):
    """OpenMetadata's batch of lines. Without `logs` it is an init or a keep-alive: nothing is stored. `timestamp` and `lineCount` are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    # InstanceOf: strings may contain lone surrogates
    logs: InstanceOf[str] | None = Field(None, description="The lines, each ended by a newline; base64 of gzip if `compressed`.")
    connector_id: InstanceOf[str] | None = Field(
        None, alias="connectorId", description="Identifier of the writer, stored as metadata of the segment."
    )
    compressed: bool | None = False

    def to_batch(self, allowance: Allowance) -> Batch:
        """The lines. Raises InvalidBatchError, BatchTooLargeError."""
        connector = _SURROGATE.sub("\ufffd", self.connector_id or "")
        if self.logs and self.compressed:
            return Batch.from_bytes(allowance.gunzip(_base64(self.logs)), connector)
        return Batch.from_text(self.logs or "", connector)


@dataclass(frozen=True, slots=True)
class Body:
    """A decompressed body: text or bytes. ``allowance``: the remaining limits of its parts."""

    content_type: str
    content: str | bytes
    allowance: Allowance

    @property
    def text(self) -> str:
        """The content as text; invalid UTF-8 becomes U+FFFD."""
        return self.content if isinstance(self.content, str) else self.content.decode(errors="replace")


def read_batch(event: Mapping[str, Any], headers: Mapping[str, str], budget: Budget, limit_bytes: int) -> Batch:
    """The batch in an API Gateway event. Raises InvalidBatchError, BatchTooLargeError, UnsupportedMediaTypeError."""
    if not event.get("body"):
        return Batch.from_bytes(b"")
    body = read_body(event, headers, budget, limit_bytes)
    if body.content_type == _JSON:
        return _from_json(body)
    if body.content_type in _PLAIN or body.content_type in _GZIP:
        if isinstance(body.content, str):
            _check_exact(body.content, headers)
        return Batch.from_bytes(body.content) if isinstance(body.content, bytes) else Batch.from_text(body.content)
    raise UnsupportedMediaTypeError(
        f"unsupported content type: send application/json, text/plain or application/gzip content_type={body.content_type!r}"
    )


def stated_zone(headers: Mapping[str, str]) -> str:
    """The zone of times without one, as the request states it; empty: it states none. Raises InvalidInputError."""
    zone = headers.get("x-runlake-zone", "")
    return checked_zone(zone) if zone else ""


def read_body(event: Mapping[str, Any], headers: Mapping[str, str], budget: Budget, limit_bytes: int) -> Body:
    """The decompressed body of an event. ``limit_bytes``: the installation's limit for compressed bodies. Raises InvalidBatchError,
    BatchTooLargeError, UnsupportedMediaTypeError."""
    raw = event.get("body") or ""
    content_type = headers.get("content-type", _JSON).partition(";")[0].strip().lower()
    content: str | bytes = _base64(raw) if event.get("isBase64Encoded") else raw
    if len(content) > budget.body_bytes:
        raise BatchTooLargeError(f"body is too large bytes={len(content)} limit={budget.body_bytes}")
    if not _is_packed(content_type, headers):
        allowance = Allowance(budget, len(content), limit_bytes)
        return Body(content_type, _in_utf8(content, content_type, headers), allowance)
    if not _is_gzip(content, content_type in _GZIP, by_gateway=not isinstance(raw, bytes)):
        allowance = Allowance(budget, _sent_bytes(content), limit_bytes)
        allowance.spend(len(content))
        return Body(content_type, _in_utf8(content, content_type, headers), allowance)
    assert isinstance(content, bytes)
    allowance = Allowance(budget, len(content), limit_bytes)
    return Body(content_type, _in_utf8(allowance.gunzip(content), content_type, headers), allowance)


def _in_utf8(content: str | bytes, content_type: str, headers: Mapping[str, str]) -> str | bytes:
    """Content in UTF-8 instead of its declared charset; bytes of a body without one are unchanged. Raises UnsupportedMediaTypeError."""
    found = _CHARSET.search(headers.get("content-type", ""))
    charset = found[1].lower() if found else ""
    if charset in _UTF8 or content_type in _PACKED:
        return content
    if isinstance(content, str):
        _check_exact(content, headers)
        content = content.encode(errors="replace")
    if len(content) > _CONVERTED_BYTES:
        raise BatchTooLargeError(f"a body of another charset than UTF-8 is too large bytes={len(content)} limit={_CONVERTED_BYTES}")
    try:
        if _CONVERTED.fullmatch(charset):
            return content.decode(charset).encode()
    except (LookupError, ValueError) as error:
        raise UnsupportedMediaTypeError(f"the body is not in its charset charset={charset!r}") from error
    raise UnsupportedMediaTypeError(
        f"unsupported charset: send UTF-8, or the bytes as application/octet-stream without one charset={charset!r}"
    )


def _check_exact(text: str, headers: Mapping[str, str]) -> None:
    """Refuse text in which the gateway may have replaced bytes. Its length shows that it did not, except for characters that are cut after
    three of four bytes. Raises UnsupportedMediaTypeError."""
    if _REPLACED not in text:
        return
    is_packed = headers.get("content-encoding", "").strip().lower() not in ("", "identity")
    if is_packed or headers.get("content-length") != str(len(text.encode(errors="replace"))):
        raise UnsupportedMediaTypeError(
            "the text is not UTF-8, or has U+FFFD, which replaces other bytes on the way: send it as application/octet-stream"
        )


def _is_packed(content_type: str, headers: Mapping[str, str]) -> bool:
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise UnsupportedMediaTypeError(f"unsupported content encoding: send gzip or none content_encoding={encoding!r}")
    return content_type in _GZIP or encoding in ("gzip", "x-gzip")


def _is_gzip(content: str | bytes, is_gzip_type: bool, *, by_gateway: bool) -> bool:
    """Whether content that should be gzip still is. Raises InvalidBatchError."""
    if isinstance(content, str):
        if is_gzip_type or content.startswith(_GZIP_AS_TEXT):
            raise InvalidBatchError("gzip body was decoded as text: send it as application/gzip")
        return False  # the gateway decompressed it
    return not by_gateway or is_gzip_type or content.startswith(GZIP_MAGIC)


def _sent_bytes(content: str | bytes) -> int:
    """The estimated size of a body before the gateway decompressed it."""
    if len(content) <= _SMALL_BYTES:
        return len(content) // 100
    return len(zlib.compress(content if isinstance(content, bytes) else content.encode(errors="replace"), level=1))


def _from_json(body: Body) -> Batch:
    body.allowance.check_values(body.content)
    try:
        # Invalid UTF-8 must not lose the batch: it becomes U+FFFD, like lone surrogates.
        value = json.loads(body.text)
    except (ValueError, RecursionError) as error:
        raise InvalidBatchError(f"body is not json reason={str(error)!r}") from error
    if isinstance(value, str):
        return Batch.from_text(value)
    if isinstance(value, dict):
        return _log_batch(value).to_batch(body.allowance)
    if value is None:
        return Batch.from_bytes(b"")
    raise InvalidBatchError(f"a json body must be a string or a LogBatch object type={type(value).__name__}")


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
