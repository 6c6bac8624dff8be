"""Authentication before every view, and authorization within it.

``authenticate`` accepts or rejects a request; a view then requires scopes for the names in the request before it reads anything, so a refusal
does not reveal whether a resource exists. The response of a view that checked no permission is discarded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from typing import Any

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.access.grants import Scope
from chalicelib.access.principal import Kind, Principal
from chalicelib.errors import DeniedPrincipalError, ForbiddenError, UnauthenticatedError
from chalicelib.observability import note, redacted, report_decision
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.operations import Operation
from chalicelib.runlog.legacy import on_behalf_of

MAX_USER_AGENT_CHARS = 256

MAX_LINES = 20
"""Audit lines of one request; further decisions are counted."""
MAX_NAMES_CHARS = 16_384
"""The names in the audit line of a list; further ones are counted, with a digest."""


@dataclass(slots=True)
class AuthenticatedRequest:
    """An authenticated request. ``caller``: facts for its audit lines besides the principal. ``operation``: None if its path has none.
    ``is_authorized``: its view has checked a permission. ``scope``: the last one granted by name."""

    principal: Principal
    caller: Mapping[str, str]
    operation: Operation | None
    is_authorized: bool = False
    scope: Scope | None = None
    lines: int = 0
    unlisted: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Decisions beyond ``MAX_LINES``, by action and outcome."""

    def covers(self, name: str) -> bool:
        """Whether the last granted scope covers this name too (see ``runlog.legacy``)."""
        return self.scope is not None and self.principal.may(self.scope, name)


_authenticated: ContextVar[AuthenticatedRequest] = ContextVar("authenticated")


@contextmanager
def authenticate(request: ApiRequest) -> Iterator[AuthenticatedRequest | None]:
    """Authenticated request context; None for public operations. Raises UnauthenticatedError, IdentityUnavailableError,
    InvalidConfigurationError."""
    operation = request.operation
    if operation and operation.is_public:
        yield None
        return
    caller = _caller(request)
    principal = _principal(request, request.label, caller)
    authenticated = AuthenticatedRequest(principal, caller | {"token_id": redacted(principal.token_id)}, operation)
    token = _authenticated.set(authenticated)
    try:
        with on_behalf_of(authenticated.covers):
            yield authenticated
    finally:
        _authenticated.reset(token)
        _report_unlisted(authenticated)


def principal() -> Principal:
    """The principal of the current request."""
    return _authenticated.get().principal


class UndeclaredScopeError(RuntimeError):
    """A view requires a scope that its operation does not declare: a defect of ``operations``, answered with 500."""


def require_run_scope(scope: Scope, request: ApiRequest) -> None:
    """Require a scope for the FQN in the path, and name its run in the request's log line. Raises InvalidNameError, ForbiddenError."""
    names = request.names
    note(fqn=names["fqn"], **({"run_id": names["runId"]} if "runId" in names else {}))
    require_scope(scope, names["fqn"])


def require_scope(scope: Scope, name: str, requested: str = "") -> None:
    """Require a scope for a name. ``requested``: what the client named instead; an error repeats that. Raises ForbiddenError,
    UndeclaredScopeError."""
    _check_declared(scope)
    allowed = principal().may(scope, name)
    record_decision(scope, name, allowed)
    if not allowed:
        raise ForbiddenError(f"not permitted: scope {scope} is required for this name name={redacted(requested or name)[:200]!r}")
    _authenticated.get().scope = scope


def require_any_scope(resource: str, *scopes: Scope) -> None:
    """Require one of the scopes for at least one name; the view then omits names without it. Raises ForbiddenError,
    UndeclaredScopeError."""
    _check_declared(*scopes)
    allowed, named = principal().may_any(*scopes), " or ".join(scopes)
    record_decision(named, resource, allowed, "" if principal().may_all(*scopes) else "limited to its patterns")
    if not allowed:
        raise ForbiddenError(f"not permitted: scope {named} is required for at least one name")


def _check_declared(*scopes: Scope) -> None:
    operation = _authenticated.get().operation
    assert operation, "only operations have views"
    if undeclared := set(scopes) - set(operation.scopes):
        raise UndeclaredScopeError(f"add {', '.join(sorted(undeclared))} to the scopes of {operation.id} in routes/operations.py")


def allow_authenticated(resource: str) -> None:
    """Allow any authenticated principal."""
    record_decision("see", resource, True, "any authenticated principal")


def record_decision(action: str, resource: str, allowed: bool, reason: str = "") -> None:
    """Write an audit line for a decision; none for an anonymous principal."""
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


def record_names(names: Iterable[str]) -> None:
    """Write an audit line with what a list returns: FQNs, runs as ``FQN/RUN``, files. None for an empty list, or an anonymous principal.
    ``count`` is the number of names; of the ones beyond ``MAX_NAMES_CHARS`` the line has ``more``, their number, and ``more_sha256``, the
    digest of them joined by newlines."""
    current = _authenticated.get()
    listed = [redacted(each) for each in dict.fromkeys(names)]
    if not listed or current.principal.kind is Kind.ANONYMOUS:
        return
    assert current.operation, "only operations have views"
    chars = list(accumulate(map(len, listed)))
    stated = bisect_right(chars, MAX_NAMES_CHARS)
    facts: dict[str, Any] = {"names": listed[:stated]}
    if rest := listed[stated:]:
        digest = sha256("\n".join(rest).encode(errors="surrogatepass")).hexdigest()
        facts |= {"more": len(rest), "more_sha256": digest}
    name, kind = current.principal.name, current.principal.kind
    _report(name, kind, "list", current.operation.id, True, "in the response", {**current.caller, **facts}, len(listed))


def _report_unlisted(current: AuthenticatedRequest) -> None:
    """Write one audit line per action and outcome for the decisions beyond ``MAX_LINES``."""
    for (action, allowed), count in current.unlisted.items():
        reason = f"summary of all decisions after the first {MAX_LINES} of the request"
        name, kind = current.principal.name, current.principal.kind
        _report(name, kind, action, f"{count} more names", allowed, reason, current.caller, count)


def _principal(request: ApiRequest, action: str, caller: Mapping[str, str]) -> Principal:
    services = composition.services()
    identity = request.identity
    credentials = Credentials(_authorization(request), identity.get("userArn") or "", identity.get("accessKey") or "")
    try:
        return services.authenticator.authenticate(credentials)
    except UnauthenticatedError as error:
        name, caller = "", dict(caller)
        if isinstance(error, DeniedPrincipalError):
            name, caller["token_id"] = error.principal, redacted(error.token_id)
        _report(name, services.settings.auth, action, request.full_path, False, str(error), caller)
        raise


def _caller(request: ApiRequest) -> dict[str, str]:
    """The source of a request by the gateway. A client could forge a header such as X-Forwarded-For."""
    identity = request.identity
    user_agent = str(identity.get("userAgent") or request.headers.get("user-agent", ""))
    return {"source_address": str(identity.get("sourceIp") or ""), "user_agent": redacted(user_agent)[:MAX_USER_AGENT_CHARS]}


def _authorization(request: ApiRequest) -> str:
    authorization: str = request.headers.get("authorization", "")
    if own := request.operation.token_header if request.operation else "":
        token = request.headers.get(own, "").strip()
        return f"Bearer {token}" if token else authorization
    return authorization


def _report(
    name: str, kind: str, action: str, resource: str, allowed: bool, reason: str, caller: Mapping[str, Any], count: int = 1
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
