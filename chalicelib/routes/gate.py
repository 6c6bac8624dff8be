"""Who asks, and whether they may: before every view, and in every view.

``visit`` lets a request in, or not; a view then asks for what it is about to do, by the names that the request has, before it looks at
anything: a refusal does not tell whether the thing exists. A view that has asked for nothing answers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from chalice.app import Request

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.access.grants import Scope
from chalicelib.access.principal import Kind, Principal
from chalicelib.errors import DeniedPrincipalError, ForbiddenError, UnauthenticatedError
from chalicelib.observability import redacted, report_decision
from chalicelib.runlog.legacy import on_behalf_of

PUBLIC_ROUTES = frozenset(
    {"/", "/v1/health", "/v1/openapi.json", "/v1/ui", "/v1/ui/config", "/v1/ui/{file}", "/health", "/spec", "/docs"}
)
"""What tells nothing of anybody: whether the API is there, how it is called, and the page that asks it. All else is closed, at the
gateway too."""

MAX_USER_AGENT_CHARS = 256

TOKEN_HEADERS = {"/v1/agents/firehose": "X-Amz-Firehose-Access-Key"}
"""Where a client can show its token in no other header than one of its own: the header holds the token and nothing else."""


MAX_LINES = 20
"""Audit lines of one request; what it asks for beyond them is counted."""


@dataclass(slots=True)
class AuthenticatedRequest:
    """A request that was let in. ``caller``: what its audit lines say besides the principal. ``asked``: its view has asked for something.
    ``scope``: the last one that it was permitted by name."""

    principal: Principal
    caller: Mapping[str, str]
    is_authorized: bool = False
    scope: Scope | None = None
    lines: int = 0
    unlisted: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Decisions beyond ``MAX_LINES``, by action and outcome."""

    def covers(self, name: str) -> bool:
        """Whether what was permitted last holds for this name too (see ``runlog.legacy``)."""
        return self.scope is not None and self.principal.may(self.scope, name)


_authenticated: ContextVar[AuthenticatedRequest] = ContextVar("visit")


@contextmanager
def authenticate(request: Request) -> Iterator[AuthenticatedRequest | None]:
    """A request's time in the house; None where everybody may go. Raises UnauthenticatedError, IdentityUnavailableError,
    InvalidConfigurationError."""
    route: str = request.context["resourcePath"]
    if route in PUBLIC_ROUTES:
        yield None
        return
    caller = _caller(request)
    principal = _principal(request, f"{request.method} {route}", caller)
    authenticated = AuthenticatedRequest(principal, caller | {"token_id": redacted(principal.token_id)})
    token = _authenticated.set(authenticated)
    try:
        with on_behalf_of(authenticated.covers):
            yield authenticated
    finally:
        _authenticated.reset(token)
        _report_unlisted(authenticated)


def principal() -> Principal:
    """Who asks."""
    return _authenticated.get().principal


def require_scope(scope: Scope, name: str) -> None:
    """Let the view do this to that. Raises ForbiddenError."""
    allowed = principal().may(scope, name)
    record_decision(scope, name, allowed)
    if not allowed:
        raise ForbiddenError(f"not permitted: ask for the scope {scope} of this name name={redacted(name)[:200]!r}")
    _authenticated.get().scope = scope


def require_any_scope(resource: str, *scopes: Scope) -> None:
    """Let the view list what the principal may see. It leaves out the rest. Raises ForbiddenError where that is nothing at all."""
    allowed, named = principal().may_any(*scopes), " or ".join(scopes)
    record_decision(named, resource, allowed, "" if principal().may_all(*scopes) else "no more than its patterns")
    if not allowed:
        raise ForbiddenError(f"not permitted: ask for the scope {named} of some names")


def allow_authenticated(resource: str) -> None:
    """Let the view answer whoever was let in."""
    record_decision("see", resource, True, "whoever was let in")


def record_decision(action: str, resource: str, allowed: bool, reason: str = "") -> None:
    """Write a decision down. Where nobody is asked who they are, there is none."""
    current = _authenticated.get()
    current.is_authorized = True
    if current.principal.kind is Kind.ANONYMOUS:
        return
    if current.lines >= MAX_LINES:
        current.unlisted[action, allowed] += 1
        return
    current.lines += 1
    stated = reason or ("granted" if allowed else "not granted")
    _report(current.principal.name, current.principal.kind, action, resource, allowed, stated, current.caller)


def _report_unlisted(current: AuthenticatedRequest) -> None:
    """A line for each action and outcome, however many names there were."""
    for (action, allowed), count in current.unlisted.items():
        reason = f"summary of all decisions after the first {MAX_LINES} of the request"
        name, kind = current.principal.name, current.principal.kind
        _report(name, kind, action, f"{count} more names", allowed, reason, current.caller, count)


def _principal(request: Request, action: str, caller: Mapping[str, str]) -> Principal:
    services = composition.services()
    identity = request.context.get("identity") or {}
    credentials = Credentials(_authorization(request), identity.get("userArn") or "", identity.get("accessKey") or "")
    try:
        return services.authenticator.authenticate(credentials)
    except UnauthenticatedError as error:
        name, caller = "", dict(caller)
        if isinstance(error, DeniedPrincipalError):
            name, caller["token_id"] = error.principal, redacted(error.token_id)
        _report(name, services.settings.auth, action, request.context["path"], False, str(error), caller)
        raise


def _caller(request: Request) -> dict[str, str]:
    """Where the gateway says that a request comes from. A header such as X-Forwarded-For would be the client's own word."""
    identity = request.context.get("identity") or {}
    user_agent = str(identity.get("userAgent") or request.headers.get("user-agent", ""))
    return {"source_address": str(identity.get("sourceIp") or ""), "user_agent": redacted(user_agent)[:MAX_USER_AGENT_CHARS]}


def _authorization(request: Request) -> str:
    authorization: str = request.headers.get("authorization", "")
    if own := TOKEN_HEADERS.get(request.context["resourcePath"]):
        token = request.headers.get(own, "").strip()
        return f"Bearer {token}" if token else authorization
    return authorization


def _report(
    name: str, kind: str, action: str, resource: str, allowed: bool, reason: str, caller: Mapping[str, str], count: int = 1
) -> None:
    report_decision(
        principal=name,
        kind=kind,
        action=action,
        resource=redacted(resource)[:1000],
        allowed=allowed,
        reason=reason,
        caller=caller,
        count=count,
    )
