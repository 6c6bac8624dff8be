"""API Gateway's requests through Chalice: the routes that it registers, and the conversion of its requests. The only module of the API that
knows Chalice's ``Request``."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from chalice.app import Chalice, Request, Response

from chalicelib.observability import invocation, note
from chalicelib.routes import response_headers
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.handler import respond, view_response
from chalicelib.routes.operations import gateway_routes, match
from chalicelib.routes.responses import error_response, to_error_response

BINARY_TYPES = [
    f"application/{each}" for each in ("gzip", "msgpack", "octet-stream", "x-gzip", "x-msgpack", "x-ndjson", "x-protobuf")
]
"""Request bodies that the gateway must pass as bytes. No response has one of these types, so Chalice never requires an ``Accept`` header."""
_request: ContextVar[ApiRequest] = ContextVar("request")  # Chalice's own is an attribute of the app, shared by all threads


def register(app: Chalice) -> None:
    """Register all routes. Each accepts any content type; views validate it."""
    app.api.binary_types = BINARY_TYPES
    app.register_middleware(_http_middleware, event_type="http")
    for route, methods in gateway_routes().items():
        app.route(route, methods=methods, content_types=["*/*"])(_view)


def _view(**_: str) -> Response:
    return view_response(_request.get())


def _http_middleware(request: Request, get_response: Callable[[Request], Response]) -> Response:
    """Middleware of every HTTP request: authentication, one line of metrics, and Chalice's own errors in the envelope."""
    with invocation("http", request.lambda_context):
        response = response_headers.complete(_respond(request, get_response))
        note(method=request.method, status=response.status_code)
        return response


def _respond(request: Request, get_response: Callable[[Request], Response]) -> Response:
    try:
        adapted = adapt(request)
    except Exception as error:  # an event that no gateway sends
        return to_error_response(error)
    _request.set(adapted)
    return respond(adapted, lambda: _enveloped(get_response(request)))


def adapt(request: Request) -> ApiRequest:
    """The request of API Gateway's event."""
    event = request.to_original_event()
    route = request.context["resourcePath"]
    prefix, path = _split(request.context["path"], route)
    if (event.get("path") or "").endswith("/") and not path.endswith("/"):
        path += "/"  # the event has the path in two places, and a gateway may strip the slash from one
    return ApiRequest(
        method=request.method,
        prefix=prefix,
        path=path,
        match=match(request.method, path) if path.startswith(route.partition("/{")[0]) else None,
        headers=request.headers,
        query_values=event.get("multiValueQueryStringParameters") or {},
        event=event,
        identity=request.context.get("identity") or {},
        domain=request.context.get("domainName", "localhost"),
        context=request.lambda_context,
    )


def _split(path: str, route: str) -> tuple[str, str]:
    """A path as sent in two: the prefix of the stage or custom domain, without a trailing slash, and the API's own path, which begins with
    the literal part of the route, unless it was sent percent-encoded: then there is no prefix, and no operation. The prefix never begins
    with two slashes, which would name another host."""
    literal, is_below, _ = route.partition("/{")
    if not is_below:
        segments, depth = path.rstrip("/").split("/"), route.rstrip("/").count("/")
        has_slash = path.endswith("/") and route != "/"
        return _prefix("/".join(segments[: len(segments) - depth])), f"{route}/" if has_slash else route
    before, found, after = path.partition(f"{literal}/")
    return (_prefix(before), f"{found}{after}") if found else ("", path)


def _prefix(text: str) -> str:
    stripped = text.strip("/")
    return f"/{stripped}" if stripped else ""


def _enveloped(response: Response) -> Response:
    """Convert Chalice's ``{"Code": "…", "Message": "…"}`` for an unknown path or method to the envelope."""
    if response.status_code < 400 or not isinstance(response.body, dict):
        return response
    allowed = response.headers.get("Allow")
    if response.status_code == 405 and not allowed:
        return error_response(404, "no such path")
    message = str(response.body.get("Message", "request failed"))
    return error_response(response.status_code, message[:1].lower() + message[1:], **({"Allow": str(allowed)} if allowed else {}))
