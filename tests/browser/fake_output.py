"""The fake server's files of pipelines and dead letters: the documented responses, from lists in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chalicelib.catalog.timestamps import iso, parse_time_ms

Answer = tuple[Any, int]
_PAGE_EVENTS = 500
_NAMES = ("fqn", "runId", "handler")


@dataclass
class FakeFile:
    """A file; ``events``: (time in ms, level, message)."""

    key: str
    events: list[tuple[int, str, str]]
    format: str = "jsonl"
    complete: bool = True
    fqn: str = "mysql.ingest"

    def item(self) -> dict[str, Any]:
        """As listed."""
        times = [time_ms for time_ms, _, _ in self.events]
        names = {"key": self.key, "fqn": self.fqn, "program": "run", "format": self.format}
        sizes = {"bytes": 120 * len(times), "events": len(times), "firstTime": min(times), "lastTime": max(times)}
        return {**names, **sizes, "complete": self.complete, "url": f"/stored?{self.key}"}


@dataclass
class FakeLetter:
    """A dead letter. ``is_admin``: whether the reader administers its pipeline. ``after_polls``: how many more times its request is pending;
    then its handler accepts it, or fails again with ``next_reason``."""

    pipeline: str = "audit"
    handler: str = "files"
    fqn: str = "mysql.ingest"
    run: str = "run-1"
    line: int = 4710
    reason: str = "OSError: no space left on device"
    stored_ms: int = 1_795_250_000_000
    message: str = "42 tables found"
    data: dict[str, Any] = field(default_factory=dict)
    attempts: int = 4
    is_admin: bool = True
    requested: str | None = None
    after_polls: int = 1
    next_reason: str | None = None

    def item(self) -> dict[str, Any]:
        """As listed."""
        names = {"pipeline": self.pipeline, "handler": self.handler, "fqn": self.fqn, "runId": self.run}
        return {**names, "line": self.line, "storedAt": iso(self.stored_ms), "bytes": 1234}

    def details(self) -> dict[str, Any]:
        """As inspected."""
        place = {"fqn": self.fqn, "runId": self.run, "line": self.line, "time": self.stored_ms}
        event = {**place, "level": "INFO", "logger": "source", "message": self.message, "step": "", "data": self.data}
        facts = {"pipeline": self.pipeline, "handler": self.handler, "reason": self.reason, "attempts": self.attempts}
        trace = f"Traceback\n{self.reason}" if self.is_admin else None
        times = {"failedAt": iso(self.stored_ms), "resendRequestedAt": self.requested}
        return {**facts, **times, "trace": trace, "event": event, "truncated": False}


@dataclass
class FakeOutput:
    """``changes``: methods of requests that change letters. ``failure``: the status of the next ones."""

    files: list[FakeFile] = field(default_factory=list)
    letters: list[FakeLetter] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    failure: tuple[int, str] | None = None

    def answer(self, method: str, path: str, query: Mapping[str, str]) -> Answer:
        """The response to a request of ``/v1/pipeline-files…`` or ``/v1/dead-letters…``."""
        if path.startswith("/v1/pipeline-files"):
            return self._files(path.removeprefix("/v1/pipeline-files"), query)
        _, _, pipeline = path.removeprefix("/v1/dead-letters").partition("/")
        return self._letter(method, pipeline.removesuffix("/resend"), query) if pipeline else self._listed(query)

    def _files(self, path: str, query: Mapping[str, str]) -> Answer:
        if path == "/bases":
            return {"bases": ["pipeline-files", "pipeline-files/audit"], "cursor": None}, 200
        if query.get("base", "pipeline-files") == "none":
            return {"code": 400, "message": "no handler has this base, GET /v1/pipeline-files/bases lists them base='none'"}, 400
        fqn = f"{query['namespace']}.{query['app']}"
        chosen = [each for each in self.files if each.fqn == fqn and query.get("key") in (None, each.key)]
        if path == "/files":
            listed, cursor = page_of([each.item() for each in chosen], query, int(query.get("limit", "100")))
            return {"files": listed, "cursor": cursor, "leftOut": 0}, 200
        return self._events(chosen, query), 200

    def _events(self, files: list[FakeFile], query: Mapping[str, str]) -> dict[str, Any]:
        from_ms, to_ms = (_time_ms(query.get(name, default)) for name, default in (("from", "0"), ("to", str(10**15))))
        events = sorted(
            (event, each.fqn, line)
            for each in files
            if each.format != "parquet"
            for line, event in enumerate(each.events)
            if from_ms <= event[0] < to_ms and query.get("level") in (None, event[1])
        )
        page, cursor = page_of(events, query, _PAGE_EVENTS)
        shown = [
            {"time": time_ms, "level": level, "logger": "source", "message": message, "fqn": fqn, "runId": "run-1", "line": line}
            for (time_ms, level, message), fqn, line in page
        ]
        unread = sum(each.format == "parquet" for each in files)
        return {"events": shown, "cursor": cursor, "leftOut": 0, "unsupported": unread}

    def _listed(self, query: Mapping[str, str]) -> Answer:
        items = [each.item() for each in self.letters]
        matching = [item for item in items if all(query.get(name) in (None, item[name]) for name in ("pipeline", *_NAMES))]
        listed, cursor = page_of(matching, query, int(query["limit"]))
        return {"letters": listed, "cursor": cursor}, 200

    def _letter(self, method: str, pipeline: str, query: Mapping[str, str]) -> Answer:
        named = {"pipeline": pipeline, "line": int(query["line"])} | {name: query[name] for name in _NAMES}
        letter = next((each for each in self.letters if named.items() <= each.item().items()), None)
        if method != "GET":
            self.changes.append(method)
            if self.failure:
                return {"code": self.failure[0], "message": self.failure[1]}, self.failure[0]
        elif letter and letter.requested:
            letter = self._polled(letter)
        if letter is None:
            return {"code": 404, "message": "there is no such dead letter"}, 404
        if method == "DELETE":
            self.letters.remove(letter)
            return "", 204
        if method == "POST":
            letter.requested = iso(letter.stored_ms)
            return {"requestedAt": letter.requested}, 202
        return letter.details(), 200

    def _polled(self, letter: FakeLetter) -> FakeLetter | None:
        letter.after_polls -= 1
        if letter.after_polls >= 0:
            return letter
        letter.requested = None
        if letter.next_reason is None:
            self.letters.remove(letter)
            return None
        letter.attempts, letter.reason = letter.attempts + 1, letter.next_reason
        return letter


def page_of(items: list[Any], query: Mapping[str, str], limit: int) -> tuple[list[Any], str | None]:
    """The page of at most ``limit`` items that begins at the request's cursor, and the cursor of the next page."""
    first = int(query.get("cursor") or 0)
    end = first + limit
    return items[first:end], str(end) if end < len(items) else None


def _time_ms(text: str) -> int:
    return int(text) if text.isdecimal() else parse_time_ms(text, 0)
