"""An archive in memory, with faults: it refuses, hangs, answers 500 and 503, cuts connections, and recovers."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from chalicelib.errors import InvalidInputError
from chalicelib.events.names import checked_name
from chalicelib.events.starts import StartBody
from chalicelib.routes.close_requests import read_run_end
from chalicelib.runlog.zone import checked_zone
from client.tests.fake_events import StoredEvents, answer_events
from client.tests.fake_files import StoredFiles
from client.tests.sigv4 import Front

LOGS = "/v1/services/ingestionPipelines/logs/"
Fault = str
"""``400``, ``500``, ``503``, ``cut`` (before anything is done), ``lost`` (done, but not answered), ``hang``, ``page`` (somebody
else's), or nothing: no fault."""
INSTANCE_ID = "here"


@dataclass
class Segment:
    session: str
    base: int
    body: bytes


@dataclass
class StoredRun:
    segments: list[Segment] = field(default_factory=list)
    closed: bool = False
    start: str = ""
    end: dict[str, Any] = field(default_factory=dict)
    end_age_ms: int = 0
    events: StoredEvents = field(default_factory=StoredEvents)
    zone: str = ""
    explained_from: int = 0
    explained: str = ""
    """The text of the explanation in lists."""

    @property
    def data(self) -> bytes:
        return b"".join(each.body if each.body.endswith(b"\n") else each.body + b"\n" for each in self.segments)

    @property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")[:-1]

    def takes_zone(self, zone: str) -> bool:
        """Whether the run may have the zone, which it then has."""
        if zone and zone != self.zone and (self.segments or self.zone):
            return False
        self.zone = zone or self.zone
        return True


class FakeServer:
    """``runs`` by (fqn, id). ``fault`` is called before each request; ``link_cut_after`` cuts each response of the store once."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], StoredRun] = defaultdict(StoredRun)
        self.files = StoredFiles()
        self.fault: Callable[[str, str], Fault] = lambda method, path: ""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.token: str | None = None
        self.accepts: Callable[[str | None], bool] = lambda sent: not self.token or sent == f"Bearer {self.token}"
        """Whether an ``Authorization`` header is valid."""
        self.login: dict[str, Any] | None = None
        """Where people log in, in the configuration of the page."""
        self.front: Front | None = None
        """Checks the signatures of all requests, except those of the store."""
        self.letters: list[dict[str, Any]] = []
        self.file_events: list[dict[str, Any]] = []
        self.pipeline_files: list[dict[str, Any]] = []
        self.configuration: dict[str, Any] = {}
        """Of how logs are browsed, with ``chosen`` for every pipeline."""
        self.elsewhere: set[str] = set()
        """FQNs of runs in another store, of which facts count nothing."""
        self.has_browser = True
        """Whether the pipelines are browsed elsewhere than in the run log."""
        self.clock = ""
        """Of pages since a time."""
        self.heartbeats: list[tuple[str, str]] = []
        self.deleted: dict[tuple[str, str], str] = {}
        """Names of deleted runs, and why."""
        self.silent: set[str] = set()
        """Run ids."""
        self.starts: list[dict[str, Any]] = []
        self.attempts: dict[str, tuple[str, int]] = {}
        """Of run ids, their first run id and their number."""
        self.links_above_bytes = 1 << 30
        self.link_cuts: list[int] = []
        self.stream_lines = 1000
        self.replacement: bytes | None = None
        """The response to every request except health, with this status."""
        self.replacement_status = 200
        self.is_foreign = False
        """Whether the replacement is the response to the health request too."""
        self.changed = threading.Condition()
        self.sessions = 0
        self._http: _Http | None = None
        self.port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def lines(self, fqn: str, run_id: str) -> list[bytes]:
        return self.runs[fqn, run_id].lines

    def up(self) -> None:
        self._http = _Http(self.port, self)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Refuse connections, and cut those there are."""
        if self._http:
            self._http.shutdown()
            self._http.cut_all()
            self._http.server_close()
            self._thread.join()
            self._http = None

    def add(self, fqn: str, run_id: str, data: bytes, *, close: bool = False) -> None:
        with self.changed:
            run = self.runs[fqn, run_id]
            run.segments.append(Segment("test", len(run.segments), data))
            run.closed = close
            self.changed.notify_all()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = True

    def __init__(self, port: int, fake: FakeServer) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.fake = fake
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_all(self) -> None:
        for each in list(self._open):
            cut(each)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients of these tests go away as they please."""


def _is_open(path: str) -> bool:
    return "/store/" in path or path.endswith(("/v1/health", "/v1/ui/config"))


def _rule_of(line: bytes) -> dict[str, str | None]:
    if b"disk" in line:
        return {"rule": "disk-full", "about": "a disk is full", "family": "disk"}
    if b"ERROR" in line:
        return {"rule": "error-record", "about": "a record with level ERROR", "family": None}
    return {"rule": "warning-record", "about": "a record with level WARNING", "family": None}


def cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is two writes
    server: _Http

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        fake = self.server.fake
        size = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(size)
        if len(self.body) < size:  # the request was cut
            self.close_connection = True
            return
        fake.requests.append((method, self.path, {name.lower(): value for name, value in self.headers.items()}))
        fault = fake.fault(method, self.path)
        if fault in ("400", "500", "503"):
            return self._json({"code": int(fault), "message": "as the test requires"}, int(fault))
        if fault == "page":
            return self._send(200, b"<html>Log in</html>", {"Content-Type": "text/html"})
        if fault == "hang":
            self.connection.recv(1)  # until the client gives up
        if fault in ("hang", "cut"):
            self.close_connection = True
            return cut(self.connection)
        self.is_lost = fault == "lost"
        if not fake.accepts(self.headers.get("authorization")) and not _is_open(self.path):
            return self._json({"code": 401, "message": "the token does not hold"}, 401)
        if fake.front is not None and "/store/" not in self.path:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if refusal := fake.front.refusal(method, self.path, headers, self.body):
                return self._json({"Message": refusal}, 403)
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query, keep_blank_values=True))
        if not url.path.startswith("/api/"):
            return self._json({"code": 404, "message": "there is no such path"}, 404)
        if fake.replacement is not None and (fake.is_foreign or not _is_open(self.path)):
            return self._send(fake.replacement_status, fake.replacement, {"Content-Type": "application/json"})
        self._route(method, [unquote(each) for each in url.path.removeprefix("/api").strip("/").split("/")])

    def _route(self, method: str, parts: list[str]) -> None:
        fake = self.server.fake
        deleted = next((name for name in fake.deleted if set(name) <= set(parts)), None)
        if deleted and method != "DELETE":
            return self._json({"code": 410, "message": "the run was deleted"}, 410)
        match (method, *parts):
            case ("POST", "v1", "services", _, "logs", fqn, run_id):
                self._append(self.server.fake.runs[fqn, run_id])
            case ("POST", "v1", "services", _, "logs", fqn, run_id, "close"):
                self._close(fake.runs[fqn, run_id])
            case ("GET", "v1", "services", _, "logs", fqn, "stream", run_id):
                self._stream(fqn, run_id)
            case ("GET", "v1", "services", _, "logs", fqn, run_id, "download"):
                self._download(fqn, run_id)
            case ("GET", "v1", "services", _, "logs", fqn):
                self._json({"runs": self._ids(fqn), "cursor": None})
            case ("GET", "v1", "services", _, "logs", fqn, run_id):
                self._page(self._seen(fqn, run_id))
            case (_, "v0", "archive", *rest):
                self._archive(method, rest)
            case ("GET", "store", "files", file_id):
                self._object(fake.files.files[file_id].body)
            case (_, "store", "files", file_id):
                assert self.headers.get("authorization") is None, "the token is none of the store's business"
                headers = {name.lower(): value for name, value in self.headers.items()}
                with fake.changed:
                    status, body, more = fake.files.store(method, file_id, self.query, headers, self.body)
                self._send(status, body, more)
            case ("GET", "store", fqn, run_id):
                self._object(self.server.fake.runs[fqn, run_id].data)
            case ("GET", "v1", "ui", "config"):
                self._json({"auth": "jwt", "version": "1", "login": fake.login})
            case ("GET", "v0", "environment"):
                self._json({"data": {"build": {"version": "1"}}})
            case ("GET", "v1", "health"):
                self._json({"status": "ok", "version": "1"})
            case ("GET", "v1", "configuration"):
                chosen = {"fqn": self.query["fqn"], **fake.configuration["chosen"]}
                self._json(fake.configuration | {"chosen": chosen})
            case ("GET", "v1", "pipeline-files", "files"):
                listed = [] if self.query["app"] == "empty" else fake.pipeline_files
                self._page_of_one("files", listed)
            case ("GET", "v1", "pipeline-files"):
                self._file_events()
            case (_, "v1", "dead-letters", *rest):
                self._letters(method, rest)
            case ("GET", "v1", "catalog"):
                self._recent()
            case ("GET", "v1", "catalog", "pipelines"):
                self._pipelines()
            case ("GET", "v1", "catalog", "pipelines", fqn, "runs"):
                self._json({"runs": [self._facts(fqn, run_id) for run_id in self._ids(fqn)], "cursor": None})
            case ("GET", "v1", "catalog", "pipelines", fqn, "runs", run_id) if (fqn, run_id) in self.server.fake.runs:
                where = (
                    {"method": "target", "browser": "opensearch"}
                    if fqn in fake.elsewhere
                    else {"method": "runlog", "browser": "runlog"}
                )
                self._json(self._facts(fqn, run_id) | {"lost": 0, **where})
            case ("GET", "v1", "catalog", "pipelines", fqn, "runs", run_id, "explanation") if (fqn, run_id) in fake.runs:
                self._explanation(fake.runs[fqn, run_id])
            case ("GET", "v1", "catalog", "pipelines", fqn, "runs", run_id, "grep"):
                self._grep(self._seen(fqn, run_id))
            case ("DELETE", "v1", "catalog", "pipelines", fqn, *rest):
                self._delete(fqn, rest[-1] if rest else None)
            case ("PUT", "v1", "events", fqn, run_id, "starts", start):
                self._start(fqn, run_id, start)
            case ("PUT", "v1", "events", fqn, run_id, "heartbeat"):
                with fake.changed:
                    fake.heartbeats.append((fqn, run_id))
                    fake.changed.notify_all()
                self._json({"recorded": True})
            case (_, "v1", "events", fqn, run_id, *rest):
                self._events(self._seen(fqn, run_id) if method == "GET" else fake.runs[fqn, run_id], [method, *rest])
            case _:
                self._json({"code": 404, "message": "there is no such path"}, 404)

    def _archive(self, method: str, rest: list[str]) -> None:
        fake = self.server.fake
        with fake.changed:
            status, answer, headers = fake.files.answer(fake.url, method, rest, self.query, self.body)
        if not isinstance(answer, bytes):
            return self._json(answer, status, **headers)
        if len(answer) <= fake.links_above_bytes:
            return self._send(status, answer, {"Content-Type": "text/plain"})
        self._json({"location": "x"}, 307, Location=f"/api/store/files/{quote(rest[1], safe='')}")

    def _close(self, run: StoredRun) -> None:
        """As strict as the archive."""
        try:
            read_run_end({"body": self.body.decode()}, lambda text: text, 0)
        except InvalidInputError as error:
            return self._json({"code": 400, "message": str(error)}, 400)
        if self.body and not run.closed:
            run.end = json.loads(self.body)
            run.end_age_ms = run.end.pop("ageMs", 0)
        run.closed = True
        self._json({"message": "Log stream closed successfully"})

    def _delete(self, fqn: str, run_id: str | None) -> None:
        """One run a call, which it counts."""
        fake = self.server.fake
        names = [name for name in fake.runs if name[0] == fqn and run_id in (None, name[1])]
        if not names and (fqn, run_id) not in fake.deleted:
            return self._json({"code": 404, "message": "there is no such run"}, 404)
        for name in names[:1]:
            fake.deleted[name] = self.query.get("reason", "")
            del fake.runs[name]
        outstanding = [{"what": "dataset", "until": "its next job has ended"}]
        state = "deleting" if names[1:] else "deleted"
        counts = {"objects": 1, "rows": 0}
        self._json({"state": state, "counts": counts, "outstanding": outstanding, "outside": ["backups"]})

    def _file_events(self) -> None:
        """One event a page; the files of the application "empty" have none, and some of them cannot be read. Of spellings of levels
        it knows the first letter."""
        from_ms, level, is_empty = int(self.query.get("from", 0)), self.query.get("level", ""), self.query["app"] == "empty"
        events = [] if is_empty else self.server.fake.file_events
        found = [each for each in events if each["time"] >= from_ms and each["level"].startswith(level[:1].upper())]
        self._page_of_one("events", found, leftOut=2 * is_empty, unsupported=1 * is_empty)

    def _letters(self, method: str, rest: list[str]) -> None:
        """Dead letters, one a page."""
        letters = self.server.fake.letters
        if not rest:
            chosen = {name: self.query[name] for name in ("fqn", "runId", "pipeline", "handler") if name in self.query}
            return self._page_of_one("letters", [each for each in letters if chosen.items() <= each.items()])
        named = {"pipeline": rest[0], **self.query, "line": int(self.query["line"])}
        letter = next((each for each in letters if named.items() <= each.items()), None)
        if letter is None:
            return self._json({"code": 404, "message": "there is no such dead letter"}, 404)
        if method == "DELETE":
            letters.remove(letter)
            return self._send(204, b"", {})
        if method == "POST":
            letter["details"]["resendRequestedAt"] = "2026-09-21T15:00:00.000Z"
            return self._json({"requestedAt": letter["details"]["resendRequestedAt"]}, 202)
        self._json(letter["details"])

    def _recent(self) -> None:
        """One run a page."""
        names = sorted((fqn, run_id) for fqn, run_id in self.server.fake.runs if fnmatchcase(fqn, self.query.get("fqn", "*")))
        found = [{"fqn": fqn, **self._facts(fqn, run_id)} for fqn, run_id in names]
        found = [each for each in found if each["lastAppendMs"] >= int(self.query.get("since", 0))]
        wanted = [each for each in found if each["outcome"] in self.query.get("outcome", each["outcome"]).split(",")]
        self._page_of_one("runs", wanted)

    def _page_of_one(self, name: str, rows: list[dict[str, Any]], **more: Any) -> None:
        """A page of a single row, so that pages are gone through."""
        at = int(self.query.get("cursor", 0))
        self._json({name: rows[at : at + 1], "cursor": str(at + 1) if at + 1 < len(rows) else None, **more})

    def _seen(self, fqn: str, run_id: str) -> StoredRun:
        """To be read: reading makes no run."""
        return self.server.fake.runs.get((fqn, run_id), StoredRun())

    def _start(self, fqn: str, run_id: str, start: str) -> None:
        """As the archive allocates attempts, of runs whose ids do not look like attempts."""
        try:
            checked_name("start", start)
            checked_zone(StartBody.model_validate_json(self.body).zone or "UTC")
        except (InvalidInputError, ValueError) as error:
            return self._json({"code": 400, "message": str(error)}, 400)
        fake, body = self.server.fake, json.loads(self.body)
        if body.get("method", "runlog") != "runlog" and not fake.has_browser:
            return self._json({"code": 400, "message": "the log browser of this pipeline is the run log"}, 400)
        with fake.changed:
            number = body.get("attempt", 1)
            if body.get("join") and "attempt" not in body:
                attempts = {name: n for n in range(2, 10) if (fqn, name := f"{run_id}~{n}") in fake.runs}
                number = max((n for name, n in attempts.items() if not fake.runs[fqn, name].closed), default=1)
            while True:
                name = run_id if number == 1 else f"{run_id}~{number}"
                run = fake.runs[fqn, name]
                is_free = run.start in ("", start) or body.get("join")
                if run.start == start or (is_free and not run.closed):
                    break
                if "attempt" in body:
                    return self._json({"code": 409, "message": "the attempt is taken"}, 409)
                number += 1
            if not run.takes_zone(body.get("zone", "")):
                return self._json({"code": 409, "message": "the zone of a run cannot change"}, 409)
            is_joined = run.start not in ("", start)
            run.start = run.start or start
            fake.starts.append(body)
            fake.sessions += 1
            position = f"s{fake.sessions}.{len(run.segments)}"
        answer = {"runId": name, "attempt": number, "startedMs": 0, "position": position, "joined": is_joined}
        self._json(answer | {"instanceId": INSTANCE_ID})

    def _append(self, run: StoredRun) -> None:
        fake = self.server.fake
        with fake.changed:
            token = dict(each.strip().partition("=")[::2] for each in self.headers.get("cookie", "").split(";")).get(
                "PIPELINE_SESSION"
            )
            if not self.body:
                if not run.takes_zone(self.headers.get("x-runlake-zone", "")):
                    return self._json({"code": 409, "message": "the zone of a run cannot change"}, 409)
                fake.sessions += 1
                return self._json({"position": token or f"s{fake.sessions}.{len(run.segments)}"})
            session, base = (token or f"none{len(run.segments)}.0").split(".")
            body = gzip.decompress(self.body)
            same = [each for each in run.segments if (each.session, each.base, each.body) == (session, int(base), body)]
            if not same and run.closed:
                return self._json({"code": 409, "message": "the run is closed: its log takes no more lines"}, 409)
            if not same:
                run.segments.append(Segment(session, int(base), body))
            fake.changed.notify_all()
        lines = body.count(b"\n") + (not body.endswith(b"\n"))
        self._json({"position": f"{session}.{len(run.segments)}", "sequence": 0, "line": 0, "lines": lines, "repeated": bool(same)})

    def _events(self, run: StoredRun, path: list[str]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.fake.changed:
            status, answer, text = answer_events(run.events, path, self.query, headers, self.body, run.closed, len(run.lines))
            if text:
                run.segments.append(Segment("events", len(run.segments), text))
            self.server.fake.changed.notify_all()
        self._json(answer, status)

    def _page(self, run: StoredRun) -> None:
        fake = self.server.fake
        lines = [line.decode("utf-8", "replace") for line in run.lines]
        begin = max(len(lines) - int(self.query["tail"]), 0) if "tail" in self.query else int(self.query.get("after", 0))
        if "wait" in self.query and begin >= len(lines) and not run.closed:
            with fake.changed:
                fake.changed.wait_for(lambda: len(run.lines) > begin or run.closed, timeout=1)
            lines = [line.decode("utf-8", "replace") for line in run.lines]
        end = min(begin + int(self.query.get("limit", 1000)), len(lines))
        after = str(end) if end < len(lines) else None
        zone = {"zone": run.zone} if run.zone and fake.clock == "lines" else {}
        clock = {"clock": fake.clock, **zone} if "since" in self.query and fake.clock else {}
        self._json({"logs": "\n".join(lines[begin:end]), "after": after, "total": len(lines), "streaming": not run.closed, **clock})

    def _stream(self, fqn: str, run_id: str) -> None:
        fake = self.server.fake
        run = fake.runs[fqn, run_id]
        begin = int(self.headers.get("last-event-id") or self.query.get("after") or 0)
        if "tail" in self.query and not self.headers.get("last-event-id"):
            begin = max(len(run.lines) - int(self.query["tail"]), 0)
        with fake.changed:
            fake.changed.wait_for(lambda: len(run.lines) > begin or run.closed, timeout=1)
            lines = [line.decode("utf-8", "replace") for line in run.lines[begin : begin + fake.stream_lines]]
            is_end = run.closed and begin + len(lines) == len(run.lines)
        text = "retry: 1\n\n"
        after = str(begin + len(lines))
        if lines:
            logs = "".join(line + "\n" for line in lines)
            frame = {"eventType": "logs", "runId": run_id, "logs": logs, "after": after, "replay": False, "cut": False}
            text += f"id: {after}\ndata: {json.dumps(frame)}\n\n"
        frame = {"eventType": "complete", "runId": run_id, "after": after, "reason": "runFinished" if is_end else "maxDuration"}
        text += f"id: {after}\ndata: {json.dumps(frame)}\n\n"
        self._send(200, text.encode(), {"Content-Type": "text/event-stream"})

    def _download(self, fqn: str, run_id: str) -> None:
        data = self._seen(fqn, run_id).data
        if not data:
            return self._json({"code": 404, "message": "there is no such run"}, 404)
        if len(data) <= self.server.fake.links_above_bytes:
            return self._send(200, data, {"Content-Type": "text/plain; charset=utf-8"})
        self._json({"location": "x"}, 307, Location=self.path.split("/v1/")[0] + f"/store/{fqn}/{run_id}")

    def _object(self, data: bytes) -> None:
        assert self.headers.get("authorization") is None, "the token is none of the store's business"
        begin = int(self.headers.get("range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if begin >= len(data):
            return self._send(416, b"<Error/>", {})
        cuts = self.server.fake.link_cuts
        body = data[begin:]
        if cuts:
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: cuts.pop(0)])
            self.close_connection = True
            return cut(self.connection)
        self._send(206 if begin else 200, body, {})

    def _explanation(self, run: StoredRun) -> None:
        """Lines with ERROR, the last one first; those with WARN say little."""
        found = [
            {"line": at, "text": line.decode(), **_rule_of(line), "score": 0.5 if b"ERROR" in line else 0.3}
            for at, line in enumerate(run.lines)
            if b"ERROR" in line or b"WARN" in line
        ][:-4:-1]
        self._json({"candidates": found, "fromLine": run.explained_from, "complete": run.closed, "streaming": not run.closed})

    def _grep(self, run: StoredRun) -> None:
        begin, lines = int(self.query["after"]), run.lines
        is_true = {name for name, value in self.query.items() if value == "true"}
        pattern = re.compile(
            self.query["q"] if "regex" in is_true else re.escape(self.query["q"]), re.IGNORECASE if "ignoreCase" in is_true else 0
        )
        inverts = "invert" in is_true
        end = min(begin + 100, len(lines))
        found = [
            {"line": at, "text": line, "spans": [] if inverts else [each.span() for each in pattern.finditer(line)]}
            for at, line in enumerate([each.decode() for each in lines[begin:end]], begin)
            if bool(pattern.search(line)) != inverts
        ][: int(self.query["limit"])]
        if found and len(found) == int(self.query["limit"]):
            end = found[-1]["line"] + 1  # type: ignore[operator]
        after = str(end) if end < len(lines) else None
        scanned = {"scannedLines": end - begin, "scannedBytes": 0}
        self._json({"matches": found, "after": after, **scanned, "total": len(lines), "invert": inverts})

    def _pipelines(self) -> None:
        names = sorted({fqn for fqn, _ in self.server.fake.runs if fqn.startswith(self.query.get("prefix", ""))})
        begin = names.index(self.query["cursor"]) if "cursor" in self.query else 0
        page = names[begin : begin + 2]
        cursor = names[begin + 2] if begin + 2 < len(names) else None
        self._json({"pipelines": [{"fqn": n, "last": self._facts(n, self._ids(n)[0])} for n in page], "cursor": cursor})

    def _ids(self, fqn: str) -> list[str]:
        return [run_id for name, run_id in reversed(self.server.fake.runs) if name == fqn]

    def _facts(self, fqn: str, run_id: str) -> dict[str, Any]:
        run = self.server.fake.runs[fqn, run_id]
        first, attempt = self.server.fake.attempts.get(run_id, (run_id, 1))
        is_silent = run_id in self.server.fake.silent
        counted = StoredRun() if fqn in self.server.fake.elsewhere else run
        return {
            "runId": run_id, "status": "finalized" if run.closed else "open", "end": "closed" if run.closed else None,
            "lines": len(counted.lines), "bytes": len(counted.data), "startedMs": 1_780_000_000_000, "lastAppendMs": 1_780_000_060_000,
            "lastHeartbeatMs": 1_780_000_090_000 if (fqn, run_id) in self.server.fake.heartbeats else None,
            "durationMs": 60_000, "complete": run.closed, "pendingBytes": 0 if run.closed else len(run.data),
            "outcome": run.end.get("outcome", "unknown") if run.closed else "silent" if is_silent else "running",
            "silentSinceMs": 1_790_000_000_000 if is_silent else None,
            **{name: run.end.get(name) for name in ("exitCode", "signal", "exception")}, "failedStep": run.end.get("step"),
            "lostLines": run.end.get("lostLines", 0), "firstRunId": first, "attempt": attempt, "host": None, "command": None,
            "zone": run.zone or None,
            "explanation": {"line": 0, "text": run.explained} if run.explained else None,
        }  # fmt: skip

    def _json(self, value: Any, status: int = 200, **headers: str) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if getattr(self, "is_lost", False):
            self.close_connection = True
            return cut(self.connection)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    fake = FakeServer()
    try:
        yield fake
    finally:
        fake.down()
