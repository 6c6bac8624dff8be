"""The archive in the OpenAPI document: tables only; ``openapi`` documents their format."""

from __future__ import annotations

from typing import Any

_BASE = "https://logs.example.com/api"
_ID = "6309e115c2914d0f8622973422626954"
_URL = f"s3://runlake-archive/{_ID}/data"
_HTTP_URL = f"{_BASE}/v0/archive/files/{_ID}/data"
_SIGNED = f"https://runlake-archive.s3.amazonaws.com/{_ID}/data"
_MIB = 1024 * 1024
_MAX_BYTES = 5 * 1024 * _MIB
_PART_BYTES = 100 * _MIB
_SLUG = {"type": "string", "pattern": "^[a-z0-9_-]+$", "maxLength": 256}
_HEX = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_URI = {"type": "string", "format": "uri"}
_ISO = {"type": "string", "format": "date-time"}
_MOMENT = {
    "type": ["integer", "number", "string"],
    "description": "Milliseconds since the epoch (seconds where small), or ISO 8601, or `now`.",
}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


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
_RECORD = {
    "url": _URL,
    "http_url": _HTTP_URL,
    "create_time": 1426896791333,
    "size": 7892341,
    "metadata": {**_METADATA, "start_iso": "2015-03-20T00:05:20.345Z", "end_iso": "2015-03-20T23:59:59.114Z"},
}
_PUT = {
    "method": "PUT",
    "url": f"{_SIGNED}?X-Amz-Signature=0123",
    "headers": {"x-amz-meta-datalake": '{"version": 0, "start": 1426809920345}'},
}
_MULTIPART = {
    "method": "MULTIPART",
    "part_size": _PART_BYTES,
    "parts": [
        {"number": 1, "url": f"{_SIGNED}?partNumber=1&uploadId=u1&X-Amz-Signature=0123", "size": _PART_BYTES},
        {"number": 2, "url": f"{_SIGNED}?partNumber=2&uploadId=u1&X-Amz-Signature=4567", "size": 50 * _MIB},
    ],
    "complete_url": f"{_SIGNED}?uploadId=u1&X-Amz-Signature=89ab",
    "abort_url": f"{_SIGNED}?uploadId=u1&X-Amz-Signature=cdef",
}
_WHERE_AND_WHEN: dict[str, Any] = {
    "path": {"type": "string", "minLength": 1, "description": "Absolute path where the file came from, POSIX or Windows."},
    "where": {**_SLUG, "description": "The place or server that made the file."},
    "what": {**_SLUG, "description": "The process or program that made the file; no file extension."},
    "work_id": {
        "type": ["string", "null"],
        "pattern": "^[a-z0-9_-]+$",
        "not": {"const": "null"},
        "description": "An id of the application's own, to find the file again; never the text `null`.",
    },
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Storage": {
        "description": "Where files are stored.",
        "type": "object",
        "required": ["storage_url"],
        "properties": {"storage_url": _URI},
        "examples": [{"storage_url": "s3://runlake-archive"}],
    },
    "Metadata": {
        "description": "What is known of a file. Other keys are kept. In records times are repeated as ISO 8601.",
        "type": "object",
        "required": ["version", "start", "end", "path", "where", "what", "work_id", "id", "hash"],
        "properties": {
            "version": {"const": 0},
            "start": {"type": "integer", "description": "Time of the file's first event, ms since the epoch."},
            "end": {"type": ["integer", "null"], "description": "Time of its last event; null: the file is of one instant."},
            **_WHERE_AND_WHEN,
            "id": {**_HEX, "description": "The file's id."},
            "hash": {**_HEX, "description": "blake2b of its contents, 16 bytes."},
            "start_iso": _ISO,
            "end_iso": {"type": ["string", "null"], "format": "date-time"},
        },
        "examples": [_METADATA],
    },
    "MetadataChange": {
        "description": "The fields to change; the others stay. `id`, `hash` and `version` cannot be changed.",
        "type": "object",
        "properties": {"start": _MOMENT, "end": {"anyOf": [_MOMENT, {"type": "null"}]}, **_WHERE_AND_WHEN},
        "propertyNames": {"not": {"enum": ["id", "hash", "version"]}},
        "examples": [{"work_id": "blappo-14321359", "ticket": "OPS-7"}],
    },
    "Record": {
        "description": "A file in the archive.",
        "type": "object",
        "required": ["url", "http_url", "create_time", "size", "metadata"],
        "properties": {
            "url": {**_URI, "description": "Where it is on S3; of a run's log, `http_url` once more."},
            "s3_url": {**_URI, "description": "Of a run's log: where it is on S3."},
            "http_url": {**_URI, "description": "Where it is read over HTTP."},
            "create_time": {"type": "integer", "description": "When it was stored, ms since the epoch."},
            "size": {"type": "integer", "minimum": 0, "description": "Bytes."},
            "metadata": _ref("Metadata"),
        },
        "examples": [_RECORD],
    },
    "RecordList": {
        "description": "A page of files, each once over all pages. It may hold fewer than 100 and still have a `next`.",
        "type": "object",
        "required": ["records", "next"],
        "properties": {
            "records": {"type": "array", "maxItems": 100, "items": _ref("Record")},
            "next": {"type": ["string", "null"], "format": "uri", "description": "Address of the next page; null at the end."},
        },
        "examples": [{"records": [_RECORD], "next": None}],
    },
    "NewFile": {
        "description": "Metadata of a file that is to be uploaded, and its size. Other keys are kept.",
        "type": "object",
        "required": ["start", "path", "where", "what", "work_id", "hash", "size"],
        "properties": {
            "start": _MOMENT,
            "end": {"anyOf": [_MOMENT, {"type": "null"}]},
            **_WHERE_AND_WHEN,
            "hash": {**_HEX, "description": "blake2b of the contents, 16 bytes."},
            "size": {"type": "integer", "minimum": 0, "maximum": _MAX_BYTES, "description": "Bytes of the contents."},
        },
        "examples": [{key: value for key, value in _METADATA.items() if key not in ("version", "id")} | {"size": 7892341}],
    },
    "CreatedFile": {
        "description": "Where to upload the contents. The file is in the archive once they are there.",
        "type": "object",
        "required": ["id", "url", "http_url", "metadata", "upload", "expires_at"],
        "properties": {
            "id": _HEX,
            "url": {**_URI, "description": "Where it will be on S3."},
            "http_url": {**_URI, "description": "Where it will be read over HTTP."},
            "metadata": _ref("Metadata"),
            "upload": _ref("Upload"),
            "expires_at": {**_ISO, "description": "Until when the upload's addresses hold."},
        },
        "examples": [
            {
                "id": _ID,
                "url": _URL,
                "http_url": _HTTP_URL,
                "metadata": _METADATA,
                "upload": upload,
                "expires_at": "2015-03-21T01:00:00Z",
            }
            for upload in (_PUT, _MULTIPART)
        ],
    },
    "Upload": {
        "description": "How to upload: whole up to 100 MiB, in parts above.",
        "oneOf": [_ref("PutUpload"), _ref("MultipartUpload")],
        "discriminator": {
            "propertyName": "method",
            "mapping": {"PUT": "#/components/schemas/PutUpload", "MULTIPART": "#/components/schemas/MultipartUpload"},
        },
        "examples": [_PUT, _MULTIPART],
    },
    "PutUpload": {
        "description": "PUT the contents to `url` with exactly these headers.",
        "type": "object",
        "required": ["method", "url", "headers"],
        "properties": {
            "method": {"const": "PUT"},
            "url": _URI,
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "examples": [_PUT],
    },
    "MultipartUpload": {
        "description": (
            "PUT each part to its `url` and keep the answer's ETag; then POST S3's CompleteMultipartUpload document with all ETags to "
            "`complete_url`, or DELETE `abort_url`."
        ),
        "type": "object",
        "required": ["method", "part_size", "parts", "complete_url", "abort_url"],
        "properties": {
            "method": {"const": "MULTIPART"},
            "part_size": {"type": "integer", "minimum": 5 * _MIB, "description": "Bytes of every part but the last."},
            "parts": {"type": "array", "minItems": 1, "maxItems": 10_000, "items": _ref("Part")},
            "complete_url": _URI,
            "abort_url": _URI,
        },
        "examples": [_MULTIPART],
    },
    "Part": {
        "description": "One part of a file.",
        "type": "object",
        "required": ["number", "url", "size"],
        "properties": {
            "number": {"type": "integer", "minimum": 1, "maximum": 10_000},
            "url": _URI,
            "size": {"type": "integer", "minimum": 0, "description": "Bytes."},
        },
        "examples": [_MULTIPART["parts"][0]],  # type: ignore[index]
    },
    "ArchiveError": {
        "description": "Why a request was refused.",
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "description": "For programs."},
            "message": {"type": "string", "description": "For people."},
        },
        "examples": [{"code": "NoSuchFile", "message": f"there is no such file id={_ID}"}],
    },
}

