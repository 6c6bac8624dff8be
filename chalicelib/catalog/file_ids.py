"""Ids of files, and the key under which the datalake's client stores the object of a file: ``{id}/data``.

An id is any text that S3, DynamoDB and JSON can all hold. An id that would be more than one segment of a path, or that clients resolve
as a relative one, has no key of its own: its file is found by the catalog, under the key from which it was catalogued. So no id leads
out of ``{id}/data``, whatever a client, a proxy or an S3-compatible store makes of dots and slashes in a path.

The id of a run's log is the hash of its key. Clients choose ids, so an object of the archive may state the id of a log; it cannot take it
(``FileState.is_run_log``).
"""

from __future__ import annotations

import re
from hashlib import blake2b

MAX_ID_BYTES = 512
"""In UTF-8: with a ``where`` of 256 it fits into a sort key of DynamoDB (1,024), and as ``{id}/data`` into a key of S3 (1,024)."""
ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"
"""Of an id in JSON, where a lone surrogate cannot be; Python's ``$`` would also accept a newline at the end."""
DOT_SEGMENTS = frozenset([".", ".."])
"""Relative segments: clients resolve them in the path of a URL, also percent-encoded."""

_DATA = "/data"
_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def is_file_id(text: str) -> bool:
    """Whether a text can be the id of a file."""
    return not _problem(text)


def checked_file_id(text: str) -> str:
    """The id. Raises ValueError, with what an id may be."""
    if problem := _problem(text):
        raise ValueError(problem)
    return text


def _problem(text: str) -> str:
    """Why a text cannot be an id; empty if it can."""
    if not text:
        return "it must not be empty"
    if not _ID.fullmatch(text):
        return f"no control characters and no surrogates are allowed, not {text[:100]!r}"
    size = len(text.encode())
    return f"at most {MAX_ID_BYTES} bytes of UTF-8 are allowed, not {size}" if size > MAX_ID_BYTES else ""


def has_data_key(file_id: str) -> bool:
    """Whether a file with this id has a key of its own."""
    return "/" not in file_id and file_id not in DOT_SEGMENTS


def data_key(file_id: str) -> str:
    """The key under which the datalake's client stores a file's object; no two ids share one."""
    return file_id + _DATA


def id_of_key(key: str) -> str | None:
    """The id in a key ``{id}/data``; None for any other key."""
    file_id = key.removesuffix(_DATA)
    return file_id if file_id != key and is_file_id(file_id) and has_data_key(file_id) else None


def run_object_id(key: str) -> str:
    """The id of a run's object, a function of its key: no run can be named so that its log gets a given id."""
    return blake2b(key.encode(), digest_size=16).hexdigest()
