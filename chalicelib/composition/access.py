"""Builds the authenticator from the settings of an installation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chalicelib.access.authenticators import (
    AnonymousAuthenticator,
    Authenticator,
    IamAuthenticator,
    TokenAuthenticator,
    TrustedIssuer,
)
from chalicelib.access.policy import Policy
from chalicelib.access.stale_if_error_cache import StaleIfErrorCache
from chalicelib.composition import Ports
from chalicelib.observability import report_stale_identity
from chalicelib.settings import Settings


def authenticator(settings: Settings, ports: Ports) -> Authenticator:
    """The authenticator for ``RUNLAKE_AUTH``."""
    settings.check_auth(is_emulated=ports.is_emulated)
    if settings.auth == "none":
        return AnonymousAuthenticator()
    if settings.auth == "iam":
        return IamAuthenticator(_policy(ports))
    from chalicelib.access.keys import IssuerKeys
    from chalicelib.access.tokens import TokenVerifier

    assert ports.keys
    issuers = {}
    for each in settings.issuers:
        keys = IssuerKeys(partial(ports.keys, each.jwks_url), ports.clock, report_stale_identity)
        tokens = TokenVerifier(keys, each.issuer, each.audiences, settings.jwt_leeway_seconds, settings.jwt_max_lifetime_seconds)
        issuers[each.issuer] = TrustedIssuer(tokens, each.claim, each.prefix, each.scope_prefix, each.groups)
    return TokenAuthenticator(issuers, _policy(ports))


def _policy(ports: Ports) -> Callable[[], Policy]:
    if ports.policy is None:
        return Policy
    read = ports.policy
    return StaleIfErrorCache(lambda: Policy.parse(read()), ports.clock, "the policy", report_stale_identity).get
