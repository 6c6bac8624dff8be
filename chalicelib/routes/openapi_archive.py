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
    "description": "Milliseconds since the epoch (a number up to 100,000,000,000: seconds), ISO 8601, or `now`.",
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
    "path": {"type": "string", "minLength": 1, "description": "Absolute path of the original file, POSIX or Windows."},
    "where": {**_SLUG, "description": "The location or server that produced the file."},
    "what": {**_SLUG, "description": "The process or program that produced the file, without a file extension."},
    "work_id": {
        "type": ["string", "null"],
        "pattern": "^[a-z0-9_-]+$",
        "not": {"const": "null"},
        "description": "An application-defined id to find the file by; not the string `null`.",
    },
}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Storage": {
        "description": "The storage location of files.",
        "type": "object",
        "required": ["storage_url"],
        "properties": {"storage_url": _URI},
        "examples": [{"storage_url": "s3://runlake-archive"}],
    },
    "Metadata": {
        "description": "Metadata of a file. Additional keys are preserved. Records also have the times as ISO 8601.",
        "type": "object",
        "required": ["version", "start", "end", "path", "where", "what", "work_id", "id", "hash"],
        "properties": {
            "version": {"const": 0},
            "start": {"type": "integer", "description": "Time of the file's first event, in ms since the epoch."},
            "end": {
                "type": ["integer", "null"],
                "description": "Time of its last event; null: the file covers only the instant `start`.",
            },
            **_WHERE_AND_WHEN,
            "id": {**_HEX, "description": "The file's id."},
            "hash": {**_HEX, "description": "blake2b hash of the contents, 16 bytes."},
            "start_iso": _ISO,
            "end_iso": {"type": ["string", "null"], "format": "date-time"},
        },
        "examples": [_METADATA],
    },
    "MetadataChange": {
        "description": "The fields to change. Omitted fields keep their values. `id`, `hash` and `version` cannot be changed.",
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
            "url": {**_URI, "description": "S3 URL of the file; for the log of a run, the same as `http_url`."},
            "s3_url": {**_URI, "description": "S3 URL of the log of a run."},
            "http_url": {**_URI, "description": "HTTP URL of the contents."},
            "create_time": {"type": "integer", "description": "Time of the last write, in ms since the epoch."},
            "size": {"type": "integer", "minimum": 0, "description": "Size in bytes."},
            "metadata": _ref("Metadata"),
        },
        "examples": [_RECORD],
    },
    "RecordList": {
        "description": "A page of files. It may have fewer than 100 files and still have a `next`. No file is on two pages.",
        "type": "object",
        "required": ["records", "next"],
        "properties": {
            "records": {"type": "array", "maxItems": 100, "items": _ref("Record")},
            "next": {"type": ["string", "null"], "format": "uri", "description": "URL of the next page; null on the last page."},
        },
        "examples": [{"records": [_RECORD], "next": None}],
    },
    "NewFile": {
        "description": "Metadata and size of a file to upload. Additional keys are preserved.",
        "type": "object",
        "required": ["start", "path", "where", "what", "work_id", "hash", "size"],
        "properties": {
            "start": _MOMENT,
            "end": {"anyOf": [_MOMENT, {"type": "null"}]},
            **_WHERE_AND_WHEN,
            "hash": {**_HEX, "description": "blake2b hash of the contents, 16 bytes."},
            "size": {"type": "integer", "minimum": 0, "maximum": _MAX_BYTES, "description": "Size of the contents in bytes."},
        },
        "examples": [{key: value for key, value in _METADATA.items() if key not in ("version", "id")} | {"size": 7892341}],
    },
    "CreatedFile": {
        "description": "A prepared upload. The file is in the archive after its contents are uploaded and their hash is verified.",
        "type": "object",
        "required": ["id", "url", "http_url", "metadata", "upload", "expires_at"],
        "properties": {
            "id": _HEX,
            "url": {**_URI, "description": "S3 URL of the future file."},
            "http_url": {**_URI, "description": "HTTP URL of the future contents."},
            "metadata": _ref("Metadata"),
            "upload": _ref("Upload"),
            "expires_at": {**_ISO, "description": "Time at which the URLs of the upload expire."},
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
        "description": "The requests of an upload: one PUT up to 100 MiB, a multipart upload above.",
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
            "PUT each part to its `url` and keep the ETag of the response; then POST S3's CompleteMultipartUpload document with all "
            "ETags to `complete_url`, or DELETE `abort_url` to cancel the upload."
        ),
        "type": "object",
        "required": ["method", "part_size", "parts", "complete_url", "abort_url"],
        "properties": {
            "method": {"const": "MULTIPART"},
            "part_size": {"type": "integer", "minimum": 5 * _MIB, "description": "Size in bytes of every part except the last."},
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
            "size": {"type": "integer", "minimum": 0, "description": "Size in bytes."},
        },
        "examples": [_MULTIPART["parts"][0]],  # type: ignore[index]
    },
    "ArchiveError": {
        "description": "An error.",
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "description": "Machine-readable code."},
            "message": {"type": "string", "description": "Human-readable message."},
        },
        "examples": [{"code": "NoSuchFile", "message": f"no file with id {_ID} exists"}],
    },
}

