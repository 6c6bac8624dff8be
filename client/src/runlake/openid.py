"""Logins of people at an issuer with OpenID Connect: an authorization code with PKCE (RFC 7636, 8252, 9207), a device code (RFC 8628), refresh
tokens, revocation. Requests go to the issuer alone, over HTTPS, or plain HTTP on this machine; redirects are not followed.

The signature of an ID token is not verified: it comes from the issuer itself over TLS (OpenID Connect Core, 3.1.3.7). Its claims are.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from time import sleep, time
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from runlake.errors import AccessError, LoginError, UnavailableError

Json = dict[str, Any]
TIMEOUT_S = 15.0
_MAX_BYTES = 1_000_000
_LEEWAY_S = 60
_MOST_INTERVAL_S, _MOST_WAIT_S = 3600.0, 86_400.0
"""Of a device code."""
_AWAY = ("server_error", "temporarily_unavailable")
"""Codes of refusals that hold for now."""
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_OF_TOKENS = ("audience", "resource")
"""Parameters of the authorization request that requests for tokens have too: they choose the audience."""
_LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class LoginConfig:
    """Where people log in, as which client, as the server says. ``redirect``: a loopback address; without a port any is free to choose."""

    issuer: str
    client_id: str
    redirect: str
    scopes: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, config: Json) -> LoginConfig | None:
        """Of the configuration of the server's page; None if people do not log in there. Raises KeyError, TypeError."""
        login = config.get("login")
        if login is None:
            return None
        parameters = {str(name): str(value) for name, value in login["parameters"].items()}
        return cls(str(login["issuer"]), str(login["cliClientId"]), str(login["cliRedirect"]), str(login["scopes"]), parameters)

    @property
    def host(self) -> str:
        """The issuer's host, for people."""
        return urlsplit(self.issuer).netloc


