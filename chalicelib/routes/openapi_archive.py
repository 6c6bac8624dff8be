"""The archive in the OpenAPI document: texts and examples; schemas are generated from the models. What a client sends is written here where its
form is freer than that of stored metadata. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.archive.uploads import MAX_BYTES, PART_BYTES
from chalicelib.routes.archive_models import (
    ArchiveError,
    CreatedFile,
    FileEntry,
    FileEntryPage,
    FileMetadata,
    FilePart,
    MultipartUpload,
    PutUpload,
    StorageLocation,
    UploadSteps,
)
from chalicelib.routes.archive_queries import DEFAULT_LOOKBACK_DAYS
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.schemas import component_schemas, reference

_BASE = "https://logs.example.com/api"
_ID = "6309e115c2914d0f8622973422626954"
_URL = f"s3://runlake-archive/{_ID}/data"
_HTTP_URL = f"{_BASE}/v0/archive/files/{_ID}/data"
_SIGNED = f"https://runlake-archive.s3.amazonaws.com/{_ID}/data"
_MIB = 1024 * 1024
_URI = {"type": "string", "format": "uri"}
_MOMENT = {
    "type": ["integer", "number", "string"],
    "description": "Milliseconds since the epoch (a number up to 100,000,000,000: seconds), ISO 8601, or `now`.",
}


_METADATA = {
    "version": 0,
    "start": 1426809920345,
    "end": 1426895999114,
    "path": "/var/log/syslog.1",
    "where": "webserver02",
    "what": "syslog",
    "work_id": None,
    "id": _ID,
    "hash": "a3e75ee4f45f676422e038f2c116d000",
}
_DESCRIBED = {**_METADATA, "start_iso": "2015-03-20T00:05:20.345Z", "end_iso": "2015-03-20T23:59:59.114Z"}
_RECORD = {
    "url": _URL,
    "http_url": _HTTP_URL,
    "create_time": 1426896791333,
    "size": 7892341,
    "metadata": _DESCRIBED,
}
_PUT = {
    "method": "PUT",
    "url": f"{_SIGNED}?X-Amz-Signature=0123",
    "headers": {"x-amz-meta-datalake": '{"version": 0, "start": 1426809920345}'},
}
_MULTIPART = {
    "method": "MULTIPART",
    "part_size": PART_BYTES,
    "parts": [
        {"number": 1, "url": f"{_SIGNED}?partNumber=1&uploadId=u1&X-Amz-Signature=0123", "size": PART_BYTES},
        {"number": 2, "url": f"{_SIGNED}?partNumber=2&uploadId=u1&X-Amz-Signature=4567", "size": 50 * _MIB},
    ],
    "complete_url": f"{_SIGNED}?uploadId=u1&X-Amz-Signature=89ab",
    "abort_url": f"{_SIGNED}?uploadId=u1&X-Amz-Signature=cdef",
}
_CREATED = [
    {
        "id": _ID,
        "url": _URL,
        "http_url": _HTTP_URL,
        "metadata": _METADATA,
        "upload": upload,
        "expires_at": "2015-03-21T01:00:00Z",
    }
    for upload in (_PUT, _MULTIPART)
]

_RESPONSES = component_schemas(
    {
        "Storage": StorageLocation,
        "Metadata": FileMetadata,
        "Record": FileEntry,
        "RecordList": FileEntryPage,
        "CreatedFile": CreatedFile,
        "Upload": UploadSteps,
        "PutUpload": PutUpload,
        "MultipartUpload": MultipartUpload,
        "Part": FilePart,
        "ArchiveError": ArchiveError,
    },
    {
        "Storage": [{"storage_url": "s3://runlake-archive"}],
        "Metadata": [_DESCRIBED],
        "Record": [_RECORD],
        "RecordList": [{"records": [_RECORD], "next": None}],
        "CreatedFile": _CREATED,
        "Upload": [_PUT, _MULTIPART],
        "PutUpload": [_PUT],
        "MultipartUpload": [_MULTIPART],
        "Part": [_MULTIPART["parts"][0]],  # type: ignore[index]
        "ArchiveError": [{"code": "NoSuchFile", "message": f"No file with id {_ID} exists"}],
    },
)
_FIELDS: dict[str, dict[str, Any]] = _RESPONSES["Metadata"]["properties"]
_CHANGEABLE: dict[str, Any] = {
    "start": _MOMENT,
    "end": {"anyOf": [_MOMENT, {"type": "null"}]},
    **{name: _FIELDS[name] for name in ("path", "where", "what", "work_id")},
}

SCHEMAS: dict[str, dict[str, Any]] = _RESPONSES | {
    "MetadataChange": {
        "description": "The fields to change. Omitted fields keep their values. `id`, `hash` and `version` cannot be changed.",
        "type": "object",
        "properties": _CHANGEABLE,
        "propertyNames": {"not": {"enum": ["id", "hash", "version"]}},
        "examples": [{"work_id": "blappo-14321359", "ticket": "OPS-7"}],
    },
    "NewFile": {
        "description": "Metadata and size of a file to upload. Additional keys are preserved.",
        "type": "object",
        "required": ["start", "path", "where", "what", "work_id", "hash", "size"],
        "properties": {
            **_CHANGEABLE,
            "hash": _FIELDS["hash"],
            "size": {"type": "integer", "minimum": 0, "maximum": MAX_BYTES, "description": "Size of the contents in bytes."},
        },
        "examples": [{key: value for key, value in _METADATA.items() if key not in ("version", "id")} | {"size": 7892341}],
    },
}

ERRORS: dict[str, tuple[int, str, str]] = {
    "NoArgs": (400, "The request has no parameters.", "Please provide minimal query arguments"),
    "NoWhat": (400, "`what` is missing.", "You must provide the `what` paramater"),
    "NoWorkInterval": (400, "`work_id`, `start` and `end` are all missing.", "You must provide either work_id or start/end"),
    "InvalidWorkInterval": (
        400,
        "`work_id` with a time and without `combine=true`, `start` without `end`, `end` without `start`, or `start` after `end`.",
        "You must provide only work_id or start/end. Not both.",
    ),
    "InvalidTime": (
        400,
        "A time is empty, has an unknown format, or is not in the years 1 to 9999.",
        "start must be milliseconds since the epoch.",
    ),
    "InvalidCursor": (
        400,
        "The cursor is invalid, or belongs to another query.",
        "Failed to decode cursor nonsense",
    ),
    "TooManyNames": (
        400,
        "`what` and `where` match too many sources for one request.",
        "the patterns match too many sources: narrow what or where sources=201 limit=200",
    ),
    "InvalidOrder": (400, "`order` is neither `oldest` nor `newest`.", "order is one of oldest, newest"),
    "InvalidMetadata": (
        400,
        "A field is missing or invalid, the file spans more than 30 days, or the metadata is too large.",
        "\"what\": only lower-case letters, digits, _ and - are allowed, not 'Sys Log'",
    ),
    "InvalidLookback": (
        400,
        "`lookback` is not a whole number of days.",
        "lookback must be an integer not <class 'str'>",
    ),
    "NoSuchFile": (404, "The file does not exist, or the principal may not read it.", f"No file with id {_ID} exists"),
    "NotChangeable": (
        409,
        "The file is the log of a run and cannot be changed or deleted.",
        f"the log of a run cannot be changed or deleted as a file id={_ID}",
    ),
    "TooLarge": (
        413,
        "The file is larger than 5 GiB.",
        f"an upload can have at most 5 GiB; use the datalake's client for larger files bytes={MAX_BYTES + 1} limit={MAX_BYTES}",
    ),
    "Unavailable": (503, "Temporarily unavailable: repeat the request.", f"head failed code=SlowDown what={_ID}/data"),
}

DETAILS = {
    "InvalidWorkInterval": "combine=true finds files that match both",
    "InvalidTime": "or ISO 8601: not a time: 'yesterday'",
    "InvalidCursor": "invalid cursor: omit it to start from the first page",
    "InvalidLookback": "a number of days, not 'long'",
}
"""Examples of ``detail`` of the errors that have one."""


def _path(name: str, field: str, description: str, example: str) -> dict[str, Any]:
    """A name in a path, with the schema of a field of metadata."""
    schema = {key: value for key, value in _FIELDS[field].items() if key != "description"}
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "whats": query_parameter(
        "what",
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9_*-]+$"}},
        "Producers of the files: one name or more, separated by commas or in repeated parameters; `*` matches any characters.",
        required=True,
        style="form",
        explode=False,
        example=["syslog", "nginx-*"],
    ),
    "wheres": query_parameter("where", {"type": "string"}, "Location or server of the files; `*` matches any characters."),
    "workId": query_parameter(
        "work_id",
        {"type": "string", "pattern": _FIELDS["work_id"]["pattern"]},
        "Work id of the files. Either `work_id`, or `start` and `end` are required; all three with `combine=true`.",
    ),
    "combine": query_parameter(
        "combine", {"type": "boolean", "default": False}, "Whether `work_id` and a time may be given together: files match both."
    ),
    "start": query_parameter(
        "start", {"type": "string"}, "Only files that end at this time or later: a number as in metadata, or ISO 8601."
    ),
    "end": query_parameter("end", {"type": "string"}, "Only files that start at this time or earlier."),
    "fileCursor": query_parameter("cursor", {"type": "string"}, "Beginning of the page, from `next` of the previous page."),
    "order": query_parameter(
        "order", {"type": "string", "enum": ["oldest", "newest"], "default": "oldest"}, "Order of the files by `start`."
    ),
    "lookback": query_parameter(
        "lookback", {"type": "integer", "default": DEFAULT_LOOKBACK_DAYS}, "Maximum age of the file's end in calendar days."
    ),
    "fileId": _path("id", "id", "The file's id, percent-encoded as one segment of the path: a slash as `%2F`.", _ID),
    "what": _path("what", "what", "Producer of the file.", "syslog"),
    "where": _path("where", "where", "Location or server of the file.", "webserver02"),
}


def _json_body(name: str) -> dict[str, Any]:
    schema = SCHEMAS[name]
    content = {"schema": reference(name), "example": schema["examples"][0]}
    return {"required": True, "description": schema["description"], "content": {"application/json": content}}


_CONTENTS = {
    "description": "The contents. The type follows from the file name in `path`, without `.gz`; default: `text/plain`.",
    "content": {"text/plain": {"schema": {"type": "string"}, "example": "one\ntwo\n"}, "*/*": {}},
}
_ELSEWHERE = {
    "description": "The contents are large or not text: a link to S3, valid for 15 minutes. S3 sends the same type, and for gzip "
    "`Content-Encoding: gzip`.",
    "headers": {"Location": {"description": "The link.", "schema": _URI, "example": f"{_SIGNED}?X-Amz-Signature=0123"}},
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "getStorage": {
        "summary": "Get the storage location of files",
        "responses": {200: "Storage"},
    },
    "listFiles": {
        "summary": "Find files",
        "description": "By `what`, and by `work_id` or time. Bounds are inclusive; a file without an end matches by its start. "
        "Unknown parameters are ignored, and empty ones other than times. `next` is signed and valid for this query only, with the "
        "`now` of its first page. A file that is added or deleted between two pages may be missing; no other file is omitted.",
        "parameters": ["whats", "wheres", "workId", "start", "end", "combine", "order", "fileCursor"],
        "responses": {200: "RecordList"},
    },
    "createFile": {
        "summary": "Prepare an upload without AWS credentials",
        "description": "Returns presigned S3 URLs, which accept only this metadata, size and object. Once the contents are stored and "
        "have the announced hash, the file is listed; with another hash it is never listed, and remains until it is deleted or "
        "expires.",
        "body": _json_body("NewFile"),
        "responses": {201: "CreatedFile"},
    },
    "readFile": {
        "summary": "Read a file's contents",
        "description": "Response headers keep browsers from executing contents.",
        "parameters": ["fileId"],
        "responses": {200: _CONTENTS, 307: _ELSEWHERE},
    },
    "readMetadata": {
        "summary": "Get a file's metadata",
        "description": "Of a file whose key is `{id}/data` before it is catalogued, too, unless its id has a slash.",
        "parameters": ["fileId"],
        "responses": {200: "Metadata"},
    },
    "changeMetadata": {
        "summary": "Change a file's metadata",
        "description": "Fields cannot be removed. The object is written again, so `create_time` changes. Lists have the new metadata "
        "from the response on.",
        "parameters": ["fileId"],
        "body": _json_body("MetadataChange"),
        "responses": {200: "Metadata"},
    },
    "deleteFile": {
        "summary": "Delete a file",
        "description": "Also deletes an upload that was rejected or is not verified yet. In a bucket with versioning, S3 keeps the old "
        "version.",
        "parameters": ["fileId"],
        "responses": {204: {"description": "The file is deleted."}},
    },
    "readLatest": {
        "summary": "Get the file with the latest start",
        "description": "Of several, the last one written. Ignores files that start more than a day from now.",
        "parameters": ["what", "where", "lookback"],
        "responses": {200: "Record"},
    },
    "readLatestFile": {
        "summary": "Read the contents of the file with the latest start",
        "parameters": ["what", "where", "lookback"],
        "responses": {200: _CONTENTS, 307: _ELSEWHERE},
    },
}