ERRORS: dict[str, tuple[int, str, str]] = {
    "NoArgs": (400, "The request has no parameters.", "Please provide minimal query arguments"),
    "NoWhat": (400, "`what` is missing.", "You must provide the `what` parameter"),
    "NoWorkInterval": (400, "`work_id`, `start` and `end` are all missing.", "You must provide either work_id or start/end"),
    "InvalidWorkInterval": (
        400,
        "`start` without `end`, `end` without `start`, or `start` after `end`.",
        "start must be before end",
    ),
    "InvalidTime": (
        400,
        "A time has an unknown format, or is not in the years 1 to 9999.",
        "start must be a time, such as milliseconds since the epoch: not a time: 'yesterday'",
    ),
    "InvalidCursor": (
        400,
        "The cursor is invalid, or belongs to another query.",
        "invalid cursor: omit it to start from the first page",
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
        "lookback must be an integer, a number of days, not 'long'",
    ),
    "NoSuchFile": (404, "The file does not exist, or the principal may not read it.", f"no file with id {_ID} exists"),
    "NotChangeable": (
        409,
        "The file is the log of a run and cannot be changed or deleted.",
        f"the log of a run cannot be changed or deleted as a file id={_ID}",
    ),
    "TooLarge": (
        413,
        "The file is larger than 5 GiB.",
        f"an upload can have at most 5 GiB; use the datalake's client for larger files bytes={_MAX_BYTES + 1} limit={_MAX_BYTES}",
    ),
    "Unavailable": (503, "Temporarily unavailable: repeat the request.", f"head failed code=SlowDown what={_ID}/data"),
}


def _query(name: str, schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema, **more}


def _path(name: str, schema: dict[str, Any], description: str, example: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "whats": _query(
        "what",
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9_*-]+$"}},
        "Producers of the files: one name or more, separated by commas; `*` matches any characters.",
        required=True,
        style="form",
        explode=False,
        example=["syslog", "nginx-*"],
    ),
    "wheres": _query("where", {"type": "string"}, "Location or server of the files; `*` matches any characters."),
    "workId": _query(
        "work_id",
        {"type": "string", "pattern": "^[a-z0-9_-]+$"},
        "Work id of the files. Either `work_id`, or `start` and `end`, or all three are required.",
    ),
    "start": _query(
        "start", {"type": "string"}, "Only files that end at this time or later: a number as in metadata, or ISO 8601."
    ),
    "end": _query("end", {"type": "string"}, "Only files that start at this time or earlier."),
    "fileCursor": _query("cursor", {"type": "string"}, "Beginning of the page, from `next` of the previous page."),
    "order": _query(
        "order", {"type": "string", "enum": ["oldest", "newest"], "default": "oldest"}, "Order of the files by `start`."
    ),
    "lookback": _query("lookback", {"type": "integer", "default": 14}, "Maximum age of the file in days."),
    "fileId": _path("id", _HEX, "The file's id.", _ID),
    "what": _path("what", _SLUG, "Producer of the file.", "syslog"),
    "where": _path("where", _SLUG, "Location or server of the file.", "webserver02"),
}


def _json_body(name: str) -> dict[str, Any]:
    schema = SCHEMAS[name]
    content = {"schema": _ref(name), "example": schema["examples"][0]}
    return {"required": True, "description": schema["description"], "content": {"application/json": content}}


_CONTENTS = {
    "description": "The contents. The type follows from the file name in `path`; default: `text/plain`.",
    "content": {"text/plain": {"schema": {"type": "string"}, "example": "one\ntwo\n"}, "*/*": {}},
}
_ELSEWHERE = {
    "description": "The contents are large or not text: a link to S3, valid for 15 minutes. S3 sends gzip with `Content-Encoding: gzip`.",
    "headers": {"Location": {"description": "The link.", "schema": _URI, "example": f"{_SIGNED}?X-Amz-Signature=0123"}},
}

OPERATIONS: dict[str, dict[str, Any]] = {
    "getStorage": {
        "summary": "Get the storage location of files",
        "answers": {200: "Storage"},
    },
    "listFiles": {
        "summary": "Find files",
        "description": "By `what` and by `work_id`, time, or both. Bounds are inclusive; a file without an end matches by its start.",
        "parameters": ["whats", "wheres", "workId", "start", "end", "order", "fileCursor"],
        "answers": {200: "RecordList"},
    },
    "createFile": {
        "summary": "Prepare an upload without AWS credentials",
        "description": "Returns presigned S3 URLs for the contents.",
        "body": _json_body("NewFile"),
        "answers": {201: "CreatedFile"},
    },
    "readFile": {
        "summary": "Read a file's contents",
        "parameters": ["fileId"],
        "answers": {200: _CONTENTS, 307: _ELSEWHERE},
    },
    "readMetadata": {
        "summary": "Get a file's metadata",
        "parameters": ["fileId"],
        "answers": {200: "Metadata"},
    },
    "changeMetadata": {
        "summary": "Change a file's metadata",
        "parameters": ["fileId"],
        "body": _json_body("MetadataChange"),
        "answers": {200: "Metadata"},
    },
    "deleteFile": {
        "summary": "Delete a file",
        "description": "Also deletes an upload that was rejected or is not verified yet.",
        "parameters": ["fileId"],
        "answers": {204: {"description": "The file is deleted."}},
    },
    "readLatest": {
        "summary": "Get the file with the latest start",
        "description": "Ignores files that start more than a day from now.",
        "parameters": ["what", "where", "lookback"],
        "answers": {200: "Record"},
    },
    "readLatestFile": {
        "summary": "Read the contents of the file with the latest start",
        "parameters": ["what", "where", "lookback"],
        "answers": {200: _CONTENTS, 307: _ELSEWHERE},
    },
}
