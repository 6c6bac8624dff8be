"""Handles every request, whatever its gateway: authentication, limits, the view, and errors in the envelope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlencode

from chalice.app import NotFoundError, Response

from chalicelib.errors import InvalidInputError
from chalicelib.observability import logger
from chalicelib.response_size import fits_response
from chalicelib.routes import budgets, gate, secrets
from chalicelib.routes.api_request import ApiRequest, View
from chalicelib.routes.responses import error_message, error_response, json_response, to_error_response

MOVED_TO_SLASH = 308
"""Redirect to the path with a trailing slash."""


def respond(request: ApiRequest, get_response: Callable[[], Response]) -> Response:
    """The response to a request: ``get_response`` after authentication and checks."""
    try:
        secrets.refresh(request)
        with gate.authenticate(request) as authenticated:
            _check_request(request)
            if authenticated:
                secrets.check(request)
            response = get_response()
    except Exception as error:  # every error gets the envelope
        return _to_response(request, error)
    is_unchecked = authenticated is not None and not authenticated.is_authorized
    if is_unchecked and response.status_code < 400 and not _lacks_slash(request):  # the redirect is not a view's
        logger.error("a view did not check any permission", extra={"path": request.label})
        return error_response(500, "internal server error")
    if isinstance(response.body, str) and not fits_response(response.body):
        logger.error("a response is too large", extra={"path": request.label, "chars": len(response.body)})
        return error_response(500, "internal server error: the response is too large, request less")
    return response


def view_response(request: ApiRequest) -> Response:
    """The response of the operation's view."""
    try:
        if request.operation is None:
            raise NotFoundError(f"no such path method={request.method}")
        if _lacks_slash(request):
            return _redirect_to_slash(request)
        view: View = request.operation.import_view()
        return view(request)
    except Exception as error:  # every error gets the envelope
        return _to_response(request, error)


def _to_response(request: ApiRequest, error: Exception) -> Response:
    response = to_error_response(error)
    if response.status_code == 503 and request.operation and request.operation.is_stream:
        from chalicelib.routes.sse import interrupted_response  # as the views' modules, on the first request that needs it

        return interrupted_response(request.lossy_name("runId"), error_message(response))
    return response


def _lacks_slash(request: ApiRequest) -> bool:
    return request.operation is not None and request.operation.has_slash and not request.path.endswith("/")


def _redirect_to_slash(request: ApiRequest) -> Response:
    query = urlencode(request.query_values, doseq=True)
    location = f"{request.full_path}/" + (f"?{query}" if query else "")
    return json_response({"location": location}, MOVED_TO_SLASH, Location=location)


def _check_request(request: ApiRequest) -> None:
    """Enforce the operation's limits. Raises InvalidInputError, BatchTooLargeError."""
    query = (text for name, values in request.query_values.items() for value in values for text in (name, value))
    target = [request.full_path, *query]
    _check_unicode(target)
    body = request.event.get("body") or ""
    body_bytes = len(body) * 3 // 4 - 2 if request.event.get("isBase64Encoded") else _utf8_bytes(body)
    request.budget.check_request(sum(map(len, target)), body_bytes)
    if request.match:
        budgets.check_names(request.match.names)


def _utf8_bytes(text: str | bytes) -> int:
    """The size of a body in UTF-8. Only ``chalice local`` passes bytes."""
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode(errors="surrogatepass"))


def _check_unicode(texts: Sequence[str]) -> None:
    """Reject lone surrogates, which neither stored names nor keys can contain. Raises InvalidInputError."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError("path and query must be UTF-8") from error
