"""Chooses the lines that explain a failure among what a pass remembers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from chalicelib.explanation.course import Course, odd_lines
from chalicelib.explanation.evidence import PYTHON, WORKER, Evidence, Incident, Note
from chalicelib.explanation.families import RULES, FamilyRule
from chalicelib.explanation.foreign import rule_of_foreign
from chalicelib.explanation.reading import is_warned
from chalicelib.explanation.rivals import UNSURE, compared, is_of_side_activity
from chalicelib.explanation.scored_line import ScoredLine
from chalicelib.explanation.texts import (
    ERRORS,
    FATAL,
    INFO,
    LEVEL_NAMES,
    PLAIN,
    WARNINGS,
    container_of,
    message_of,
    quick_level,
    source_and_message,
    usual_form,
)
from chalicelib.explanation.wrappers import (
    ADVICE,
    BAD_NEWS,
    CLEANING,
    COMMAND,
    CONCLUSION,
    CONSEQUENCE,
    CONTEXT,
    EXIT_SIGNAL,
    LAST_COMMAND,
    LAST_WORDS,
    MILD,
    NAMED_EXCEPTION,
    NO_ERROR,
    RETRY,
    SPECIFIC,
    STRICT,
    VAGUE_EXCEPTION,
    is_generic,
    is_wrapper,
)
from chalicelib.ports import RunEnd

STRUCTURE: Mapping[str, tuple[float, str]] = {
    "python-root": (0.92, "the root of a chain of Python tracebacks"),
    "trace-root": (0.92, "the deepest cause of a stack trace of Java or JavaScript"),
    "worker-root": (0.93, "the Python exception within a stack trace of Spark"),
    "trace-top": (0.5, "the exception that was not handled, of a chain with another root"),
    "fatal-record": (0.74, "a record of the highest level"),
    "error-record": (0.62, "a record with level ERROR"),
    "warning-record": (0.3, "a record with level WARNING"),
    "exit-signal": (0.5, "the report of an exit by a signal"),
    "detail": (0.72, "the line that a message announces"),
    "test": (0.76, "what a failed test reports"),
    "odd-line": (0.55, "a line that begins like others, which differ only in numbers, and ends otherwise"),
    "output": (0.45, "the last output before the report of an exit code"),
    "last-line": (0.2, "the last lines of a log without a sign of a failure"),
}
"""Rules on the place of a line: score, and text for the documentation."""
_Steps = tuple[tuple[int, float], ...]
"""(at most so many lines, share of the score)."""
_CHAIN_DECAY: _Steps = ((15, 1.0), (30, 0.92), (60, 0.86), (1000, 0.8))
_NOTE_DECAY: _Steps = ((3, 1.0), (30, 0.93), (150, 0.87), (1000, 0.72))
"""The share of the score by the ordinary lines between a trace or a line and the end of the log."""
_OVERTAKEN: _Steps = ((5, 1.0), (9, 0.9), (30, 0.75))
"""The share by the ordinary lines between a finding and the last sign of a failure: the run went on."""
_AFTER_MORE = 0.6
_ANNOUNCING, _ANNOUNCE_CHARS = 0.7, 120
"""The share of a message of at most so many characters that ends with a colon: the next lines say more."""
_FEW_WORDS = 0.6
"""The share of an announced line of less than three words, such as a name or a number."""
_BARE = 0.9
"""The share of an exception without a message."""
_UNNAMED = 0.84
"""The share of what stands before frames and names no exception: perhaps the end of a long message."""
_FAMILY_BONUS = 0.14
_RIGHT_BEFORE = 2
"""Lines."""
_BAD_NEWS, _TIE = 0.05, 0.005
"""What lines without any word of a failure get for words of disappointment: the last lines of a log, and others."""
_STRONG = 0.6
"""From here on a finding is a sign that the run failed after all earlier ones."""
_PARTING = 0.9
"""The share of output that only tells of the end."""
_ECHO, _CALM, _VAGUE, _INDENTED = 0.6, 0.7, 0.85, 0.8
"""The share of the echo of a command, of a program's message without a word of a failure, of a message without particulars, and of output that is
indented: it belongs to what stands before."""
_TOOL = re.compile(r"[a-z][\w.-]{0,30}: ")
_FAILING = re.compile(f"{RULES[-1].pattern}|(?i:fail|error|fatal|panic|overflow|cut off|truncated|unterminated)")
_WENT_ON = 3
"""Lines without a sign of a failure after a finding that make it doubtful."""
_LAST_WORD, _LAST_DISTANCE = 0.56, 2
"""The score of words of a failure with at most so many ordinary lines after them."""
_OTHER_TRACE, _TRACED = re.compile(rb"\s*(?:while executing|invoked from within|stack traceback:|[Bb]acktrace:|Call stack:)$"), 0.62
"""The line after an error of Tcl, Lua and others; the score of the error."""
_REMOTE = b"remote: "
"""The begin of what the hook of a repository answers, before the line that says that it declined."""
_DRAWN = ("| ", "+-", "│", "╰", "├", "╭")
"""Begins of lines of tables and drawings."""
_RELAYED = 0.75
"""The share of a record with level INFO right before the report of an exit code: perhaps the output of a program."""
_LAST_LINES = 6
"""The last lines of a log, which are its explanation if nothing else is."""
_SIGN, _NO_SIGNS = 0.19, ("exit-signal", "output", "last-line", "warning-record")
"""From here on a finding is a sign of a failure, except by these rules."""
_DOUBTFUL, _LATER, _WEAK, _ALONE, _LAST = 0.65, 0.4, 0.3, 0.81, 5
"""From which score on another finding right before or after, or after a later step, makes the first one doubtful; below which it does not
count; the least score of one that is alone, with at most so many ordinary lines after it."""
_FAMILIES_OF_EXIT = {
    137: ("memory", "killed"),
    139: ("crash",),
    134: ("crash",),
    143: ("killed",),
    127: ("missing",),
    126: ("permission", "missing"),
    124: ("timeout",),
}
_MIN = 0.05
_USUAL = 0.4
"""The share of what stands in successful runs, too."""
_NUMBERS, _WORDS = re.compile("[0-9]+"), re.compile(r"[^\W\d_]{2,}")


def rank(evidence: Evidence, progress: int, end: RunEnd | None, usual: Collection[str] = ()) -> list[ScoredLine]:
    """The lines that may explain the failure, the best first, each text once. ``usual``: forms of messages that are no sign of a failure,
    because successful runs have them, too."""
    findings = [finding for incident in evidence.incidents for finding in _of_incident(incident, progress)]
    notes = [(pool, note) for pool, note in evidence.notes() if not _is_in_trace(note, evidence)]
    announcing = {note.line - before for _, note in notes if note.role == "detail" for before in (1, 2, 3)}
    if any(b"arning" in note.raw and STRICT.search(note.text) for note in evidence.tail):
        notes = [("error" if pool == "warning" else pool, note) for pool, note in notes]
    findings.extend(_of_note(pool, note, progress, note.line in announcing and not note.role) for pool, note in notes)
    findings.extend(_of_tails(evidence, progress, {note.line for _, note in notes}))
    findings.extend(_odd(note, progress) for note in odd_lines(evidence.tail))
    findings = [_lowered(finding) if usual_form(finding.message) in usual else finding for finding in findings]
    findings = _reported_before(findings)
    strong = [
        finding
        for finding in findings
        if finding.score >= _STRONG and finding.rule != "detail" and not is_of_side_activity(finding)
    ]
    findings = [_overtaken(finding, strong) for finding in findings]
    findings = [_with_end(finding, end) for finding in findings if finding.score >= _MIN and finding.message]
    signs = {each.line for each in findings if each.score >= _WEAK and each.rule not in _NO_SIGNS}
    signs.update(note.line for note in evidence.tail if _is_in_trace(note, evidence))
    course = Course.of(evidence.tail, [note for _, note in notes], signs, (end and end.exit_code) or 0)
    findings.extend(_before_exit(evidence.tail, course, progress))
    findings = compared(findings, course)
    if any(finding.rule != "last-line" and finding.score > STRUCTURE["last-line"][0] for finding in findings):
        findings = [finding for finding in findings if finding.rule != "last-line"]
    findings = _exits_below(findings)
    findings = sorted(findings, key=lambda each: (-round(each.score, 3), -each.line if each.is_latest else 0, each.line))
    again = Counter(usual_form(each.message) for each in {each.line: each for each in findings}.values())
    return _doubted(list(_distinct(findings)), progress, course, again)


def _before_exit(tail: Sequence[Note], course: Course, progress: int) -> Iterator[ScoredLine]:
    """The last line before the report of the run's exit code."""
    before = next((note for note in reversed(tail) if note.line < course.exit and _is_output(note)), None)
    if before is not None and quick_level(before.raw) == PLAIN and not before.raw[:1].isspace():
        yield _of_note("output", before._replace(role="output", progress=progress), progress, False)


