"""The result of explaining a failed run, its form in the catalog, JSON of at most ``MAX_BYTES``, and how much of a log a request reads.

The HTTP API's documentation imports the bounds from here, without the rules, which are slow to import.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_TEXT_BYTES = 640
"""Of a candidate's text in the catalog, as UTF-8 in JSON."""
MAX_NAME_CHARS = 40
"""Of a candidate's rule and family in the catalog."""
MAX_CANDIDATES = 3
MAX_BYTES = 2500
PIECE_BYTES = 8 * 1024 * 1024
"""Of a GET."""
STEP_BYTES = 256 * 1024
"""Searched between two looks at the clock: a tenth of a second if the log is made to be slow."""
REQUEST_BYTES = 16 * 1024 * 1024
"""The end of a log that a request reads: about a second."""
REQUEST_S = 5.0
LATE_BYTES = 1024 * 1024
"""The end of a log that a request reads if the search of more of it takes longer than ``REQUEST_S``: half a second at the most."""
_TEXTS = ("text", "rule", "family")


@dataclass(frozen=True, slots=True)
class CauseCandidate:
    """A line that may explain a failure. ``line``: its number in the log, from 0; ``rule``: what chose it; ``family``: the known kind of
    failure, empty for others; ``score``: between 0 and 1, how certain the rule is; ``text``: without control characters, shortened."""

    line: int
    text: str
    rule: str
    family: str
    score: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """``candidates``: mappings with ``line`` (from 0), ``text``, ``rule``, ``family`` and ``score``, the best first. ``from_line``: the first
    line that was read; 0: the whole log."""

    candidates: Sequence[Mapping[str, Any]] = ()
    from_line: int = 0

    @classmethod
    def of(cls, candidates: Sequence[CauseCandidate], from_line: int = 0, shift: int = 0) -> Explanation:
        """An explanation by the first candidates, their texts and names shortened. ``shift``: is added to their line numbers."""
        stored = [
            {
                "line": each.line + shift,
                "text": _shortened(each.text),
                "rule": each.rule[:MAX_NAME_CHARS],
                "family": each.family[:MAX_NAME_CHARS],
                "score": each.score,
            }
            for each in candidates[:MAX_CANDIDATES]
        ]
        return cls(stored, from_line)

    def to_text(self) -> str:
        """Its form in the catalog."""
        return _json({"from_line": self.from_line, "candidates": list(self.candidates)})


def explanation_of(text: str) -> Explanation | None:
    """The inverse of ``Explanation.to_text``. None for any other text: another program may have damaged the row."""
    try:
        stored = json.loads(text)
        candidates = [
            {"line": int(each["line"]), **{name: str(each[name]) for name in _TEXTS}, "score": float(each["score"])}
            for each in stored["candidates"]
        ]
        return Explanation(candidates, int(stored["from_line"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _shortened(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # no lone surrogates
    while (size := len(_json(text).encode())) > MAX_TEXT_BYTES:
        text = text[: min(len(text) - 1, len(text) * MAX_TEXT_BYTES // size)]
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
