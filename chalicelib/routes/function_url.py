"""Requests of a Lambda function URL (payload format 2.0, ``AuthType: AWS_IAM``): the second entry of the API, for jobs that sign with SigV4.

Lambda verifies the signature and passes on who signed. A function URL has no stage: the API is below ``PREFIX`` as at the gateway, and below
``/``. Unlike a gateway, Lambda neither unpacks bodies nor parses query and cookies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from chalice.app import CaseInsensitiveMapping, Response

from chalicelib.observability import invocation, note
from chalicelib.routes import response_headers
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.handler import respond, view_response
from chalicelib.routes.operations import match
from chalicelib.routes.responses import to_error_response

PREFIX = "/api"
"""The published addresses begin with it, whatever the entry: links in responses have it."""


def handle(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """The response to an event, in Lambda's format. Every error is in the envelope."""
    with invocation("http", context):
        response = response_headers.complete(_respond(event, context))
        note(method=_http(event).get("method"), status=response.status_code)
        return _payload(response)


def _respond(event: Mapping[str, Any], context: Any) -> Response:
    try:
        request = adapt(event, context)
    except Exception as error:  # an event that no function URL sends
        return to_error_response(error)
    return respond(request, lambda: view_response(request))


def adapt(event: Mapping[str, Any], context: Any) -> ApiRequest:
    """The request of a function URL's event. Raises KeyError: an event of another source."""
    about, http = event["requestContext"], event["requestContext"]["http"]
    path = event["rawPath"]
    if f"{path}/".startswith(f"{PREFIX}/"):
        path = path.removeprefix(PREFIX) or "/"
    return ApiRequest(
        method=http["method"],
        prefix=PREFIX,
        path=path,
        match=match(http["method"], path),
        headers=_headers(event),
        query_values=parse_qs(event.get("rawQueryString") or "", keep_blank_values=True),
        event=event,
        identity=_signer(about) | {"sourceIp": http.get("sourceIp"), "userAgent": http.get("userAgent")},
        domain=about["domainName"],
        context=context,
    )


def _headers(event: Mapping[str, Any]) -> Mapping[str, str]:
    """The headers, with the cookies that Lambda passes apart from them."""
    cookies = "; ".join(event.get("cookies") or ())
    headers: Mapping[str, str] = CaseInsensitiveMapping({**event["headers"], **({"cookie": cookies} if cookies else {})})
    return headers


def _signer(about: Mapping[str, Any]) -> dict[str, Any]:
    """ARN and access key of the verified signature; empty without one."""
    signer = (about.get("authorizer") or {}).get("iam") or {}
    return {name: signer.get(name) for name in ("userArn", "accessKey")}


def _payload(response: Response) -> dict[str, Any]:
    headers = dict(response.headers)
    cookie = headers.pop("Set-Cookie", None)
    payload = {"statusCode": response.status_code, "headers": headers, "body": response.body, "isBase64Encoded": False}
    return payload | ({"cookies": [cookie]} if cookie else {})


def _http(event: Mapping[str, Any]) -> Mapping[str, Any]:
    about = event.get("requestContext")
    return (about.get("http") or {}) if isinstance(about, Mapping) else {}