def _is_output(note: Note) -> bool:
    message = message_of(note.raw)
    return len(_WORDS.findall(message)) > 1 and LAST_COMMAND.match(message) is None


def _lowered(finding: ScoredLine) -> ScoredLine:
    return replace(finding, score=finding.score * _USUAL)


def _is_in_trace(note: Note, evidence: Evidence) -> bool:
    return any(incident.before.line < note.line <= incident.end for incident in evidence.incidents)


def _reported_before(findings: list[ScoredLine]) -> list[ScoredLine]:
    """A known failure that is reported right before an exception that says little is the cause of the exception."""
    vague = [each for each in findings if not each.family and _says_little(each)]
    ends = {(each.line, tool[0]) for each in findings if CONCLUSION.search(each.message) and (tool := _TOOL.match(each.message))}
    findings = [replace(each, score=max(each.score, UNSURE)) if _is_ended(each, ends) else each for each in findings]
    return [replace(each, score=max(each.score, _score_before(each, vague))) if _states_cause(each) else each for each in findings]


def _is_ended(finding: ScoredLine, ends: Collection[tuple[int, str]]) -> bool:
    """Whether the next line is that with which the same program gives up."""
    tool = _TOOL.match(finding.message)
    return tool is not None and (finding.line + 1, tool[0]) in ends


