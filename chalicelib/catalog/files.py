"""The record of a file, and its rows in the datalake's own tables.

Table ``files``: hash ``time_index_key`` = ``{day}:{what}``, range ``range_key`` = ``{where}:{id}``, one row for each day that the
file spans; index ``work-id-index``. Table ``latest``: hash ``what_where_key``. The rows have every attribute that Planet's datalake
writes, so programs that read its tables can read these. Runlake's own queries read table ``listing`` (``catalog.listing``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from chalicelib.catalog.metadata import Metadata
from chalicelib.ports import Key

FILES, LATEST = "files", "latest"
RECORD_VERSION = 0
_MAX_DEPTH = 16


def location_of(url: str) -> tuple[str, str]:
    """The bucket and the key in the URL of an object."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file: its URL (``s3://bucket/key``), size in bytes, last write of its object (ms), and metadata."""

    url: str
    size: int
    create_time: int
    metadata: Metadata

    @property
    def id(self) -> str:
        """The file's id."""
        return self.metadata.id

    @property
    def source(self) -> tuple[str, str]:
        """What and where."""
        return self.metadata.what, self.metadata.where

    @property
    def age(self) -> tuple[int, int]:
        """Sort key of a source's files: the greatest is the latest file."""
        return self.metadata.start, self.create_time

    def document(self) -> dict[str, Any]:
        """The document of reports and responses."""
        return {"url": self.url, "size": self.size, "create_time": self.create_time, "metadata": self.metadata.document()}

    def text(self) -> str:
        """The document as stored in rows."""
        return json.dumps(self.document(), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The inverse of ``text``."""
        return cls.from_document(json.loads(text))

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``."""
        metadata = Metadata.model_validate(document["metadata"])
        return cls(document["url"], document["size"], document["create_time"], metadata)

    def file_rows(self) -> dict[Key, dict[str, Any]]:
        """Rows of table ``files``, one for each day. Raises InvalidMetadataError for more than 30 days."""
        shared = self._shared_row()
        keys = {day: f"{day}:{self.metadata.what}" for day in self.metadata.days()}
        return {
            Key(FILES, key, shared["range_key"]): {"version": RECORD_VERSION, "time_index_key": key} | shared
            for key in keys.values()
        }

    def latest_row(self) -> dict[str, Any]:
        """The row of table ``latest``. Only Runlake writes ``document``, which responses return unchanged."""
        key = latest_key(*self.source)
        first_day = f"{self.metadata.days()[0]}:{self.metadata.what}"
        ours = {"what_where_key": key.partition, "document": self.text()}
        return {"version": RECORD_VERSION, "time_index_key": first_day} | self._shared_row() | ours

    def _shared_row(self) -> dict[str, Any]:
        metadata = self.metadata
        return {
            "work_id_index_key": f"{metadata.work_id or 'null' + metadata.id}:{metadata.what}",
            "range_key": f"{metadata.where}:{metadata.id}",
            "url": self.url,
            "create_time": self.create_time,
            "size": self.size,
            "metadata": {name: _native(value) for name, value in metadata.document().items() if name},
        }


def latest_key(what: str, where: str) -> Key:
    """The key of the row with the latest file of a source."""
    return Key(LATEST, f"{what}:{where}")


def _native(value: Any, depth: int = 1) -> Any:
    """A JSON value as DynamoDB can store it; a value that it cannot store (nested too deeply, an empty name, too many digits) as
    text."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Mapping) and depth < _MAX_DEPTH and all(value):
        return {name: _native(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list) and depth < _MAX_DEPTH:
        return [_native(item, depth + 1) for item in value]
    if isinstance(value, Mapping | list):
        return json.dumps(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and not _fits(Decimal(value)):
        return str(value)
    return value


def _fits(number: Decimal) -> bool:
    """Whether DynamoDB can store a number: up to 38 digits, between 1e-130 and 1e126."""
    return not number or (len(number.as_tuple().digits) <= 38 and -130 <= number.adjusted() <= 125)
