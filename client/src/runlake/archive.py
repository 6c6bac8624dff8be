"""The HTTP API of the archive: one method for each operation. HTTP errors are translated to RunlakeError only here."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urljoin, urlsplit

from runlake import tls
from runlake.errors import (
    AccessError,
    AddressError,
    ApiError,
    AttemptTakenError,
    ForeignAnswerError,
    MethodRefusedError,
    NotFoundError,
    RefusedError,
    RunClosedError,
    RunDeletedError,
    SettingsError,
    UnavailableError,
    advise,
)
from runlake.names import DeadLetterName, RunName, path_segment, public_url
from runlake.outcomes import RunEnd
from runlake.settings import RUN_LOG, Settings
from runlake.signing import GRANT, Signer
from runlake.starts import Start, StartedRun
from runlake.tokens import Token

if TYPE_CHECKING:
    import httpx

COOKIE = "PIPELINE_SESSION"
_CONNECT_S = 5.0
_STREAM_WAIT_S = 25.0
_DELETION_WAIT_S = 30.0
_LOGS = "/v1/services/ingestionPipelines/logs"
_PIPELINES = "/v1/catalog/pipelines"
_RECENT_RUNS = "/v1/catalog"
_EVENTS = "/v1/events"
_FILES = "/v0/archive/files"
_LETTERS = "/v1/dead-letters"
_PIPELINE_FILES = "/v1/pipeline-files"
_NO_CONTENT = 204
_BAD_REQUEST = 400
_YEAR_10000_S = 253_402_300_800
_UNAUTHORIZED = (401, 403)
_CONFLICT = 409
_CREDENTIALS = {
    407: "write user and password of the proxy in its address: HTTPS_PROXY=http://USER:PASSWORD@PROXY",
    431: "get a shorter token, as of a person in fewer groups: proxies and gateways limit headers",
}
"""The next steps after refusals that no request with these credentials escapes, whatever it stores."""
_TRY_AGAIN = frozenset({408, 425, 429})
_OF_THE_OPERATOR = ("the policy cannot be read", "the issuer's keys cannot be read")
Json = dict[str, Any]
_Piece = TypeVar("_Piece", str, bytes)
_thread_state = threading.local()
_STORE_FIELD = re.compile(r"<(Code|Message)>([^<]*)<")
"""Of an error of S3, which is XML."""


@dataclass(frozen=True)
class Page:
    """A page of a log's lines. ``after``: the number of the line after them; ``is_end``: no more for now; ``streaming``: more may come.
    ``clock``: the times that ``since`` was compared with, "lines" or "arrival"; "" without ``since``. ``zone``: then of times without one."""

    lines: list[str]
    after: int
    total: int
    is_end: bool
    streaming: bool
    clock: str = ""
    zone: str = ""


@cache
def import_for_requests(*, is_secure: bool) -> None:
    """Import all modules that a first request imports, and read what an https address needs. Call it before a fork: a process that is forked
    while another thread imports a module waits for the lock of that module forever."""
    import gzip  # noqa: F401

    import httpx

    httpx.HTTPTransport(trust_env=False, verify=tls.context()).close()
    "localhost".encode("idna")
    if is_secure:
        tls.loaded()


def _no_answers() -> tuple[type[Exception], ...]:
    """The errors of a request without a response."""
    import httpx

    return httpx.TransportError, httpx.DecodingError, httpx.InvalidURL


class Archive:
    """A client of one server. Thread-safe, except for ``close``. Close it, or use it as a context manager."""

    def __init__(
        self,
        url: str,
        token: Token | None = None,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        signer: Signer | None = None,
    ) -> None:
        """``signer``: signs the requests, which have no token then. The first one of a process imports httpx, for more than a tenth of a second."""
        import httpx

        self.url = url.rstrip("/")
        self._token = token or Token(lambda: None)
        self._signer = signer
        timeout = httpx.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
        headers = {"User-Agent": "runlake-client"}
        self._http = httpx.Client(timeout=timeout, transport=transport, headers=headers, verify=tls.context())

    def is_runlake(self) -> bool:
        """Whether the server at the address has Runlake's API. Sends no token, so a stage may refuse the request."""
        try:
            response = self._send(self._request("GET", "/v1/health", {}))
            answer = dict(response.json())
            return answer.get("status") == "ok" or (
                response.status_code in _UNAUTHORIZED
                and (answer.get("code") == response.status_code or self._refusal_of_aws(response) is not None)
            )
        except (SettingsError, UnavailableError):  # of credentials, which held for another request
            return True
        except (ValueError, TypeError):
            return False
        except _no_answers():
            return False

    def page_config(self) -> Json:
        """How people show who they are, as the web page reads it. Raises ApiError, UnavailableError."""
        return _checked(self._json("GET", "/v1/ui/config"), "auth", "version")

    def check_credentials(self) -> None:
        """Raises AccessError if the server does not accept the credentials, UnavailableError."""
        self._json("GET", "/v0/environment/")

    def located(self, error: ApiError) -> ApiError:
        """The error, or an AddressError if the server at the address is not Runlake."""
        if self.is_runlake():
            return error
        message = f"the server at this address is not Runlake: {error} url={public_url(self.url)}"
        return AddressError(error.status, message, next_step=_advice_to_sign(str(error)))

    @classmethod
    def of(cls, settings: Settings, url: str = "") -> Archive:
        """The server of these settings, or another one with their credentials. Raises SettingsError."""
        address = url or settings.required_url()
        signer = settings.signer(address)
        return cls(address, None if signer else settings.token_for(address), settings.timeout_s, signer=signer)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        with _unlogged():
            self._http.close()

    def open_session(self, run: RunName, zone: str = "") -> str:
        """The position from which a new writer appends. Stores nothing. ``zone``: of times without one in its lines, if its first batch is that of
        the run. Raises RunClosedError (the run has another zone), ApiError, UnavailableError."""
        headers = {"X-Runlake-Zone": zone} if zone else {}
        return str(_checked(self._json("POST", self._log(run), headers=headers), "position")["position"])

    def start_run(self, run: RunName, start: Start, zone: str = "") -> StartedRun:
        """Start a run, or its next attempt. Idempotent: repeating a start returns the same attempt. ``zone``: see ``open_session``. Raises
        AttemptTakenError (or the run has another zone), MethodRefusedError, RefusedError (no start is possible), ApiError, UnavailableError."""
        path = f"{self._events(run)}/starts/{path_segment(start.start_id)}"
        try:
            stated = {"zone": zone} if zone else {}
            answer, refusal = self._json_or_shorter("PUT", path, start.body() | stated, start.body(has_details=False) | stated)
        except RunClosedError as error:
            raise AttemptTakenError(error.status, str(error)) from error
        except RefusedError as error:
            if start.method != RUN_LOG:
                raise MethodRefusedError(error.status, str(error)) from error
            if start.attempt is None:
                raise
            raise AttemptTakenError(error.status, str(error)) from error
        _checked(answer, "runId", "attempt", "position", "joined", "instanceId")
        name, attempt, position = RunName(run.fqn, str(answer["runId"])), int(answer["attempt"]), str(answer["position"])
        return StartedRun(name, attempt, position, bool(answer["joined"]), refusal, str(answer["instanceId"]))

    def send_heartbeat(self, run: RunName) -> None:
        """Report that a run without new lines is alive. Raises ApiError, UnavailableError."""
        self._json("PUT", f"{self._events(run)}/heartbeat")

    def append(self, run: RunName, packed: bytes, position: str) -> Json:
        """Store a gzipped batch. The response's ``position`` is the one for the next batch.

        Idempotent: a batch repeated with the same bytes and position is stored once. Raises RunClosedError (nothing was stored), AccessError,
        RefusedError, UnavailableError (outcome unknown: send it again).
        """
        # A content type, not a content encoding: gateways decode encodings, and damage bytes that are not UTF-8.
        headers = {"Content-Type": "application/gzip", "Cookie": f"{COOKIE}={position}"}
        return _checked(self._json("POST", self._log(run), content=packed, headers=headers), "position")

    def append_text(self, run: RunName, data: bytes) -> Json:
        """Store bytes as one batch in a new session. A repeat stores them again: use ``append`` for exactly once."""
        import gzip

        return self.append(run, gzip.compress(data, mtime=0), self.open_session(run))

    def close_run(self, run: RunName, end: RunEnd | None = None) -> str:
        """Close a run for good, and report its outcome. Idempotent: the first outcome stays. Returns why the details were refused, in which case
        only the outcome and the number of lost lines are stored; "" if nothing was refused. Raises ApiError, UnavailableError."""
        path = self._log(run) + "/close"
        if end is None:
            self._json("POST", path)
            return ""
        return self._json_or_shorter("POST", path, end.body(), end.without_details().body())[1]

    def register_writer(self, run: RunName, writer: str) -> None:
        """Make the completeness of the run depend on this writer's events and end. Idempotent. Raises ApiError, UnavailableError."""
        self._json("PUT", self._writer(run, writer))

    def append_events(self, run: RunName, writer: str, events: bytes, key: str, position: str = "") -> Json:
        """Store events, one JSON line each. Idempotent per key. ``errors`` of the response lists the events that were not stored.

        Raises RunClosedError (nothing was stored), RefusedError (all are invalid), AccessError, UnavailableError (send it again).
        """
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key} | (
            {"Cookie": f"{COOKIE}={position}"} if position else {}
        )
        answer = self._json("POST", self._events(run), params={"writer": writer}, content=events, headers=headers)
        return _checked(answer, "position", "errors")

    def close_writer(self, run: RunName, writer: str, count: int, last_timestamp_ms: int | None = None) -> None:
        """Report the number of events of a writer. Idempotent for the same count. Raises ApiError, UnavailableError."""
        last = {} if last_timestamp_ms is None else {"lastTimestamp": last_timestamp_ms}
        self._json("POST", self._writer(run, writer) + "/close", document={"count": count, **last})

    def update_step(self, run: RunName, step: str, facts: Json) -> None:
        """Set fields of a step: ``name``, ``parent``, ``startedMs``, ``endedMs``, ``status``. Idempotent."""
        self._json("POST", f"{self._events(run)}/steps/{path_segment(step)}", document=facts)

    def steps(self, run: RunName) -> list[Json]:
        """The steps of a run, ordered by start. Raises NotFoundError, ApiError, UnavailableError."""
        found: list[Json] = []
        after: str | None = ""
        while after is not None:
            page = self._json("GET", self._events(run) + "/steps", params={"after": after} if after else {})
            found += page["steps"]
            after = page["after"]
        return found

    def completeness(self, run: RunName, wait_s: int = 0) -> Json:
        """``state`` (complete, pending or lost), the writers, and which of them are ``lost``. ``wait_s``: how long the server waits while the state
        is pending."""
        path, params = self._events(run) + "/completeness", {"wait": wait_s} if wait_s else {}
        document = self._json("GET", path, params=params, wait_s=wait_s)
        while document["after"] is not None:
            page = self._json("GET", path, params={"after": document["after"]})
            document = page | {name: [*document[name], *page[name]] for name in ("writers", "lost")}
        return document

    def events_page(self, run: RunName, **query: Any) -> Json:
        """A page of events. Query: ``step``, ``level``, ``from``, ``to``, ``text``, ``limit``, ``after`` (that of the previous page)."""
        return self._json("GET", self._events(run), params=query)

    def step_log(self, run: RunName, step: str, start: int = 0) -> Json:
        """Part of a step's log, from byte ``start`` of the step: ``text``, ``next``, ``complete``. Raises ApiError, UnavailableError."""
        return self._json("GET", self._events(run) + "/log", params={"step": step, "start": start})

    def page(self, run: RunName, **query: Any) -> Page:
        """A page of lines. Query: ``after``, ``limit``, ``tail``, ``since``, ``clock``, ``wait``. Raises ApiError, UnavailableError."""
        answer = self._json("GET", self._log(run), params=query, wait_s=float(query.get("wait", 0)))
        logs, total = str(answer["logs"]), int(answer["total"])
        after = answer["after"]
        lines = logs.split("\n") if logs or after is not None or _is_one_empty_line(query, total) else []
        end = total if after is None else int(after)
        return Page(
            lines, end, total, after is None, bool(answer["streaming"]), str(answer.get("clock", "")), str(answer.get("zone", ""))
        )

    def newest_run(self, fqn: str) -> RunName:
        """The run that started last. Raises NotFoundError if the pipeline has none."""
        runs = self._json("GET", f"{_LOGS}/{path_segment(fqn)}", params={"limit": 1})["runs"]
        if not runs:
            raise no_runs(fqn)
        return RunName(fqn, str(runs[0]))

    def delete(self, fqn: str, run_id: str | None, reason: str = "") -> Json:
        """Delete a run, or a pipeline with all of its runs, for good. ``state``: "deleted", or "deleting" if another call has to continue it.
        Idempotent. Raises NotFoundError, AccessError, RefusedError, UnavailableError (outcome unknown: send it again)."""
        path = f"{_PIPELINES}/{path_segment(fqn)}" if run_id is None else self._facts(RunName(fqn, run_id))
        answer = self._json("DELETE", path, params={"reason": reason} if reason else {}, wait_s=_DELETION_WAIT_S)
        return _checked(answer, "state", "counts", "outstanding", "outside")

    def pipelines(self, prefix: str = "", limit: int = 50) -> Iterator[Json]:
        """Pipelines ordered by name, each with its last run."""
        return self._pages(_PIPELINES, "pipelines", limit, {"prefix": prefix} if prefix else {})

    def runs(self, fqn: str, limit: int = 50) -> Iterator[Json]:
        """A pipeline's runs, the newest first."""
        return self._pages(f"{_PIPELINES}/{path_segment(fqn)}/runs", "runs", limit, {})

    def recent_runs(self, limit: int = 50, **query: Any) -> Iterator[Json]:
        """Runs of all pipelines with their ``fqn``, the last active first. Query: ``fqn`` (a pattern), ``outcome``, ``since``."""
        return self._pages(_RECENT_RUNS, "runs", limit, query)

    def check_runs_of(self, fqn: str) -> None:
        """Raises NotFoundError if the pipeline, or those that match this pattern, have no runs."""
        if "*" not in fqn:
            self.newest_run(fqn)
        elif next(self.recent_runs(1, fqn=fqn), None) is None:
            raise no_runs(fqn)

    def facts(self, run: RunName) -> Json:
        """The catalog entry of a run: state, sizes, times. Raises NotFoundError."""
        return self._json("GET", self._facts(run))

    def pipeline_file_pages(self, **query: Any) -> Iterator[Json]:
        """Pages of the events in the files that processing pipelines wrote: ``events`` in order of time, ``leftOut``, ``unsupported``. Query:
        ``namespace``, ``app``, ``program``, ``base``, ``level``, ``from``, ``to``. Raises ApiError, UnavailableError."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._json("GET", _PIPELINE_FILES, params=query | ({"cursor": cursor} if cursor else {}))
            yield _checked(page, "events")
            cursor = page["cursor"]

    def pipeline_files(self, limit: int = 100, **query: Any) -> Iterator[Json]:
        """Files that processing pipelines wrote: ``key``, ``url``, ``bytes``, ``events``, ``format``, ``firstTime``, ``lastTime`` (ms),
        ``complete``. Query as of ``pipeline_file_pages``. Raises ApiError, UnavailableError."""
        return self._pages(f"{_PIPELINE_FILES}/files", "files", limit, query)

    @contextmanager
    def linked_bytes(self, url: str) -> Iterator[Iterator[bytes]]:
        """The bytes of an object by its link, which is requested without the token. Raises ApiError, UnavailableError."""
        with self._streamed(partial(self._ask_store, url, {"Accept-Encoding": "identity"})) as found:
            yield _translated(found.iter_raw())

    def dead_letters(self, limit: int = 100, **query: str) -> Iterator[Json]:
        """Dead letters: ``pipeline``, ``handler``, ``fqn``, ``runId``, ``line``, ``bytes``, ``storedAt``. Query: ``fqn``, ``runId``, ``pipeline``,
        ``handler``. Raises ApiError, UnavailableError."""
        return self._pages(_LETTERS, "letters", limit, query)

    def dead_letter(self, letter: DeadLetterName) -> Json:
        """A dead letter with its ``event`` and ``reason``. Raises NotFoundError."""
        return _checked(self._letter_request("GET", letter), "event")

    def resend_dead_letter(self, letter: DeadLetterName) -> Json:
        """Request that a dead letter is sent again: ``requestedAt``. Can be repeated. Raises NotFoundError, RefusedError."""
        return _checked(self._letter_request("POST", letter, "/resend"), "requestedAt")

    def drop_dead_letter(self, letter: DeadLetterName) -> None:
        """Delete a dead letter. Raises NotFoundError, also if a call before this one deleted it and its response was lost."""
        self._letter_request("DELETE", letter)

    def configuration(self, fqn: str) -> Json:
        """How logs are browsed; ``chosen``: what a new run of a pipeline gets. Raises ApiError, UnavailableError."""
        return _checked(self._json("GET", "/v1/configuration", params={"fqn": fqn}), "chosen")

    def grep(self, run: RunName, **query: Any) -> Json:
        """One search, bounded in time. Query: ``q``, ``regex``, ``ignoreCase``, ``limit``, ``after`` (that of the previous response)."""
        return self._json("GET", self._facts(run) + "/grep", params=query)

    def explanation(self, run: RunName) -> Json:
        """``candidates``: lines that may explain why a run failed, each with its rule in words (``about``); ``fromLine``, ``complete``,
        ``streaming``. Raises NotFoundError."""
        return _checked(self._json("GET", self._facts(run) + "/explanation"), "candidates")

    @contextmanager
    def events(self, run: RunName, last_id: str | None, **query: Any) -> Iterator[Iterator[str]]:
        """The lines of one response of the event stream (SSE). Raises ApiError, UnavailableError."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id is not None else {})
        address = f"{_LOGS}/{path_segment(run.fqn)}/stream/{path_segment(run.run_id)}"
        timeout = self._timeout(_STREAM_WAIT_S)
        with self._streamed(partial(self._ask, "GET", address, headers, params=query, timeout=timeout)) as response:
            yield _translated(response.iter_lines())

    @contextmanager
    def download(self, run: RunName, begin: int = 0) -> Iterator[tuple[int, Iterator[bytes]]]:
        """The log's bytes from ``begin`` on, and the byte they start at: 0 if the server cannot serve a range.

        A redirect to the object store is followed without the token, which the store must not see. Raises ApiError, UnavailableError.
        """
        with self._contents(self._log(run) + "/download", begin) as (first, found):
            yield first, _translated(found.iter_bytes())

    def files(self, **query: Any) -> Iterator[Json]:
        """Records of files over all pages, by default the oldest first. Query: ``what`` (several by commas, ``*``), ``where``, ``work_id``,
        ``start`` and ``end``, ``combine`` ("true": by work id and time), ``order``. Raises ApiError, UnavailableError."""
        asked: Json | None = query
        while asked is not None:
            page = self._json("GET", _FILES + "/", params=asked)
            yield from page["records"]
            # Only its query: the token is for the address in the settings.
            asked = dict(parse_qsl(urlsplit(page["next"]).query)) if page["next"] else None

    def latest_file(self, what: str, where: str, lookback_days: int | None = None) -> Json:
        """The record of the file with the latest start. Raises NotFoundError, ApiError, UnavailableError."""
        path = f"/v0/archive/latest/{path_segment(what)}/{path_segment(where)}"
        return _checked(self._json("GET", path, params={} if lookback_days is None else {"lookback": lookback_days}), "metadata")

    def file_metadata(self, file_id: str) -> Json:
        """The metadata of a file. Raises NotFoundError, also of an upload that is not verified yet, ApiError, UnavailableError."""
        return _checked(self._json("GET", f"{_FILES}/{path_segment(file_id)}/metadata"), "hash")

    @contextmanager
    def file_contents(self, file_id: str, begin: int = 0) -> Iterator[tuple[int, int | None, Iterator[bytes]]]:
        """The first byte, which is ``begin``, or 0 if the server cannot serve a range; the size, if known; and the bytes as they are stored,
        a gzip file's too. A redirect to the object store is followed without the token. Raises ApiError, UnavailableError."""
        plain = {"Accept-Encoding": "identity"}
        with self._contents(f"{_FILES}/{path_segment(file_id)}/data", begin, plain) as (first, found):
            length = found.headers.get("content-length", "")
            yield first, (first + int(length) if length.isdecimal() else None), _translated(found.iter_raw())

    def begin_upload(self, document: Json) -> Json:
        """Announce a file by its metadata and ``size``: ``id``, ``metadata``, presigned URLs in ``upload``, ``warnings``. Each call makes another
        file, which exists once its bytes are stored. Raises RefusedError, AccessError, UnavailableError."""
        return _checked(self._json("POST", _FILES, document=document), "upload")

    def put_object(self, url: str, blocks: Iterator[bytes], headers: Mapping[str, str]) -> str:
        """Send bytes to a presigned URL, without the token; ``headers`` have their ``Content-Length``. Returns the ETag. Raises RefusedError,
        UnavailableError (outcome unknown)."""
        return str(self._store("PUT", url, content=blocks, headers=headers).headers.get("etag", ""))

    def complete_upload(self, url: str, etags: Mapping[int, str]) -> None:
        """Join the parts of an upload, by their numbers. Raises RefusedError, UnavailableError (outcome unknown)."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in sorted(etags.items())
        )
        document = f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{parts}</CompleteMultipartUpload>'
        response = self._store("POST", url, content=document.encode())
        if "<Error>" in response.text:  # S3 starts its answer before it knows the outcome
            raise UnavailableError(_store_message(response))

    def abort_upload(self, url: str) -> None:
        """Delete the stored parts of an unfinished upload. Raises RefusedError, UnavailableError."""
        self._store("DELETE", url)

    @contextmanager
    def _contents(self, path: str, begin: int, headers: Mapping[str, str] | None = None) -> Iterator[tuple[int, httpx.Response]]:
        """The response with the bytes from ``begin`` on, or from 0, and which of them is the first."""
        asked = headers or {}
        with self._streamed(partial(self._ask, "GET", path, asked)) as response:
            link = response.headers.get("location") if response.is_redirect else None
            if link is None:
                yield 0, response
                return
        in_part = {"Range": f"bytes={begin}-"} if begin else {}
        with self._streamed(partial(self._ask_store, urljoin(str(response.url), link), {**asked, **in_part})) as found:
            yield (begin if found.status_code == 206 else 0), found

    def _store(self, method: str, url: str, **more: Any) -> httpx.Response:
        """A request to the object store, which must not see the token."""
        try:
            response = self._send(self._http.build_request(method, url, **more))
        except _no_answers() as error:
            raise _no_answer(error) from error
        if response.is_success:
            return response
        status, message = response.status_code, _store_message(response)
        if not 400 <= status < 500 or status in (*_TRY_AGAIN, _CONFLICT) or "RequestTimeout" in message:
            raise UnavailableError(message, _seconds(response.headers.get("retry-after")))
        raise RefusedError(status, message, next_step="run the command again: the addresses of an upload are valid for an hour")

    def _pages(self, path: str, name: str, limit: int, query: Json) -> Iterator[Json]:
        cursor: str | None = None
        while limit > 0:
            asked = query | {"limit": min(limit, 100)} | ({"cursor": cursor} if cursor else {})
            answer = self._json("GET", path, params=asked)
            found = answer[name][:limit]
            yield from found
            limit -= len(found)
            cursor = answer["cursor"]
            if cursor is None:
                return

    def _letter_request(self, method: str, letter: DeadLetterName, action: str = "") -> Json:
        query = {"fqn": letter.run.fqn, "runId": letter.run.run_id, "handler": letter.handler, "line": letter.line}
        try:
            return self._json(method, f"{_LETTERS}/{path_segment(letter.pipeline)}{action}", params=query)
        except NotFoundError as error:
            advise(error, "check the names, and whether it was accepted or dropped: `runlake pipelines dead list`")
            raise

    def _log(self, run: RunName) -> str:
        return f"{_LOGS}/{path_segment(run.fqn)}/{path_segment(run.run_id)}"

    def _events(self, run: RunName) -> str:
        return f"{_EVENTS}/{path_segment(run.fqn)}/{path_segment(run.run_id)}"

    def _writer(self, run: RunName, writer: str) -> str:
        return f"{self._events(run)}/writers/{path_segment(writer)}"

    def _facts(self, run: RunName) -> str:
        return f"{_PIPELINES}/{path_segment(run.fqn)}/runs/{path_segment(run.run_id)}"

    def _ask(self, method: str, path: str, headers: Mapping[str, str], *, stream: bool = False, **more: Any) -> httpx.Response:
        """The response to a request with credentials. A signed one that AWS refuses because the credentials have expired, or the clock is wrong, is
        sent once more with new credentials, or by AWS's clock; so is one whose login can be renewed."""
        bearer = self._bearer()
        response = self._send(self._request(method, path, {**headers, **bearer}, **more), stream=stream)
        if self._signer is not None and response.status_code in _UNAUTHORIZED:
            response.read()
            with _unlogged():
                is_renewed = self._signer.is_renewed(response.request.headers, _message(response), _date_of(response))
            if is_renewed:
                response = self._send(self._request(method, path, headers, **more), stream=stream)
        elif response.status_code == 401 and bearer and self._token.is_renewed(bearer["Authorization"].split()[1]):
            response.read()
            response = self._send(self._request(method, path, {**headers, **self._bearer()}, **more), stream=stream)
        return response

    def _ask_store(self, url: str, headers: Mapping[str, str], *, stream: bool = False) -> httpx.Response:
        """The response of the object store, which must not see credentials."""
        return self._send(self._http.build_request("GET", url, headers=headers), stream=stream)

    def _request(self, method: str, path: str, headers: Mapping[str, str], **more: Any) -> httpx.Request:
        """A request to the API, signed if its caller signs. The signature is of the bytes that are sent."""
        request = self._http.build_request(method, self.url + path, headers=headers, **more)
        if self._signer is not None:
            query = request.url.query.replace(b"+", b"%20")  # a plus is a blank to httpx, and itself to AWS
            request.url = request.url.copy_with(
                query=query or None, userinfo=b""
            )  # which httpx would send in place of the signature
            signed = {name: request.headers[name] for name in ("host", "content-type") if name in request.headers}
            with _unlogged():
                request.headers.update(self._signer.headers(method, request.url.raw_path.decode("ascii"), signed, request.read()))
        return request

    def _bearer(self) -> dict[str, str]:
        token = self._token.value()
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise SettingsError("the token has invalid characters: spaces, line breaks, or letters beyond ASCII")
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _timeout(self, wait_s: float) -> httpx.Timeout:
        """The timeout of a request that the server may hold for ``wait_s`` before it responds."""
        import httpx

        usual = self._http.timeout
        return httpx.Timeout((usual.read or 0) + wait_s, connect=usual.connect)

    def _json_or_shorter(self, method: str, path: str, document: Json, shorter: Json) -> tuple[Json, str]:
        """The response to a document, and ""; or the response to a shorter document, and why the archive refused the full one."""
        try:
            return self._json(method, path, document=document), ""
        except RefusedError as error:
            if error.status != _BAD_REQUEST:
                raise
            return self._json(method, path, document=shorter), str(error)

    def _json(
        self,
        method: str,
        path: str,
        *,
        document: Json | None = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = 0,
        **more: Any,
    ) -> Json:
        asked = dict(headers or {})
        if document is not None:
            # File names and exception texts have lone surrogates for bytes that are not UTF-8: each becomes "?".
            more["content"] = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
            asked["Content-Type"] = "application/json"
        try:
            response = self._ask(method, path, asked, timeout=self._timeout(wait_s), **more)
        except _no_answers() as error:
            raise _no_answer(error) from error
        if not response.is_success:
            raise self._error(response)
        if response.status_code == _NO_CONTENT:
            return {}
        try:
            answer = response.json()
        except ValueError as error:
            raise _foreign_answer() from error
        return answer if isinstance(answer, dict) else {}

    @contextmanager
    def _streamed(self, ask: Callable[..., httpx.Response]) -> Iterator[httpx.Response]:
        try:
            with _closing(ask(stream=True)) as response:
                if response.is_error:
                    response.read()
                    raise self._error(response)
                yield response
        except _no_answers() as error:
            raise _no_answer(error) from error

    def _refusal_of_aws(self, response: httpx.Response) -> AccessError | None:
        """The error for a signed request that did not come to the archive; None for other responses."""
        return None if self._signer is None else self._signer.refusal(response.status_code, _message(response))

    def _send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        with _unlogged():
            return self._http.send(request, stream=stream)

    def _error(self, response: httpx.Response) -> ApiError | UnavailableError:
        status, message = response.status_code, _message(response)
        if status in _UNAUTHORIZED:
            if self._signer is not None and "authorization" in response.request.headers:
                return self._refusal_of_aws(response) or AccessError(status, message, next_step=GRANT)
            self._token.forget()
            return AccessError(status, message, next_step=_advice_to_sign(message))
        if status in _CREDENTIALS:
            return AccessError(status, message, next_step=_CREDENTIALS[status])
        if status < 400 or status >= 500 or status in _TRY_AGAIN:  # redirects come from a proxy
            error = UnavailableError(f"{message} status={status}", _seconds(response.headers.get("retry-after")))
            if message.endswith(_OF_THE_OPERATOR):
                error.next_step = (
                    "ask the operator: the API's log says why; the policy is the SSM parameter named by PolicyParameter"
                )
            return error
        return {404: NotFoundError, 409: RunClosedError, 410: RunDeletedError}.get(status, RefusedError)(status, message)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Drop log records of the HTTP client in this thread meanwhile: an application that logs at INFO did not ask for our requests."""
    _thread_state.is_sending = True
    try:
        yield
    finally:
        _thread_state.is_sending = False


@contextmanager
def _closing(response: httpx.Response) -> Iterator[httpx.Response]:
    try:
        yield response
    finally:
        with _unlogged():
            response.close()


def _is_application_request(_: logging.LogRecord) -> bool:
    """Whether a record of the HTTP client is about a request of the application, not of this library."""
    return not getattr(_thread_state, "is_sending", False)


_BOTOCORE = ("botocore.credentials", "botocore.hooks", "botocore.loaders", "botocore.session", "botocore.tokens", "botocore.utils")
for _logger in ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy", *_BOTOCORE):
    logging.getLogger(_logger).addFilter(_is_application_request)


def _translated(pieces: Iterator[_Piece]) -> Iterator[_Piece]:
    try:
        while True:
            with _unlogged():
                piece = next(pieces, None)
            if piece is None:
                return
            yield piece
    except _no_answers() as error:
        raise _no_answer(error) from error


def _is_one_empty_line(query: Mapping[str, Any], total: int) -> bool:
    """Whether a page without text has one empty line: joined, its text is as empty as that of no lines."""
    return total > int(query["after"]) if "after" in query else total > 0 and bool(query.get("tail"))


def _checked(answer: Json, *fields: str) -> Json:
    if not answer.keys() >= set(fields):
        raise _foreign_answer()
    return answer


def _foreign_answer() -> ForeignAnswerError:
    return ForeignAnswerError("the response is not Runlake's: is there a proxy in between?")


def _no_answer(error: Exception) -> UnavailableError:
    """Names the host only: a link of the object store has a signature."""
    server = ""
    with suppress(RuntimeError, AttributeError):  # an error before the request, or of another kind
        server = f" from {error.request.url.netloc.decode()}"  # type: ignore[attr-defined]
    return UnavailableError(f"no response{server}: {str(error) or type(error).__name__}")


def no_runs(fqn: str) -> NotFoundError:
    """The error for a pipeline, or a pattern, without runs."""
    problem, lag = ("no run matches", "; lists lag by seconds") if "*" in fqn else ("the pipeline has no runs", "")
    *first, last = fqn.rsplit("/", 1)
    words = f", or write the run as a word of its own: {RunName(first[0], last).words}" if first and all((*first, last)) else ""
    return NotFoundError(404, f"{problem} fqn={fqn!r}", next_step=f"check the name with `runlake pipelines`{words}{lag}")


def text_of(value: Any, otherwise: str) -> str:
    """A message of the server, or ``otherwise`` if it is null, empty or missing."""
    return str(value) if value not in (None, "") else otherwise


def _message(response: httpx.Response) -> str:
    """The server's message, with its ``detail`` where it has one."""
    otherwise = f"{response.reason_phrase or 'error'} status={response.status_code}"
    try:
        answer = response.json()
        message = text_of(answer["message"] if "message" in answer else answer["Message"], otherwise)
        if not answer.get("detail"):
            return message
        detail = str(answer["detail"])
        return message.removesuffix(".") + (", " if detail.startswith("or ") else ": ") + detail
    except (ValueError, KeyError, TypeError, AttributeError):
        return otherwise


