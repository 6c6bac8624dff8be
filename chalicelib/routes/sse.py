"""The live stream as server-sent events for a plain ``EventSource``, one response at a time.

Every response has the position of the next one (``id``) and the delay before it (``retry``); an event without data only sets the id.
Characters of a line cannot end a frame: lines are JSON in one ``data`` field.
"""

from __future__ import annotations

import json
from typing import Any

from chalice.app import Response

from chalicelib.ports import Run
from chalicelib.runlog.following import FollowUpdate

RETRY_MS = 250
RETRY_LATER_MS = 1000
"""Delay after a failure of the service."""
_HEADERS: dict[str, str | list[str]] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
_SEPARATORS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Characters that some clients treat as line ends and JSON does not escape."""


def update_response(run: Run, news: FollowUpdate) -> Response:
    """A response with new lines, the end of the stream, both, or a heartbeat comment."""
    events = []
    if news.logs:
        fields = {"logs": news.logs, "after": str(news.after), "replay": news.replay, "truncated": news.truncated}
        events.append(_frame(news.after, "logs", run, fields))
    if news.end:
        events.append(_frame(news.after, "complete", run, {"after": str(news.after), "reason": news.end.value}))
    return _answer(0 if news.more else RETRY_MS, events or [f"id: {news.after}\n: heartbeat\n\n"])


def unavailable_response(run: Run, message: str) -> Response:
    """A failure of the service, reported within the stream: an ``EventSource`` stops permanently on an error status. It keeps its position
    and reconnects."""
    return _answer(RETRY_LATER_MS, [f"data: {_json({'eventType': 'error', 'runId': run.run_id, 'message': message})}\n\n"])


def _frame(after: int, kind: str, run: Run, fields: dict[str, Any]) -> str:
    return f"id: {after}\ndata: {_json({'eventType': kind, 'runId': run.run_id, **fields})}\n\n"


def _json(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS)


def _answer(retry_ms: int, events: list[str]) -> Response:
    return Response(f"retry: {retry_ms}\n\n" + "".join(events), headers=_HEADERS)
