"""Finds the lines that explain a failure, in one pass over a log in bounded memory that can stop and continue anywhere."""

from __future__ import annotations

from base64 import b85decode, b85encode
from collections.abc import Collection, Mapping
from typing import Any, Self

from chalicelib.explanation.bounded_lines import BoundedLines
from chalicelib.explanation.explanation import MAX_CANDIDATES, CauseCandidate
from chalicelib.explanation.ranking import rank
from chalicelib.explanation.reading import LogReader
from chalicelib.ports import RunEnd

MAX_TEXT = 500
"""Characters of a candidate's text."""
MAX_STATE_BYTES = 65_536


class Explainer:
    """Reads a log from ``first_line`` on."""

    def __init__(self, first_line: int = 0) -> None:
        self._lines, self._reader = BoundedLines(), LogReader(first_line)

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the log, cut anywhere."""
        for block in self._lines.blocks(data):
            self._reader.read(block)

    def state(self) -> dict[str, Any]:
        """What is needed to continue after the bytes so far, as JSON of at most ``MAX_STATE_BYTES``."""
        return {"rest": b85encode(self._lines.rest).decode(), "gap": self._lines.has_gap, **self._reader.state()}

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state."""
        self = cls()
        self._lines = BoundedLines(b85decode(state["rest"]), bool(state["gap"]))
        self._reader = LogReader.resumed(state)
        return self

    def candidates(self, end: RunEnd | None = None, usual: Collection[str] = ()) -> tuple[CauseCandidate, ...]:
        """Up to ``MAX_CANDIDATES`` lines, the best first, of the log so far with its last line. ``end``: the reported end of the run;
        ``usual``: see ``ranking.rank``."""
        reader = self._reader
        if self._lines.rest:
            reader = LogReader.resumed(reader.state())
            reader.read(self._lines.rest + b"\n")
        found = rank(reader.evidence, reader.progress, end, usual)[:MAX_CANDIDATES]
        return tuple(CauseCandidate(each.line, each.text(MAX_TEXT), each.rule, each.family, round(each.score, 2)) for each in found)
