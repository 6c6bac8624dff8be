"""An OpenID provider for tests: an authorization code with PKCE, device codes, refresh tokens that rotate. Nobody is asked: who comes is ``ann``.

Tests make it hostile by what they merge into its answers, or take it away.
"""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.issuer import AUDIENCE, Issuer

PERSON = "ann"
Json = dict[str, Any]


@dataclass
class OpenId:
    """``asked``: method, path and parameters of requests. ``redirect``, ``metadata``, ``claims``, ``answer``: merged into the query of the
    redirect, the metadata, the ID token and the answers of the token endpoint, ``device`` into device codes; None removes. ``refusals``: errors of
    the next requests for tokens, with a status before it or 400. ``is_away``: it closes connections."""

    issuer: Issuer = field(default_factory=Issuer)
    port: int = 0
    asked: list[tuple[str, str, Json]] = field(default_factory=list)
    redirect: Json = field(default_factory=dict)
    metadata: Json = field(default_factory=dict)
    claims: Json = field(default_factory=dict)
    access: Json = field(default_factory=dict)
    answer: Json = field(default_factory=dict)
    device: Json = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    is_away: bool = False
    issued: list[str] = field(default_factory=list)
    """Access tokens."""
    has_device_codes: bool = True
    _codes: dict[str, Json] = field(default_factory=dict)
    _refresh_tokens: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """The issuer's identifier."""
        return f"http://127.0.0.1:{self.port}/realm"

    @property
    def settings(self) -> Json:
        """Settings of an API that trusts it, with logins."""
        login = {
            "client_id": "page",
            "cli_client_id": "cli",
            "scopes": "openid logs:read",
            "parameters": {"resource": "urn:runlake"},
        }
        trust = {"auth": "jwt", "jwt_issuer": self.url, "jwt_audience": AUDIENCE, "jwt_claim": "scope"}
        return {**trust, "jwt_jwks_url": f"{self.url}/keys", "login": json.dumps(login)}

    def requests(self, path: str) -> list[Json]:
        """Parameters of the requests of a path, in order."""
        return [parameters for _, each, parameters in self.asked if each == path]

    def document(self) -> Json:
        """The metadata."""
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys", "revocation_endpoint": "revoke",
                "end_session_endpoint": "logout"}  # fmt: skip
        if self.has_device_codes:
            ends["device_authorization_endpoint"] = "device"
        document: Json = {"issuer": self.url, "authorization_response_iss_parameter_supported": True}
        document["id_token_signing_alg_values_supported"] = [self.issuer.algorithm]
        return _merged(document | {name: f"{self.url}/{path}" for name, path in ends.items()}, self.metadata)

    def authorize(self, query: Json) -> str:
        """The address that answers a request for a login."""
        assert query["response_type"] == "code" and query["code_challenge_method"] == "S256", query
        code = f"code-{next(self._numbers)}"
        self._codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.url}
        return f"{query['redirect_uri']}?{urlencode(_merged(answer, self.redirect))}"

    def tokens(self, form: Json) -> tuple[int, Json]:
        """The answer of the token endpoint."""
        with self._lock:
            if self.refusals and (refusal := self.refusals.pop(0)):
                status, _, error = refusal.rpartition(" ")
                return int(status or 400), {"error": error}
            if form["grant_type"] == "refresh_token":
                if form["refresh_token"] not in self._refresh_tokens:
                    self._refresh_tokens.clear()
                    return 400, {"error": "invalid_grant", "error_description": "used before"}
                self._refresh_tokens.remove(form["refresh_token"])
                return 200, self._answer(form["client_id"], {})
            if form["grant_type"] == "authorization_code":
                asked = self._codes.pop(form["code"], None)
                proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
                if not asked or (asked["code_challenge"], asked["redirect_uri"]) != (proof, form["redirect_uri"]):
                    return 400, {"error": "invalid_grant"}
                return 200, self._answer(form["client_id"], {"nonce": asked["nonce"]})
            return 200, self._answer(form["client_id"], {})

    def _answer(self, client: str, claims: Json) -> Json:
        number = next(self._numbers)
        refresh_token = f"refresh-{number}"
        self._refresh_tokens.add(refresh_token)
        access: Json = {"iss": self.url, "jti": f"token-{number}", "scope": "openid logs:read"}
        identity: Json = {"iss": self.url, "aud": client, "email": "ann@example.com"}
        self.issued.append(self.issuer.token(PERSON, **access | self.access))
        answer = {
            "access_token": self.issued[-1],
            "id_token": self.issuer.token(PERSON, **identity | claims | self.claims),
            "token_type": "Bearer",
            "expires_in": 600,
            "refresh_token": refresh_token,
        }
        return _merged(answer, self.answer)

    @contextmanager
    def running(self) -> Iterator[OpenId]:
        """It answers within the block."""
        provider = self

        class Handler(_Handler):
            openid = provider

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            self.port = server.server_port
            thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


class _Handler(BaseHTTPRequestHandler):
    openid: OpenId

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_OPTIONS(self) -> None:
        self._send(204, b"", {})

    def do_GET(self) -> None:
        self._respond(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        self._respond({name: values[-1] for name, values in parse_qs(body, keep_blank_values=True).items()})

    def _respond(self, given: Json) -> None:
        openid, path = self.openid, urlsplit(self.path).path.removeprefix("/realm")
        if openid.is_away:
            self.close_connection = True
            return
        openid.asked.append((self.command, path, given))
        match path:
            case "/.well-known/openid-configuration":
                self._json(200, openid.document())
            case "/keys":
                self._json(200, openid.issuer.jwks())
            case "/authorize":
                self._send(302, b"", {"Location": openid.authorize(given)})
            case "/logout":
                self._send(302, b"", {"Location": given["post_logout_redirect_uri"]})
            case "/token":
                self._json(*openid.tokens(given))
            case "/device":
                code = {"device_code": "device-1", "user_code": "ABCD-EFGH", "verification_uri": f"{openid.url}/activate"}
                self._json(200, _merged({**code, "expires_in": 300, "interval": 5}, openid.device))
            case _:
                self._json(200, {})

    def _json(self, status: int, body: Json) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        allowed = {"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "*"}
        for name, value in {**headers, **allowed, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _merged(answer: Json, other: Json) -> Json:
    return {name: value for name, value in (answer | other).items() if value is not None}
