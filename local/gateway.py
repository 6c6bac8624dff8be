"""Applies the parts of an API's definition that the emulator ignores, through calls of API Gateway.

AWS reads all of them from the deployed definition: error bodies and headers of the gateway, and the responses to preflights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAGE = "api"


def complete(gateway: Any, rest_api_id: str, api: Mapping[str, Any]) -> None:
    """Put the gateway responses and preflights. ``gateway`` is a client, ``api`` the template's RestAPI resource."""
    for kind, response in api["Properties"].get("GatewayResponses", {}).items():
        _put_gateway_response(gateway, rest_api_id, kind, response)
    resources = gateway.get_resources(restApiId=rest_api_id, limit=500)["items"]
    ids = {resource["path"]: resource["id"] for resource in resources}
    for path, methods in api["Properties"]["DefinitionBody"]["paths"].items():
        if "options" in methods:
            _put_preflight(gateway, rest_api_id, ids[path], methods["options"]["x-amazon-apigateway-integration"])
    gateway.create_deployment(restApiId=rest_api_id, stageName=STAGE)


def _put_gateway_response(gateway: Any, rest_api_id: str, kind: str, response: Mapping[str, Any]) -> None:
    headers = response.get("ResponseParameters", {}).get("Headers", {})
    gateway.put_gateway_response(
        restApiId=rest_api_id,
        responseType=kind,
        statusCode=str(response["StatusCode"]),
        responseParameters={f"gatewayresponse.header.{name}": _text(value) for name, value in headers.items()},
        responseTemplates=response["ResponseTemplates"],
    )


def _text(value: Any) -> str:
    """Value of a header. The local stack allows every origin."""
    return str(value["Fn::Sub"]).replace("${CorsOrigin}", "*") if isinstance(value, dict) else str(value)


def _put_preflight(gateway: Any, rest_api_id: str, resource_id: str, integration: Mapping[str, Any]) -> None:
    response = integration["responses"]["default"]
    gateway.put_integration_response(
        restApiId=rest_api_id,
        resourceId=resource_id,
        httpMethod="OPTIONS",
        statusCode=response["statusCode"],
        responseParameters=response["responseParameters"],
    )
