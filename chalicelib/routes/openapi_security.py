"""Security in the OpenAPI document: authentication schemes, and for each operation its scopes and error responses."""

from __future__ import annotations

from typing import Any

from chalicelib.routes.operations import Operation
from chalicelib.routes.schemas import reference

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

ABOUT = """**Authorization.** Send a token as `Authorization: Bearer`, or as the password of `Authorization: Basic`, or sign the request with AWS
SigV4, depending on the installation. A principal has scopes, each with patterns of names; `x-runlake-scopes` of an operation lists the
scopes that it requires. Lists contain only entries that the principal may read. A file that it may not read is reported as missing
(404)."""


def _refusal(status: int, description: str, message: str) -> dict[str, Any]:
    example = {"code": status, "message": message}
    content = {"application/json": {"schema": reference("LogError"), "example": example}}
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
        "headers": {"Retry-After": reference("RetryAfter", "headers")},
    },
}


def secured(declared: Operation, operation: dict[str, Any]) -> dict[str, Any]:
    """An operation with its required scopes and error responses."""
    if declared.is_public:
        return {**operation, "security": []}
    added = {"401": "Unauthenticated"} | ({"403": "Forbidden"} if declared.scopes else {})
    if not declared.is_stream:  # a stream reports it as any temporary failure
        added["503"] = "IdentityUnavailable"
    refusals = {status: reference(response, "responses") for status, response in added.items()}
    responses = dict(sorted((refusals | operation["responses"]).items()))
    return {**operation, "x-runlake-scopes": list(declared.scopes), "responses": responses}
