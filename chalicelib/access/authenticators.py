"""Authentication: from the credentials of a request to a principal. Each value of ``RUNLAKE_AUTH`` has one authenticator, which no
request bypasses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
class TrustedIssuer:
    """``claim``: the one with the grants, where ``scope_prefix`` begins each scope. ``prefix``: begins the names of the issuer's principals and
    groups; empty for one issuer. ``groups``: the claim with the groups; empty: none."""

    tokens: TokenVerifier
    claim: str
    prefix: str
    scope_prefix: str = ""
    groups: str = ""

    def grants_of(self, claims: Mapping[str, Any]) -> Grants:
        """The grants of a token itself."""
        return Grants.parse(claims.get(self.claim), self.scope_prefix)

    def groups_of(self, claims: Mapping[str, Any]) -> Sequence[str]:
        """The names of a token's groups in the policy."""
        listed = claims.get(self.groups) if self.groups else None
        return [self.prefix + each for each in listed if isinstance(each, str)] if isinstance(listed, list) else []


@dataclass(frozen=True, slots=True)
class TokenAuthenticator:
    """``jwt``: a token of an issuer, by ``iss``. Its principal has the grants of the token, and those of the policy for its groups and its
    name: the prefix of the issuer and ``sub``."""

    issuers: Mapping[str, TrustedIssuer]
    policy: Callable[[], Policy]

    def authenticate(self, credentials: Credentials) -> Principal:
        """Verifies the token regardless of the gateway's authorizer, which may be missing, or may have cached its answer for a token
        that has expired since."""
        issuer, claims = self._verified(token_of(credentials.authorization))
        name, token_id, policy = self._name(issuer, claims), str(claims.get("jti") or ""), self.policy()
        _check_denied(policy, name, token_id)
        groups = [each for each in issuer.groups_of(claims) if not self._is_of_another(issuer, each)]
        grants = issuer.grants_of(claims) | policy.grants_of_groups(groups) | policy.grants_of(name, is_signer=False)
        return Principal(name, Kind.TOKEN, grants, token_id)

    def identify(self, credentials: Credentials) -> str:
        """The principal's name."""
        return self._name(*self._verified(token_of(credentials.authorization)))

    def _verified(self, token: str) -> tuple[TrustedIssuer, dict[str, Any]]:
        issuer = self._issuer_of(token)
        return issuer, issuer.tokens.verify(token)

    def _issuer_of(self, token: str) -> TrustedIssuer:
        """The issuer that a token names, before it is verified with this issuer's keys."""
        if len(self.issuers) == 1:
            return next(iter(self.issuers.values()))
        from chalicelib.access.tokens import unverified_issuer

        issuer = self.issuers.get(unverified_issuer(token))
        if issuer is None:
            raise UnauthenticatedError("the token is from another issuer")
        return issuer

    def _name(self, issuer: TrustedIssuer, claims: Mapping[str, Any]) -> str:
        name = issuer.prefix + str(claims["sub"])
        if self._is_of_another(issuer, name):
            raise UnauthenticatedError("the token's sub begins with the prefix of another issuer")
        return name

    def _is_of_another(self, issuer: TrustedIssuer, name: str) -> bool:
        """Whether a name of an issuer's principal or group spells one of another issuer. No prefix begins another one."""
        return not issuer.prefix and any(each.prefix and name.startswith(each.prefix) for each in self.issuers.values())


@dataclass(frozen=True, slots=True)
class IamAuthenticator:
    """``iam``: requests signed with SigV4. The gateway, or Lambda, verifies signatures and passes on the ARN of the signer."""

    policy: Callable[[], Policy]

    def authenticate(self, credentials: Credentials) -> Principal:
        """The signer. A request without an ARN did not pass a gateway that verifies signatures."""
        arn, policy = self.identify(credentials), self.policy()
        _check_denied(policy, arn, credentials.access_key)
        return Principal(arn, Kind.IAM, policy.grants_of(arn, is_signer=True), credentials.access_key)

    def identify(self, credentials: Credentials) -> str:
        """The signer's ARN."""
        if not credentials.user_arn:
            raise UnauthenticatedError(
                "no signature: sign the request with credentials of AWS (SigV4; service execute-api, lambda for a function URL)"
            )
        return credentials.user_arn


def _check_denied(policy: Policy, name: str, token_id: str) -> None:
    if policy.denies(name, token_id):
        raise DeniedPrincipalError("these credentials were revoked", name, token_id)
