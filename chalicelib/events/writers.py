"""Writers of a run's events: registered and closed, each by one small object that is written once (decision 0023).

::

    {run}/events/writers/{writer}/opened     {"openedMs": …}
                                  closed     {"count": N, "lastTimestampMs": … | null, "closedMs": …}

They are read from S3, never from the index: a registration whose notification is late must not be missed.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from chalicelib.errors import (
    ConflictError,
    DamagedLogError,
    InvalidEventError,
    PreconditionFailedError,
)
from chalicelib.events.names import checked_name
from chalicelib.masking.masker import Masker
from chalicelib.ports import ABSENT, Clock, ListedObject, ObjectStore, PutOptions, Run
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all

OPENED, CLOSED = "opened", "closed"
MAX_COUNT = 10**12
_THREADS = 16
_JSON = PutOptions(content_type="application/json")


@dataclass(frozen=True, slots=True)
class WriterRecord:
    """A writer's state on S3. ``count`` None: not closed. Times in ms; ``changed_ms``: when it was opened or closed, by S3's
    clock."""

    writer: str
    opened: bool
    count: int | None
    last_timestamp_ms: int | None
    changed_ms: int


class Writers:
    """Registers, closes and lists writers. All operations are repeatable."""

    def __init__(self, store: ObjectStore, layout: Layout, clock: Clock, masker: Masker | None = None) -> None:
        self._store, self._layout, self._clock, self._masker = store, layout, clock, masker

    def open(self, run: Run, writer: str) -> None:
        """Register a writer. One PUT. Raises InvalidEventError, InvalidNameError, UnavailableError."""
        self._put(self._key(run, writer, OPENED), {"openedMs": self._clock.now_ms()})

    def close(self, run: Run, writer: str, count: int, last_timestamp_ms: int | None = None) -> None:
        """Record the end of a writer with the ids 0 to ``count`` - 1. One PUT; a repeat also a GET. Raises ConflictError if it was
        closed with another count, InvalidEventError, UnavailableError."""
        if not 0 <= count <= MAX_COUNT:
            raise InvalidEventError(f"a writer's count must be an integer from 0 to {MAX_COUNT} count={count}")
        key = self._key(run, writer, CLOSED)
        document = {"count": count, "lastTimestampMs": last_timestamp_ms, "closedMs": self._clock.now_ms()}
        if not self._put(key, document) and (known := self._document(key)["count"]) != count:
            raise ConflictError(f"the writer was closed with another count writer={writer[:80]!r} count={known}")

    def all(self, run: Run) -> dict[str, WriterRecord]:
        """Every registered or closed writer, by name. A LIST, and a GET for each closed one, in parallel."""
        listed = [(self._layout.parse(found.key), found) for found in list_all(self._store, self._layout.writers(run))]
        by_writer: dict[str, dict[str, ListedObject]] = {}
        for parsed, found in listed:
            if parsed and parsed.kind == "writer":
                by_writer.setdefault(parsed.name, {})[found.key.rpartition("/")[2]] = found
        with ThreadPoolExecutor(_THREADS) as threads:
            facts = threads.map(lambda each: self._facts(*each), by_writer.items())
            return {each.writer: each for each in facts}

    def _key(self, run: Run, writer: str, what: str) -> str:
        self._layout.check_new(run)
        if self._masker:
            self._masker.check_names(run.fqn, run.fqn, run.run_id, writer)
        return self._layout.writer(run, checked_name("writer", writer), what)

    def _facts(self, writer: str, objects: dict[str, ListedObject]) -> WriterRecord:
        closed = self._document(objects[CLOSED].key) if CLOSED in objects else {}
        changed_ms = max(found.last_modified_ms for found in objects.values())
        return WriterRecord(writer, OPENED in objects, closed.get("count"), closed.get("lastTimestampMs"), changed_ms)

    def _document(self, key: str) -> dict[str, Any]:
        try:
            document = json.loads(self._store.get(key).body)
            if isinstance(document, dict) and isinstance(document.get("count"), int):
                return document
        except ValueError:
            pass
        raise DamagedLogError(f"not a writer's end key={key}")

    def _put(self, key: str, document: dict[str, Any]) -> bool:
        """Returns False if the object existed."""
        try:
            put_retrying_conflicts(self._store, key, json.dumps(document).encode(), _JSON, ABSENT)
        except PreconditionFailedError:
            return False
        return True
