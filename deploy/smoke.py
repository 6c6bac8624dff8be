"""A smoke test of a deployed address: writes, reads, closes and downloads a run; uploads, finds, reads and deletes a file.

It leaves the finalized log of one run of two lines, which expires like all logs; the file is deleted.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from hashlib import blake2b
from typing import Any
from uuid import uuid4

FQN = "runlake.smoke"
PATIENCE_S = 60.0
_TIMEOUT_S = 35.0
_LOGS = "/v1/services/ingestionPipelines/logs"
_FILES = "/v0/archive/files"
_TEXT = {"Content-Type": "text/plain"}


class SmokeError(Exception):
    """A step had an unexpected result."""


@dataclass(frozen=True, slots=True)
class Response:
    """The response to a request, after redirections."""

    status: int
    body: bytes
    headers: Message

    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


@dataclass(slots=True)
class Smoke:
    """``url``: base address, as in the output ApiUrl. ``report`` gets a line for each step."""

    url: str
    token: str
    report: Callable[[str], None]
    failed: list[str] = field(default_factory=list)
    has_written: bool = False

    def run(self) -> bool:
        """Whether all steps succeeded. A failed step skips the steps that depend on it."""
        run_id = f"smoke-{time.time_ns()}-{uuid4().hex[:8]}"
        path = f"{_LOGS}/{FQN}/{run_id}"
        started_s = time.monotonic()
        with self._step("health"):
            _expect(self._ask("GET", "/v1/health").status == 200, "the response is not 200")
        with self._step("a run: append, repeat, read, close, download"):
            self._log(path)
        with self._step("a file: upload, find, read, delete"):
            self._file()
        if self.has_written:
            self.report(f"remaining until it expires: the log of the run {FQN} {run_id}")
        self.report(
            f"{'FAILED: ' + ', '.join(self.failed) if self.failed else 'all well'}, in {time.monotonic() - started_s:.1f} s"
        )
        return not self.failed

    def _log(self, path: str) -> None:
        first = self._ask("POST", path, b"one\n", _TEXT)
        self.has_written = first.status == 200
        _expect(first.status == 200, f"an append was answered with {first.status}: {first.body[:200]!r}")
        cookie = {"Cookie": first.headers["Set-Cookie"].partition(";")[0]}
        for _ in range(2):  # the same batch from the same position is stored once
            second = self._ask("POST", path, b"two\n", _TEXT | cookie)
            _expect(second.status == 200, f"an append was answered with {second.status}")
        page = self._ask("GET", path).json()
        _expect((page["logs"], page["total"]) == ("one\ntwo", 2), f"the lines read differ from the lines written: {page}")
        closed = self._ask("POST", f"{path}/close", b"", {"Cookie": second.headers["Set-Cookie"].partition(";")[0]})
        _expect(closed.status == 200, f"the close was answered with {closed.status}")
        _expect(self._ask("POST", path, b"late\n", _TEXT).status == 409, "a closed run accepts lines")
        downloaded = self._ask("GET", f"{path}/download")
        _expect(downloaded.body == b"one\ntwo\n", f"the download differs from the lines written: {downloaded.body[:200]!r}")

    def _file(self) -> None:
        body = f"smoke {uuid4().hex}\n".encode()
        document = {
            "what": "runlake_smoke", "where": "smoke", "start": "now", "path": "/smoke.txt", "work_id": None,
            "hash": blake2b(body, digest_size=16).hexdigest(), "size": len(body),
        }  # fmt: skip
        begun = self._ask("POST", _FILES, json.dumps(document).encode(), {"Content-Type": "application/json"})
        _expect(begun.status == 201, f"an upload was answered with {begun.status}: {begun.body[:200]!r}")
        told = begun.json()
        how, address = told["upload"], f"{_FILES}/{told['id']}"
        sent = _ask(how["method"], how["url"], body, how["headers"])
        _expect(sent.status == 200, f"S3 answered the upload with {sent.status}: {sent.body[:200]!r}")
        try:
            self._until(lambda: self._ask("GET", f"{address}/metadata").status == 200, "the file was never catalogued")
            _expect(self._ask("GET", f"{address}/data").body == body, "the file differs from the upload")
        finally:
            deleted = self._ask("DELETE", address).status
        _expect(deleted == 204, f"the file could not be deleted: {deleted}")

    def _ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Response:
        credentials = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return _ask(method, self.url.rstrip("/") + path, body, {**(headers or {}), **credentials})

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started_s = time.monotonic()
        try:
            yield
        except (SmokeError, OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.failed.append(name.partition(":")[0])
            self.report(f"FAILED {time.monotonic() - started_s:6.2f} s  {name}\n       {type(error).__name__}: {error}")
        else:
            self.report(f"ok     {time.monotonic() - started_s:6.2f} s  {name}")

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        give_up = time.monotonic() + PATIENCE_S
        while not holds():
            _expect(time.monotonic() < give_up, otherwise)
            time.sleep(0.5)


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Sends no token to a presigned link: S3 rejects requests with two kinds of credentials."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """See urllib."""
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found:
            found.remove_header("Authorization")
        return found


_opener = urllib.request.build_opener(_Redirections)


def _ask(method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Response:
    request = urllib.request.Request(url, body, dict(headers), method=method)
    try:
        with _opener.open(request, timeout=_TIMEOUT_S) as answer:
            return Response(answer.status, answer.read(), answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return Response(error.code, error.read(), error.headers)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SmokeError(otherwise)
