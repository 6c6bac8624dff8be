"""The gateway's authorizer: rejects requests without a valid token before they invoke the API function.

It is the first of two checks. The gateway caches a result by the token alone, so a result covers the whole API; the API verifies the token
again and checks permissions per request (``routes.gate``).
"""

from __future__ import annotations

from chalice.app import AuthRequest, AuthResponse

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.errors import UnauthenticatedError
from chalicelib.observability import report_decision
from chalicelib.routes.operations import OPERATIONS

NAME = "authorize"
TTL_S = 300
"""Lifetime of a cached result. A token that expires within it reaches the API function, which rejects it."""


class Unauthorized(Exception):
    """The gateway returns a 401 for exactly this text, and a 500 for any other error."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


def authorize(request: AuthRequest) -> AuthResponse:
    """Authenticate a request. Raises Unauthorized, IdentityUnavailableError."""
    services = composition.services()
    try:
        name = services.authenticator.identify(Credentials(authorization=_authorization(request)))
    except UnauthenticatedError as error:
        auth, route = services.settings.auth, request.method_arn.partition("/")[2]
        report_decision(principal="", kind=auth, action="enter", resource=route[:1000], allowed=False, reason=str(error))
        raise Unauthorized from None
    return AuthResponse(routes=["*"], principal_id=name)


def _authorization(request: AuthRequest) -> str:
    """The value of ``Authorization``. A client-specific header has only the token. The ARN ends in the stage, the method and the path."""
    path = "/" + "/".join(request.method_arn.split("/")[3:])
    return f"Bearer {request.token}" if any(each.token_header and each.path == path for each in OPERATIONS) else str(request.token)
