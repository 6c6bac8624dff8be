"""OpenMetadata's log page as a client: the requests of its hooks ``useLogStream`` (live tail) and ``usePaginatedLiveLog`` (history), and what
the page has afterwards. Its own implementation, of the behaviour of OpenMetadata 1.10 and later (``hooks/useLogStream.ts``,
``utils/SseStreamUtils.ts``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

LOGS = "/v1/services/ingestionPipelines/logs"
_RESUMABLE = {"idleTimeout", "maxDuration"}
_ATTEMPTS_BEFORE_DOWN = 5
_FIRST_BACKOFF_S, _MAX_BACKOFF_S = 1.0, 30.0


class _FatalError(Exception):
    """The page stops."""


@dataclass
class LogPage:
    """The page of one run. ``get`` sends a path and returns status and text; ``sleep`` takes seconds. ``backoffs``: pauses after failures;
    ``reasons``: those of all ``complete`` frames."""

    fqn: str
    run_id: str
    get: Callable[[str], tuple[int, str]]
    sleep: Callable[[float], object]
    logs: str = ""
    is_done: bool = False
    end_reason: str | None = None
    is_truncated: bool = False
    error: str | None = None
    health: str = "connecting"
    requests: int = 0
    backoffs: list[float] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    refreshed_tokens: int = 0
    _cursor: str = ""
    _attempt: int = 0
    _unauthorized: int = 0

    def follow(self, most_requests: int = 10_000, query: str = "") -> LogPage:
        """The live tail, until the page stops or has sent ``most_requests``."""
        for _ in range(most_requests):
            if self.is_done:
                break
            try:
                resumes = self._connect(query)
            except _FatalError as error:
                self.is_done, self.health = True, str(error)
                break
            if not self.is_done and not resumes:
                self._back_off()
        return self

    def _connect(self, query: str) -> bool:
        """One response. Whether the page continues immediately."""
        self.requests += 1
        path = f"{LOGS}/{quote(self.fqn, safe='')}/stream/{quote(self.run_id, safe='')}{query}"
        if self._cursor:
            path += ("&" if "?" in path else "?") + urlencode({"after": self._cursor})
        status, text = self.get(path)
        if status == 503:
            raise _FatalError("unavailable")
        if status == 401:
            self._unauthorized += 1
            if self._unauthorized > 1:
                raise _FatalError("down")
            self.refreshed_tokens += 1
        if not 200 <= status < 300:
            return False
        self._attempt, self._unauthorized, self.health = 0, 0, "live"
        resumes = [self._take(json.loads(data)) for data in _data_of(text)]
        return any(resumes)

    def _take(self, event: dict[str, Any]) -> bool:
        """Whether the page continues immediately after the response with this event."""
        self._cursor = event.get("after") or self._cursor
        if event["eventType"] == "logs":
            self.is_truncated |= bool(event.get("truncated"))
            self.logs += event.get("logs", "")
        elif event["eventType"] == "complete":
            reason = event.get("reason")
            self.reasons.append(reason)
            if reason in _RESUMABLE:
                self._attempt = 0
                return True
            self.is_done, self.end_reason, self.error = True, reason, event.get("message")
        elif event["eventType"] == "error":
            self.is_done, self.error, self.health = True, event.get("message", "Log stream failed"), "unavailable"
        return False

    def _back_off(self) -> None:
        self._attempt += 1
        self.health = "down" if self._attempt >= _ATTEMPTS_BEFORE_DOWN else "connecting"
        self.backoffs.append(min(_FIRST_BACKOFF_S * 2 ** (self._attempt - 1), _MAX_BACKOFF_S))
        self.sleep(self.backoffs[-1])

    def history(self, pipeline: str, task: str = "ingestion_task") -> list[str]:
        """The texts of the pages of the newest run of a pipeline, by its name or id."""
        texts, after = list[str](), None
        while True:
            query = f"?{urlencode({'after': after})}" if after else ""
            status, text = self.get(f"{LOGS}/{quote(pipeline, safe='')}/last{query}")
            assert status == 200, text
            page = json.loads(text)
            texts.append(page.get("logs") or page.get(task) or "")
            after, total = page.get("after"), page.get("total")
            if not after or (total is not None and int(after) >= int(total)):
                return texts


def _data_of(text: str) -> Iterator[str]:
    """The data of the events of a response that have some."""
    data: list[str] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        name, _, value = line.partition(":")
        if name == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
