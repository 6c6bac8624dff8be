"""How a file's contents are answered: of which type, packed or not, whole or as a link."""

from __future__ import annotations

import re
from dataclasses import dataclass
from mimetypes import MimeTypes

from chalicelib.catalog.metadata import Metadata
from chalicelib.ports import ObjectInfo, ObjectStore
from chalicelib.response_size import envelope_bytes

MAX_INLINE_BYTES = 5_000_000
"""More than this is a link: Lambda answers 6 MB at most."""
DEFAULT_TYPE = "text/plain"
GZIP = "gzip"
_TYPES = MimeTypes()  # Python's own table, the same on every machine
_GZIP_MAGIC = b"\x1f\x8b\x08"
_WITH_HASH = re.compile(r"(.+)-[0-9a-f]{32,40}", re.DOTALL)
_LINK_AGE_S = 900
LINKED_TYPES = frozenset({"application/octet-stream", "application/gzip", "application/x-gzip", "application/x-ndjson"})
"""Types that the gateway takes for bytes: what has one of them is never answered as text."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Either ``text``, or ``link``: where anybody may GET the bytes for 15 minutes."""

    content_type: str
    content_encoding: str
    text: str | None = None
    link: str = ""


def contents_of(store: ObjectStore, info: ObjectInfo, metadata: Metadata) -> Contents:
    """Small text as it is; everything else as a link, since a gateway hands on nothing but text unchanged. One GET, or none when empty.
    Raises ObjectNotFoundError, PreconditionFailedError (it was rewritten meanwhile)."""
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
    """Guessed from the name, without the hash that some put behind it."""
    hashed = _WITH_HASH.fullmatch(path)
    return _TYPES.guess_type(hashed[1] if hashed else path)[0] or DEFAULT_TYPE


def _text(body: bytes) -> str | None:
    """Bytes that arrive unchanged as text, and fit once they are escaped."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if envelope_bytes(text) <= MAX_INLINE_BYTES else None
