"""Security in the OpenAPI document: authentication schemes, the scopes that each operation requires, and its error responses.

An operation without an entry in ``SCOPES`` allows any authenticated principal; those of ``gate.PUBLIC_ROUTES`` are public.
"""

from __future__ import annotations

from typing import Any

from chalicelib.access.grants import Scope
from chalicelib.routes.gate import PUBLIC_ROUTES

_LOGS = "/v1/services/ingestionPipelines/logs/{fqn}"
_FILE = "/v0/archive/files/{id}"
_LATEST = "/v0/archive/latest/{what}/{where}"
_PIPELINES = "/v1/catalog/pipelines"
_FILES_OF_PIPELINES = "/v1/pipeline-files"
_PROCESSING = "/v1/pipelines"
_COORDINATION = "/v1/coordination/{source}"
_AGENTS = "/v1/agents"
_ES = f"{_AGENTS}/elasticsearch"
_EVENTS = "/v1/events/{fqn}/{runId}"

SCHEMES: dict[str, dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the configured issuer, if `RUNLAKE_AUTH` is `jwt`.",
    },
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "The same token as a password, with any user, for clients that support only Basic authentication, such as "
        "the datalake client.",
    },
    "sigv4": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "An AWS signature (SigV4, service `execute-api`), if `RUNLAKE_AUTH` is `iam`.",
        "x-amazon-apigateway-authtype": "awsSigv4",
    },
}

SCOPES: dict[str, tuple[Scope, ...]] = {
    f"GET {_LOGS}": (Scope.LOGS_READ,),
    f"GET {_LOGS}/last": (Scope.LOGS_READ,),
    f"GET {_LOGS}/last/download": (Scope.LOGS_READ,),
    f"GET {_LOGS}/{{runId}}": (Scope.LOGS_READ,),
    f"GET {_LOGS}/{{runId}}/download": (Scope.LOGS_READ,),
    f"GET {_LOGS}/stream/{{runId}}": (Scope.LOGS_READ,),
    f"POST {_LOGS}/{{runId}}": (Scope.LOGS_WRITE,),
    f"POST {_LOGS}/{{runId}}/close": (Scope.LOGS_WRITE,),
    **{f"POST {_AGENTS}/{name}": (Scope.LOGS_WRITE,) for name in ("fluent", "logstash", "syslog", "firehose", "otlp/v1/logs")},
    **{f"{method} {_ES}{path}/_bulk": (Scope.LOGS_WRITE,) for method in ("POST", "PUT") for path in ("", "/{index}")},
    **{
        f"{name}": (Scope.LOGS_WRITE,)
        for name in (f"GET {_ES}", f"HEAD {_ES}", f"GET {_ES}/_license", f"GET {_ES}/_cluster/health")
    },
    "GET /v1/catalog": (Scope.LOGS_READ,),
    f"GET {_PIPELINES}": (Scope.LOGS_READ,),
    f"GET {_PIPELINES}/{{fqn}}/runs": (Scope.LOGS_READ,),
    f"GET {_PIPELINES}/{{fqn}}/runs/{{runId}}": (Scope.LOGS_READ,),
    f"GET {_PIPELINES}/{{fqn}}/runs/{{runId}}/grep": (Scope.LOGS_READ,),
    f"GET {_PIPELINES}/{{fqn}}/runs/{{runId}}/histogram": (Scope.LOGS_READ,),
    f"GET {_EVENTS}": (Scope.LOGS_READ,),
    f"GET {_EVENTS}/log": (Scope.LOGS_READ,),
    f"GET {_EVENTS}/steps": (Scope.LOGS_READ,),
    f"GET {_EVENTS}/completeness": (Scope.LOGS_READ,),
    f"POST {_EVENTS}": (Scope.LOGS_WRITE,),
    f"POST {_EVENTS}/steps/{{step}}": (Scope.LOGS_WRITE,),
    f"PUT {_EVENTS}/starts/{{start}}": (Scope.LOGS_WRITE,),
    f"PUT {_EVENTS}/heartbeat": (Scope.LOGS_WRITE,),
    f"PUT {_EVENTS}/writers/{{writer}}": (Scope.LOGS_WRITE,),
    f"POST {_EVENTS}/writers/{{writer}}/close": (Scope.LOGS_WRITE,),
    "GET /v1/configuration": (Scope.ADMIN,),
    "GET /v0/archive/files/": (Scope.ARCHIVE_READ, Scope.LOGS_READ),
    "POST /v0/archive/files": (Scope.ARCHIVE_WRITE,),
    f"GET {_FILE}/data": (Scope.ARCHIVE_READ, Scope.LOGS_READ),
    f"GET {_FILE}/metadata": (Scope.ARCHIVE_READ, Scope.LOGS_READ),
    f"PATCH {_FILE}/metadata": (Scope.ARCHIVE_WRITE,),
    f"DELETE {_FILE}": (Scope.ARCHIVE_WRITE,),
    f"GET {_LATEST}": (Scope.ARCHIVE_READ, Scope.LOGS_READ),
    f"GET {_LATEST}/data": (Scope.ARCHIVE_READ, Scope.LOGS_READ),
    f"GET {_FILES_OF_PIPELINES}": (Scope.LOGS_READ,),
    f"DELETE {_FILES_OF_PIPELINES}": (Scope.ADMIN,),
    f"GET {_FILES_OF_PIPELINES}/repair": (Scope.ADMIN,),
    f"POST {_FILES_OF_PIPELINES}/repair": (Scope.ADMIN,),
    f"GET {_PROCESSING}": (Scope.ADMIN,),
    **{f"POST {_PROCESSING}/{{name}}/{action}": (Scope.ADMIN,) for action in ("enable", "disable", "replay")},
    f"GET {_COORDINATION}": (Scope.ADMIN,),
    f"POST {_COORDINATION}/{{fqn}}/{{runId}}/retry": (Scope.ADMIN,),
    f"POST {_COORDINATION}/{{fqn}}/{{runId}}/release": (Scope.ADMIN,),
}
"""Required scopes by operation. If two: the first for a file of the archive, the second for the log of a run."""

