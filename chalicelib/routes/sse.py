"""The live stream as server-sent events for a plain ``EventSource``, one response at a time.

Every response has the position of the next one (``id``) and the delay before it (``retry``); an event without data only sets the id.
Characters of a line cannot end a frame: lines are JSON in one ``data`` field.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chalice.app import Response

from chalicelib.ports import Run
from chalicelib.runlog.following import FollowUpdate

if TYPE_CHECKING:
    from chalicelib.routes.logs_models import CompleteEvent, ErrorEvent, LinesEvent, StreamEvent

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
    events, run_id, after = [], run.run_id, str(news.after)
    if news.logs:
        lines: LinesEvent = {
            "eventType": "logs",
            "runId": run_id,
            "logs": news.logs,
            "after": after,
            "replay": news.replay,
            "truncated": news.truncated,
        }
        events.append(_frame(after, lines))
    if news.end:
        end: CompleteEvent = {"eventType": "complete", "runId": run_id, "after": after, "reason": news.end}
        events.append(_frame(after, end))
    return _answer(0 if news.more else RETRY_MS, events or [f"id: {after}\n: heartbeat\n\n"])


def unavailable_response(run: Run, message: str) -> Response:
    """A failure of the service, reported within the stream: an ``EventSource`` stops permanently on an error status. It keeps its position
    and reconnects."""
    error: ErrorEvent = {"eventType": "error", "runId": run.run_id, "message": message}
    return _answer(RETRY_LATER_MS, [f"data: {_json(error)}\n\n"])


def _frame(after: str, event: StreamEvent) -> str:
    return f"id: {after}\ndata: {_json(event)}\n\n"


def _json(event: StreamEvent) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS)


def _answer(retry_ms: int, events: list[str]) -> Response:
    return Response(f"retry: {retry_ms}\n\n" + "".join(events), headers=_HEADERS)