ERRORS: dict[str, tuple[int, str, str]] = {
    "NoArgs": (400, "There are no parameters.", "a list needs what, and work_id or start and end"),
    "NoWhat": (400, "`what` is missing.", "what is missing"),
    "NoWorkInterval": (400, "Neither `work_id` nor `start` nor `end` is given.", "give work_id, or start and end"),
    "InvalidWorkInterval": (
        400,
        "`start` or `end` is given alone, or `end` is before `start`.",
        "end is before start start=1426895999114 end=1426809920345",
    ),
    "InvalidTime": (400, "A time cannot be read.", "a time is a number or ISO 8601 start='yesterday'"),
    "InvalidCursor": (400, "The cursor was not made here, or for another query.", "the cursor was not made here cursor='nonsense'"),
    "TooManyNames": (
        400,
        "`what` or `where` means more names than one request can ask for.",
        "the names stand for too many sources: ask for fewer sources=201 most=200",
    ),
    "InvalidOrder": (400, "`order` is neither `oldest` nor `newest`.", "order is oldest or newest order='random'"),
    "InvalidMetadata": (
        400,
        "The body is no metadata that can be stored: a field is wrong, it spans more than 30 days, or is too large.",
        "\"what\": only lower-case letters, digits, _ and - are allowed, not 'Sys Log'",
    ),
    "InvalidLookback": (400, "`lookback` is no number of days.", "lookback is a number of days lookback='long'"),
    "NoSuchFile": (404, "There is no such file.", f"there is no such file id={_ID}"),
    "NotChangeable": (
        409,
        "The file is the log of a run: its run decides what it is.",
        f"the log of a run cannot be changed id={_ID}",
    ),
    "TooLarge": (413, "The file is larger than 5 GiB.", f"a file has 5 GiB at most size={_MAX_BYTES + 1}"),
    "Unavailable": (503, "Trouble of ours: repeat the request.", "the store is away"),
}


