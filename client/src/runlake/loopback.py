"""Receives the redirect that answers a login in a browser of this machine (RFC 8252, 7.3)."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from types import TracebackType
from urllib.parse import SplitResult, parse_qsl, urlsplit

from runlake.errors import LoginError

_PAGE = b"<!doctype html><meta charset=utf-8><title>Runlake</title><p>You can close this page: the command line has the answer.\n"


class Loopback:
    """Listens on this machine alone. ``redirect``: the registered address; without a port, on a free one. A context manager. Raises LoginError,
    OSError."""

    def __init__(self, redirect: str) -> None:
        parts, port = _checked(redirect)
        try:
            self._server = _Server(("127.0.0.1", port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            following = "end the program that has it, or log in with `runlake login --device`"
            raise LoginError(f"another program has the port of the answer redirect={redirect}", next_step=following) from error
        self.address = f"http://{parts.hostname}:{self._server.server_address[1]}{parts.path}"

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.server_close()

    def answer(self, is_answer: Callable[[Mapping[str, str]], bool], wait_s: float) -> Mapping[str, str] | None:
        """The query of the first request that answers the login; others, of other programs or pages, are refused. None: there was none in time."""
        found: list[Mapping[str, str]] = []
        is_over = threading.Event()

        def receive(host: str, target: str) -> bool:
            parts, expected = urlsplit(target), urlsplit(self.address)
            query = dict(parse_qsl(parts.query))
            if host != expected.netloc or (parts.path or "/") != (expected.path or "/") or not is_answer(query):
                return False
            found.append(query)
            return True

        members = {"receive": staticmethod(receive), "is_over": is_over}
        self._server.RequestHandlerClass = type("Handler", (_Handler,), members)
        serving = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            is_over.wait(wait_s)
        finally:
            self._server.shutdown()
            serving.join()
        return found[0] if found else None


def _checked(redirect: str) -> tuple[SplitResult, int]:
    """The parts, and the port or 0. Raises LoginError: the answer must not go to another machine."""
    try:
        parts = urlsplit(redirect)
        port = parts.port or 0
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "localhost"):
        raise LoginError(
            f"the address for the answer is not of this machine redirect={redirect!r}",
            next_step="ask the operator to correct `cli_redirect`",
        )
    return parts, port


class _Server(ThreadingTCPServer):
    """A thread for each connection: none that others hold keeps the answer out."""

    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection without a request is no error: browsers open some in advance."""


class _Handler(BaseHTTPRequestHandler):
    receive: Callable[[str, str], bool]
    is_over: threading.Event
    timeout = 2

    def do_GET(self) -> None:
        is_received = type(self).receive(self.headers.get("Host", ""), self.path)
        try:
            self._answer(is_received)
        finally:
            if is_received:
                self.is_over.set()

    def _answer(self, is_received: bool) -> None:
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
