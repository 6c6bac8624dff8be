"""Cursors of file lists: signed, so that clients cannot forge them, and bound to their query by a fingerprint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, replace
from hashlib import blake2b

from itsdangerous import BadData, URLSafeSerializer

from chalicelib.catalog.search import FileQuery
from chalicelib.errors import InvalidCursorError

_SALT = "archive-files"


class CursorSigner:
    """``keys``: secrets; the first signs, all verify."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._serializer = URLSafeSerializer(list(reversed(keys)), salt=_SALT)  # it signs with the last

    def write(self, query: FileQuery, after: tuple[int, str]) -> str:
        """A URL-safe text from which this query continues after the file (start, id) ``after``."""
        return str(self._serializer.dumps([*after, _fingerprint(query)]))

    def read(self, text: str, query: FileQuery) -> FileQuery:
        """The query, continued after the cursor's file. Raises InvalidCursorError."""
        try:
            start_ms, file_id, fingerprint = self._serializer.loads(text)
        except (BadData, ValueError, TypeError) as error:
            raise InvalidCursorError("invalid cursor: omit it to start from the first page") from error
        if fingerprint != _fingerprint(query):
            raise InvalidCursorError("the cursor belongs to another query: omit it to start from the first page")
        return replace(query, after=(start_ms, file_id))


def _fingerprint(query: FileQuery) -> str:
    plain = json.dumps(astuple(replace(query, whats=tuple(sorted(query.whats)), after=None)))
    return blake2b(plain.encode(), digest_size=8).hexdigest()
