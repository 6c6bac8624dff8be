"""Log agents in the OpenAPI document: texts and examples; schemas are generated from the models. ``openapi`` documents the format."""

from __future__ import annotations

from typing import Any

from chalicelib.routes.agents_models import (
    BulkResponse,
    ElasticsearchInfo,
    FirehoseDelivery,
    FirehoseResponse,
    OtlpResponse,
    StoredItems,
)
from chalicelib.routes.openapi_logs import query_parameter
from chalicelib.routes.schemas import component_schemas, reference

_OWN = {"runlake": {"fqn": "mysql.ingest", "run_id": "run-1"}}
_RECORD = {"message": "one", "level": "info", **_OWN}
_LINES = '{"message": "one", "runlake": {"fqn": "mysql.ingest", "run_id": "run-1"}}\n'
_REQUEST_ID = "ed4acda5-034f-9f42-bba1-f29aea6d7d8f"
_DELIVERY = {"requestId": _REQUEST_ID, "timestamp": 1790000000000, "records": [{"data": "b25lCg=="}]}
_OTLP = {
    "resourceLogs": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "mysql.ingest"}}]},
            "scopeLogs": [{"logRecords": [{"timeUnixNano": "1790000000000000000", "body": {"stringValue": "one"}}]}],
        }
    ]
}


_ITEM = {"_index": "logs", "_id": "0", "_version": 1, "result": "created", "status": 201}

SCHEMAS = component_schemas(
    {"FirehoseDelivery": FirehoseDelivery}, {"FirehoseDelivery": [_DELIVERY]}, "validation"
) | component_schemas(
    {
        "AgentItems": StoredItems,
        "FirehoseAnswer": FirehoseResponse,
        "OtlpAnswer": OtlpResponse,
        "BulkAnswer": BulkResponse,
        "ElasticsearchInfo": ElasticsearchInfo,
    },
    {
        "AgentItems": [{"accepted": 1, "refused": 1, "errors": [{"index": 1, "code": 400, "message": "the record is empty"}]}],
        "FirehoseAnswer": [{"requestId": _REQUEST_ID, "timestamp": 1790000000000}],
        "OtlpAnswer": [
            {},
            {
                "partialSuccess": {
                    "rejectedLogRecords": "1",
                    "errorMessage": "an event's data and annotations are too large limit=65536 refused=1 items=2",
                }
            },
        ],
        "BulkAnswer": [{"took": 12, "errors": False, "items": [{"create": _ITEM}]}],
        "ElasticsearchInfo": [{"version": {"number": "8.19.0"}, "tagline": "You Know, for Search"}],
    },
)

ERRORS: dict[int, tuple[int, str, str]] = {
    400: (400, "The request is invalid, or all items are rejected.", "the record is empty refused=1 items=1"),
    403: (
        403,
        "The principal may not write to the pipelines of the items.",
        "not permitted: scope logs:write is required for this name name='mysql.ingest' refused=1 items=1",
    ),
    409: (
        409,
        "The runs of all items are closed, or written to another store.",
        "the run is closed: its log takes no more lines sequence=4 refused=1 items=1",
    ),
    410: (410, "The runs of all items were deleted.", "the run was deleted run=mysql.ingest/run-9 refused=1 items=1"),
    413: (413, "The body is too large, or expands too far.", "gzip body expands too far limit=16777216"),
    415: (
        415,
        "The content type or the content encoding is not supported.",
        "unsupported content encoding: send gzip or none content_encoding='br'",
    ),
    503: (
        503,
        "Some items are not stored yet: repeat the request.",
        "put failed code=SlowDown what=pipeline-logs/mysql.ingest/run-1/segments/0000000004 refused=1 items=2",
    ),
}


def _header(name: str, description: str, example: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}, "example": example}


