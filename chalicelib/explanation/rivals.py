"""Which of two signs of a failure is its cause: rules for pairs, by the course of the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from chalicelib.explanation.course import Course
from chalicelib.explanation.evidence import MAX_INCIDENTS
from chalicelib.explanation.scored_line import ScoredLine
from chalicelib.explanation.texts import ERRORS, FATAL, INFO, PLAIN, WARNINGS, usual_form
from chalicelib.explanation.wrappers import (
    CLEANING,
    CONCLUSION,
    CONSEQUENCE,
    COUNT,
    LAST_WORDS,
    RETRY,
    SIDE,
    SIDE_REPORT,
    SIDE_SOURCE,
    SPECIFIC,
    TEST_DETAIL,
    VAGUE_EXCEPTION,
    is_generic,
)

UNSURE = 0.78
"""The most that a finding gets beside another one that says something else."""
_LEAST, _SIGN = 0.4, 0.55
"""The least score of a finding that others give way to: where the other one is known to be something else, and otherwise."""
_BEHIND, _DISMISSED, _COUNTS = 0.02, 0.6, 0.3
"""How far a finding stays behind the other one; its share; the least score of one that is compared."""
_NOT_SIGNS = ("exit-signal", "output", "last-line", "warning-record", "trace-top")
_ATTEMPT = re.compile(r"\b(?:attempt|try|retry) #?(\d{1,4})\b", re.IGNORECASE)
_PLACE = re.compile(r"((?:psql:)?[^\s:]{1,200}):(\d{1,7})(?::\d{1,7})?: ")
_MILD_REPORT = re.compile(r":\d+: (?:note|info|style|hint|warning): ")
"""What compilers and checkers of code report beside errors."""
_END_OF_SHELL = re.compile(
    r": (?:line )?\d+: .{1,200}: (?:unbound variable|parameter (?:null or )?not set|bad substitution|readonly variable)$"
)
_MISSING = re.compile(
    r"(?:do(?:es)? not|doesn't) exist|[Nn]o such|[Nn]ot found|cannot (?:stat|access|open)|[Uu]nknown (?:table|column|database|view)"
    r"|UNRESOLVED|n'existe pas"
    r"|existiert nicht|[Uu]nbekannte|nicht gefunden|no existe|non esiste|não existe|bestaat niet|nie istnieje|не существует"
    r"|存在しません|不存在|존재하지"
)
"""A message on a thing that is not there."""
_TEST_TITLE = re.compile(r"\s*(?:● \S.{0,200} › |[1-9][0-9]*\) \S|(?:FAIL|ERROR): test\w* \(|-{70}$)")
"""What precedes the exception of a failed test."""
_QUOTED = re.compile(r"> |\| |<[!a-zA-Z/]|remote: ")
_PROGRAM = re.compile(r"(?:[\w./+-]{1,60}|Error(?: [a-z]+){1,4}): ")
_SUBJECT = re.compile(r"[^\w\n]{0,4}(?:[\w-]+ ){0,4}[\w-]+(?=: )")
"""What a message is about, by its begin."""
_NEAR_LINES, _QUOTED_LINES, _COUNTED_AFTER_LINES, _CAUSE_LINES = 10, 12, 3, 4
_RECURRING_LINES, _COUNTED_LINES, _SURVIVED_LINES, _RESULT_LINES = 3, 20, 2, 20
"""Ordinary lines."""
_NEAR_STEPS, _WORKS, _CALM_LINES = 2, 2, 2
_CAUSE = re.compile(r"(?:caused by|cause): ", re.IGNORECASE)

_Rule = Callable[["_Rivals", ScoredLine, ScoredLine], bool]


class _Rivals:
    """The findings that are compared. ``recurring``: lines of failures alike that the run went on between; ``odd``: those
    that are odd among lines of the work."""

    def __init__(self, findings: Sequence[ScoredLine], course: Course, odd: Collection[int]) -> None:
        self.course, self.odd = course, odd
        places: dict[str, list[ScoredLine]] = {}
        for each in findings:
            places.setdefault(usual_form(each.message), []).append(each)
        self.recurring = {each.line for of in places.values() if _is_outlived(of, course) for each in of}
        self.step = max(course.steps, default=-1)
        self.sides = {each.line for each in findings if is_of_side_activity(each, course.texts.get(each.line + 1, ""))}
        self.counts = {each.line for each in findings if COUNT.search(each.message)}
        details = [each for each in findings if course.is_tested and _is_detail_of_test(each)]
        titles = {each.line for each in details if each.message.startswith("not ok ")}
        self.details = {each.line for each in details} - titles or titles
        self.signs = {each.line for each in findings if _is_sign(each)}
        self.has_exited = bool(course.exited) and any(_is_of(each, course.exited) for each in findings)


def _is_outlived(of: Sequence[ScoredLine], course: Course) -> bool:
    """Whether the run went on with its work between failures that are alike, not only with the next attempt."""
    progresses = [each.progress for each in of]
    if max(progresses) - min(progresses) < _RECURRING_LINES:
        return False
    first, last = min(each.line for each in of), max(each.line for each in of)
    late = sum(each.line >= course.begin for each in of)
    return max(course.begin, first) >= last or course.works_between(first, last) >= max(_WORKS, late)


def _is_of(finding: ScoredLine, program: str) -> bool:
    return bool(finding.source) and finding.source.split(" ")[0] == program


def _is_record(finding: ScoredLine) -> bool:
    return finding.level in (FATAL, ERRORS)


def is_of_side_activity(finding: ScoredLine, after: str = "") -> bool:
    """Whether a finding is about what a run does beside its work. ``after``: the message of the next line, if that has no level."""
    texts = (finding.context, finding.message, "" if _PROGRAM.match(after) else after)
    subject = "" if finding.start is not None else _SUBJECT.match(finding.message)
    sources = (finding.source, subject[0] if subject else "")
    return any(map(_is_side_source, filter(None, sources))) or any(map(_is_side, filter(None, texts)))


@lru_cache(maxsize=128)
def _is_side_source(source: str) -> bool:
    return SIDE_SOURCE.search(source) is not None


@lru_cache(maxsize=256)
def _is_side(text: str) -> bool:
    return SIDE.search(text) is not None or SIDE_REPORT.search(text) is not None


def _is_other_activity(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """Errors of what a run does beside its work."""
    return weak.line in rivals.sides and strong.line not in rivals.sides


def _is_other_program(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The program that ended with an error is to blame."""
    return rivals.has_exited and _is_of(strong, rivals.course.exited) and not _is_of(weak, rivals.course.exited)


