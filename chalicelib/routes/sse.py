"""The live stream as server-sent events, one response at a time, for OpenMetadata's page and for a plain ``EventSource`` (decision 0020).

Every response of a served stream ends with ``complete``: its ``reason`` says whether to continue. Every response has the position of the next
one (``id``, ``after``) and the delay before it (``retry``). Characters of a line cannot end a frame: lines are JSON in one ``data`` field.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from chalice.app import Response

from chalicelib.ports import Run
from chalicelib.runlog.following import FollowUpdate

if TYPE_CHECKING:
    from chalicelib.routes.logs_models import CompleteEvent, ErrorEvent, InterruptedEvent, LinesEvent, StreamEvent

RETRY_MS = 250
RETRY_LATER_MS = 1000
"""Delay after a failure of the service."""
MAX_DURATION: Literal["maxDuration"] = "maxDuration"
"""Reason for the end of a response of which the stream continues: OpenMetadata's page requests the next one at once."""
_HEADERS: dict[str, str | list[str]] = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "X-Accel-Buffering": "no",
}
_SEPARATORS = {ord(letter): f"\\u{ord(letter):04x}" for letter in "\x85\u2028\u2029"}
"""Characters that some clients treat as line ends and JSON does not escape."""


def update_response(run: Run, update: FollowUpdate) -> Response:
    """A response with new lines, if any, and the end of the response or of the stream."""
    run_id, after = run.run_id, str(update.after)
    complete: CompleteEvent = {
        "eventType": "complete",
        "runId": run_id,
        "after": after,
        "reason": update.end or MAX_DURATION,
    }
    events = [_frame(complete, after)]
    if update.logs:
        lines: LinesEvent = {
            "eventType": "logs",
            "runId": run_id,
            "logs": update.logs,
            "after": after,
            "replay": update.replay,
            "cut": update.truncated,
        }
        events.insert(0, _frame(lines, after))
    return _response(0 if update.more else RETRY_MS, *events)


def interrupted_response(run_id: str, message: str) -> Response:
    """A temporary failure of the service: OpenMetadata's page gives up after a 503, and an ``EventSource`` after any error status. Without
    ``complete``, they request the stream again from the same position."""
    interrupted: InterruptedEvent = {"eventType": "interrupted", "runId": run_id, "message": message}
    return _response(RETRY_LATER_MS, _frame(interrupted))


def failed_response(run_id: str, message: str) -> Response:
    """A permanent failure: the client stops."""
    error: ErrorEvent = {"eventType": "error", "runId": run_id, "message": message, "final": True}
    return _response(RETRY_LATER_MS, _frame(error))


def _frame(event: StreamEvent, after: str | None = None) -> str:
    position = "" if after is None else f"id: {after}\n"
    return f"{position}data: {_json(event)}\n\n"


def _json(event: StreamEvent) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).translate(_SEPARATORS)


def _response(retry_ms: int, *events: str) -> Response:
    return Response(f"retry: {retry_ms}\n\n" + "".join(events), headers=_HEADERS)
