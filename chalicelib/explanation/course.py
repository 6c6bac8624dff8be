"""What the remembered lines tell of the course of a run: its clean-up, its traced commands, which of its programs ended, and its tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from chalicelib.explanation.evidence import Note
from chalicelib.explanation.texts import ERRORS, FATAL, INFO, PLAIN, WARNINGS, message_of, quick_level, source_and_message
from chalicelib.explanation.wrappers import (
    ADVICE,
    CLEANING,
    CONSEQUENCE,
    CONTEXT,
    COUNT,
    NO_ERROR,
    SIDE_REPORT,
    is_generic,
    is_wrapper,
)

_ANSWER = re.compile(
    r"\b(?:continu(?:e|ing)|go(?:ing|es)? on|(?<!commands )(?<!errors )ignor(?:ed|ing)|skipp(?:ed|ing)|fall(?:ing|s)? ?back"
    r"|using (?:the|an?|its|cached|defaults?|previous|last|local|old|mirror)\b|cache miss|from scratch|rebuilding"
    r"|(?:is|are|was) optional|\(optional\)"
    r"|retrying|will retry|retry (?:in|[0-9])|try(?:ing)? again|waiting for|attempt [0-9]+: |not (?:up|ready|available|needed) (?:yet|here)"
    r"|next try|instead"
    r"|(?<=[,;] )(?!exit|abort|stop|fail|giv|terminat|quit|clean|roll|shut|leav|includ|miss|accord|bail|kill|remov|clos)[a-z]+ing"
    r"|succeeded|recovered|reconnected|connected to|is (?:now )?(?:ready|available|back))\b|^TASK \["
    r"|続行|スキップ|继续|跳过|繼續|продолж|пропус|fortgesetzt|übersprungen|ignoriert|on continue|ignoré|se continúa|se omite|ignorando|"
    r"si prosegue|ignorato"
    r"|overgeslagen|genegeerd|pomini|계속|건너",
    re.IGNORECASE,
)
"""What a run does about a failure."""
_STEP = re.compile(r"\W*+(?:\w++(?:\W++|$)){1,2}")
_MAIN_LINES, _MAIN_SHARE = 3, 0.6
_CLEANING_LINES, _VERDICT_LINES, _ANSWER_LINES, _ATTACHED_LINES = 6, 12, 3, 2
"""Lines between a failure and the begin of the clean-up, the verdict, and the answer; between a verdict and an answer to it."""
_ENDS = re.compile(r"\b(?:exit|rc|code|status|done|end|total|time|finished|completed|summary)\b|Node\.js v[0-9]", re.IGNORECASE)
_BAD = re.compile(
    r"\b(?:fail|errors?\b|could not|cannot|can't|unable|not |no |back-?off|retry|try again|err!|un\w+able\b)", re.IGNORECASE
)
"""Lines that tell of no progress."""
_MARKS = ("0-0", "0:0", "[0", "==", "--", ">")
"""Begins of lines that report steps, even if there is only one such line."""
_BEGIN = re.compile(r"\W*+(?=[^\s:]*\d|[\w-]++ (?:\w++=)?\d)[\w./-]++(?: (?:\w++=)?\d++)?")
"""A name with a number, or followed by one."""
_EXIT_REPORT = re.compile(
    r"\b(?:rc|code|status|exit(?:s|ed)?|return(?:s|ed)?|result|ended|left|finished|failed|FAILED|stopped|aborted|failure|error|with)\b(?: by)?"
    r"[ :=(>-]{0,4}(\d{1,3})\b\W{0,3}(?:(?:after|in) \S+)?$|\w(?:: |=| ?\(| -> )(\d{1,3})\b\W{0,3}$"
)
_TRACED_EXIT = re.compile(r"\++ exit [1-9]\d{0,2}")
_REPORT_CHARS, _REPORT_LINES, _SIGNALS = 60, 10, range(129, 166)
"""Of the end of a line that reports an exit code; the last lines among which it is; and the
exit codes of programs that a signal ended."""
_USUAL_LINES, _ODD_LINES = 3, 2
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_COMMAND = re.compile(r"\++ (?!rm |rmdir |exit|cleanup|trap |kill |umount |return |echo |printf )\S")
_EXITED = re.compile(
    r'(?:^| )"?([^\s"]{1,80}?)"?:? (?:exited with(?: code)?|exited \(|command finished with error|stopped \(rc=)[ (]*[1-9]'
)
_TESTS_FAILED = re.compile(
    r"^=+ .{0,60}\b[1-9]\d* (?:failed|errors?)\b.{0,60} in [\d.]+|^[1-9]\d* (?:failed|errors?)\b.{0,60} in [\d.]+s"
    r"|^FAILED \((?:failures|errors)=|^Tests?(?: Files| Suites)?:? +.{0,40}\b[1-9]\d* failed|^[1-9]\d* failing$|^--- FAIL: |^FAIL\s+\S"
    r"|^test result: FAILED|Tests run: .{0,60}(?:Failures|Errors): [1-9]|There were failing tests|tests? completed, [1-9]\d* failed"
    r"|^not ok \d+(?!.*# (?:TODO|SKIP))"
    r"|^(?:# |ℹ )?fail [1-9]|^\d+ tests?, \d+ passed, [1-9]\d* failed|^\d+ (?:scenarios?|features?) passed, [1-9]\d* failed"
    r"|^\d+ examples?, [1-9]\d* failures?|^Tests: \d+, .{0,60}(?:Failures|Errors): [1-9]|^Failed! +- Failed: +[1-9]|tests failed out of"
)


def _is_verdict(text: str) -> bool:
    return (
        not text.endswith(":")
        and not NO_ERROR.search(text)
        and (is_wrapper(text) or COUNT.search(text) is not None or is_generic(text))
    )


def _is_calm(note: Note) -> bool:
    """Whether a line tells of no failure and of no end, and belongs to no other."""
    text, message = note.text, message_of(note.raw)
    return (
        text[:1] not in " \t|"
        and bool(message)
        and quick_level(note.raw) in (PLAIN, INFO)
        and not any(CONTEXT.match(each) or CLEANING.match(each) or ADVICE.match(each) for each in {text, message})
        and not _ENDS.search(text)
        and not _BAD.search(message)
    )


def _exit_report(tail: Iterable[Note], code: int) -> int:
    """The line that says that the run or its last command ended with its exit code; -1 if none."""
    last = list(tail)[-_REPORT_LINES:]
    for note in last:
        report = _EXIT_REPORT.search(message_of(note.raw)[-_REPORT_CHARS:])
        if report is not None and quick_level(note.raw) in (PLAIN, INFO, ERRORS):
            number = int(report[1] or report[2])
            if number == code:
                return note.line
    return last[-1].line if last and _TRACED_EXIT.fullmatch(message_of(last[-1].raw)) else -1


def _steps(calm: Iterable[Note]) -> tuple[int, ...]:
    """The lines with which a run reports its steps: ordinary ones that begin alike, with a time, a number or punctuation."""
    shapes: dict[str, list[int]] = {}
    for note in calm:
        line, begin = note.line, _STEP.match(note.text)
        if quick_level(note.raw) == INFO:
            shapes.setdefault(_MARKS[0], []).append(line)
        if begin is None or quick_level(note.raw) == INFO:
            continue
        shape = _DIGITS.sub("0", _LETTERS.sub("a", begin[0]))
        if shape.strip("a "):
            shapes.setdefault(shape, []).append(line)
    return tuple(line for shape, lines in shapes.items() if len(lines) > 1 or shape.startswith(_MARKS) for line in lines)


def _works(tail: Iterable[Note], signs: Collection[int]) -> dict[str, tuple[int, ...]]:
    forms: dict[str, list[int]] = {}
    for note in tail:
        message = message_of(note.raw)
        if (
            note.line not in signs
            and quick_level(note.raw) in (PLAIN, INFO)
            and _LETTERS.search(message)
            and not note.raw[:1].isspace()
        ):
            forms.setdefault(_DIGITS.sub("0", message), []).append(note.line)
    return {form: tuple(lines) for form, lines in forms.items() if len(lines) > 1}


def odd_lines(tail: Iterable[Note]) -> Iterator[Note]:
    """Lines that begin like those of the run's work, which differ only in numbers, and that end otherwise: at most two of one begin."""
    begins: dict[str, dict[str, list[Note]]] = {}
    for note in tail:
        message = message_of(note.raw)
        if quick_level(note.raw) not in (WARNINGS, FATAL) and (begin := _BEGIN.match(message)) is not None:
            form = _DIGITS.sub("0", message)
            begins.setdefault(_DIGITS.sub("0", begin[0]), {}).setdefault(form, []).append(note)
    for forms in begins.values():
        usual = max(map(len, forms.values()))
        odd = [notes[0] for notes in forms.values() if len(notes) == 1]
        if usual >= _USUAL_LINES and len(odd) <= _ODD_LINES and len(forms) == len(odd) + 1:
            yield from (note for note in odd if not NO_ERROR.search(message_of(note.raw)))