def _says_little(finding: ScoredLine) -> bool:
    """Whether it is a vague exception, or a record of an error that only ends the run."""
    if finding.start is not None:
        return VAGUE_EXCEPTION.match(finding.message) is not None
    return finding.level in (FATAL, ERRORS) and CONCLUSION.search(finding.message) is not None


def _states_cause(finding: ScoredLine) -> bool:
    return bool(finding.family) or (finding.level == ERRORS and finding.rule == "error-record" and not _says_little(finding))


def _score_before(finding: ScoredLine, vague: Iterable[ScoredLine]) -> float:
    """What a finding gets for the vague ones that follow it."""
    follow = (each for each in vague if 0 < each.begin - finding.line <= _RIGHT_BEFORE or each.start == finding.line)
    if finding.start is not None or finding.level == INFO or CONSEQUENCE.search(finding.message):
        return 0.0
    return max((min(each.score + 0.01, UNSURE) for each in follow), default=0.0)


def _overtaken(finding: ScoredLine, strong: Iterable[ScoredLine]) -> ScoredLine:
    """With a lower score if another failure came later. One of the same family repeats or follows from it."""
    others = (each for each in strong if each.message != finding.message and (not each.family or each.family != finding.family))
    later = [(each.progress - finding.progress, each.level) for each in others]
    score = finding.score * _decay(max((distance for distance, _ in later), default=0), _OVERTAKEN)
    levels = {level for distance, level in later if distance >= _RIGHT_BEFORE}
    return replace(finding, score=min(score, UNSURE) if levels & {FATAL, ERRORS} else score)


def _exits_below(findings: list[ScoredLine]) -> list[ScoredLine]:
    """The report of an exit by a signal gets less than any other sign of a failure, however early it is."""
    signs = [each.score for each in findings if each.rule not in _NO_SIGNS and each.score >= _SIGN]
    most = max(signs, default=1.0) - 0.01
    return [replace(each, score=min(each.score, most)) if each.rule == "exit-signal" else each for each in findings]


