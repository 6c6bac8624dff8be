"""Explains runs: failed ones in the schedule, by one pass over ``logs.txt`` that stops and continues; any run on request, by the end of its log.

Decision 0045.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from chalicelib import __version__
from chalicelib.catalog.runs import RunCatalog, RunRow
from chalicelib.deadline import Deadline
from chalicelib.errors import (
    DamagedLogError,
    DeadlineExceededError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    UnavailableError,
)
from chalicelib.explanation.explainer import Explainer
from chalicelib.explanation.explanation import (
    LATE_BYTES,
    PIECE_BYTES,
    REQUEST_BYTES,
    REQUEST_S,
    STEP_BYTES,
    Explanation,
    explanation_of,
)
from chalicelib.explanation.usual_lines import UsualLines
from chalicelib.ports import Clock, ObjectStore, Run, RunEnd
from chalicelib.runlog.artifact import Artifact, find_artifact
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.reader import LogRange, Reader

CHECKPOINT_S = 5.0
"""A pass that is killed loses so much and a piece."""
MAX_LOG_BYTES = 2 * 1024 * 1024 * 1024
"""Of a larger log only the end is read."""

SaveState = Callable[[Any], None]
"""Stores a checkpoint: a JSON value."""


@dataclass(slots=True)
class _Pass:
    """A pass over one version of a log. ``start`` and ``at``: the first byte, and the next one; ``lines``: the number of newlines between."""

    explainer: Explainer
    start: int
    at: int
    lines: int = 0

    @classmethod
    def resumed(cls, state: Any, log: Artifact) -> _Pass:
        """The pass of a checkpoint; a new one if that is of another version of the log or of Runlake, or damaged."""
        start = max(0, log.bytes - MAX_LOG_BYTES)
        try:
            if (state["etag"], state["version"]) == (log.etag, __version__):
                return cls(Explainer.resumed(state["explainer"]), start, int(state["at"]), int(state["lines"]))
        except (AttributeError, KeyError, IndexError, TypeError, ValueError):
            pass
        return cls(Explainer(), start, start)

    def state(self, log: Artifact) -> Any:
        """Its checkpoint."""
        return {
            "etag": log.etag, "version": __version__, "at": self.at, "lines": self.lines, "explainer": self.explainer.state(),
        }  # fmt: skip

    def feed(self, piece: bytes, deadline: Deadline) -> bool:
        """Read the next piece, as far as the time allows, but one step at least; whether all was read."""
        for at in range(0, len(piece), STEP_BYTES):
            if at and deadline.remaining_s() <= 0:
                return False
            step = piece[at : at + STEP_BYTES]
            self.explainer.feed(step)
            self.at += len(step)
            self.lines += step.count(b"\n")
        return True

    def explanation(self, log_lines: int, end: RunEnd | None, usual: Callable[[], Collection[str]]) -> Explanation:
        """The explanation of a log of ``log_lines`` lines that was read to its end. The first line may be cut if it is not the log's first.
        ``usual``: called if several lines may explain the failure."""
        from_line = log_lines - self.lines if self.start else 0
        candidates = self.explainer.candidates(end)
        if len(candidates) > 1:
            candidates = self.explainer.candidates(end, usual())
        return Explanation.of(candidates, from_line, shift=from_line)


class ScheduledExplainer:
    """Explains finalized runs. ``store``: checks the lease before each call."""

    def __init__(self, store: ObjectStore, layout: Layout, runs: RunCatalog, usual: UsualLines) -> None:
        self._store, self._layout, self._runs, self._usual = store, layout, runs, usual

    def explain(self, row: RunRow, state: Any, save_state: SaveState, deadline: Deadline) -> bool | None:
        """Read a run's log from the checkpoint ``state`` on, and record its explanation: an empty one if the log is missing or damaged, so that
        the run is not tried again; then it returns False. A HEAD, a GET per 8 MiB, a checkpoint per ``CHECKPOINT_S``, and a write; see also
        ``UsualLines.of``.

        At the deadline, after one step at least, the checkpoint is saved. Raises DeadlineExceededError then, UnavailableError, LeaseError. A
        log that was written again meanwhile is left to the next call: None.
        """
        try:
            log = find_artifact(self._store, self._layout.logs(row.run))
            if log and log.next_segment != row.final_segments:
                return None  # the row is behind
            explanation = self._read(log, row, state, save_state, deadline) if log else None
        except PreconditionFailedError:
            return None
        except (DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError):
            explanation = None
        self._runs.record_explanation(row.run, row.final_segments, (explanation or Explanation()).to_text())
        return explanation is not None

    def _read(self, log: Artifact, row: RunRow, state: Any, save_state: SaveState, deadline: Deadline) -> Explanation:
        reading, saved_s = _Pass.resumed(state, log), deadline.remaining_s()
        while reading.at < log.bytes:
            piece = self._store.get(log.key, reading.at, min(reading.at + PIECE_BYTES, log.bytes), if_match=log.etag).body
            reading.feed(piece, deadline)
            left_s = deadline.remaining_s()
            if left_s <= 0 or (reading.at < log.bytes and saved_s - left_s >= CHECKPOINT_S):
                save_state(reading.state(log))
                saved_s = left_s
            if left_s <= 0:
                raise DeadlineExceededError(f"no time left: the next invocation continues key={log.key} at={reading.at}")
        return reading.explanation(log.lines or 0, row.end, lambda: self._usual.of(row.run))


@dataclass(frozen=True, slots=True)
class RequestedExplanation:
    """``is_complete``: of the log of an ended run, read as far as the schedule does: it does not change anymore. ``is_open``: the run is
    running."""

    explanation: Explanation
    is_complete: bool
    is_open: bool


class RequestExplainer:
    """Explains a run now."""

    def __init__(self, reader: Reader, runs: RunCatalog, clock: Clock, usual: UsualLines) -> None:
        self._reader, self._runs, self._clock, self._usual = reader, runs, clock, usual

    def explain(self, run: Run) -> RequestedExplanation | None:
        """The recorded explanation, by one read of the row; or one of the last ``REQUEST_BYTES`` of the log, or of the last ``LATE_BYTES`` if
        that takes too long. It is recorded if that is all of a finalized log whose end the row has. None for an unknown run. Requests: see
        ``Reader.read_end``, and a write. Raises UnavailableError, DamagedLogError."""
        row = self._runs.get(run)
        recorded = explanation_of(row.explanation) if row and row.is_explained else None
        if recorded:
            return RequestedExplanation(recorded, is_complete=True, is_open=False)
        log = self._reader.read_end(run, REQUEST_BYTES)
        is_open = not log.end.seal and (log.end.exists or self._reader.is_started(run))
        if row is None and not is_open and not log.end.exists:
            return None
        reading = self._read(log)
        explanation = reading.explanation(log.end.line, row.end if row else None, lambda: self._usual.of(run))
        is_final = row is not None and row.status == "finalized" and row.final_segments == log.end.sequence > 0
        is_end_known = row is not None and not row.is_seal_unknown  # it counts for the order of the candidates
        is_complete = is_end_known and (is_final and not reading.start)
        if row and is_complete:
            with suppress(UnavailableError):  # the next request computes it again
                self._runs.record_explanation(run, row.final_segments, explanation.to_text())
        return RequestedExplanation(explanation, is_complete, is_open)

    def _read(self, log: LogRange) -> _Pass:
        deadline, start = Deadline(self._clock, REQUEST_S), log.end.byte - len(log.body)
        reading = _Pass(Explainer(), start, start)
        if not reading.feed(log.body, deadline):
            late = log.body[-LATE_BYTES:]
            reading = _Pass(Explainer(), log.end.byte - len(late), log.end.byte - len(late))
            reading.feed(late, Deadline(self._clock))
        return reading
