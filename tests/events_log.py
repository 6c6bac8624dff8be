"""An in-memory EventLog with failures on request: a list for each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Accepted, Refused
from chalicelib.ports import Run


class InMemoryEventLog:
    """``runs`` and ``writers``: the stored events. ``fails(run)`` may raise before anything is stored, or return a function that is
    called after it, and may raise. An event with the message ``bad`` is refused."""

    def __init__(self) -> None:
        self.runs: dict[Run, list[NewEvent]] = {}
        self.batches: list[tuple[Run, str | None, int]] = []
        self._keys: dict[tuple[Run, str], tuple[list[NewEvent], Accepted]] = {}
        self.fails: Callable[[Run], Callable[[], None] | None] = lambda _: None

    def append(
        self,
        run: Run,
        events: Sequence[NewEvent],
        *,
        writer: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Store at once, in order."""
        assert position is None
        afterwards = self.fails(run)
        if idempotency_key is not None and (run, idempotency_key) in self._keys:
            before, accepted = self._keys[run, idempotency_key]
            if before != list(events):
                raise InvalidEventError("idempotency key was used for another batch")
            return Accepted(accepted.accepted, accepted.first_line, accepted.position, True, accepted.refused)
        refused = tuple(Refused(index, "it is bad") for index, event in enumerate(events) if event.message == "bad")
        if len(refused) == len(events):
            raise InvalidEventError("no event is good")
        good = [event for event in events if event.message != "bad"]
        stored = self.runs.setdefault(run, [])
        accepted = Accepted(len(good), len(stored), "position", False, refused)
        stored += good
        self.batches.append((run, writer, len(good)))
        if idempotency_key is not None:
            self._keys[run, idempotency_key] = (list(events), accepted)
        if afterwards:
            afterwards()
        return accepted

    def messages(self, fqn: str, run_id: str) -> list[str]:
        """The messages in a run's log."""
        return [event.message for event in self.runs.get(Run(fqn, run_id), [])]
