"""The gateway's authorizer: turns away who has no token that holds, so that nobody else wakes the API.

It is the outer of two doors. The gateway keeps an answer for a while, by the token alone, whatever is asked for with it: so the answer
is about the whole API, and what a principal may do is decided by the API itself, which looks at the token again (``routes.gate``).
"""

from __future__ import annotations

from chalice.app import AuthRequest, AuthResponse

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.errors import UnauthenticatedError
from chalicelib.observability import report_decision
from chalicelib.routes.gate import TOKEN_HEADERS

NAME = "authorize"
TTL_S = 300
"""A token that expires meanwhile gets as far as the API, and no further."""


class Unauthorized(Exception):
    """The gateway makes a 401 of this very text, and a 500 of any other failure."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


def authorize(request: AuthRequest) -> AuthResponse:
    """Raises Unauthorized, IdentityUnavailableError."""
    services = composition.services()
    try:
        name = services.authenticator.identify(Credentials(authorization=_authorization(request)))
    except UnauthenticatedError as error:
        auth, route = services.settings.auth, request.method_arn.partition("/")[2]
        report_decision(principal="", kind=auth, action="enter", resource=route[:1000], allowed=False, reason=str(error))
        raise Unauthorized from None
    return AuthResponse(routes=["*"], principal_id=name)


def _authorization(request: AuthRequest) -> str:
    """A header of a client's own holds the token alone. The ARN ends in the stage, the method and the path."""
    path = "/" + "/".join(request.method_arn.split("/")[3:])
    return f"Bearer {request.token}" if path in TOKEN_HEADERS else str(request.token)
