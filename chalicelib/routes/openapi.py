"""The OpenAPI 3.1 document of every endpoint, which ``GET /spec/`` and ``GET /v1/openapi.json`` return and the page below ``GET /docs/`` shows.

The texts are in tables, here and in the modules ``openapi_…``, one entry for each operation of ``operations``, by its id::

    "listFiles": {
        "summary": …, "description": …,
        "parameters": ["what", "work_id"],    of PARAMETERS
        "body": {…},                          OpenAPI's requestBody
        "responses": {200: "RecordList"},       JSON of SCHEMAS, with the schema's own description and example; or a complete response
    }

``ERRORS`` has the status, the condition and an example of a message for each code of ``Operation.errors``; ``DETAILS`` an example of
``detail`` where an error has one.

This module converts them to OpenAPI: references, one response for all errors of a status, the redirect to a path's trailing slash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from chalicelib import __version__
from chalicelib.routes import (
    openapi_agents,
    openapi_archive,
    openapi_catalog,
    openapi_coordination,
    openapi_events,
    openapi_logs,
    openapi_pipeline_files,
    openapi_pipelines,
    openapi_security,
    openapi_viewer,
)
from chalicelib.routes.operations import OPERATIONS, Operation
from chalicelib.routes.schemas import IncompleteDocumentError, component_schemas, reference
from chalicelib.routes.service_models import Environment, Health

_Errors = Mapping[int, tuple[int, str, str]] | Mapping[str, tuple[int, str, str]] | Mapping[int | str, tuple[int, str, str]]


@dataclass(frozen=True, slots=True)
class _Resource:
    """The tables of one tag. ``error`` is the schema of its errors."""

    tag: str
    about: str
    operations: Mapping[str, Mapping[str, Any]]
    schemas: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, Mapping[str, Any]]
    errors: _Errors
    error: str
    details: Mapping[str, str] = field(default_factory=dict)


_DESCRIPTION = f"""A serverless archive for the logs of pipeline runs, and for files with metadata.

**Addresses.** All paths are relative to the address of this server. If a path ends in a slash, a request without it is redirected
(308).

{openapi_security.ABOUT}