def _main(tail: Iterable[Note], signs: Collection[int]) -> str:
    sources = Counter(source for note in tail if note.line not in signs and (source := source_and_message(note.raw)[0]))
    most = sources.most_common(1)
    return most[0][0] if most and most[0][1] >= max(_MAIN_LINES, _MAIN_SHARE * sources.total()) else ""


@dataclass(frozen=True, slots=True)
class Course:
    """Numbers of lines. ``begin``, ``end``: the first and the last of the last lines; ``exit``: the report of the run's exit code, -1 if none;
    ``calm``: lines without signs of a failure or of the end; ``has_records``: whether some of the last lines have a level below an error;
    ``cleaning``: those that tell of a clean-up; ``answers``: that answer a failure; ``verdicts``: that say that something failed and that nothing
    answers, with the ordinary lines before; ``command``: the last command that a shell traced, -1 if none; ``steps``: those with which the run
    reports its steps; ``works``: ordinary ones that differ only in numbers, by what they have in common. ``main``: the source of most ordinary
    lines, ``exited``: the program that ended with an error; both empty if not known. ``is_tested``: whether tests failed. ``texts``: messages
    without a level, and reports of the run's end, by line."""

    begin: int
    end: int
    exit: int
    calm: tuple[int, ...]
    has_records: bool
    cleaning: tuple[int, ...]
    answers: tuple[int, ...]
    verdicts: tuple[tuple[int, int], ...]
    command: int
    steps: tuple[int, ...]
    works: Mapping[str, tuple[int, ...]]
    main: str
    exited: str
    is_tested: bool
    texts: Mapping[int, str]

    @classmethod
    def of(cls, tail: Collection[Note], notes: Collection[Note], signs: Collection[int], code: int) -> Course:
        """``signs``: the lines that are no ordinary ones; ``code``: the exit code of the run, 0 if not known."""
        last = [(note.line, message_of(note.raw)) for note in tail]
        texts = dict(last) | {note.line: message_of(note.raw) for note in notes}
        exits = [match[1] for text in texts.values() if (match := _EXITED.search(text))]
        answers = tuple(line for line, text in texts.items() if _ANSWER.search(text))
        verdicts = [(note.line, note.progress) for note in notes if _is_verdict(message_of(note.raw))]
        plain = {note.line for note in (*tail, *notes) if quick_level(note.raw) == PLAIN}
        calm = [note for note in tail if note.line not in signs and _is_calm(note)]
        works = _works(tail, signs)
        working = {line for lines in works.values() for line in lines}
        return cls(
            min((line for line, _ in last), default=0),
            max((line for line, _ in last), default=0),
            _exit_report(tail, code) if code and code not in _SIGNALS else -1,
            tuple(note.line for note in calm),
            any(quick_level(note.raw) in (INFO, WARNINGS) for note in tail),
            tuple(
                line
                for line, text in last
                if CONSEQUENCE.search(text)
                or (CLEANING.match(text) and line not in working and not (line in signs and ": " in text))
            ),
            answers,
            tuple(each for each in verdicts if not any(each[0] <= answer <= each[0] + _ATTACHED_LINES for answer in answers)),
            max((line for line, text in last if _COMMAND.match(text)), default=-1),
            _steps(calm),
            works,
            _main(tail, signs),
            exits[0] if exits else "",
            any(_TESTS_FAILED.search(text) for text in texts.values()),
            {line: text for line, text in texts.items() if line in plain or SIDE_REPORT.search(text)},
        )

    def is_cleaned(self, begin: int, end: int) -> bool:
        """Whether a clean-up began right after one line and before another or with it."""
        return any(
            begin < line <= end and line - begin <= _CLEANING_LINES and not self.steps_between(line, end) for line in self.cleaning
        )

    def steps_between(self, begin: int, end: int) -> int:
        """How many steps the run reports between two lines."""
        return sum(begin < step < end for step in self.steps)

    def calm_between(self, begin: int, end: int) -> int:
        """How many lines without a sign of a failure stand between two lines."""
        return sum(begin < line < end for line in self.calm)

    def works_between(self, begin: int, end: int) -> int:
        """How many lines of its work the run reports between two lines, without answers to failures."""
        lines = {line for lines in (self.steps, *self.works.values()) for line in lines if begin < line < end}
        return len(lines.difference(self.answers))

    def is_concluded(self, begin: int, end: int, progress: int) -> bool:
        """Whether a verdict stands right after one line and before another, with less ordinary lines before."""
        return any(
            begin < line < end and line - begin <= _VERDICT_LINES and before < progress and not self.steps_between(line, end)
            for line, before in self.verdicts
        )

    def is_continued(self, line: int, end: int) -> bool:
        """Whether the run reports, between two lines, more of the work that it reported before."""
        return any(lines[0] < line < each < end for lines in self.works.values() for each in lines)

    def is_answered(self, line: int, end: int) -> bool:
        """Whether the run answers the failure at one line, before another line."""
        return any(line <= answer < end and answer - line <= _ANSWER_LINES for answer in self.answers)