def _query(name: str, schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema, **more}


def _path(name: str, schema: dict[str, Any], description: str, example: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "whats": _query(
        "what",
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9_*-]+$"}},
        "What made the files: one name or several with commas between; `*` stands for any letters.",
        required=True,
        style="form",
        explode=False,
        example=["syslog", "nginx-*"],
    ),
    "wheres": _query("where", {"type": "string"}, "Where they were made; `*` stands for any letters."),
    "workId": _query(
        "work_id",
        {"type": "string", "pattern": "^[a-z0-9_-]+$"},
        "Files of this work. Either this, or `start` and `end`, or all three.",
    ),
    "start": _query(
        "start", {"type": "string"}, "Files with something at this time or later: a number as in metadata, or ISO 8601."
    ),
    "end": _query("end", {"type": "string"}, "Files with something at this time or earlier."),
    "fileCursor": _query("cursor", {"type": "string"}, "Where the page begins; `next` of the page before has it."),
    "order": _query(
        "order", {"type": "string", "enum": ["oldest", "newest"], "default": "oldest"}, "Which files come first, by `start`."
    ),
    "lookback": _query("lookback", {"type": "integer", "default": 14}, "How many days to look back."),
    "fileId": _path("id", _HEX, "The file's id.", _ID),
    "what": _path("what", _SLUG, "What made the file.", "syslog"),
    "where": _path("where", _SLUG, "Where it was made.", "webserver02"),
}


