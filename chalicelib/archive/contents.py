"""The response with a file's contents: its type, its encoding, and either the whole text or a presigned URL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from mimetypes import MimeTypes

from chalicelib.catalog.metadata import Metadata
from chalicelib.ports import ObjectInfo, ObjectStore
from chalicelib.response_size import envelope_bytes

MAX_INLINE_BYTES = 5_000_000
"""Larger contents are a presigned URL: a Lambda response has at most 6 MB."""
DEFAULT_TYPE = "text/plain"
GZIP = "gzip"
_TYPES = MimeTypes()  # Python's own table, the same on every machine
_GZIP_MAGIC = b"\x1f\x8b\x08"
_WITH_HASH = re.compile(r"(.+)-[0-9a-f]{32,40}", re.DOTALL)
_LINK_AGE_S = 900
LINKED_TYPES = frozenset({"application/octet-stream", "application/gzip", "application/x-gzip", "application/x-ndjson"})
"""Types that the gateway treats as binary: such contents are never returned as text."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Either ``text``, or ``link``: a presigned URL of the bytes, valid for 15 minutes."""

    content_type: str
    content_encoding: str
    text: str | None = None
    link: str = ""


def contents_of(store: ObjectStore, info: ObjectInfo, metadata: Metadata) -> Contents:
    """Small text unchanged; everything else as a presigned URL, since the gateway passes only text unchanged. One GET, or none
    if the file is empty. Raises ObjectNotFoundError, PreconditionFailedError (it was rewritten meanwhile)."""
    kind = content_type(metadata.path)
    if not info.size and kind not in LINKED_TYPES:
        return Contents(kind, "", "")
    if not info.size:
        return _link(store, info, kind, "")
    end = info.size if info.size <= MAX_INLINE_BYTES else len(_GZIP_MAGIC)
    begin = store.get(info.key, 0, end, if_match=info.etag).body
    encoding = GZIP if begin.startswith(_GZIP_MAGIC) else ""
    is_text = len(begin) == info.size and not encoding and kind not in LINKED_TYPES
    text = _text(begin) if is_text else None
    return Contents(kind, encoding, text) if text is not None else _link(store, info, kind, encoding)


def _link(store: ObjectStore, info: ObjectInfo, kind: str, encoding: str) -> Contents:
    return Contents(
        kind, encoding, link=store.presign_get(info.key, expires_s=_LINK_AGE_S, content_type=kind, content_encoding=encoding)
    )


def content_type(path: str) -> str:
    """Guessed from the file name, without a hash that some clients append."""
    hashed = _WITH_HASH.fullmatch(path)
    return _TYPES.guess_type(hashed[1] if hashed else path)[0] or DEFAULT_TYPE


def _text(body: bytes) -> str | None:
    """The bytes as text, if a text response preserves them and fits once it is escaped, else None."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if envelope_bytes(text) <= MAX_INLINE_BYTES else None
