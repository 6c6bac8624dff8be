"""``python -m tests.explanation_measure [FOLDER]``: how often the first candidate explains a failure of the corpus, by system."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chalicelib.explanation.explainer import Explainer
from chalicelib.explanation.explanation import CauseCandidate
from chalicelib.ports import FAILED, RunEnd
from tests.explanation_corpus import CORPUS, Labels, load_corpus

CERTAIN = 0.8
"""Scores from here on are high."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first candidate for a log of the corpus."""

    name: str
    labels: Labels
    candidate: CauseCandidate | None

    @property
    def is_right(self) -> bool:
        return self.candidate is not None and self.candidate.line + 1 in self.labels.lines

    @property
    def is_certain(self) -> bool:
        return self.candidate is not None and self.candidate.score >= CERTAIN


@dataclass(frozen=True, slots=True)
class Measure:
    """Numbers of logs: all, with the right line first, with a candidate, with a high score, wrong with a high score."""

    logs: int
    right: int
    answered: int
    certain: int
    certain_wrong: int

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> Measure:
        of = list(answers)
        certain = [each for each in of if each.is_certain]
        wrong = sum(not each.is_right for each in certain)
        return cls(len(of), sum(each.is_right for each in of), sum(each.candidate is not None for each in of), len(certain), wrong)

    @property
    def recall(self) -> float:
        return self.right / self.logs

    @property
    def precision(self) -> float:
        return self.right / max(self.answered, 1)


def explain(log: bytes, labels: Labels) -> CauseCandidate | None:
    """The first candidate for a log."""
    explainer = Explainer()
    explainer.feed(log)
    return next(iter(explainer.candidates(RunEnd(FAILED, exit_code=labels.exit))), None)


def measure(folder: Path = CORPUS) -> list[Answer]:
    """The answers for all logs of a folder."""
    return [Answer(name, labels, explain(log, labels)) for name, log, labels in load_corpus(folder)]


def table(answers: Sequence[Answer]) -> str:
    """The figures of each system, in Markdown."""
    rows = ["| messages of | logs | recall | precision | high scores | wrong with a high score |", "|---|---|---|---|---|---|"]
    for system in (*sorted({each.labels.system for each in answers}), ""):
        of = Measure.of(each for each in answers if system in ("", each.labels.system))
        rows.append(f"| {system or 'all'} | {of.logs} | {of.recall:.0%} | {of.precision:.0%} | {of.certain} | {of.certain_wrong} |")
    return "\n".join(rows)


def main(folder: Path) -> None:
    answers = measure(folder)
    print(table(answers))
    for each in answers:
        if not each.is_right:
            print(f"{each.name}: lines {each.labels.lines}, but {each.candidate}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS)