def _json_body(name: str) -> dict[str, Any]:
    schema = SCHEMAS[name]
    content = {"schema": _ref(name), "example": schema["examples"][0]}
    return {"required": True, "description": schema["description"], "content": {"application/json": content}}


_CONTENTS = {
    "description": "The contents, of the type that the name in `path` tells, else `text/plain`.",
    "headers": {
        "Content-Encoding": {"description": "`gzip` where the contents are packed.", "schema": {"type": "string", "enum": ["gzip"]}}
    },
    "content": {"text/plain": {"schema": {"type": "string"}, "example": "one\ntwo\n"}, "*/*": {}},
}
_ELSEWHERE = {
    "description": "The contents are large, or no text: a link to S3 that holds for minutes.",
    "headers": {"Location": {"description": "The link.", "schema": _URI, "example": f"{_SIGNED}?X-Amz-Signature=0123"}},
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "GET /v0/archive/": {
        "id": "getStorage",
        "summary": "Where files are stored",
        "answers": {200: "Storage"},
    },
    "GET /v0/archive/files/": {
        "id": "listFiles",
        "summary": "Find files",
        "description": "By `what` and by `work_id`, by time, or by both. Bounds are inclusive; a file without an end has its start only.",
        "parameters": ["whats", "wheres", "workId", "start", "end", "order", "fileCursor"],
        "answers": {200: "RecordList"},
        "errors": [
            "NoArgs",
            "NoWhat",
            "NoWorkInterval",
            "InvalidWorkInterval",
            "InvalidTime",
            "InvalidCursor",
            "TooManyNames",
            "InvalidOrder",
            "Unavailable",
        ],
    },
    "POST /v0/archive/files": {
        "id": "createFile",
        "summary": "Upload a file without credentials of AWS",
        "description": "Answers addresses on S3 that take the contents.",
        "body": _json_body("NewFile"),
        "answers": {201: "CreatedFile"},
        "errors": ["InvalidMetadata", "TooLarge", "Unavailable"],
    },
    "GET /v0/archive/files/{id}/data": {
        "id": "readFile",
        "summary": "A file's contents",
        "parameters": ["fileId"],
        "answers": {200: _CONTENTS, 307: _ELSEWHERE},
        "errors": ["NoSuchFile", "Unavailable"],
    },
    "GET /v0/archive/files/{id}/metadata": {
        "id": "readMetadata",
        "summary": "A file's metadata",
        "parameters": ["fileId"],
        "answers": {200: "Metadata"},
        "errors": ["NoSuchFile", "Unavailable"],
    },
    "PATCH /v0/archive/files/{id}/metadata": {
        "id": "changeMetadata",
        "summary": "Change a file's metadata",
        "parameters": ["fileId"],
        "body": _json_body("MetadataChange"),
        "answers": {200: "Metadata"},
        "errors": ["InvalidMetadata", "NoSuchFile", "NotChangeable", "Unavailable"],
    },
    "DELETE /v0/archive/files/{id}": {
        "id": "deleteFile",
        "summary": "Delete a file",
        "description": "Also an upload that was refused, or not checked yet.",
        "parameters": ["fileId"],
        "answers": {204: {"description": "It is gone."}},
        "errors": ["NoSuchFile", "NotChangeable", "Unavailable"],
    },
    "GET /v0/archive/latest/{what}/{where}": {
        "id": "readLatest",
        "summary": "The file with the latest start",
        "description": "Not one that begins more than a day from now.",
        "parameters": ["what", "where", "lookback"],
        "answers": {200: "Record"},
        "errors": ["InvalidLookback", "NoSuchFile", "Unavailable"],
    },
    "GET /v0/archive/latest/{what}/{where}/data": {
        "id": "readLatestFile",
        "summary": "Contents of the file with the latest start",
        "parameters": ["what", "where", "lookback"],
        "answers": {200: _CONTENTS, 307: _ELSEWHERE},
        "errors": ["InvalidLookback", "NoSuchFile", "Unavailable"],
    },
}
