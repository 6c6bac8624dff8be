"""Authorizers of the gateway, added to the API's definition, because Chalice can write only one kind of ``Auth``.

Each operation that is not public (``routes.operations``) requires a token or a signature, depending on the template's
parameter ``Auth``; a new route is therefore protected by default.
"""

from __future__ import annotations

from typing import Any

from chalicelib.routes.authorizer import NAME, TTL_S
from chalicelib.routes.operations import OPERATIONS

_SIGV4 = "sigv4"
_DECLARED = {(each.method.lower(), each.path.rstrip("/") or "/"): each for each in OPERATIONS}
"""Operations by method and path at the gateway, which has other paths for those with an FQN."""
_URI = "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${Authorize.Arn}/invocations"
_HEADER = {"in": "header", "type": "apiKey", "name": "Authorization"}
# A TOKEN authorizer: the header's value is the gateway's cache key.
_CUSTOM: dict[str, Any] = {
    "in": "header",
    "type": "apiKey",
    "x-amazon-apigateway-authtype": "custom",
    "x-amazon-apigateway-authorizer": {
        "type": "token",
        "authorizerUri": {"Fn::Sub": _URI},
        "authorizerResultTtlInSeconds": TTL_S,
    },
}
_DEFINITIONS: dict[str, Any] = {
    NAME: {**_CUSTOM, "name": "Authorization"},
    _SIGV4: {**_HEADER, "x-amazon-apigateway-authtype": "awsSigv4"},
} | {
    f"{NAME}-by-{header.lower()}": {**_CUSTOM, "name": header}
    for header in sorted({each.token_header for each in OPERATIONS} - {""})
}


def add_to(template: dict[str, Any]) -> None:
    """Require authorization for every operation that is not public."""
    definition = template["Resources"]["RestAPI"]["Properties"]["DefinitionBody"]
    definition["securityDefinitions"] = _DEFINITIONS
    for path, methods in definition["paths"].items():
        for method, operation in methods.items():
            declared = _DECLARED.get((method, path))
            if method != "options" and not (declared and declared.is_public):  # browsers send preflights without credentials
                operation["security"] = _security(declared.token_header if declared else "")


def _security(token_header: str) -> dict[str, Any]:
    """Some agents send their token in a custom header; they cannot sign requests."""
    by_token = f"{NAME}-by-{token_header.lower()}" if token_header else NAME
    otherwise = {"Fn::If": ["AsksForSignatures", [{_SIGV4: []}], {"Ref": "AWS::NoValue"}]}
    return {"Fn::If": ["AsksForTokens", [{by_token: []}], otherwise]}
