"""Receives the redirect that answers a login in a browser of this machine (RFC 8252, 7.3)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit

_PAGE = b"<!doctype html><meta charset=utf-8><title>Runlake</title><p>You can close this page: the command line has the answer.\n"


class Loopback:
    """Listens on this machine alone. ``redirect``: the registered address; without a port, on a free one. A context manager. Raises OSError."""

    def __init__(self, redirect: str) -> None:
        parts = urlsplit(redirect)
        self._server = _Server(("127.0.0.1", parts.port or 0), _Handler)
        self.address = f"http://{parts.hostname}:{self._server.server_address[1]}{parts.path}"

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.server_close()

    def answer(self, is_answer: Callable[[Mapping[str, str]], bool], wait_s: float) -> Mapping[str, str] | None:
        """The query of the first request that answers the login; others, of other programs or pages, are refused. None: there was none in time."""
        found: list[Mapping[str, str]] = []

        def receive(host: str, target: str) -> bool:
            parts, expected = urlsplit(target), urlsplit(self.address)
            query = dict(parse_qsl(parts.query))
            if found or host != expected.netloc or (parts.path or "/") != (expected.path or "/") or not is_answer(query):
                return False
            found.append(query)
            return True

        self._server.RequestHandlerClass = type("Handler", (_Handler,), {"receive": staticmethod(receive)})
        end_s = time.monotonic() + wait_s
        while not found and time.monotonic() < end_s:
            self._server.handle_request()
        return found[0] if found else None


class _Server(TCPServer):
    allow_reuse_address = True
    timeout = 0.1

    def handle_error(self, *_: object) -> None:
        """A connection without a request is no error: browsers open some in advance."""


class _Handler(BaseHTTPRequestHandler):
    receive: Callable[[str, str], bool]
    timeout = 2

    def do_GET(self) -> None:
        is_received = type(self).receive(self.headers.get("Host", ""), self.path)
        self.send_response(200 if is_received else 404)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(_PAGE if is_received else b"not the answer of this login\n")

    def log_message(self, *_: object) -> None:
        """The query of a request has a code: nothing is printed."""
