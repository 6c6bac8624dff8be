"""The live stream as server-sent events: what a plain ``EventSource`` takes, one answer at a time.

Every answer says where the next one goes on (``id``) and when to ask for it (``retry``); an event without data sets the id and nothing
else. A line's letters cannot end a frame: they are JSON, in one ``data`` field.
"""

from __future__ import annotations

import json
from typing import Any

from chalice.app import Response

from chalicelib.ports import Run
from chalicelib.runlog.following import News

RETRY_MS = 250
RETRY_LATER_MS = 1000
"""After trouble of ours."""
_HEADERS: dict[str, str | list[str]] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}
_SEPARATORS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""What some clients take for an end of line, beside what JSON escapes anyway."""


def update_response(run: Run, news: News) -> Response:
    """What a viewer is told: lines, an end, both, or that it is still quiet."""
    events = []
    if news.logs:
        fields = {"logs": news.logs, "after": str(news.after), "replay": news.replay, "truncated": news.truncated}
        events.append(_frame(news.after, "logs", run, fields))
    if news.end:
        events.append(_frame(news.after, "complete", run, {"after": str(news.after), "reason": news.end.value}))
    return _answer(0 if news.more else RETRY_MS, events or [f"id: {news.after}\n: heartbeat\n\n"])


def unavailable_response(run: Run, message: str) -> Response:
    """Trouble of ours: an ``EventSource`` gives up for good on a status that is none of success, so it is told within the stream. It
    keeps its place, and comes back."""
    return _answer(RETRY_LATER_MS, [f"data: {_json({'eventType': 'error', 'runId': run.run_id, 'message': message})}\n\n"])


def _frame(after: int, kind: str, run: Run, fields: dict[str, Any]) -> str:
    return f"id: {after}\ndata: {_json({'eventType': kind, 'runId': run.run_id, **fields})}\n\n"


def _json(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS)


def _answer(retry_ms: int, events: list[str]) -> Response:
    return Response(f"retry: {retry_ms}\n\n" + "".join(events), headers=_HEADERS)
