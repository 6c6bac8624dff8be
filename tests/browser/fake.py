"""A fake server for the viewer's tests: serves the page with the function's headers, and an API with the documented responses, from
lists in memory or from a function of the line's number. It can stop and restart at the same address."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pydantic import JsonValue

from chalicelib.events.event import Loggable
from chalicelib.events.event_view import EventView
from chalicelib.events.line_parsing import detect_log_format, parse_lines
from chalicelib.events.steps import MAX_LINE_RANGES
from chalicelib.ports import Run
from chalicelib.routes.events import browsed_event
from tests.browser.fake_output import FakeOutput, page_of
from tests.functional.gateway import call

START_MS = 1_795_250_000_000
_PAGE_BYTES = 1_000_000
_HOLD_S = 2.0
STORED = "/stored"
"""A path outside of the API: needs no token, and allows no origin."""
_ROUTE = re.compile(
    r"/api(?:"
    r"(?P<ui>/v1/ui.*)|(?P<recent>/v1/catalog)|(?P<history>/v1/catalog/history)|(?P<pipelines>/v1/catalog/pipelines)|/v1/catalog/pipelines/(?P<of>[^/]+)/runs(?:/(?P<run>[^/]+)(?:/(?P<what>grep|histogram|explanation))?)?"
    r"|(?P<configuration>/v1/configuration)|(?P<output>/v1/(?:pipeline-files|dead-letters).*)"
    r"|/v1/pipelines(?P<processing>/(?P<name>[^/]+)/(?P<action>enable|disable|replay))?"
    r"|/v1/events/(?P<efqn>[^/]+)/(?P<erun>[^/]+)(?P<events>/log|/steps|/completeness|)"
    r"|/v1/services/ingestionPipelines/logs/(?P<fqn>[^/]+)/(?:stream/(?P<stream>[^/]+)|(?P<log>[^/]+)(?P<download>/download)?))"
)


@dataclass
class FakeStep:
    """A step; ``after_s`` since the run's start, ``took_s`` None: it is running."""

    step: str
    name: str | None = None
    parent: str | None = None
    after_s: float = 0
    took_s: float | None = 1
    status: str | None = "succeeded"
    complete: bool = True


