"""The events API of the archive in memory: writers, batches, steps, filters, completeness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
PAGE_EVENTS = 7
LOG_BYTES = 1000
LISTED = 2


@dataclass
class StoredEvents:
    """``stored``: in the log's order; ``step_updates``: as received. ``page_events``, ``log_bytes``, ``listed``: the sizes of a page, small, so
    that clients read several."""

    stored: list[Json] = field(default_factory=list)
    writers: dict[str, Json] = field(default_factory=dict)
    steps: dict[str, Json] = field(default_factory=dict)
    step_updates: list[tuple[str, Json]] = field(default_factory=list)
    keys: dict[str, Json] = field(default_factory=dict)
    unregistered: list[str] = field(default_factory=list)
    page_events: int = PAGE_EVENTS
    log_bytes: int = LOG_BYTES
    listed: int = LISTED

    def messages(self, writer: str | None = None) -> list[str]:
        return [event["message"] for event in self.stored if writer in (None, event["writer"])]


Answer = tuple[int, Json, bytes]


def answer_events(
    events: StoredEvents, path: list[str], query: dict[str, str], headers: dict[str, str], body: bytes, closed: bool, line: int
) -> Answer:
    """Status, response, and the bytes that the request adds to the run's log."""
    match path:
        case ["POST"]:
            return _append(events, query.get("writer", ""), headers, body, closed, line)
        case ["PUT", "writers", writer]:
            events.writers.setdefault(writer, {"closed": False, "count": None, "lastTimestamp": None})
            return 200, {"writer": writer}, b""
        case ["POST", "writers", writer, "close"]:
            return _close(events, writer, json.loads(body))
        case ["POST", "steps", step]:
            events.step_updates.append((step, json.loads(body)))
            events.steps.setdefault(step, {}).update(json.loads(body))
            return 200, {"step": step}, b""
        case ["GET"]:
            return 200, _page(events, query), b""
        case ["GET", "log"]:
            return 200, _log(events, query, closed), b""
        case ["GET", "steps"]:
            return 200, _listed(events, {"steps": _steps(events, closed)}, "steps", query), b""
        case ["GET", "completeness"]:
            return 200, _listed(events, _completeness(events, closed), "writers", query), b""
    return _refused(404, "there is no such path")


def _refused(status: int, message: str) -> Answer:
    return status, {"code": status, "message": message}, b""


def _append(events: StoredEvents, writer: str, headers: dict[str, str], body: bytes, closed: bool, line: int) -> Answer:
    key = headers.get("idempotency-key", "")
    if key in events.keys:
        return 200, {**events.keys[key], "repeated": True}, b""
    if closed:
        return _refused(409, "the run is closed: its log takes no more lines")
    if writer and writer not in events.writers:
        events.unregistered.append(writer)
    assert headers["content-type"] == "application/x-ndjson"
    assert body.count(b"\n") <= 10_000
    text, errors, accepted, first = b"", [], 0, line
    for index, item in enumerate(map(json.loads, body.decode().splitlines())):
        unknown = item.keys() - {"message", "timestamp", "id", "step", "level", "data", "annotations"}
        extras = json.dumps([item.get("data", {}), item.get("annotations", [])])
        unknown |= {"size"} if len(extras) > 64 * 1024 else set()
        unknown |= {each["position"] for each in item.get("annotations", ()) if each["position"] > len(item["message"])}
        if unknown or not isinstance(item.get("message"), str) or "refuse" in item["message"]:
            errors.append({"index": index, "code": 400, "message": "as the test requires"})
            continue
        lines = item["message"].count("\n") + 1
        stored = {
            "step": None,
            "level": None,
            "data": {},
            "annotations": [],
            **item,
            "writer": writer,
            "line": line,
            "lines": lines,
        }
        events.stored.append(stored)
        text += item["message"].encode() + b"\n"
        line, accepted = line + lines, accepted + 1
    if not accepted:
        return _refused(400, "no event of the batch is good")
    answer = {"accepted": accepted, "firstLine": first, "position": f"e.{line}", "repeated": False, "errors": errors}
    events.keys[key] = answer
    return 200, answer, text