def _is_of_test(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """Of failed tests, what the first one expected."""
    return strong.line in rivals.details and (weak.line not in rivals.details or weak.line > strong.line)


def _is_detail_of_test(finding: ScoredLine) -> bool:
    return (
        TEST_DETAIL.search(finding.message) is not None or finding.rule == "test" or _TEST_TITLE.match(finding.before) is not None
    )


def _is_quoted(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """What another program answered, after the run's own report."""
    is_after = 0 < weak.begin - strong.line <= _QUOTED_LINES
    return is_after and _QUOTED.match(weak.before or weak.message) is not None and not _QUOTED.match(strong.message)


def _is_earlier_attempt(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    one, other = _ATTEMPT.search(weak.message), _ATTEMPT.search(strong.message)
    return one is not None and other is not None and weak.source == strong.source and int(one[1]) < int(other[1])


def _is_recurring(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The run lived with it until something else happened."""
    return weak.line in rivals.recurring and strong.line not in rivals.recurring


def _is_answered(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The run answered it, and failed later."""
    return (
        weak.line < strong.begin
        and usual_form(weak.message) != usual_form(strong.message)
        and rivals.course.is_answered(weak.line, strong.begin)
    )


def _is_before_command(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A shell that traces its commands went on."""
    return weak.line < rivals.course.command < strong.line


def _is_survived(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The run went on until another part of it failed."""
    return (
        strong.progress - weak.progress >= _SURVIVED_LINES
        and bool(weak.source and strong.source)
        and weak.source != strong.source
        and not rivals.course.is_cleaned(weak.line, strong.line)
    )


def _is_before_step(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The run went on with its steps."""
    is_of_program = weak.level == PLAIN or weak.start is not None or strong.start is not None or strong.rule == "exception-line"
    is_of_program = is_of_program or not rivals.course.has_records
    if not is_of_program or strong.line in rivals.counts or _is_conclusion_of(weak, strong):
        return False
    course, end = rivals.course, strong.begin + 1
    return course.steps_between(weak.line, end) > 0 or course.calm_between(weak.line, end) >= _CALM_LINES


def _is_after_failed_step(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """What fails after the failure of the last step."""
    is_first = 0 <= rivals.step < strong.begin and strong.line < weak.begin
    return (
        is_first
        and _is_of_program(weak)
        and weak.rule not in ("detail", "exception-line")
        and strong.start is None
        and not strong.message.endswith(":")
        and weak.message.split(":")[0] != strong.message.split(":")[0]
    )


def _is_continued(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The run went on with the same work."""
    is_earlier = (
        weak.line < strong.begin and strong.line not in rivals.counts and usual_form(weak.message) != usual_form(strong.message)
    )
    return is_earlier and not _is_conclusion_of(weak, strong) and rivals.course.is_continued(weak.line, strong.line)


def _is_conclusion_of(weak: ScoredLine, strong: ScoredLine) -> bool:
    """Whether a program that reported a known failure only ends with another message."""
    one, other = (_PROGRAM.match(each.message) for each in (weak, strong))
    return bool(weak.family and not strong.family and one and other and one[0] == other[0])


def _is_beside_main(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The part of the run that does most of its work is to blame, if it says what failed."""
    main = rivals.course.main
    is_other = bool(main) and strong.source == main != weak.source and bool(weak.source) and _is_record(weak) and _is_record(strong)
    return is_other and (weak.line > strong.line or strong.progress > weak.progress)


def _is_cleaning(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """What fails while the run ends."""
    return strong.line < weak.begin and rivals.course.is_cleaned(strong.line, weak.begin)


def _is_aftermath(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """What fails after the run said that it failed."""
    progress = weak.progress + _is_of_program(weak)
    return strong.line < weak.begin and weak.rule != "detail" and rivals.course.is_concluded(strong.line, weak.begin, progress)


def _is_after_exit(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """What fails after the run reported its exit code."""
    if strong.rule == "output" and rivals.course.exit - strong.line > _NEAR_STEPS:
        return False
    return strong.line < rivals.course.exit < weak.line


def _is_stranger(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The only record of a log of other lines: another program's."""
    is_alone = _is_record(weak) and not rivals.course.has_records and len(rivals.course.calm) >= _CALM_LINES
    return is_alone and strong.level == PLAIN and weak.line < strong.line and strong.line not in rivals.counts


def _is_of_program(finding: ScoredLine) -> bool:
    """Whether it is a message of a program, not a trace or a record: another command."""
    return finding.start is None and finding.level == PLAIN and _PROGRAM.match(finding.message) is not None


def _is_before_end_of_shell(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A shell ends with some errors, whatever it did about others."""
    return weak.line < strong.line and weak.level == PLAIN and _END_OF_SHELL.search(strong.message) is not None


def _is_missing_result(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A file that the command before should have written."""
    return (
        weak.rule == "missing-file" != strong.rule
        and weak.level == PLAIN == strong.level
        and 0 < weak.line - strong.line <= _NEAR_LINES
        and _PROGRAM.match(weak.message) is not None
        and _PROGRAM.match(strong.message) is not None
        and rivals.course.steps_between(strong.line, weak.line) <= _NEAR_STEPS
    )


def _reporter(finding: ScoredLine) -> str:
    """The word with which a program begins its messages."""
    return finding.message.split(":")[0].split(" ")[0]


def _is_missing_thing(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A table and the like that would be there if the same program had not failed before."""
    return (
        strong.line < weak.begin
        and weak.progress - strong.progress <= _RESULT_LINES
        and _MISSING.search(weak.message) is not None
        and _MISSING.search(strong.message) is None
        and _is_record(weak) == _is_record(strong)
        and weak.source == strong.source
        and _reporter(weak) == _reporter(strong) != "error"
        and not rivals.course.is_answered(strong.line, weak.begin)
    )


def _is_below_fatal(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """The exception that a record of the highest level reports ended the run."""
    return strong.start is not None and strong.level == FATAL and weak.level == ERRORS


def _is_later_statement(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A later place in a file that a program reads to its end."""
    one, other = _PLACE.match(weak.message), _PLACE.match(strong.message)
    is_later = one is not None and other is not None and one[1] == other[1] and int(other[2]) < int(one[2])
    return is_later and strong.line < weak.line and not _MILD_REPORT.search(strong.message)


def _is_explained(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """Its cause follows, in lines that are called so."""
    return 0 < strong.line - weak.line <= _CAUSE_LINES and _CAUSE.match(strong.message) is not None


def _is_count(rivals: _Rivals, weak: ScoredLine, strong: ScoredLine) -> bool:
    """A summary of what was reported before."""
    is_near = weak.progress - strong.progress <= _COUNTED_LINES and strong.line - weak.line <= _COUNTED_AFTER_LINES
    return is_near and weak.line in rivals.counts and strong.line not in rivals.counts


_RULES: Sequence[tuple[_Rule, float, bool]] = (
    (_is_other_activity, _LEAST, False),
    (_is_other_program, _LEAST, False),
    (_is_after_exit, _COUNTS, False),
    (_is_of_test, 0.2, True),
    (_is_quoted, _SIGN, True),
    (_is_earlier_attempt, _SIGN, True),
    (_is_recurring, _SIGN, False),
    (_is_answered, _SIGN, False),
    (_is_before_command, _LEAST, False),
    (_is_before_end_of_shell, _LEAST, False),
    (_is_below_fatal, _SIGN, False),
    (_is_cleaning, _LEAST, True),
    (_is_aftermath, _SIGN, True),
    (_is_missing_result, _SIGN, True),
    (_is_missing_thing, _LEAST, True),
    (_is_later_statement, _LEAST, True),
    (_is_count, _LEAST, True),
    (_is_explained, 0.2, True),
    (_is_stranger, 0.5, False),
    (_is_survived, _SIGN, False),
    (_is_continued, 0.5, False),
    (_is_beside_main, _SIGN, False),
    (_is_before_step, 0.5, False),
    (_is_after_failed_step, _LEAST, True),
)
"""When a finding gives way to another one, the least score of the other one, and whether that takes over the score because the finding follows
from it."""
_GOING_ON = (_is_answered, _is_survived, _is_continued, _is_before_step)
"""What is no rule for a line that is odd among others of the work: that goes on with the next item."""
_NEAREST = (_is_cleaning, _is_aftermath, _is_explained)
"""Of equally good other ones, the last counts."""


def compared(findings: Sequence[ScoredLine], course: Course) -> list[ScoredLine]:
    """The findings, each line once, with the scores after all comparisons."""
    best: dict[int, ScoredLine] = {}
    for each in findings:
        if each.line not in best or (each.score, each.is_latest) > (best[each.line].score, best[each.line].is_latest):
            best[each.line] = each
    records = _forms_of_records(findings)
    candidates = [_alone(each, records) for each in best.values()]
    rivals = _Rivals(candidates, course, {each.line for each in findings if each.rule == "odd-line"})
    losers: set[int] = set()
    for rule, least, takes_over in _RULES:
        for weak, strong in _pairs(candidates, rivals, rule, least, losers):
            losers.add(weak)
            won, lost = candidates[strong], candidates[weak]
            score = max(won.score, min(lost.score, UNSURE)) if takes_over else won.score
            candidates[strong] = replace(won, score=score)
            candidates[weak] = replace(lost, score=min(lost.score * (1.0 if takes_over else _DISMISSED), score - _BEHIND))
            for at, each in enumerate(candidates):
                if rule is _is_later_statement and at not in losers and lost.line < each.line and each.message in lost.message:
                    losers.add(at)
                    candidates[at] = replace(each, score=min(each.score, score - _BEHIND))
    return candidates


def _forms_of_records(findings: Sequence[ScoredLine]) -> set[str]:
    """Forms of records that no trace follows."""
    starts = {each.start for each in findings if each.start is not None}
    first = min(starts) if len(starts) >= MAX_INCIDENTS else -1  # earlier traces were forgotten
    return {usual_form(each.message) for each in findings if each.start is None and each.line not in starts and each.line > first}


def _alone(finding: ScoredLine, records: Collection[str]) -> ScoredLine:
    """A trace apart from the record before it, if that is one of several alike of another activity."""
    is_apart = finding.start is not None and usual_form(finding.context) in records
    return replace(finding, source="", context="", level=PLAIN) if is_apart else finding


def _pairs(
    candidates: Sequence[ScoredLine], rivals: _Rivals, rule: _Rule, least: float, losers: Collection[int]
) -> Iterator[tuple[int, int]]:
    """For each finding that gives way: its place, and that of the best one that it gives way to."""

    def is_sign(finding: ScoredLine) -> bool:
        return finding.line in rivals.signs or (finding.rule == "output" and rule in (_is_later_statement, _is_after_exit))

    for at in range(len(candidates)):
        weak = candidates[at]
        is_survivor = (weak.line in rivals.odd or LAST_WORDS.match(weak.message) is not None) and rule in _GOING_ON
        if weak.score >= _COUNTS and weak.rule != "last-line" and not is_survivor:
            better = [
                other
                for other, each in enumerate(candidates)
                if other != at
                and other not in losers
                and each.score >= least
                and is_sign(each)
                and (each.line not in rivals.sides or weak.line in rivals.sides)
                and (each.line not in rivals.recurring or weak.line in rivals.recurring)
                and rule(rivals, weak, each)
            ]
            if better:
                sign = 1 if rule in _NEAREST else -1
                yield at, max(better, key=lambda place: (round(candidates[place].score, 2), sign * candidates[place].line))


def _is_sign(finding: ScoredLine) -> bool:
    if (
        finding.rule in _NOT_SIGNS
        or finding.level in (WARNINGS, INFO)
        or CONSEQUENCE.search(finding.message)
        or RETRY.search(f"{finding.context} {finding.message}")
    ):
        return False
    if is_generic(finding.message) or (_is_record(finding) and CLEANING.match(finding.message)):
        return False
    if finding.start is not None:
        return VAGUE_EXCEPTION.match(finding.message) is None or bool(finding.family)
    return not (
        _is_record(finding) and (CONCLUSION.search(finding.message) or not (finding.family or SPECIFIC.search(finding.message)))
    )