**Errors** are JSON. Below `/v0`: `{{"code": "<text>", "message": "…"}}`, some with `detail`; below `/v1`, and for 401 and 403: `{{"code": <number>,
"message": "…"}}`. 503: temporarily unavailable; repeat the request after `Retry-After` seconds. No response is a 429 or 504."""

_SERVICE_SCHEMAS: dict[str, dict[str, Any]] = {
    **component_schemas(
        {"Health": Health, "Environment": Environment},
        {
            "Health": [{"status": "ok", "version": __version__}],
            "Environment": [{"data": {"build": {"version": __version__}}}],
        },
    ),
    "Nothing": {
        "description": "An empty object: the function runs.",
        "type": "object",
        "maxProperties": 0,
        "examples": [{}],
    },
    "Document": {
        "description": "This document.",
        "type": "object",
        "required": ["openapi", "info", "paths"],
        "properties": {"openapi": {"type": "string"}, "info": {"type": "object"}, "paths": {"type": "object"}},
        "examples": [{"openapi": "3.1.0", "info": {"title": "Runlake", "version": __version__}, "paths": {}}],
    },
}

_HOME = {
    "description": "The documentation, which links to the viewer.",
    "headers": {"Location": {"description": "`/docs/` of this API.", "schema": {"type": "string"}}},
}
_TO_PAGE = {
    "description": "The page.",
    "headers": {"Location": {"description": "`/docs/static/index.html` of this API.", "schema": {"type": "string"}}},
}
_PAGE = {"description": "A web page that shows this document.", "content": {"text/html": {"schema": {"type": "string"}}}}

_SERVICE_OPERATIONS: dict[str, dict[str, Any]] = {
    "getHealth": {
        "summary": "Check that the function runs and its settings are valid",
        "responses": {200: "Health"},
    },
    "getArchiveHealth": {"summary": "Check that the function runs", "responses": {200: "Nothing"}},
    "getEnvironment": {"summary": "Get the deployed version", "responses": {200: "Environment"}},
    "getDocument": {"summary": "Get this document", "responses": {200: "Document"}},
    "getOpenApi": {"summary": "Get this document", "responses": {200: "Document"}},
    "getHome": {"summary": "Redirect to the documentation", "responses": {302: _HOME}},
    "getDocs": {"summary": "Redirect to the page of the documentation", "responses": {302: _TO_PAGE}},
    "getPage": {"summary": "Show this document as a web page", "responses": {200: _PAGE}},
}

_SERVICE_ERRORS = openapi_logs.ERRORS

RESOURCES = {
    "logs": _Resource(
        "Run logs",
        "Append to the log of a run, and read it while the run is running and afterwards. The protocol of OpenMetadata's "
        "connectors.",
        openapi_logs.OPERATIONS,
        openapi_logs.SCHEMAS,
        openapi_logs.PARAMETERS,
        openapi_logs.ERRORS,
        "LogError",
    ),
    "events": _Resource(
        "Events",
        "The log of a run as events: append and list them, read the log of a step, check whether events are missing.",
        openapi_events.OPERATIONS,
        openapi_events.SCHEMAS,
        openapi_events.PARAMETERS,
        openapi_events.ERRORS,
        "LogError",
    ),
    "agents": _Resource(
        "Agents",
        "Log agents append to runs, each with its own protocol: Fluent Bit, Fluentd, Logstash, Elasticsearch's and OpenSearch's "
        "clients, OpenTelemetry, syslog-ng, rsyslog, AWS Data Firehose. Each item is stored or rejected separately; rules assign it to a "
        "run. After a 503, repeat the request.",
        openapi_agents.OPERATIONS,
        openapi_agents.SCHEMAS,
        openapi_agents.PARAMETERS,
        openapi_agents.ERRORS,
        "LogError",
    ),
    "catalog": _Resource(
        "Pipelines",
        "Find pipelines and their runs, and search the lines of a run.",
        openapi_catalog.OPERATIONS,
        openapi_catalog.SCHEMAS,
        openapi_catalog.PARAMETERS,
        openapi_catalog.ERRORS,
        "LogError",
    ),
    "archive": _Resource(
        "Archive",
        "Files with metadata: find, read, upload, change, delete. The protocol of Planet's datalake client.",
        openapi_archive.OPERATIONS,
        openapi_archive.SCHEMAS,
        openapi_archive.PARAMETERS,
        openapi_archive.ERRORS,
        "ArchiveError",
        openapi_archive.DETAILS,
    ),
    "coordination": _Resource(
        "Coordination",
        "Background work on runs, for operators: list partitions, retry them, release them.",
        openapi_coordination.OPERATIONS,
        openapi_coordination.SCHEMAS,
        openapi_coordination.PARAMETERS,
        openapi_coordination.ERRORS,
        "LogError",
    ),
    "pipeline_files": _Resource(
        "Pipeline files",
        "Files that processing pipelines write: read them merged, delete them, repair them.",
        openapi_pipeline_files.OPERATIONS,
        openapi_pipeline_files.SCHEMAS,
        openapi_pipeline_files.PARAMETERS,
        openapi_pipeline_files.ERRORS,
        "LogError",
    ),
    "pipelines": _Resource(
        "Processing pipelines",
        "For operators: status, enable, disable, replay, dead letters.",
        openapi_pipelines.OPERATIONS,
        openapi_pipelines.SCHEMAS,
        openapi_pipelines.PARAMETERS,
        openapi_pipelines.ERRORS,
        "LogError",
    ),
    "viewer": _Resource(
        "Viewer",
        "A web page to find runs, read their logs and follow them.",
        openapi_viewer.OPERATIONS,
        openapi_viewer.SCHEMAS,
        openapi_viewer.PARAMETERS,
        openapi_viewer.ERRORS,
        "LogError",
    ),
    "service": _Resource(
        "Service",
        "Health, version and documentation of this server.",
        _SERVICE_OPERATIONS,
        _SERVICE_SCHEMAS,
        {},
        _SERVICE_ERRORS,
        "LogError",
    ),
}
"""By ``Operation.document``."""
_PARAMETERS = {name: parameter for resource in RESOURCES.values() for name, parameter in resource.parameters.items()}

_MOVED = {
    "description": "The path lacks its trailing slash: repeat the request with it.",
    "headers": {
        "Location": {"description": "The path with a trailing slash.", "schema": {"type": "string", "format": "uri-reference"}}
    },
}
_RETRY_AFTER = {"description": "Seconds to wait before the request is repeated.", "schema": {"type": "integer"}, "example": 1}


def document(base: str) -> dict[str, Any]:
    """The document for clients that reach the API at ``base``: a URL, or the stage's prefix. Its parts are shared: do not modify
    them."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Runlake", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": base.rstrip("/") or "/"}],
        "tags": [{"name": resource.tag, "description": resource.about} for resource in RESOURCES.values()],
        "security": [{name: []} for name in openapi_security.SCHEMES],
        "paths": _paths(),
        "components": {
            "schemas": {name: schema for resource in RESOURCES.values() for name, schema in resource.schemas.items()},
            "parameters": _PARAMETERS,
            "headers": {"RetryAfter": _RETRY_AFTER},
            "responses": {"MovedToSlash": _MOVED, **openapi_security.RESPONSES},
            "securitySchemes": openapi_security.SCHEMES,
        },
    }