def _close(events: StoredEvents, writer: str, end: Json) -> Answer:
    found = events.writers.setdefault(writer, {"closed": False, "count": None, "lastTimestamp": None})
    if found["closed"] and found["count"] != end["count"]:
        return _refused(409, "the writer was closed with another count")
    found.update(closed=True, count=end["count"], lastTimestamp=end.get("lastTimestamp"))
    return 200, {"writer": writer, "count": end["count"]}, b""


def _page(events: StoredEvents, query: dict[str, str]) -> Json:
    begin = int(query.get("after", 0))
    end = min(begin + min(events.page_events, int(query.get("limit", 100))), len(events.stored))
    found = [event for event in events.stored[begin:end] if _matches(event, query)]
    return {"events": found, "after": str(end) if end < len(events.stored) else None}


def _matches(event: Json, query: dict[str, str]) -> bool:
    return (
        query.get("step", event["step"]) == event["step"]
        and query.get("level", event["level"]) == event["level"]
        and query.get("text", "") in event["message"]
        and (
            ("from" not in query and "to" not in query)
            or int(query.get("from", 0)) <= event["timestamp"] < int(query.get("to", 1 << 60))
        )
    )


def _log(events: StoredEvents, query: dict[str, str], closed: bool) -> Json:
    start = int(query.get("start", 0))
    whole = "".join(event["message"] + "\n" for event in events.stored if event["step"] == query["step"]).encode()
    part = whole[start : start + events.log_bytes]
    part = part[: part.rfind(b"\n") + 1] or part
    end = start + len(part)
    return {"text": part.decode(), "next": end, "complete": closed and end == len(whole), "lines": part.count(b"\n")}


def _steps(events: StoredEvents, closed: bool) -> list[Json]:
    rows = []
    for step in [*events.steps, *(each["step"] for each in events.stored if each["step"] and each["step"] not in events.steps)]:
        facts = events.steps.get(step, {})
        said = [event for event in events.stored if event["step"] == step]
        started, ended = facts.get("startedMs"), facts.get("endedMs")
        rows.append({
            "step": step, "name": facts.get("name", step), "parent": facts.get("parent"), "startedMs": started, "endedMs": ended,
            "durationMs": None if ended is None else ended - started, "lines": sum(event["lines"] for event in said),
            "bytes": sum(len(event["message"].encode()) + 1 for event in said),
            "errors": sum(event["level"] == "ERROR" for event in said),
            "firstLine": said[0]["line"] if said else None, "lineRanges": [], "status": facts.get("status"), "complete": closed,
        })  # fmt: skip
    return sorted(rows, key=lambda row: row["startedMs"] or 0)


def _completeness(events: StoredEvents, closed: bool) -> Json:
    rows = []
    for name, writer in events.writers.items():
        ids = {event["id"] for event in events.stored if event["writer"] == name}
        count = writer["count"] if writer["closed"] else max(ids, default=-1) + 1
        missing = [[number, number] for number in range(count) if number not in ids][:10]
        rows.append({"writer": name, "opened": True, "visible": len(ids), "missing": missing, **writer})
    lost = [row["writer"] for row in rows if row["missing"] or (closed and not row["closed"])]
    state = "lost" if lost and closed else "pending" if lost or not closed or any(not row["closed"] for row in rows) else "complete"
    return {"state": state, "sealed": closed, "writers": rows, "lost": lost if state == "lost" else []}


def _listed(events: StoredEvents, document: Json, name: str, query: Mapping[str, str]) -> Json:
    """A page of a document's list, and the ``lost`` of its writers."""
    begin = int(query.get("after", 0))
    end = begin + events.listed
    page = {**document, name: document[name][begin:end], "after": str(end) if end < len(document[name]) else None}
    if "lost" in page:
        page["lost"] = [lost for lost in page["lost"] if any(row["writer"] == lost for row in page["writers"])]
    return page