PARAMETERS: dict[str, dict[str, Any]] = {
    "agentFqn": _header("X-Runlake-Fqn", "Pipeline of records without one.", "mysql.ingest"),
    "agentRun": _header("X-Runlake-Run-Id", "Run of records without one.", "run-1"),
    "agentZone": _header("X-Runlake-Zone", "Zone of times without one in records; default: UTC.", "Europe/Berlin"),
    "agentTag": query_parameter("tag", {"type": "string"}, "Fluentd's tag; the header `Fluent-Tag` takes precedence."),
    "firehoseId": _header("X-Amz-Firehose-Request-Id", "Id of a delivery, the same in every attempt.", _REQUEST_ID),
    "firehoseAttributes": _header(
        "X-Amz-Firehose-Common-Attributes",
        "Parameters of the stream, which can name the run.",
        '{"commonAttributes":{"runlake.fqn":"mysql.ingest","runlake.run_id":"run-1"}}',
    ),
    "bulkIndex": {
        "name": "index",
        "in": "path",
        "required": True,
        "description": "Index of actions without one. A rule can derive the run from it.",
        "schema": {"type": "string", "minLength": 1},
        "example": "runlake-mysql.ingest-run1",
    },
}

_NAMED = ["agentFqn", "agentRun", "idempotencyKey"]


def _body(**types: Any) -> dict[str, Any]:
    names = {"json": "application/json", "lines": "application/x-ndjson", "text": "text/plain", "msgpack": "application/msgpack"}
    content = {
        names.get(name, "application/x-protobuf"): {"schema": {}, "example": each} if each else {} for name, each in types.items()
    }
    return {"required": True, "content": content}


def _operation(
    summary: str, parameters: list[str], body: dict[str, Any], response: Any = "AgentItems", about: str = ""
) -> dict[str, Any]:
    return {
        "summary": summary,
        **({"description": about} if about else {}),
        "parameters": parameters,
        "body": body,
        "responses": {200: response},
    }


_BULK = _body(lines=f'{{"create": {{"_index": "logs"}}}}\n{_LINES}', json=f'{{"create": {{}}}}\n{_LINES}')
_EXPORTED = {
    "description": "The response, in the encoding of the request.",
    "content": {
        "application/json": {
            "schema": reference("OtlpAnswer"),
            "examples": {"all": {"value": {}}, "some": {"value": SCHEMAS["OtlpAnswer"]["examples"][1]}},
        },
        "application/x-protobuf": {},
    },
}


def _bulk(parameters: list[str]) -> dict[str, Any]:
    about = "`create` and `index` append a document; `update` and `delete` are rejected."
    return _operation("Append documents with Elasticsearch's bulk API", parameters, _BULK, "BulkAnswer", about)


def _asked(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {200: "ElasticsearchInfo"}}


OPERATIONS: dict[str, dict[str, Any]] = {
    "appendFluentRecords": _operation(
        "Append records of Fluent Bit or Fluentd",
        [*_NAMED, "agentZone", "agentTag"],
        _body(json=[_RECORD], lines=_LINES, msgpack=None, text="one\n"),
    ),
    "appendLogstashEvents": _operation(
        "Append events of Logstash",
        [*_NAMED, "agentZone"],
        _body(json=[_RECORD], lines=_LINES, text="one\n"),
        about="Each line of text is an event.",
    ),
    "appendSyslogMessages": _operation(
        "Append messages of syslog-ng or rsyslog",
        [*_NAMED, "agentZone"],
        _body(text="<13>1 2026-09-21T14:13:20Z host app 42 - - one\n", json=[_RECORD], lines=_LINES),
        about="RFC 5424, RFC 3164, text or JSON. A line without a priority continues the message before it.",
    ),
    "appendFirehoseDelivery": _operation(
        "Append a delivery of AWS Data Firehose",
        ["firehoseId", "firehoseAttributes"],
        {
            "required": True,
            "content": {"application/json": {"schema": reference("FirehoseDelivery"), "example": _DELIVERY}},
        },
        "FirehoseAnswer",
        "The token may be in `X-Amz-Firehose-Access-Key`.",
    ),
    "exportLogs": _operation("Append log records of OpenTelemetry", _NAMED, _body(json=_OTLP, protobuf=None), _EXPORTED),
    "bulk": _bulk([*_NAMED, "agentZone"]),
    "putBulk": _bulk([*_NAMED, "agentZone"]),
    "indexBulk": _bulk(["bulkIndex", *_NAMED, "agentZone"]),
    "putIndexBulk": _bulk(["bulkIndex", *_NAMED, "agentZone"]),
    "elasticsearchInfo": _asked("Product check of Elasticsearch clients"),
    "elasticsearchPing": {"summary": "Connection check", "responses": {200: {"description": "The connection works."}}},
    "elasticsearchLicense": _asked("License check of Beats and Logstash"),
    "elasticsearchHealth": _asked("Health check of Vector"),
}