def _distinct(findings: Iterable[ScoredLine]) -> Iterator[ScoredLine]:
    texts: set[str] = set()
    lines: set[int] = set()
    for finding in findings:
        key = usual_form(finding.message)
        if key not in texts and finding.line not in lines:
            texts.add(key)
            lines.add(finding.line)
            yield finding


def _doubted(findings: list[ScoredLine], progress: int, course: Course, again: Mapping[str, int]) -> list[ScoredLine]:
    """The first finding is not certain if another one says something else about as surely, or surely after it or right before it, or if
    the run reports a step between, or if the run went on. It is certain if nothing else was reported and the log ends right after it."""
    if not findings:
        return []
    first, step = findings[0], max(course.steps, default=-1)
    goes_on = (
        first.rule not in ("test", "odd-line")
        and course.calm_between(first.line, course.exit if course.exit > first.line else course.end) >= _WENT_ON
    )
    others = [each for each in findings[1:] if each.rule not in _NO_SIGNS and not _agree(first, each)]
    is_elsewhere = first.start is None and any(
        each.rule == "output" and each.score >= _LATER and not _agree(first, each) for each in findings[1:]
    )
    doubts = (goes_on, is_elsewhere, is_of_side_activity(first), any(_is_doubt(first, each, step) for each in others))
    if first.score > UNSURE and any(doubts):
        first = replace(first, score=UNSURE)
    is_last = progress - first.progress <= _LAST and first.rule not in _NO_SIGNS
    if (
        first.score >= _STRONG
        and is_last
        and again[usual_form(first.message)] == 1
        and not is_of_side_activity(first)
        and all(each.score < _WEAK for each in others)
    ):
        first = replace(first, score=max(first.score, _ALONE))
    return [first, *(replace(each, score=min(each.score, first.score)) for each in findings[1:])]


def _is_doubt(first: ScoredLine, other: ScoredLine, step: int) -> bool:
    if first.line < step < other.line and other.score >= _LATER:
        return True
    is_near = other.line > first.line or first.progress - other.progress < _RIGHT_BEFORE
    return round(other.score - first.score, 3) >= -0.08 or (is_near and other.score >= _DOUBTFUL)


def _agree(one: ScoredLine, other: ScoredLine) -> bool:
    texts = [re.sub(r"^[\w.$]+: ", "", each.message)[:80] for each in (one, other)]
    return texts[0] in other.message or texts[1] in one.message or bool(one.family and one.family == other.family)


def _decay(distance: int, steps: _Steps) -> float:
    return next((factor for most, factor in steps if distance <= most), _AFTER_MORE)


@lru_cache(maxsize=256)
def rule_of(message: str) -> FamilyRule | None:
    """The first rule that matches a message."""
    rule = next((rule for rule in RULES if rule.search.search(message)), None)
    if (rule is None or not rule.family) and (name := rule_of_foreign(message)):
        return next(rule for rule in RULES if rule.name == name)
    return rule


def _of_incident(incident: Incident, progress: int) -> Iterator[ScoredLine]:
    root, last = incident.root, incident.last
    if root is None or last is None:
        return
    name = "python-root" if incident.kind == PYTHON else "worker-root" if incident.kind == WORKER else "trace-root"
    factor = _decay(progress - incident.progress, _CHAIN_DECAY) * _context_factor(incident.before)
    if incident.kind == PYTHON and is_wrapper(message_of(root.raw)):
        yield _of_note("output", incident.before._replace(role="output"), progress, False)
    top = message_of(last.raw) if incident.kind != PYTHON else ""
    yield _of_exception(root, name, STRUCTURE[name][0] * factor, incident.before, top)
    if last.line != root.line:
        yield _of_exception(last, "trace-top", STRUCTURE["trace-top"][0] * factor, incident.before)


