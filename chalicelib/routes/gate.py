"""Who asks, and whether they may: before every view, and in every view.

``visit`` lets a request in, or not; a view then asks for what it is about to do, by the names that the request has, before it looks at
anything: a refusal does not tell whether the thing exists. A view that has asked for nothing answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from chalice.app import Request

from chalicelib import composition
from chalicelib.access.doors import Shown
from chalicelib.access.grants import Scope
from chalicelib.access.principal import Kind, Principal
from chalicelib.errors import ForbiddenError, UnauthenticatedError
from chalicelib.observability import report_decision

OPEN = frozenset({"/v1/health", "/v1/openapi.json", "/v1/ui", "/v1/ui/config", "/v1/ui/{file}", "/health", "/spec", "/docs"})
"""What tells nothing of anybody: whether the API is there, how it is called, and the page that asks it. All else is closed, at the
gateway too."""

TOKEN_HEADERS = {"/v1/agents/firehose": "X-Amz-Firehose-Access-Key"}
"""Where a client can show its token in no other header than one of its own: the header holds the token and nothing else."""


@dataclass(slots=True)
class Visit:
    """A request that was let in. ``asked``: its view has asked for something."""

    principal: Principal
    asked: bool = False


_visit: ContextVar[Visit] = ContextVar("visit")


@contextmanager
def visit(request: Request) -> Iterator[Visit | None]:
    """A request's time in the house; None where everybody may go. Raises UnauthenticatedError, IdentityUnavailableError,
    InvalidConfigurationError."""
    route: str = request.context["resourcePath"]
    if route in OPEN:
        yield None
        return
    let_in = Visit(_principal(request, f"{request.method} {route}"))
    token = _visit.set(let_in)
    try:
        yield let_in
    finally:
        _visit.reset(token)


def principal() -> Principal:
    """Who asks."""
    return _visit.get().principal


def permit(scope: Scope, name: str) -> None:
    """Let the view do this to that. Raises ForbiddenError."""
    allowed = principal().may(scope, name)
    decide(scope, name, allowed)
    if not allowed:
        raise ForbiddenError(f"not permitted: ask for the scope {scope} of this name name={name[:200]!r}")


def permit_some(resource: str, *scopes: Scope) -> None:
    """Let the view list what the principal may see. It leaves out the rest. Raises ForbiddenError where that is nothing at all."""
    allowed, named = principal().may_any(*scopes), " or ".join(scopes)
    decide(named, resource, allowed, "" if principal().may_all(*scopes) else "no more than its patterns")
    if not allowed:
        raise ForbiddenError(f"not permitted: ask for the scope {named} of some names")


def permit_anybody(resource: str) -> None:
    """Let the view answer whoever was let in."""
    decide("see", resource, True, "whoever was let in")


def decide(action: str, resource: str, allowed: bool, reason: str = "") -> None:
    """Write a decision down. Where nobody is asked who they are, there is none."""
    visitor = _visit.get()
    visitor.asked = True
    if visitor.principal.kind is not Kind.NOBODY_ASKED:
        told = reason or ("granted" if allowed else "not granted")
        _report(visitor.principal.name, visitor.principal.kind, action, resource, allowed, told)


def _principal(request: Request, action: str) -> Principal:
    services = composition.services()
    identity = request.context.get("identity") or {}
    shown = Shown(_authorization(request), identity.get("userArn") or "")
    try:
        return services.door.principal(shown)
    except UnauthenticatedError as error:
        _report("", services.settings.auth, action, request.context["path"], False, str(error))
        raise


def _authorization(request: Request) -> str:
    authorization: str = request.headers.get("authorization", "")
    if own := TOKEN_HEADERS.get(request.context["resourcePath"]):
        token = request.headers.get(own, "").strip()
        return f"Bearer {token}" if token else authorization
    return authorization


def _report(name: str, kind: str, action: str, resource: str, allowed: bool, reason: str) -> None:
    report_decision(principal=name, kind=kind, action=action, resource=resource[:1000], allowed=allowed, reason=reason)