@dataclass(frozen=True)
class Tokens:
    """What a login gives. ``ends_s``: the end of the access token, in seconds since 1970; None: the issuer does not say. ``claims``: of the ID
    token, which says who logged in."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    ends_s: float | None
    claims: Mapping[str, Any]


@dataclass(frozen=True)
class DeviceCode:
    """A login that a person confirms on another device: at ``address`` with ``user_code``."""

    code: str = field(repr=False)
    user_code: str = field(repr=False)
    address: str
    interval_s: float
    ends_s: float


class Provider:
    """An issuer, with its metadata. ``clock_s``: seconds since 1970."""

    def __init__(self, config: LoginConfig, clock_s: Callable[[], float] = time) -> None:
        """Reads the metadata. Raises LoginError, UnavailableError."""
        self.config, self._clock_s = config, clock_s
        self._check_address(config.issuer)
        self._metadata = self._request(config.issuer.rstrip("/") + "/.well-known/openid-configuration", None)
        if self._metadata.get("issuer") != config.issuer:
            raise LoginError(f"the metadata is of another issuer issuer={config.issuer} metadata={self._metadata.get('issuer')!r}")

    @property
    def has_device_codes(self) -> bool:
        """Whether a login without a browser on this machine is possible."""
        return bool(self._metadata.get("device_authorization_endpoint"))

    def device_code(self) -> DeviceCode:
        """Begin a login on another device. Raises LoginError, UnavailableError."""
        form = {**self.config.parameters, "client_id": self.config.client_id, "scope": self.config.scopes}
        answer = self._request(self._endpoint("device_authorization_endpoint"), form)
        try:
            interval_s, wait_s = float(answer.get("interval", 5)), float(answer["expires_in"])
            texts = str(answer["device_code"]), str(answer["user_code"]), str(answer["verification_uri"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise self._invalid("device code") from error
        if not (interval_s <= _MOST_INTERVAL_S and 0 < wait_s <= _MOST_WAIT_S):  # nor NaN
            raise self._invalid("device code")
        code = DeviceCode(*texts, interval_s, self._clock_s() + wait_s)
        self._check_address(code.address)
        return code

    def tokens_of_device(self, code: DeviceCode) -> Tokens:
        """Wait until the person has confirmed. Raises LoginError if that was refused, or took too long, UnavailableError."""
        interval_s = max(code.interval_s, 1.0)
        while (left_s := code.ends_s - self._clock_s()) > 0:
            sleep(min(interval_s, left_s))
            try:
                return self._tokens({"grant_type": _DEVICE_GRANT, "device_code": code.code}, nonce="")
            except UnavailableError:
                interval_s *= 2
            except _Refusal as refusal:
                if refusal.code == "slow_down":
                    interval_s += 5
                elif refusal.code != "authorization_pending":
                    raise
        raise LoginError("the code was not confirmed in time")

    def tokens_of_code(self, attempt: Attempt, answer: Mapping[str, str], redirect: str) -> Tokens:
        """The tokens for the answer of a redirect, whose state was checked. Raises LoginError, UnavailableError."""
        issuer = answer.get("iss")
        is_announced = self._metadata.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.config.issuer and (issuer is not None or is_announced):
            raise LoginError(f"the answer is of another issuer issuer={self.config.issuer} answer={issuer!r}")
        if "error" in answer:
            raise _Refusal(self.config.host, answer["error"], answer.get("error_description", ""))
        form = {"grant_type": "authorization_code", "code": answer.get("code", ""), "redirect_uri": redirect}
        return self._tokens({**form, "code_verifier": attempt.verifier}, attempt.nonce)

    def address_of(self, attempt: Attempt, redirect: str) -> str:
        """Where a person logs in. Raises LoginError."""
        challenge = _base64(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            **self.config.parameters,
            "client_id": self.config.client_id,
            "redirect_uri": redirect,
            "response_type": "code",
            "scope": self.config.scopes,
            "state": attempt.state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({"nonce": attempt.nonce} if self._has_id_token else {}),
        }
        address = self._endpoint("authorization_endpoint")
        return address + ("&" if urlsplit(address).query else "?") + urlencode(query)

    def renewed(self, tokens: Tokens) -> Tokens:
        """Other tokens for a refresh token, which is used up if the issuer rotates them. Raises AccessError if the login has ended for good,
        UnavailableError."""
        try:
            return self._tokens({"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}, earlier=tokens)
        except _Refusal as refusal:
            raise AccessError(401, f"the login has ended: {refusal}", next_step="log in again with `runlake login`") from refusal

    def revoke(self, tokens: Tokens) -> None:
        """Have the issuer forget a login, if it can. Raises LoginError, UnavailableError."""
        if self._metadata.get("revocation_endpoint"):
            token = tokens.refresh_token or tokens.access_token
            self._request(self._endpoint("revocation_endpoint"), {"client_id": self.config.client_id, "token": token})

    @property
    def _has_id_token(self) -> bool:
        return "openid" in self.config.scopes.split()

    def _tokens(self, form: Json, nonce: str | None = None, earlier: Tokens | None = None) -> Tokens:
        """``nonce``: None for a renewal, "" for a login that has none."""
        chosen = {name: value for name, value in self.config.parameters.items() if name in _OF_TOKENS}
        answer = self._request(self._endpoint("token_endpoint"), {**chosen, "client_id": self.config.client_id, **form})
        access, refresh = answer.get("access_token"), answer.get("refresh_token", earlier.refresh_token if earlier else "")
        if not isinstance(access, str) or not access or str(answer.get("token_type", "")).lower() != "bearer":
            raise self._invalid("access token")
        claims = earlier.claims if earlier else {}
        if nonce is not None and self._has_id_token:
            claims = self._claims_of(answer.get("id_token"), nonce)
        try:
            ends_s = self._clock_s() + float(answer["expires_in"]) if "expires_in" in answer else None
        except (TypeError, ValueError, OverflowError) as error:
            raise self._invalid("end of the access token") from error
        if ends_s is not None and not math.isfinite(ends_s):
            raise self._invalid("end of the access token")
        return Tokens(access, str(refresh or ""), ends_s, claims)

    def _claims_of(self, token: object, nonce: str) -> Json:
        head, claims = parts_of(token if isinstance(token, str) else "")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        problems = {
            "algorithm": str(head.get("alg", "none")).lower() == "none",
            "issuer": claims.get("iss") != self.config.issuer,
            "audience": self.config.client_id not in audiences,
            "party": claims.get("azp", self.config.client_id) != self.config.client_id,
            "end": not isinstance(claims.get("exp"), (int, float)) or claims["exp"] + _LEEWAY_S < self._clock_s(),
            "nonce": bool(nonce) and claims.get("nonce") != nonce,
            "subject": not isinstance(claims.get("sub"), str),
        }
        if wrong := [name for name, is_wrong in problems.items() if is_wrong]:
            raise self._invalid(f"ID token ({', '.join(wrong)})")
        return claims

    def _endpoint(self, name: str) -> str:
        address = self._metadata.get(name)
        if not isinstance(address, str):
            raise LoginError(f"the issuer does not offer this login, its metadata lacks {name} issuer={self.config.issuer}")
        self._check_address(address)
        return address

    def _check_address(self, address: str) -> None:
        if not is_private(address):
            raise LoginError(f"the login would not be private: an address of the issuer is not https:// address={address!r}")

    def _request(self, address: str, form: Json | None) -> Json:
        """The JSON object of an answer. Raises _Refusal, LoginError, UnavailableError."""
        body = None if form is None else urlencode(form).encode()
        request = Request(address, body, {"Accept": "application/json", "User-Agent": "runlake-client"})
        try:
            status, text = self._answer(request)
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UnavailableError(f"the login server does not respond host={urlsplit(address).netloc} reason={reason}") from error
        answer = _object(text)
        if status >= 300:
            self._raise_refusal(status, answer)
        return answer

    def _answer(self, request: Request) -> tuple[int, bytes]:
        try:
            with build_opener(_NoRedirect).open(request, timeout=TIMEOUT_S) as response:
                return 200, response.read(_MAX_BYTES)
        except HTTPError as error:
            with error:
                return error.code, error.read(_MAX_BYTES)

    def _raise_refusal(self, status: int, answer: Json) -> None:
        code = answer.get("error")
        if status >= 500 or code in _AWAY or (status == 429 and code != "slow_down"):
            raise UnavailableError(f"the login server is not available host={self.config.host} status={status}")
        if isinstance(code, str):
            raise _Refusal(self.config.host, code, str(answer.get("error_description", "")))
        raise LoginError(f"the login server refused the request host={self.config.host} status={status}")

    def _invalid(self, what: str) -> LoginError:
        return LoginError(f"the login server's answer has no valid {what}: nobody is logged in host={self.config.host}")


@dataclass(frozen=True)
class Attempt:
    """The secrets of one login: the answer has to repeat ``state``, the ID token ``nonce``; ``verifier`` proves who began it."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)

    @classmethod
    def begin(cls) -> Attempt:
        """New ones."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    def is_answer(self, query: Mapping[str, str]) -> bool:
        """Whether the query of a redirect answers this login, and not one that somebody else began."""
        return hmac.compare_digest(query.get("state", "").encode(), self.state.encode())


class _Refusal(LoginError):
    """``code``: OAuth's."""

    def __init__(self, host: str, code: str, description: str) -> None:
        super().__init__(f"{host} refused: {description or code}")
        self.code = code


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an HTTPError: it could send a code or a token elsewhere."""


def parts_of(token: str) -> tuple[Json, Json]:
    """Header and claims of a JWT, unverified; empty if it is none."""
    pieces = token.split(".")
    if len(pieces) != 3:
        return {}, {}
    head, claims = (_object(decoded) for decoded in _decoded(pieces[:2]))
    return head, claims


def is_private(address: str) -> bool:
    """Whether requests to an address are encrypted, or stay on this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL))


def _decoded(pieces: list[str]) -> Iterator[bytes]:
    for piece in pieces:
        try:
            yield base64.urlsafe_b64decode(piece + "=" * (-len(piece) % 4))
        except ValueError:
            yield b""


def _object(text: bytes) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
