"""A line with the evidence for it."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.explanation.texts import PLAIN, shorten


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """``message``: its text; ``progress``: the number of ordinary lines before it; ``is_latest``: of equally good ones, the last is the best;
    ``start``: the line before the trace of an exception; ``source``: the logger or container that reports it, of a trace, that of the record
    before it; ``context``: that record; ``before``: the line before a trace."""

    line: int
    message: str
    rule: str
    family: str
    score: float
    progress: int = 0
    is_latest: bool = False
    level: int = PLAIN
    start: int | None = None
    source: str = ""
    context: str = ""
    before: str = ""

    @property
    def begin(self) -> int:
        """The line before its trace, or its own."""
        return self.line if self.start is None else self.start

    def text(self, limit: int) -> str:
        """The message for people."""
        return shorten(self.message, limit)