ABOUT = """**Authorization.** Send a token as `Authorization: Bearer`, or as the password of `Authorization: Basic`, or sign the request with AWS
SigV4, depending on the installation. A principal has scopes, each with patterns of names; `x-runlake-scopes` of an operation lists the
scopes that it requires. Lists contain only entries that the principal may read. A file that it may not read is reported as missing
(404)."""


def _refusal(status: int, description: str, message: str) -> dict[str, Any]:
    example = {"code": status, "message": message}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/LogError"}, "example": example}}
    return {"description": description, "content": content}


RESPONSES: dict[str, dict[str, Any]] = {
    "Unauthenticated": {
        **_refusal(401, "Missing or invalid credentials.", "the token has expired: get another one"),
        "headers": {"WWW-Authenticate": {"schema": {"type": "string"}, "example": 'Bearer realm="runlake"'}},
    },
    "Forbidden": _refusal(
        403,
        "The principal lacks the scope for this name. The response does not reveal whether the resource exists.",
        "not permitted: scope logs:read is required for this name name='mysql.ingest'",
    ),
    "IdentityUnavailable": {
        **_refusal(503, "The issuer's keys or the policy cannot be read at present.", "the issuer's keys cannot be read"),
        "headers": {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}},
    },
}


def secured(name: str, operation: dict[str, Any]) -> dict[str, Any]:
    """An operation (``"METHOD /path"``) with its required scopes and error responses."""
    if (name.partition(" ")[2].rstrip("/") or "/") in PUBLIC_ROUTES:
        return {**operation, "security": []}
    added = {"401": "Unauthenticated", "503": "IdentityUnavailable"} | ({"403": "Forbidden"} if name in SCOPES else {})
    refusals = {status: {"$ref": f"#/components/responses/{response}"} for status, response in added.items()}
    responses = dict(sorted((refusals | operation["responses"]).items()))
    return {**operation, "x-runlake-scopes": list(SCOPES.get(name, ())), "responses": responses}
