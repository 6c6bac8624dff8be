"""From what a request shows to who asks. Each way of ``RUNLAKE_AUTH`` is a door; there is no way around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chalicelib.access.credentials import token_of
from chalicelib.access.grants import Grants
from chalicelib.access.policy import Policy
from chalicelib.access.principal import ANYBODY, Kind, Principal
from chalicelib.errors import DeniedPrincipalError, UnauthenticatedError

if TYPE_CHECKING:
    from chalicelib.access.tokens import Tokens  # and with it cryptography: a tenth of a second


@dataclass(frozen=True, slots=True)
class Shown:
    """The credentials of a request: its ``Authorization``, or the ARN and access key whose signature the gateway has checked."""

    authorization: str = ""
    user_arn: str = ""
    access_key: str = ""


class Door(Protocol):
    """One way to be let in."""

    def principal(self, shown: Shown) -> Principal:
        """Who asks, and what they may do. Raises UnauthenticatedError, IdentityUnavailableError."""

    def name(self, shown: Shown) -> str:
        """Who asks, for whoever decides nothing: the policy is not read. Raises as ``principal`` does."""


class OpenDoor:
    """``none``: nobody is asked. Only where AWS is emulated."""

    def principal(self, shown: Shown) -> Principal:
        """Anybody."""
        return ANYBODY

    def name(self, shown: Shown) -> str:
        """Anybody's."""
        return ANYBODY.name


@dataclass(frozen=True, slots=True)
class TokenDoor:
    """``jwt``: a token of the issuer. What it grants, and what the policy grants to its ``sub``."""

    tokens: Tokens
    claim: str
    policy: Callable[[], Policy]

    def principal(self, shown: Shown) -> Principal:
        """The token is checked here, whatever the gateway has done: nobody gets by if the gateway's authorizer is missing, and a token
        that has expired since the gateway looked at it is refused."""
        claims = self._claims(shown)
        name, token_id, policy = str(claims["sub"]), str(claims.get("jti") or ""), self.policy()
        _check_denied(policy, name, token_id)
        return Principal(name, Kind.TOKEN, Grants.read(claims.get(self.claim)) | policy.grants_of(name), token_id)

    def name(self, shown: Shown) -> str:
        """The token's ``sub``."""
        return str(self._claims(shown)["sub"])

    def _claims(self, shown: Shown) -> dict[str, Any]:
        return self.tokens.claims(token_of(shown.authorization))


@dataclass(frozen=True, slots=True)
class IamDoor:
    """``iam``: whoever signed the request (SigV4). The gateway checks signatures, and says whose it was."""

    policy: Callable[[], Policy]

    def principal(self, shown: Shown) -> Principal:
        """A request without an ARN did not come through a gateway that checks."""
        arn, policy = self.name(shown), self.policy()
        _check_denied(policy, arn, shown.access_key)
        return Principal(arn, Kind.IAM, policy.grants_of(arn), shown.access_key)

    def name(self, shown: Shown) -> str:
        """The ARN."""
        if not shown.user_arn:
            raise UnauthenticatedError("no signature: sign the request with credentials of AWS (SigV4, service execute-api)")
        return shown.user_arn


def _check_denied(policy: Policy, name: str, token_id: str) -> None:
    if policy.denies(name, token_id):
        raise DeniedPrincipalError("these credentials were revoked", name, token_id)
