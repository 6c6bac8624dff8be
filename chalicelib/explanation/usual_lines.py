"""Lines with words of a failure that successful runs of a pipeline print, too: what they say did not make a run fail.

Nothing is stored: the ends of the last logs are read when a failure is explained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from chalicelib.catalog.runs import RunCatalog, RunRow
from chalicelib.deadline import Deadline
from chalicelib.errors import (
    DamagedLogError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    UnavailableError,
)
from chalicelib.explanation.bounded_lines import BoundedLines
from chalicelib.explanation.evidence import Evidence, Incident, Note
from chalicelib.explanation.explanation import PIECE_BYTES, STEP_BYTES
from chalicelib.explanation.reading import LogReader
from chalicelib.explanation.texts import message_of, usual_form
from chalicelib.ports import SUCCEEDED, Clock, ObjectStore, Run
from chalicelib.runlog.artifact import Artifact, find_artifact
from chalicelib.runlog.layout import Layout

MAX_RUNS = 2
LISTED_RUNS = 20
"""The newest runs of a pipeline, among which the successful ones are sought."""
MAX_BYTES = 16 * 1024 * 1024
"""Of the ends of all of their logs together: about a second."""
MAX_S = 5.0
_MAX_FORMS = 5000
_NUMBERS = re.compile(rb"[0-9]+")
_UNREADABLE = (DamagedLogError, ObjectNotFoundError, PreconditionFailedError, RangeNotSatisfiableError, UnavailableError)


class UsualLines:
    """Reads the last successful runs of pipelines."""

    def __init__(self, store: ObjectStore, layout: Layout, runs: RunCatalog, clock: Clock) -> None:
        self._store, self._layout, self._runs, self._clock = store, layout, runs, clock

    def of(self, run: Run) -> frozenset[str]:
        """The forms (``texts.usual_form``) of messages in the last one or two successful runs of a run's pipeline, of at most ``MAX_BYTES``
        from the ends of their logs, as far as ``MAX_S`` allows and they can be read. Requests: a page of rows, a HEAD for each log, a GET for
        each 8 MiB. Raises UnavailableError if the rows cannot be read."""
        deadline, left, forms = Deadline(self._clock, MAX_S), MAX_BYTES, _Forms()
        for row in self._successful(run):
            if left <= 0 or deadline.remaining_s() <= 0:
                break
            try:
                left -= self._read(row, left, forms, deadline)
            except _UNREADABLE:
                continue  # removed, written again meanwhile, or archived: the run that failed is explained without it
        return frozenset(forms.messages)

    def _successful(self, run: Run) -> list[RunRow]:
        rows = self._runs.newest(run.fqn, LISTED_RUNS, None).rows
        return [row for row in rows if row.run != run and row.status == "finalized" and row.outcome_at(0) == SUCCEEDED][:MAX_RUNS]

    def _read(self, row: RunRow, most: int, forms: _Forms, deadline: Deadline) -> int:
        """Read the end of one log; returns its bytes."""
        log = find_artifact(self._store, self._layout.logs(row.run))
        if log is None:
            return 0
        begin = max(0, log.bytes - most)
        evidence, lines = _RememberedEvidence(forms), BoundedLines()
        reader = LogReader(evidence=evidence)
        for step in self._steps(log, begin):
            for block in lines.blocks(step):
                reader.read(block)
            if deadline.remaining_s() <= 0:
                break
        evidence.remember_rest()
        return log.bytes - begin

    def _steps(self, log: Artifact, begin: int) -> Iterator[bytes]:
        for at in range(begin, log.bytes, PIECE_BYTES):
            piece = self._store.get(log.key, at, min(at + PIECE_BYTES, log.bytes), if_match=log.etag).body
            yield from (piece[step : step + STEP_BYTES] for step in range(0, len(piece), STEP_BYTES))


class _Forms:
    """The forms of messages; at most 5,000. A line that differs only in numbers from one before is not looked at again."""

    def __init__(self) -> None:
        self.messages: set[str] = set()
        self._lines: set[bytes] = set()

    def add(self, raw: bytes) -> None:
        line = _NUMBERS.sub(b"0", raw)
        if line not in self._lines and len(self._lines) < _MAX_FORMS:
            self._lines.add(line)
            self.messages.add(usual_form(message_of(raw)))


class _RememberedEvidence(Evidence):
    """Remembers the form of each line that it gets, also of those that it forgets."""

    def __init__(self, forms: _Forms) -> None:
        super().__init__()
        self._forms = forms

    def add(self, note: Note, level: int) -> None:
        super().add(note, level)
        self._forms.add(note.raw)

    def begin(self, incident: Incident) -> Incident:
        self._remember(*self.incidents)
        return super().begin(incident)

    def remember_rest(self) -> None:
        """At the end of the log."""
        self._remember(*self.incidents)
        for note in chain(self.tail, [self.last_warning] if self.last_warning else []):
            self._forms.add(note.raw)

    def _remember(self, *incidents: Incident) -> None:
        for note in _notes_of(incidents):
            self._forms.add(note.raw)


def _notes_of(incidents: tuple[Incident, ...]) -> Iterator[Note]:
    for incident in incidents:
        yield from (note for note in (incident.before, incident.root, incident.last) if note is not None)