@cache
def _paths() -> dict[str, dict[str, Any]]:
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        methods, method = paths.setdefault(each.path, {}), each.method.lower()
        if method in methods:
            raise IncompleteDocumentError(
                f"operations {methods[method]['operationId']} and {each.id} have the same address: {each.method} {each.path}"
            )
        methods[method] = openapi_security.secured(each, _operation(each))
    return paths


def _operation(declared: Operation) -> dict[str, Any]:
    if declared.document not in RESOURCES:
        raise IncompleteDocumentError(f"operation {declared.id}: no document {declared.document!r} in openapi.RESOURCES")
    resource = RESOURCES[declared.document]
    entry = _entry(declared, "operations", declared.id)
    operation: dict[str, Any] = {"operationId": declared.id, "tags": [resource.tag], "summary": entry["summary"]}
    if "description" in entry:
        operation["description"] = entry["description"]
    if "parameters" in entry:
        if unknown := set(entry["parameters"]) - _PARAMETERS.keys():
            raise IncompleteDocumentError(f"operation {declared.id}: no {sorted(unknown)} in PARAMETERS of a module openapi_…")
        operation["parameters"] = [reference(name, "parameters") for name in entry["parameters"]]
    if "body" in entry:
        operation["requestBody"] = entry["body"]
    responses = {status: _response(declared, each) for status, each in entry["responses"].items()}
    if declared.has_slash:
        responses[308] = reference("MovedToSlash", "responses")
    responses |= _refusals(declared, resource)
    operation["responses"] = {str(status): responses[status] for status in sorted(responses)}
    return operation


def _entry(declared: Operation, table: str, name: Any) -> Any:
    """An entry of a table of the operation's document. Raises IncompleteDocumentError."""
    entries: Mapping[Any, Any] = getattr(RESOURCES[declared.document], table)
    if name not in entries:
        where = f"openapi_{declared.document}.{table.upper()}".replace("openapi_service.", "openapi._SERVICE_")
        raise IncompleteDocumentError(f"operation {declared.id}: no {name!r} in {where}")
    return entries[name]


def _response(declared: Operation, response: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(response, dict):
        return response
    schema = _entry(declared, "schemas", response)
    content = {"schema": reference(response), "example": schema["examples"][0]}
    return {"description": schema["description"], "content": {"application/json": content}}


def _refusals(declared: Operation, resource: _Resource) -> dict[int, dict[str, Any]]:
    """One response per status, which lists its possible codes."""
    by_status: dict[int, dict[Any, tuple[int, str, str]]] = {}
    for code in declared.errors:
        about = _entry(declared, "errors", code)
        by_status.setdefault(about[0], {})[code] = about
    return {status: _refusal(resource, status, same) for status, same in by_status.items()}


def _refusal(resource: _Resource, status: int, errors: Mapping[Any, tuple[int, str, str]]) -> dict[str, Any]:
    examples = {
        str(code): {"summary": condition, "value": _envelope(resource, code, message)}
        for code, (_, condition, message) in errors.items()
    }
    schema = {**reference(resource.error), "properties": {"code": {"enum": list(errors)}}}
    response = {
        "description": "; ".join(condition for _, condition, _ in errors.values()),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }
    if status == 503:
        response["headers"] = {"Retry-After": reference("RetryAfter", "headers")}
    return response


def _envelope(resource: _Resource, code: Any, message: str) -> dict[str, Any]:
    detail = resource.details.get(code)
    return {"code": code, "message": message} | ({"detail": detail} if detail else {})