def _of_exception(note: Note, name: str, score: float, before: Note, top: str = "") -> ScoredLine:
    message = message_of(note.raw)
    rule = rule_of(message)
    if is_wrapper(message):
        score *= 0.4
    elif CONSEQUENCE.search(message):
        score *= 0.5
    elif rule is None or not rule.family:
        score *= 0.8 if VAGUE_EXCEPTION.match(message) else 0.65 if message.endswith(":") else 1.0
        score *= _UNNAMED if name == "trace-root" and not NAMED_EXCEPTION.search(message) else 1.0
    score *= _BARE if ":" not in message else 0.5 if message.endswith(("{", "[", "(")) else 1.0
    score *= 0.6 if message.startswith(_DRAWN) else 1.0
    family = rule.family if rule else ""
    level = min(quick_level(before.raw), PLAIN)
    source, context = source_and_message(before.raw)
    if level == PLAIN:
        source, context = container_of(before.raw), top
    score += 0.01 * bool(family)
    return ScoredLine(
        note.line, message, name, family, score, note.progress, True, level, before.line, source, context, before.text
    )


def _context_factor(before: Note) -> float:
    """By what announces a trace."""
    text = before.text
    if CONSEQUENCE.search(text):
        return 0.5
    level = quick_level(before.raw)
    factor = 0.85 if level == WARNINGS else 1.0
    return factor * 0.75 if RETRY.search(text) and level != FATAL else factor


def _of_note(pool: str, note: Note, progress: int, announces: bool) -> ScoredLine:
    source, message = source_and_message(note.raw)
    rule = rule_of(message)
    level = LEVEL_NAMES.index(pool) if pool in LEVEL_NAMES else PLAIN
    if EXIT_SIGNAL.search(message) and (rule is None or rule.family != "memory"):
        return ScoredLine(note.line, message, "exit-signal", "killed", STRUCTURE["exit-signal"][0], note.progress, source=source)
    share = 1.0
    if note.role == "output" and (own := quick_level(note.raw)) in (WARNINGS, INFO):
        level, note, share = (own, note._replace(role=""), 1.0) if rule or own == WARNINGS else (PLAIN, note, _RELAYED)
    if LAST_WORDS.match(message):
        note = note._replace(progress=progress)
    name, score = _base(note, level, rule, progress - note.progress <= _LAST_DISTANCE)
    score *= _decay(progress - note.progress, _NOTE_DECAY) * _doubt(message, note.role) * (0.8 if announces else 1.0) * share
    score *= _PARTING if note.role == "output" and CLEANING.match(message) else 1.0
    score *= _VAGUE if not (note.role or is_known(rule) or SPECIFIC.search(message)) else 1.0
    score *= _INDENTED if note.role == "output" and note.raw[:1].isspace() else 1.0
    score *= _ECHO if note.role in ("output", "detail") and COMMAND.match(message) else 1.0
    score *= _CALM if rule is not None and rule.name == "tool-error" and _is_calm(message) else 1.0
    score += _TIE * (rule is None and BAD_NEWS.search(message) is not None)
    if note.role == "detail" and rule is None and len(_WORDS.findall(message)) < 3:
        score *= _FEW_WORDS
    family = rule.family if rule else ""
    return ScoredLine(note.line, message, name, family, score, note.progress, note.role == "output", level=level, source=source)


def _is_calm(message: str) -> bool:
    """Whether only the begin of a message, the name of a program, lets it look like a failure."""
    return _TOOL.match(message) is not None and not (_FAILING.search(message) or BAD_NEWS.search(message))


def is_known(rule: FamilyRule | None) -> bool:
    return rule is not None and bool(rule.family)


def _base(note: Note, level: int, rule: FamilyRule | None, is_last: bool) -> tuple[str, float]:
    if note.role == "test":
        return "test", STRUCTURE["test"][0]
    if note.role:
        score = STRUCTURE[note.role][0]
        return (rule.name, max(score, rule.score)) if rule and rule.score > score else (note.role, score)
    if level in (FATAL, ERRORS):
        name = "fatal-record" if level == FATAL else "error-record"
        return (rule.name if rule and rule.family else name), min(0.86, STRUCTURE[name][0] + is_known(rule) * _FAMILY_BONUS)
    if level == PLAIN and rule is not None and rule.name == "failure-word" and is_last and b": " in note.raw:
        return rule.name, _LAST_WORD
    if level == PLAIN:
        return (rule.name, rule.score) if rule else ("failure-word", 0.25)
    share = 0.5 if level == WARNINGS else 0.4
    return (rule.name if rule and rule.family else "warning-record"), share * (rule.score if rule else 0.4)


