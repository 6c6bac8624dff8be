"""The datalake's metadata document of a file, version 0. S3 stores it as user metadata ``datalake`` of the object.

A stored document has times in milliseconds; input may have any format of ``timestamps``. Keys that the version does not define are
preserved.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from chalicelib.catalog.file_ids import ID_PATTERN, MAX_ID_BYTES, checked_file_id
from chalicelib.catalog.timestamps import DAY_MS, in_range, parse_time_ms
from chalicelib.errors import InvalidMetadataError, InvalidTimeError

NAME = "datalake"
"""The name of the user metadata: header ``x-amz-meta-datalake``."""
VERSION = 0
MAX_DAYS = 30
"""The most day buckets that a file may span."""
MAX_NAME_CHARS = 256
"""Of what, where and work_id, which are parts of keys."""
MAX_DOCUMENT_BYTES = 1900
"""S3 accepts 2 KB of user metadata, including names."""

_SLUG = re.compile(r"[a-z0-9_-]+")
_HEX = re.compile(r"[0-9a-f]{32}")
_WINDOWS_PATH = re.compile(r"[a-zA-Z]:\\.+", re.DOTALL)
_KEYS = ("version", "start", "end", "path", "work_id", "where", "what", "id", "hash")


def is_slug(text: str) -> bool:
    """Whether a text is a valid what or where."""
    return len(text) <= MAX_NAME_CHARS and _SLUG.fullmatch(text) is not None


def _slug(value: str) -> str:
    if not _SLUG.fullmatch(value):
        raise ValueError(f"only lower-case letters, digits, _ and - are allowed, not {value[:100]!r}")
    return value


def _work_id(value: str) -> str:
    if value == "null":
        raise ValueError('it can be null, but not the text "null"')
    return _slug(value)


def _hex(value: str) -> str:
    if not _HEX.fullmatch(value):
        raise ValueError(f"32 hexadecimal digits, not {value[:100]!r}")
    return value


def _path(value: str) -> str:
    if not (value.startswith("/") or _WINDOWS_PATH.fullmatch(value)):
        raise ValueError(f"an absolute path, not {value[:100]!r}")
    return value


def _moment(value: int) -> int:
    try:
        return in_range(value)
    except InvalidTimeError as error:
        raise ValueError(str(error)) from error


def _version(value: int) -> int:
    if value != VERSION:
        raise ValueError(f"found version {value}, only {VERSION} is supported")
    return value


_MATCHES_SLUG = {"pattern": f"^{_SLUG.pattern}$"}
_Moment = Annotated[StrictInt, AfterValidator(_moment)]
_Slug = Annotated[StrictStr, Field(max_length=MAX_NAME_CHARS, json_schema_extra=_MATCHES_SLUG), AfterValidator(_slug)]
_WorkId = Annotated[
    StrictStr,
    Field(max_length=MAX_NAME_CHARS, json_schema_extra={**_MATCHES_SLUG, "not": {"const": "null"}}),
    AfterValidator(_work_id),
]
HexText = Annotated[StrictStr, Field(json_schema_extra={"pattern": f"^{_HEX.pattern}$"}), AfterValidator(_hex)]
"""A hash, or an id that the archive made."""
FileId = Annotated[
    StrictStr,
    Field(json_schema_extra={"minLength": 1, "maxLength": MAX_ID_BYTES, "pattern": ID_PATTERN}),
    AfterValidator(checked_file_id),
]
"""The id of any file."""
EndMs = Annotated[_Moment | None, Field(description="Time of its last event; null: the file covers only the instant `start`.")]


class Metadata(BaseModel):
    """A valid document. ``start`` and ``end`` in ms since the epoch; ``end`` None: an instant."""

    model_config = ConfigDict(extra="allow", frozen=True)

    version: Annotated[StrictInt, AfterValidator(_version), WithJsonSchema({"const": VERSION})]
    start: Annotated[_Moment, Field(description="Time of the file's first event, in ms since the epoch.")]
    end: EndMs = None
    path: Annotated[
        StrictStr,
        AfterValidator(_path),
        Field(description="Absolute path of the original file, POSIX or Windows.", json_schema_extra={"minLength": 1}),
    ]
    work_id: Annotated[_WorkId | None, Field(description="An application-defined id to find the file by; not the string `null`.")]
    where: Annotated[_Slug, Field(description="The location or server that produced the file.")]
    what: Annotated[_Slug, Field(description="The process or program that produced the file, without a file extension.")]
    id: Annotated[FileId, Field(description="The file's id: any text without control characters; its limit counts bytes of UTF-8.")]
    hash: Annotated[HexText, Field(description="blake2b hash of the contents, 16 bytes.")]

    @model_validator(mode="after")
    def _interval(self) -> Self:
        if self.end is not None and self.end < self.start:
            raise ValueError('"end" must not be before "start"')
        return self

    @property
    def last_ms(self) -> int:
        """The end of the file; its start if it is an instant."""
        return self.start if self.end is None else self.end

    def document(self) -> dict[str, Any]:
        """The document of storage and responses: the version's keys first, then all others."""
        return {key: getattr(self, key) for key in _KEYS} | (self.model_extra or {})

    def text(self) -> str:
        """The document as stored in the object's user metadata: JSON, ASCII."""
        return json.dumps(self.document())

    def days(self) -> range:
        """The day buckets from start to end. Raises InvalidMetadataError for more than 30."""
        days = range(self.start // DAY_MS, self.last_ms // DAY_MS + 1)
        if len(days) > MAX_DAYS:
            raise InvalidMetadataError(f"a file spans at most {MAX_DAYS} days days={len(days)} id={self.id}")
        return days


def parse_metadata(text: str | None, fallback_id: str) -> Metadata:
    """A stored document. An integer time is always milliseconds: read as seconds, times before 1973 would be wrong. ``id`` and
    ``version`` get defaults if missing. Raises InvalidMetadataError."""
    if text is None:
        raise InvalidMetadataError(f"the object has no metadata document name={NAME}")
    document = _loaded(text)
    times = {name: document[name] for name in ("start", "end") if type(document.get(name)) in (str, float)}
    return _checked({"id": fallback_id, "version": VERSION} | document | _in_ms(times, None))


def metadata_of(fields: Mapping[str, Any], now_ms: int) -> Metadata:
    """A document from a client, with times of any format. Raises InvalidMetadataError, also if S3 cannot store it."""
    return _fitting({}, fields, now_ms)


def with_changes(metadata: Metadata, changes: Mapping[str, Any], now_ms: int) -> Metadata:
    """A document with some keys replaced by a client's values. Raises InvalidMetadataError."""
    return _fitting(metadata.document(), changes, now_ms)


def _fitting(document: Mapping[str, Any], fields: Mapping[str, Any], now_ms: int) -> Metadata:
    handed = _loaded(_dumped(fields))
    times = {name: handed[name] for name in ("start", "end") if handed.get(name) is not None}
    metadata = _checked({**document, **handed, **_in_ms(times, now_ms)})
    metadata.days()
    if (size := len(metadata.text())) > MAX_DOCUMENT_BYTES:
        raise InvalidMetadataError(f"the document is too large bytes={size} limit={MAX_DOCUMENT_BYTES}")
    return metadata


def _dumped(fields: Mapping[str, Any]) -> str:
    """The stored form. Rejects values that could not be read back."""
    try:
        return json.dumps(fields, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidMetadataError(f"the metadata document is not valid json reason={str(error)[:200]!r}") from error


def _loaded(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, parse_constant=_refuse, parse_float=_float)
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidMetadataError(f"the metadata document is not valid json reason={str(error)[:200]!r}") from error
    if not isinstance(document, dict):
        raise InvalidMetadataError(f"the metadata document must be a JSON object type={type(document).__name__}")
    return document


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a json number")


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _in_ms(times: Mapping[str, Any], now_ms: int | None) -> dict[str, int]:
    found = {}
    for name, value in times.items():
        try:
            found[name] = parse_time_ms("" if value == "now" and now_ms is None else value, now_ms or 0)
        except InvalidTimeError as error:
            raise InvalidMetadataError(f'"{name}": {error}') from error
    return found


def _checked(document: Mapping[str, Any]) -> Metadata:
    try:
        return Metadata.model_validate(document)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field, said = ".".join(map(str, wrong["loc"][:1])) or "end", wrong["msg"].removeprefix("Value error, ")
        raise InvalidMetadataError(f'"{field}": {said[:1].lower()}{said[1:]}') from error