def _store_message(response: httpx.Response) -> str:
    found = dict(_STORE_FIELD.findall(response.text))
    reason = text_of(found.get("Message"), response.reason_phrase or "error")
    return f"the object store refused it: {reason} code={found.get('Code', '')} status={response.status_code}"


def _seconds(text: str | None) -> float:
    try:
        return min(max(float(text or 0), 0.0), 60.0)
    except ValueError:
        return 0.0


def _advice_to_sign(message: str) -> str | None:
    """The next step if a request was refused since it has no signature; None for other refusals. API Gateway gives the same answer for a path
    without a stage."""
    if "Missing Authentication Token" in message:
        return f"{AddressError.next_step}; or sign the requests: --auth iam, RUNLAKE_AUTH=iam"
    return "sign the requests: --auth iam, or RUNLAKE_AUTH=iam" if "no signature" in message else None


def _date_of(response: httpx.Response) -> float | None:
    """The server's time, in seconds since 1970; None if it does not state it."""
    from email.utils import mktime_tz, parsedate_tz

    parsed = parsedate_tz(response.headers.get("date", ""))
    try:
        at_s = float(mktime_tz(parsed)) if parsed else None
    except (ValueError, OverflowError):
        return None
    return at_s if at_s is not None and 0 <= at_s < _YEAR_10000_S else None