def _doubt(message: str, role: str = "") -> float:
    if NO_ERROR.search(message):
        return 0.1
    if CONTEXT.match(message):
        return 0.3
    if ADVICE.match(message):
        return 0.2
    if is_wrapper(message):
        return 0.25
    if is_generic(message):
        return 0.45
    if CONSEQUENCE.search(message):
        return 0.5
    if message.startswith(_DRAWN) and role != "detail":
        return 0.6
    if MILD.search(message):
        return 0.5
    announces = _ANNOUNCING if message.endswith(":") and len(message) <= _ANNOUNCE_CHARS else 1.0
    return 0.6 * announces if RETRY.search(message) else announces


def _of_tails(evidence: Evidence, progress: int, noted: Collection[int]) -> Iterator[ScoredLine]:
    """The last lines, and those before that a rule knows although they have no word of a failure."""
    after, is_declined = b"", False
    before = (note.raw for note in reversed(evidence.tail[:-1]))
    for place, note in enumerate(reversed(evidence.tail)):
        if _is_in_trace(note, evidence) or is_warned(note.raw, next(before, b"")):
            pass
        elif _OTHER_TRACE.match(after):
            yield ScoredLine(note.line, message_of(note.raw), "exception-line", "", _TRACED, progress - place)
        elif is_declined and note.raw.startswith(_REMOTE):
            is_declined = False
            yield _of_note("detail", note._replace(role="detail", progress=progress - place), progress, False)
        elif place < _LAST_LINES:
            yield _of_tail(note, progress, place)
        elif note.line not in noted and _is_known(note):
            yield _of_note(LEVEL_NAMES[quick_level(note.raw)], note._replace(progress=progress - place), progress, False)
        after, is_declined = note.raw, is_declined or note.raw.rstrip().endswith(b"hook declined)")


def _odd(note: Note, progress: int) -> ScoredLine:
    source, message = source_and_message(note.raw)
    rule = rule_of(message)
    return ScoredLine(
        note.line, message, "odd-line", rule.family if rule else "", STRUCTURE["odd-line"][0], progress, source=source
    )


def _is_known(note: Note) -> bool:
    level = quick_level(note.raw)
    return level in (FATAL, ERRORS) or (level == PLAIN and rule_of(message_of(note.raw)) is not None)


def _of_tail(note: Note, progress: int, place: int) -> ScoredLine:
    """One of the last lines. ``place``: 0 for the last."""
    message, level = message_of(note.raw), quick_level(note.raw)
    rule = rule_of(message)
    if (rule is not None and level not in (INFO, WARNINGS)) or level in (FATAL, ERRORS):
        return _of_note(LEVEL_NAMES[level], note._replace(progress=progress - place), progress - place, False)
    doubt = 1.0 if not place and LAST_COMMAND.match(message) else _doubt(message)
    score = (
        STRUCTURE["last-line"][0] * (1.0 if " " in message else _FEW_WORDS)
        - 0.02 * place
        + _BAD_NEWS * (BAD_NEWS.search(message) is not None)
    )
    return ScoredLine(note.line, message, "last-line", "", score * doubt, progress)


def _with_end(finding: ScoredLine, end: RunEnd | None) -> ScoredLine:
    """What the reported end of the run says for a line."""
    if end is None:
        return finding
    score = finding.score
    if (families := _FAMILIES_OF_EXIT.get(end.exit_code or 0)) is not None:
        score *= 1.12 if finding.family in families else 0.85
    stated = end.exception.strip()
    if (
        stated
        and not is_wrapper(stated)
        and (stated in finding.message or (len(finding.message) > 20 and finding.message in stated))
    ):
        score *= 1.15
    return replace(finding, score=min(score, 0.95))