@dataclass
class FakeRun:
    """A run's log. ``text``: its lines by number, if they are too many for a list. ``share``: the share of lines that exist at a
    share of the time. ``lag``: how many more times the catalog lists it as open after its end. ``known``: other facts than those
    of its lines. ``explained``: candidates that are found on request."""

    run_id: str
    lines: list[str] = field(default_factory=list)
    count: int | None = None
    text: Callable[[int], str] | None = None
    status: str = "finalized"
    end: str | None = "closed"
    line_ms: float = 250
    share: Callable[[float], float] = float
    steps: list[FakeStep] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    lag: int = 0
    known: dict[str, Any] = field(default_factory=dict)
    explained: list[dict[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def total(self) -> int:
        return len(self.lines) if self.count is None else self.count

    def slice(self, first: int, last: int) -> list[str]:
        return [self.text(number) for number in range(first, last)] if self.text else self.lines[first:last]

    def say(
        self,
        message: str,
        step: str | None = None,
        level: str = "INFO",
        notes: Sequence[tuple[int, Any]] = (),
        data: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Add an event: its lines are lines of the log."""
        lines = message.split("\n")
        event = EventView(
            id=len(self.events),
            writer="w",
            line=self.total,
            lines=len(lines),
            timestamp=START_MS,
            level=level,
            step=step,
            message=message,
            data={**(data or {}), **Loggable.of_run(Run("fqn", self.run_id), "runlake").mandatory_data(step)},
            annotations=[{"position": position, "note": note} for position, note in notes],
            bytes=len(message.encode()) + 1,
        )
        self.events.append(dict(browsed_event(event)))
        self.append(*lines)

    def of_step(self, step: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["step"] == step]

    def append(self, *lines: str) -> None:
        with self.changed:
            self.lines.extend(lines)
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.status, self.end = "finalized", "closed"
            self.changed.notify_all()

    def facts(self) -> dict[str, Any]:
        duration = int(self.total * self.line_ms)
        is_late = self.status != "open" and self.lag > 0
        self.lag -= is_late
        status = "open" if is_late else self.status
        return {
            "runId": self.run_id,
            "status": status,
            "end": self.end if status != "open" else None,
            "lines": self.total,
            "bytes": self.total * 120 if self.text else sum(len(line) + 1 for line in self.lines),
            "startedMs": START_MS,
            "lastAppendMs": START_MS + duration,
            "lastHeartbeatMs": None,
            "durationMs": duration,
            "complete": self.status == "finalized",
            "pendingBytes": 0,
            "lost": 0,
            "silentSinceMs": None,
            "outcome": "running" if status == "open" else "lost" if self.end == "abandoned" else "unknown",
            "exitCode": None,
            "signal": None,
            "exception": None,
            "failedStep": None,
            "lostLines": 0,
            "attempt": 1,
            "firstRunId": self.run_id,
            "host": None,
            "command": None,
            "zone": None,
            "explanation": None,
            "candidates": [],
            "method": "runlog",
            "browser": "runlog",
            "orchestratorUrl": None,
            **self.known,
        }


@dataclass
class FakeHandler:
    """A handler of a processing pipeline."""

    name: str
    state: str = "enabled"
    reason: str | None = None
    since: str | None = None
    at: dict[str, Any] | None = None
    errors: int = 0


@dataclass
class FakePipeline:
    """A processing pipeline; its fields are those of the response."""

    name: str
    state: str = "running"
    told_at: str | None = "2026-11-21T09:00:00.000Z"
    lag_events: int = 0
    lag_s: float = 0
    runs: int = 0
    events: int = 0
    late: int = 0
    dropped: int = 0
    dead_letters: int = 0
    errors: int = 0
    last_error: str | None = None
    replay_from: str | None = None
    handlers: list[FakeHandler] = field(default_factory=list)

    def change(self, action: str, body: dict[str, Any]) -> None:
        """Applies the action at once, like the real server."""
        if action == "replay":
            self.replay_from = body["from"]
        elif "handler" in body:
            handler = next(each for each in self.handlers if each.name == body["handler"])
            handler.state = "disabled" if action == "disable" else "replaying"
            handler.reason = "disabled by an operator" if action == "disable" else None
        else:
            self.state = "disabled" if action == "disable" else "running"


class FakeServer:
    """``runs``: by pipeline, newest first. ``token``: the required token, if any. ``asked``: paths of requests in order, and the
    bytes of responses. ``link``: URL of large logs."""

    def __init__(self, runs: dict[str, list[FakeRun]], token: str = "", auth: str = "none") -> None:
        self.runs, self.token = runs, token
        self.asked: list[tuple[str, int]] = []
        self.port, self.link = 0, ""
        self.config: dict[str, Any] = {"auth": auth, "version": "0"}
        self.accepts: Callable[[str | None], bool] = lambda sent: not self.token or sent == f"Bearer {self.token}"
        """Whether an ``Authorization`` header (None: none) is valid."""
        self.is_gone = False
        self.examined_names = 8_000
        """Of pipelines, by one request."""
        self.pipelines: list[FakePipeline] = []
        """Processing pipelines."""
        self.problems: list[dict[str, str]] = []
        self.refusals: dict[str, tuple[int, str]] = {}
        """Errors for requests about processing pipelines, by method: status and message."""
        self.failing = ""
        """The end of paths whose requests fail."""
        self.configuration: dict[str, Any] = {"browser": "runlog", "outputs": [], "locators": [], "plugins": [], "chosen": None}
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        """Requested actions: pipeline, action, body."""
        self.output = FakeOutput()
        self.deletions: list[str] = []
        """The reasons of requests to delete a run."""
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v1/ui/"

    def start(self) -> None:
        self.is_gone = False
        fake = self

        class Handler(_Handler):
            server_of = fake

        self._server = _Listener(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and close the open ones."""
        self.is_gone = True
        assert self._server
        self._server.shutdown()
        self._server.server_close()

    def run(self, fqn: str, run_id: str) -> FakeRun | None:
        return next((run for run in self.runs.get(fqn, ()) if run.run_id == run_id), None)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: Any) -> None:
        """A disconnecting browser is no error."""


class _Handler(BaseHTTPRequestHandler):
    server_of: FakeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self.asked_body = json.loads(body) if body else {}
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        found = _ROUTE.fullmatch(parts.path)
        fake = self.server_of
        if parts.path == STORED:
            return self._send(b"of the store\n", "text/plain; charset=utf-8", attachment=True)
        self.close_connection = fake.is_gone
        if fake.is_gone:
            return
        if not found:
            return self._json({"code": 404, "message": "no such path"}, 404)
        given = {name: unquote(value) for name, value in found.groupdict().items() if value}
        if given.get("ui") == "/v1/ui/config":
            return self._json(fake.config)
        if "ui" in given:
            return self._ui(self.path.removeprefix("/api"))
        if not fake.accepts(self.headers["Authorization"]):
            return self._json({"code": 401, "message": "the token has expired: get another one"}, 401)
        if fake.failing and parts.path.endswith(fake.failing):
            return self._json({"code": 503, "message": "try again later"}, 503)
        return self._answer(given)

    def _answer(self, given: dict[str, str]) -> None:
        if urlsplit(self.path).path.startswith("/api/v1/pipelines"):
            return self._processing(given)
        if "output" in given:
            body, status = self.server_of.output.answer(self.command, given["output"], self.query)
            return self._json(body, status) if status != 204 else self._send(b"", "text/plain", status)
        if "configuration" in given:
            return self._configuration(self.query.get("fqn", ""))
        fqn = given.get("of") or given.get("fqn") or given.get("efqn", "")
        if "pipelines" in given:
            return self._pipelines()
        if "recent" in given:
            return self._recent()
        if "history" in given:
            return self._history()
        if fqn not in self.server_of.runs:
            return self._json({"code": 404, "message": "there is no such run"}, 404)
        run_id = given.get("erun") or given.get("run") or given.get("stream") or given.get("log")
        if run_id is None:
            return self._json({"runs": [run.facts() for run in self.server_of.runs[fqn]], "cursor": None})
        run = self.server_of.run(fqn, run_id)
        if run and self.command == "DELETE":
            return self._delete(fqn, run)
        if not run:
            status = 410 if self.server_of.deletions else 404
            return self._json({"code": status, "message": "there is no such run"}, status)
        return self._of_run(run, given)

    def _delete(self, fqn: str, run: FakeRun) -> None:
        """The first call does not end it."""
        if "DELETE" in self.server_of.refusals:
            status, message = self.server_of.refusals["DELETE"]
            return self._json({"code": status, "message": message}, status)
        self.server_of.deletions.append(self.query.get("reason", ""))
        is_over = len(self.server_of.deletions) > 1
        if is_over:
            self.server_of.runs[fqn].remove(run)
        outstanding = [{"what": "dataset", "until": "its next job has ended"}]
        self._json({"state": "deleted" if is_over else "deleting", "counts": {"objects": 7}, "outstanding": outstanding})

    def _of_run(self, run: FakeRun, given: dict[str, str]) -> None:
        if "erun" in given:
            return self._json(_EVENTS[given.get("events", "")](run, self.query))
        if given.get("what") == "grep":
            return self._json(_grep(run, self.query))
        if given.get("what") == "explanation":
            return self._json({"candidates": run.explained, "fromLine": 0, "complete": True, "streaming": False})
        if given.get("what") == "histogram":
            return self._json(_histogram(run, int(self.query.get("buckets", "60"))))
        if "run" in given:
            return self._json(run.facts())
        if "stream" in given:
            return self._stream(run)
        if given.get("download") and self.query.get("link") == "true":
            return self._json({"location": self.server_of.link or None})
        if given.get("download"):
            return self._send("\n".join(run.slice(0, run.total)).encode(), "text/plain; charset=utf-8", attachment=True)
        return self._json(_page(run, self.query))

    def _ui(self, path: str) -> None:
        answer = call("GET", path)
        self.send_response(answer.status)
        body = answer.body.encode()
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _pipelines(self) -> None:
        names = sorted(self.server_of.runs)
        after, text, limit = (
            self.query.get("cursor", ""),
            self.query.get("contains", "").lower(),
            int(self.query.get("limit", "50")),
        )
        examined = [name for name in names if name > after][: self.server_of.examined_names]
        page = [name for name in examined if text in name.lower()][:limit]
        rows = [{"fqn": name, "last": runs[0].facts() if (runs := self.server_of.runs[name]) else None} for name in page]
        reached = page[-1] if len(page) == limit else examined[-1] if examined else after
        self._json({"pipelines": rows, "cursor": reached if names and reached < names[-1] else None})

    def _recent(self) -> None:
        listed = [run.facts() | {"fqn": fqn} for fqn, runs in self.server_of.runs.items() for run in runs]
        outcomes, text = self.query.get("outcome", ""), self.query.get("contains", "").lower()
        matching = [
            each
            for each in sorted(listed, key=lambda each: each["lastAppendMs"], reverse=True)
            if (not outcomes or each["outcome"] in outcomes.split(","))
            and (text in each["fqn"].lower() or text in each["runId"].lower())
            and each["lastAppendMs"] >= int(self.query["since"])
        ]
        listed, cursor = page_of(matching, self.query, int(self.query["limit"]))
        self._json({"runs": listed, "cursor": cursor})

    def _history(self) -> None:
        names = parse_qs(urlsplit(self.path).query)["fqn"]
        shown = ("runId", "outcome", "startedMs", "durationMs")
        runs = {fqn: [run.facts() for run in self.server_of.runs.get(fqn, ())[:20]] for fqn in names}
        self._json(
            {"pipelines": [{"fqn": fqn, "runs": [{name: each[name] for name in shown} for each in runs[fqn]]} for fqn in names]}
        )

    def _processing(self, given: dict[str, str]) -> None:
        fake = self.server_of
        if self.command in fake.refusals:
            status, message = fake.refusals[self.command]
            return self._json({"code": status, "message": message}, status)
        if self.command == "GET":
            return self._json({"pipelines": [asdict(each) for each in fake.pipelines], "problems": fake.problems})
        found = next((each for each in fake.pipelines if each.name == given["name"]), None)
        if not found:
            return self._json({"code": 404, "message": "there is no such pipeline"}, 404)
        fake.changes.append((given["name"], given["action"], self.asked_body))
        found.change(given["action"], self.asked_body)
        return self._json(asdict(found))

    def _configuration(self, fqn: str) -> None:
        """With the first locator whose pattern matches the name, if there is one. Names of ``other`` are those of somebody else."""
        document = self.server_of.configuration
        if "/" in fqn:
            return self._json({"code": 400, "message": f"invalid name fqn={fqn}"}, 400)
        if fqn.startswith("other"):
            return self._json({"code": 403, "message": f"you may not administer {fqn}"}, 403)
        if fqn:
            matching = [each for each in document["locators"] if fnmatchcase(fqn, each["pattern"])]
            defaults = {"browser": document["browser"], "outputs": []}
            choice = {name: (matching or [defaults])[0][name] for name in defaults}
            locator = matching[0]["pattern"] if matching else None
            document = document | {"chosen": {"fqn": fqn, "locator": locator, **choice}}
        self._json(document)

    def _stream(self, run: FakeRun) -> None:
        after = int(self.headers.get("Last-Event-ID") or self.query.get("after", "0"))
        deadline = time.monotonic() + _HOLD_S
        with run.changed:
            while run.total <= after and run.status == "open" and not self.server_of.is_gone and time.monotonic() < deadline:
                run.changed.wait(0.1)
            lines, is_open = run.slice(after, run.total), run.status == "open"
        if self.server_of.is_gone:
            self.close_connection = True
            return
        frames = ["retry: 50\n\n"]
        end = after + len(lines)
        if lines:
            told = {"eventType": "logs", "runId": run.run_id, "logs": "".join(f"{line}\n" for line in lines), "after": str(end)}
            frames.append(f"id: {end}\ndata: {json.dumps(told | {'replay': False, 'cut': False})}\n\n")
        complete = {"eventType": "complete", "after": str(end), "reason": "maxDuration" if is_open else "runFinished"}
        frames.append(f"id: {end}\ndata: {json.dumps(complete)}\n\n")
        self._send("".join(frames).encode(), "text/event-stream")

    def _json(self, body: Any, status: int = 200) -> None:
        self._send(json.dumps(body).encode(), "application/json", status)

    def _send(self, body: bytes, content_type: str, status: int = 200, attachment: bool = False) -> None:
        self.server_of.asked.append((self.path, len(body)))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if attachment:
            self.send_header("Content-Disposition", 'attachment; filename="run.log"')
        self.end_headers()
        self.wfile.write(body)


def _page(run: FakeRun, query: dict[str, str]) -> dict[str, Any]:
    limit = int(query.get("limit", "1000"))
    first = int(query.get("after", "0"))
    if "tail" in query:
        first = max(0, run.total - int(query["tail"]))
    if "since" in query:
        first = min(run.total, max(0, math.ceil((int(query["since"]) - START_MS) / run.line_ms)))
    lines: list[str] = []
    size = 0
    clock = {"clock": "lines"} if "since" in query else {}
    for line in run.slice(first, min(run.total, first + limit)):
        size += len(line.encode()) + 1
        if lines and size > _PAGE_BYTES:
            break
        lines.append(line)
    end = first + len(lines)
    after = str(end) if end < run.total else None
    return {"logs": "\n".join(lines), "after": after, "total": run.total, "streaming": run.status == "open", **clock}


def _grep(run: FakeRun, query: dict[str, str]) -> dict[str, Any]:
    text = query["q"] if query.get("regex") == "true" else re.escape(query["q"])
    pattern = re.compile(text, re.IGNORECASE if query.get("ignoreCase") == "true" else 0)
    first, limit = int(query.get("after") or 0), int(query.get("limit", "100"))
    last = min(run.total, first + 50_000)
    matches: list[dict[str, Any]] = []
    for number in range(first, last):
        line = run.slice(number, number + 1)[0]
        if len(matches) == limit:
            last = number
            break
        if spans := [found.span() for found in pattern.finditer(line)]:
            start = max(0, spans[0][0] - 1000) if len(line) > 2000 else 0
            cut = [[a - start, b - start] for a, b in spans if b - start <= 2000]
            matches.append({"line": number, "text": line[start : start + 2000], "spans": cut})
    return {
        "matches": matches,
        "after": str(last) if last < run.total else None,
        "scannedLines": last - first,
        "scannedBytes": (last - first) * 120,
        "total": run.total,
    }


def _histogram(run: FakeRun, buckets: int) -> dict[str, Any]:
    end_ms = START_MS + max(1, int(run.total * run.line_ms))
    step = max(1, (end_ms - START_MS) // buckets)
    rows = []
    for index in range(buckets):
        first, last = (int(run.total * run.share(each / buckets)) for each in (index, index + 1))
        seen = run.slice(first, min(last, first + 200))
        errors = sum("ERROR" in line for line in seen) * (last - first) // max(1, len(seen))
        from_ms = START_MS + index * step
        rows.append({"fromMs": from_ms, "toMs": from_ms + step, "line": first, "lines": last - first, "errors": errors})
    return {"fromMs": START_MS, "toMs": end_ms, "buckets": rows, "partial": False, "clock": "lines"}


def _steps(run: FakeRun, _query: dict[str, str]) -> dict[str, Any]:
    rows = []
    for step in run.steps:
        said = run.of_step(step.step)
        started = START_MS + int(step.after_s * 1000)
        took = None if step.took_s is None else int(step.took_s * 1000)
        lines = [line for event in said for line in event["message"].split("\n")]
        errors, first = sum(event["level"] == "ERROR" for event in said), said[0]["line"] if said else None
        size = sum(len(line.encode()) + 1 for line in lines)
        times = {"startedMs": started, "endedMs": None if took is None else started + took, "durationMs": took}
        told = {"step": step.step, "name": step.name or step.step, "parent": step.parent, "status": step.status, **times}
        of_log = {"firstLine": first, "lineRanges": _line_ranges(said), "complete": step.complete}
        rows.append({**told, "lines": len(lines), "bytes": size, "errors": errors, **of_log})
    return {"steps": rows, "after": None}


def _line_ranges(said: list[dict[str, Any]]) -> list[list[int]]:
    """The longest ones, as in the real server."""
    ranges: list[list[int]] = []
    for event in said:
        last = event["line"] + event["lines"] - 1
        if ranges and ranges[-1][1] == event["line"] - 1:
            ranges[-1][1] = last
        else:
            ranges.append([event["line"], last])
    return sorted(sorted(ranges, key=lambda each: each[0] - each[1])[:MAX_LINE_RANGES])


def _step_log(run: FakeRun, query: dict[str, str]) -> dict[str, Any]:
    whole = "".join(event["message"] + "\n" for event in run.of_step(query["step"])).encode()
    start = int(query.get("start", "0"))
    part = whole[start : start + 50_000]
    part = part[: part.rfind(b"\n") + 1] or part
    end = start + len(part)
    return {"text": part.decode(), "next": end, "complete": run.status != "open" and end == len(whole), "lines": part.count(b"\n")}


def _found_events(run: FakeRun, query: dict[str, str]) -> dict[str, Any]:
    """``after`` is a line of the log, as in the real server. Lines of a run without events are parsed as in the real server."""
    limit, first = int(query.get("limit", "100")), int(query.get("after", "0"))
    if run.events:
        found = [event for event in (run.of_step(query["step"]) if "step" in query else run.events) if event["line"] >= first]
    else:
        lines = [line.encode() for line in run.slice(first, min(run.total, first + limit + 1))]
        format_ = detect_log_format(b"\n".join(line.encode() for line in run.slice(0, min(run.total, 100))))
        found = [dict(browsed_event(event)) for event in parse_lines(enumerate(lines, first), format_, UTC, final=True)]
    after = str(found[limit]["line"]) if limit < len(found) else None
    names = ("line", "lines", "severity", "hasData")
    events = [{name: event[name] for name in names} if query.get("outline") == "true" else event for event in found[:limit]]
    return {"events": events, "after": after}


def _completeness(run: FakeRun, _query: dict[str, str]) -> dict[str, Any]:
    state = "lost" if run.lost else "pending" if run.status == "open" else "complete"
    writers = [{"writer": name} for name in ["w", *run.lost]] if run.events else []
    return {"state": state, "sealed": run.status != "open", "writers": writers, "lost": run.lost, "after": None}


_EVENTS = {"": _found_events, "/log": _step_log, "/steps": _steps, "/completeness": _completeness}


def numbered(count: int, levels: Sequence[str] = ("INFO", "INFO", "DEBUG", "INFO", "WARN")) -> Callable[[int], str]:
    """A log of this many lines in a connector's format."""

    def text(number: int) -> str:
        level = "ERROR" if number % 997 == 996 else levels[number % len(levels)]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(START_MS // 1000 + number // 1000))
        return f"{stamp},{number % 1000:03d} {level:<5} [worker-{number % 8}] source.read: batch {number} of table orders_{number % 37}, rows=1000"

    return text
