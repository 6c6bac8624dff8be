"""The state of a spool's folder: how, and from where on, its bytes are to be stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from runlake.deliveries import EventDelivery, TextDelivery, delivery_of
from runlake.errors import LeftoverError
from runlake.names import RunName
from runlake.outcomes import RunEnd
from runlake.starts import Start


@dataclass(frozen=True)
class SpoolState:
    """``run``: as it was named by the program; ``stored_as``: the attempt that stores the bytes, once it is known. ``start``: reported while there
    is no ``position``. The next batch presents the position, and begins at byte ``begin``, which is line ``begin_line``; it ends at ``batch_end``
    after ``batch_lines`` lines if it may have been sent. ``facts``: those of the delivery.

    ``is_ended``: all bytes are written. ``close``: the program's end is known, and ends the run with ``run_end``. Without them the program was
    killed: whoever ships its lines does not end the run. ``owns_attempt``: nobody else closes the attempt. ``group``: of the writers of one start,
    the beginning of the folder's name. ``dropped``, ``refused``: lines (or events) so far. ``reason``: why it is not shipped; ``is_refused``: it
    is a batch that the archive refuses. ``zone``: of times without one in its lines, stated when the run is opened; empty: none."""

    url: str
    run: RunName
    stored_as: RunName
    group: str
    start: Start | None = None
    position: str | None = None
    begin: int = 0
    begin_line: int = 0
    batch_end: int = 0
    batch_lines: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    is_ended: bool = False
    close: bool = False
    run_end: RunEnd | None = None
    owns_attempt: bool = False
    dropped: int = 0
    refused: int = 0
    reason: str = ""
    is_refused: bool = False
    zone: str = ""

    @property
    def delivery(self) -> TextDelivery | EventDelivery:
        """How the bytes get into the archive."""
        return delivery_of(self.stored_as, self.facts)

    def as_json(self) -> bytes:
        """The text of the state."""
        names = {"url": self.url, "fqn": self.run.fqn, "runId": self.run.run_id, "storedAs": self.stored_as.run_id}
        how_far = {"position": self.position, "begin": self.begin, "beginLine": self.begin_line}
        batch = {"batchEnd": self.batch_end, "batchLines": self.batch_lines}
        end = {"ended": self.is_ended, "close": self.close, "end": self.run_end.document() if self.run_end else None}
        counts = {"dropped": self.dropped, "refused": self.refused, "reason": self.reason, "isRefused": self.is_refused}
        start = self.start.facts() if self.start else None
        of_writer = {
            "group": self.group,
            "start": start,
            "delivery": self.facts,
            "ownsAttempt": self.owns_attempt,
            "zone": self.zone,
        }
        return json.dumps({**names, **how_far, **batch, **end, **counts, **of_writer}, ensure_ascii=False).encode(
            "utf-8", "replace"
        )

    @classmethod
    def of_json(cls, text: bytes) -> SpoolState:
        """The inverse of ``as_json``. Raises LeftoverError."""
        try:
            facts = json.loads(text)
            state = cls(
                facts["url"],
                RunName(facts["fqn"], facts["runId"]),
                RunName(facts["fqn"], facts["storedAs"]),
                facts["group"],
                Start.of(facts["start"]) if facts["start"] else None,
                facts["position"],
                facts["begin"],
                facts["beginLine"],
                facts["batchEnd"],
                facts["batchLines"],
                facts["delivery"],
                facts["ended"],
                facts["close"],
                RunEnd.of(facts["end"]) if facts["end"] else None,
                facts["ownsAttempt"],
                facts["dropped"],
                facts["refused"],
                facts["reason"],
                facts["isRefused"],
                facts.get("zone", ""),
            )
            _ = state.delivery  # its facts too
        except (ValueError, LookupError, TypeError) as error:
            raise LeftoverError(f"its state cannot be read: {type(error).__name__}: {error}") from error
        return state
