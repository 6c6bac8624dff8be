"""Finds the lines that explain a failure, in one pass over a log in bounded memory that can stop and continue anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from chalicelib.lines.errors import count_errors
from chalicelib.ports import RunEnd

MAX_CANDIDATES = 3
MAX_TEXT = 500
"""Characters of a candidate's text."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may explain a failure. ``line``: its number in the log, from 0; ``rule``: what chose it; ``family``: the known kind of
    failure, empty for others; ``score``: between 0 and 1, how certain the rule is; ``text``: without control characters, shortened."""

    line: int
    text: str
    rule: str
    family: str
    score: float


class Explainer:
    """Reads a log from ``first_line`` on."""

    def __init__(self, first_line: int = 0) -> None:
        self._line, self._rest = first_line, b""
        self._last: tuple[int, str] | None = None

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the log, cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            if count_errors(raw):
                self._last = self._line, raw.decode(errors="replace")[:MAX_TEXT]
            self._line += 1

    def state(self) -> dict[str, Any]:
        """What is needed to continue after the bytes so far, as JSON of at most 64 KiB."""
        return {"line": self._line, "rest": self._rest.decode("latin-1"), "last": self._last}

    @classmethod
    def resumed(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state."""
        self = cls(int(state["line"]))
        self._rest, self._last = (
            str(state["rest"]).encode("latin-1"),
            state["last"] and (int(state["last"][0]), str(state["last"][1])),
        )
        return self

    def candidates(self, end: RunEnd | None = None) -> tuple[Candidate, ...]:
        """Up to ``MAX_CANDIDATES`` lines, the best first, of the log so far with its last line. ``end``: the reported end of the run."""
        return (Candidate(*self._last, rule="last-error", family="", score=0.3),) if self._last else ()
