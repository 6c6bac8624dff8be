"""Chooses the lines that explain a failure among what a pass remembers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from chalicelib.explanation.evidence import PYTHON, WORKER, Evidence, Incident, Note
from chalicelib.explanation.families import RULES, FamilyRule
from chalicelib.explanation.texts import ERRORS, FATAL, INFO, LEVEL_NAMES, PLAIN, WARNINGS, message_of, quick_level, shorten
from chalicelib.explanation.wrappers import (
    BAD_NEWS,
    CLEARING,
    CONCLUSION,
    CONSEQUENCE,
    CONTEXT,
    EXIT_SIGNAL,
    GENERIC,
    LAST_COMMAND,
    NAMED_EXCEPTION,
    NO_ERROR,
    RETRY,
    VAGUE_EXCEPTION,
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
_OVERTAKEN_BY_FATAL = 0.78
"""The share of what no record of an error reports, if the run goes on until a fatal record says something else."""
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
_SIGN, _NO_SIGNS = 0.19, ("exit-signal", "output", "last-line", "warning-record")
"""From here on a finding is a sign of a failure, except by these rules."""
_UNSURE = 0.78
"""The most that a finding gets beside another one that says something else."""
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
_NUMBERS = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """A line with what speaks for it. ``message``: its text; ``progress``: the number of ordinary lines before it;
    ``is_latest``: of equally good ones, the last is the best; ``start``: the line before the trace of an exception."""

    line: int
    message: str
    rule: str
    family: str
    score: float
    progress: int = 0
    is_latest: bool = False
    level: int = PLAIN
    start: int | None = None

    def text(self, limit: int) -> str:
        """The message for people."""
        return shorten(self.message, limit)


def usual_form(message: str) -> str:
    """A message with its numbers replaced: so runs of one pipeline are compared."""
    return _NUMBERS.sub("0", message)


def rank(evidence: Evidence, progress: int, end: RunEnd | None, usual: Collection[str] = ()) -> list[ScoredLine]:
    """The lines that may explain the failure, the best first, each text once. ``usual``: forms of messages that are no sign of a failure,
    because successful runs have them, too."""
    findings = [finding for incident in evidence.incidents for finding in _of_incident(incident, progress)]
    notes = [(pool, note) for pool, note in evidence.notes() if not _is_in_trace(note, evidence)]
    announcing = {note.line - before for _, note in notes if note.role == "detail" for before in (1, 2, 3)}
    findings.extend(_of_note(pool, note, progress, note.line in announcing and not note.role) for pool, note in notes)
    findings.extend(
        _of_tail(note, progress, place) for place, note in enumerate(reversed(evidence.tail)) if not _is_in_trace(note, evidence)
    )
    findings = [_lowered(finding) if usual_form(finding.message) in usual else finding for finding in findings]
    findings = _reported_before(findings)
    strong = [finding for finding in findings if finding.score >= _STRONG and finding.rule != "detail"]
    findings = [_overtaken(finding, strong) for finding in findings]
    findings = [_with_end(finding, end) for finding in findings if finding.score >= _MIN and finding.message]
    if any(finding.rule != "last-line" and finding.score > STRUCTURE["last-line"][0] for finding in findings):
        findings = [finding for finding in findings if finding.rule != "last-line"]
    findings = _exits_below(findings)
    findings = sorted(findings, key=lambda each: (-round(each.score, 3), -each.line if each.is_latest else 0, each.line))
    return _doubted(list(_distinct(findings)))


def _lowered(finding: ScoredLine) -> ScoredLine:
    return replace(finding, score=finding.score * _USUAL)


def _is_in_trace(note: Note, evidence: Evidence) -> bool:
    return any(incident.before.line < note.line <= incident.end for incident in evidence.incidents)


def _reported_before(findings: list[ScoredLine]) -> list[ScoredLine]:
    """A known failure that is reported right before an exception that says little is the cause of the exception."""
    vague = [each for each in findings if not each.family and _says_little(each)]
    return [replace(each, score=max(each.score, _score_before(each, vague))) if _states_cause(each) else each for each in findings]


def _says_little(finding: ScoredLine) -> bool:
    """Whether it is a vague exception, or a record of an error that only ends the run."""
    if finding.start is not None:
        return VAGUE_EXCEPTION.match(finding.message) is not None
    return finding.level in (FATAL, ERRORS) and CONCLUSION.search(finding.message) is not None


def _states_cause(finding: ScoredLine) -> bool:
    return bool(finding.family) or (finding.level == ERRORS and finding.rule == "error-record" and not _says_little(finding))


def _score_before(finding: ScoredLine, vague: Iterable[ScoredLine]) -> float:
    """What a finding gets for the vague ones that follow it."""
    follow = (each for each in vague if 0 < _start(each) - finding.line <= _RIGHT_BEFORE or each.start == finding.line)
    if finding.start is not None or finding.level == INFO or CONSEQUENCE.search(finding.message):
        return 0.0
    return max((min(each.score + 0.01, _UNSURE) for each in follow), default=0.0)


def _start(finding: ScoredLine) -> int:
    return finding.line if finding.start is None else finding.start


def _overtaken(finding: ScoredLine, strong: Iterable[ScoredLine]) -> ScoredLine:
    """With a lower score if another failure came later. One of the same family repeats or follows from it."""
    others = (each for each in strong if each.message != finding.message and (not each.family or each.family != finding.family))
    later = [(each.progress - finding.progress, each.level) for each in others]
    score = finding.score * _decay(max((distance for distance, _ in later), default=0), _OVERTAKEN)
    levels = {level for distance, level in later if distance >= _RIGHT_BEFORE}
    if FATAL in levels and finding.level == PLAIN:
        score = min(score, finding.score * _OVERTAKEN_BY_FATAL)
    return replace(finding, score=min(score, _UNSURE) if levels & {FATAL, ERRORS} else score)


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


def _doubted(findings: list[ScoredLine]) -> list[ScoredLine]:
    """The first finding is not certain if another one says something else about as surely."""
    if len(findings) > 1 and findings[0].score > _UNSURE:
        first, second = findings[:2]
        if round(second.score - first.score, 3) >= -0.08 and not _agree(first, second):
            findings[0] = replace(first, score=_UNSURE)
    return [findings[0], *(replace(each, score=min(each.score, findings[0].score)) for each in findings[1:])] if findings else []


def _agree(one: ScoredLine, other: ScoredLine) -> bool:
    texts = [re.sub(r"^[\w.$]+: ", "", each.message)[:80] for each in (one, other)]
    return texts[0] in other.message or texts[1] in one.message or bool(one.family and one.family == other.family)


def _decay(distance: int, steps: _Steps) -> float:
    return next((factor for most, factor in steps if distance <= most), _AFTER_MORE)


def rule_of(message: str) -> FamilyRule | None:
    """The first rule that matches a message."""
    return next((rule for rule in RULES if rule.search.search(message)), None)


def _of_incident(incident: Incident, progress: int) -> Iterator[ScoredLine]:
    root, last = incident.root, incident.last
    if root is None or last is None:
        return
    name = "python-root" if incident.kind == PYTHON else "worker-root" if incident.kind == WORKER else "trace-root"
    factor = _decay(progress - incident.progress, _CHAIN_DECAY) * _context_factor(incident.before)
    if incident.kind == PYTHON and is_wrapper(message_of(root.raw)):
        yield _of_note("output", incident.before._replace(role="output"), progress, False)
    yield _of_exception(root, name, STRUCTURE[name][0] * factor, incident.before)
    if last.line != root.line:
        yield _of_exception(last, "trace-top", STRUCTURE["trace-top"][0] * factor, incident.before)


def _of_exception(note: Note, name: str, score: float, before: Note) -> ScoredLine:
    message = message_of(note.raw)
    rule = rule_of(message)
    if is_wrapper(message):
        score *= 0.4
    elif CONSEQUENCE.search(message):
        score *= 0.5
    elif rule is None or not rule.family:
        score *= 0.8 if VAGUE_EXCEPTION.match(message) else 0.65 if message.endswith(":") else 1.0
        score *= _UNNAMED if name == "trace-root" and not NAMED_EXCEPTION.search(message) else 1.0
    score *= _BARE if ":" not in message else 1.0
    family = rule.family if rule else ""
    level = ERRORS if quick_level(before.raw) in (FATAL, ERRORS) else PLAIN
    return ScoredLine(note.line, message, name, family, score + 0.01 * bool(family), note.progress, True, level, before.line)


def _context_factor(before: Note) -> float:
    """By what announces a trace."""
    text = before.text
    if CONSEQUENCE.search(text):
        return 0.5
    level = quick_level(before.raw)
    factor = 0.85 if level == WARNINGS else 1.0
    return factor * 0.75 if RETRY.search(text) and level != FATAL else factor


def _of_note(pool: str, note: Note, progress: int, announces: bool) -> ScoredLine:
    message = message_of(note.raw)
    rule = rule_of(message)
    level = LEVEL_NAMES.index(pool) if pool in LEVEL_NAMES else PLAIN
    if EXIT_SIGNAL.search(message) and (rule is None or rule.family != "memory"):
        return ScoredLine(note.line, message, "exit-signal", "killed", STRUCTURE["exit-signal"][0], note.progress)
    if note.role == "output" and (own := quick_level(note.raw)) in (WARNINGS, INFO):
        level, note = own, note._replace(role="")
    name, score = _base(note, level, rule)
    score *= _decay(progress - note.progress, _NOTE_DECAY) * _doubt(message) * (0.8 if announces else 1.0)
    score += _TIE * (rule is None and BAD_NEWS.search(message) is not None)
    if note.role == "detail" and rule is None and len(message.split()) < 3:
        score *= _FEW_WORDS
    return ScoredLine(
        note.line, message, name, rule.family if rule else "", score, note.progress, note.role == "output", level=level
    )


def _base(note: Note, level: int, rule: FamilyRule | None) -> tuple[str, float]:
    is_known = rule is not None and bool(rule.family)
    if note.role:
        score = STRUCTURE[note.role][0]
        return (rule.name, max(score, rule.score)) if rule and rule.score > score else (note.role, score)
    if level in (FATAL, ERRORS):
        name = "fatal-record" if level == FATAL else "error-record"
        return (rule.name if rule and is_known else name), min(0.86, STRUCTURE[name][0] + is_known * _FAMILY_BONUS)
    if level == PLAIN:
        return (rule.name, rule.score) if rule else ("failure-word", 0.25)
    share = 0.5 if level == WARNINGS else 0.4
    return (rule.name if rule and is_known else "warning-record"), share * (rule.score if rule else 0.4)


def _doubt(message: str) -> float:
    if NO_ERROR.search(message):
        return 0.1
    if CONTEXT.match(message):
        return 0.3
    if is_wrapper(message):
        return 0.25
    if GENERIC.fullmatch(message):
        return 0.45
    if CONSEQUENCE.search(message):
        return 0.5
    if message.startswith(("| ", "+-")):
        return 0.6
    if CLEARING.match(message):
        return 0.9
    announces = _ANNOUNCING if message.endswith(":") and len(message) <= _ANNOUNCE_CHARS else 1.0
    return 0.6 * announces if RETRY.search(message) else announces


def _of_tail(note: Note, progress: int, place: int) -> ScoredLine:
    """One of the last lines. ``place``: 0 for the last."""
    message, level = message_of(note.raw), quick_level(note.raw)
    rule = rule_of(message)
    if (rule is not None and level not in (INFO, WARNINGS)) or level in (FATAL, ERRORS):
        return _of_note(LEVEL_NAMES[level], note._replace(progress=progress - place), progress - place, False)
    doubt = 1.0 if not place and LAST_COMMAND.match(message) else _doubt(message)
    score = STRUCTURE["last-line"][0] - 0.02 * place + _BAD_NEWS * (BAD_NEWS.search(message) is not None)
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
