"""Reading a log in order, each line once: the pages so far, and new lines as they arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from runlake.archive import Archive, text_of
from runlake.errors import ApiError, UnavailableError
from runlake.names import RunName
from runlake.pacing import Backoff
from runlake.sse import Event, events_of

_PAGE_LINES = 10_000
_WAIT_S = 20
IDLE = "idleTimeout"
"""Why the server ends the stream of a running run without new lines."""
_CONTINUES = ("maxDuration", "maxBytes")
"""Why a response ends, but not the stream."""


@dataclass(frozen=True)
class Piece:
    """Consecutive lines. ``first``: the number of the first one, from 0; ``end``: why nothing follows. ``clock``, ``zone``: see ``Page``."""

    first: int
    lines: list[str]
    end: str | None = None
    clock: str = ""
    zone: str = ""


def pages(archive: Archive, run: RunName, **begin: Any) -> Iterator[Piece]:
    """The lines so far, from ``after``, ``tail`` or ``since`` on. Raises ApiError, UnavailableError."""
    query = begin
    while True:
        page = archive.page(run, limit=_PAGE_LINES, **query)
        yield Piece(page.after - len(page.lines), page.lines, clock=page.clock, zone=page.zone)
        if page.is_end:
            return
        query = {"after": page.after}


@dataclass
class Follower:
    """Follows one run to its end, over many responses and outages.

    ``next_line``: where it resumes; ``pause``: waits (seconds). It uses the event stream, one request per 25 s without new lines, and
    long-polls pages of a run that is alive without lines. ``notice`` gets one message per outage.
    """

    archive: Archive
    run: RunName
    next_line: int | None = None
    tail: int | None = None
    pause: Callable[[float], object] = time.sleep
    backoff: Backoff = field(default_factory=lambda: Backoff(0.25, 5.0))
    notice: Callable[[str], None] = lambda text: None
    requests: int = 0
    _is_streamed: bool = True
    _retry_s: float = 0.25

    def pieces(self) -> Iterator[Piece]:
        """Lines as they arrive; the last piece has an ``end``. Raises ApiError; retries UnavailableError."""
        end: str | None = None
        is_away = False
        while end is None:
            try:
                for piece in self._response():
                    self.backoff.reset()
                    is_away = False
                    if piece.end == IDLE and self._is_alive():
                        self._is_streamed = False  # long-polling has no idle timeout
                        continue
                    end = piece.end
                    yield piece
                if end is None:
                    self.pause(self._retry_s if self._is_streamed else 0)
            except UnavailableError as error:
                if not is_away:
                    self.notice(f"{error}: retrying")
                is_away = True
                self.pause(self.backoff.next_s(error.retry_after_s))

    def _is_alive(self) -> bool:
        """Whether the run has heartbeats without lines, or has ended since."""
        return bool(self.archive.facts(self.run)["outcome"] != "silent")

    def _response(self) -> Iterator[Piece]:
        self.requests += 1
        yield from self._streamed() if self._is_streamed else self._paged()

    def _streamed(self) -> Iterator[Piece]:
        last_id = None if self.next_line is None else str(self.next_line)
        query = {"tail": self.tail} if last_id is None and self.tail is not None else {"after": self.next_line or 0}
        with self.archive.events(self.run, last_id, **query) as lines:
            for event in events_of(lines):
                if event.retry_ms is not None:
                    self._retry_s = event.retry_ms / 1000
                if piece := self._piece_of(event):
                    yield piece

    def _piece_of(self, event: Event) -> Piece | None:
        frame = json.loads(event.data)
        kind = frame.get("eventType")
        if kind == "error":  # permanent: the log is damaged, or the run has expired
            raise ApiError(200, text_of(frame.get("message"), "the stream ended with an error"))
        if kind == "interrupted":  # a failure of the service
            raise UnavailableError(text_of(frame.get("message"), "the stream was interrupted"))
        if kind == "complete":
            after, reason = int(frame["after"]), text_of(frame.get("reason"), "no reason given")
            self.next_line = after if self.next_line is None else self.next_line
            return None if reason in _CONTINUES else Piece(after, [], reason)
        if kind != "logs":
            return None
        lines = str(frame["logs"]).removesuffix("\n").split("\n")
        return self._new_of(Piece(int(frame["after"]) - len(lines), lines), int(frame["after"]))

    def _paged(self) -> Iterator[Piece]:
        if self.next_line is None and self.tail is not None:
            query: dict[str, Any] = {"tail": self.tail}
        else:
            query = {"after": self.next_line or 0, "wait": _WAIT_S}
        page = self.archive.page(self.run, limit=_PAGE_LINES, **query)
        if page.lines:
            yield self._new_of(Piece(page.after - len(page.lines), page.lines), page.after)
        else:
            self.next_line = page.after if self.next_line is None else self.next_line
        if page.is_end and not page.streaming and page.total:
            yield Piece(page.after, [], "runFinished")

    def _new_of(self, piece: Piece, after: int) -> Piece:
        """The piece without lines that were returned before."""
        seen = max((self.next_line or 0) - piece.first, 0) if self.next_line is not None else 0
        self.next_line = max(after, self.next_line or 0)
        return Piece(piece.first + seen, piece.lines[seen:])
