"""A plain HTTP viewer: behaves like a browser's ``EventSource`` and notes the arrival time of each line."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field

import requests

_GIVE_UP_S = 300
_RETRY_MS = 3000


@dataclass
class Viewer:
    """Reconnects from the last event id until the stream ends. ``seen``: lines with arrival times (seconds since the epoch)."""

    url: str
    seen: list[tuple[str, float]] = field(default_factory=list)
    reason: str = ""
    answers: int = 0

    @property
    def lines(self) -> list[str]:
        """The received lines, in order."""
        return [line for line, _ in self.seen]

    def watch(self) -> Viewer:
        """Read until the run's end."""
        last_event_id, give_up_s = "", time.monotonic() + _GIVE_UP_S
        with requests.Session() as session:
            while not self.reason:
                assert time.monotonic() < give_up_s, f"the stream has no end event url={self.url} lines={len(self.seen)}"
                headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
                with session.get(self.url, headers=headers, timeout=60) as answer:
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["Content-Type"].startswith("text/event-stream")
                    answer.encoding = "utf-8"
                    last_event_id, retry_ms = self._read(answer.text, last_event_id)
                self.answers += 1
                time.sleep(retry_ms / 1000)
        return self

    def _read(self, text: str, last_event_id: str) -> tuple[str, int]:
        now_s, retry_ms = time.time(), _RETRY_MS
        for line in text.split("\n"):
            name, _, value = line.partition(": ")
            if name == "retry":
                retry_ms = int(value)
            elif name == "id":
                last_event_id = value
            elif name == "data":
                event = json.loads(value)
                self.seen += [(each, now_s) for each in event.get("logs", "").split("\n")[:-1]]
                self.reason = "" if event.get("reason") == "maxDuration" else event.get("reason", "")
        return last_event_id, retry_ms
