"""Authentication: from the credentials of a request to a principal. Each value of ``RUNLAKE_AUTH`` has one authenticator, which no
request bypasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from chalicelib.access.authorization_header import token_of
from chalicelib.access.grants import Grants
from chalicelib.access.policy import Policy
from chalicelib.access.principal import ANONYMOUS, Kind, Principal
from chalicelib.errors import DeniedPrincipalError, UnauthenticatedError

if TYPE_CHECKING:
    from chalicelib.access.tokens import TokenVerifier  # imports cryptography, which takes a tenth of a second


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a request: its ``Authorization`` header, or the ARN and access key whose signature the gateway has verified."""

    authorization: str = ""
    user_arn: str = ""
    access_key: str = ""


class Authenticator(Protocol):
    """Authenticates requests."""

    def authenticate(self, credentials: Credentials) -> Principal:
        """The principal with its grants. Raises UnauthenticatedError, IdentityUnavailableError."""

    def identify(self, credentials: Credentials) -> str:
        """The principal's name, for callers that check no grants: does not read the policy. Raises like ``authenticate``."""


class AnonymousAuthenticator:
    """``none``: no authentication. Permitted only if AWS is emulated."""

    def authenticate(self, credentials: Credentials) -> Principal:
        """The anonymous principal."""
        return ANONYMOUS

    def identify(self, credentials: Credentials) -> str:
        """The anonymous principal's name."""
        return ANONYMOUS.name


@dataclass(frozen=True, slots=True)
class TokenAuthenticator:
    """``jwt``: a token of the issuer. Its principal has the grants of the token, and those of the policy for its ``sub``."""

    tokens: TokenVerifier
    claim: str
    policy: Callable[[], Policy]

    def authenticate(self, credentials: Credentials) -> Principal:
        """Verifies the token regardless of the gateway's authorizer, which may be missing, or may have cached its answer for a token
        that has expired since."""
        claims = self._claims(credentials)
        name, token_id, policy = str(claims["sub"]), str(claims.get("jti") or ""), self.policy()
        _check_denied(policy, name, token_id)
        return Principal(name, Kind.TOKEN, Grants.parse(claims.get(self.claim)) | policy.grants_of(name), token_id)

    def identify(self, credentials: Credentials) -> str:
        """The token's ``sub``."""
        return str(self._claims(credentials)["sub"])

    def _claims(self, credentials: Credentials) -> dict[str, Any]:
        return self.tokens.verify(token_of(credentials.authorization))


@dataclass(frozen=True, slots=True)
class IamAuthenticator:
    """``iam``: requests signed with SigV4. The gateway verifies signatures and passes on the ARN of the signer."""

    policy: Callable[[], Policy]

    def authenticate(self, credentials: Credentials) -> Principal:
        """The signer. A request without an ARN did not pass a gateway that verifies signatures."""
        arn, policy = self.identify(credentials), self.policy()
        _check_denied(policy, arn, credentials.access_key)
        return Principal(arn, Kind.IAM, policy.grants_of(arn), credentials.access_key)

    def identify(self, credentials: Credentials) -> str:
        """The signer's ARN."""
        if not credentials.user_arn:
            raise UnauthenticatedError("no signature: sign the request with credentials of AWS (SigV4, service execute-api)")
        return credentials.user_arn


def _check_denied(policy: Policy, name: str, token_id: str) -> None:
    if policy.denies(name, token_id):
        raise DeniedPrincipalError("these credentials were revoked", name, token_id)
