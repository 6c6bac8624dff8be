"""Who is let in, by the settings of an installation."""

from __future__ import annotations

from collections.abc import Callable

from chalicelib.access.doors import Door, IamDoor, OpenDoor, TokenDoor
from chalicelib.access.kept import Kept
from chalicelib.access.policy import Policy
from chalicelib.composition import Ports
from chalicelib.observability import report_stale_identity
from chalicelib.settings import Settings


def door(settings: Settings, ports: Ports) -> Door:
    """How callers of the API show who they are."""
    settings.check_auth(is_emulated=ports.is_emulated)
    if settings.auth == "none":
        return OpenDoor()
    if settings.auth == "iam":
        return IamDoor(_policy(ports))
    from chalicelib.access.keys import Keys
    from chalicelib.access.tokens import Tokens

    assert ports.keys and settings.jwt_issuer
    keys = Keys(ports.keys, ports.clock, report_stale_identity)
    tokens = Tokens(keys, settings.jwt_issuer, settings.audiences, settings.jwt_leeway_seconds, settings.jwt_max_lifetime_seconds)
    return TokenDoor(tokens, settings.jwt_claim, _policy(ports))


def _policy(ports: Ports) -> Callable[[], Policy]:
    if ports.policy is None:
        return Policy
    read = ports.policy
    return Kept(lambda: Policy.parse(read()), ports.clock, "the policy", report_stale_identity).get
