"""Numbers with units in the prose of the documents, and where each of them comes from.

Every such number is one of these:

- generated: between ``<!-- generated: … -->`` or ``<!-- value: … -->`` and its end (``python -m docs.generate``);
- measured: between ``<!-- measured: COMMAND -->`` and ``<!-- measured: end -->``, where the command measures it;
- in ``facts.FACTS``: a fragment of its page, where ``{}`` stands for the number, and what the number must be;
- on a page in ``facts.EXEMPT``.

New ones are generated: ``facts.WRITTEN`` has how many others a page may have, at present.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from docs import generate
from tests.docs.pages import PROJECT, written

_SCALE: dict[str, float] = {
    "µs": 0.000_001, "ms": 0.001, "s": 1, "second": 1, "seconds": 1, "min": 60, "minute": 60, "minutes": 60, "hour": 3600, "hours": 3600, "h": 3600,
    "day": 86_400, "days": 86_400, "week": 7 * 86_400, "weeks": 7 * 86_400, "month": 30 * 86_400, "months": 30 * 86_400,
    "byte": 1, "bytes": 1, "KB": 1000, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30, "TB": 10**12, "TiB": 2**40,
    "%": 0.01,
}  # fmt: skip
_COUNTED = (
    "lines|runs|requests|times|parts|segments|files|objects|rows|events|items|keys|names|characters|workers|threads|processes|attempts|"
    "retries|records|values|levels|handlers|letters|matches|queries|members|actions|pages|messages|failures|processors|cores|connectors|"
    "viewers|inputs|partitions|cases|repeats|attacks|looks|behaviours|weaknesses|writers|compactors|readers|ingesters|decoders|applications|loggers|warnings|lists"
)
_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
_WORDS: dict[str, float] = {
    "half a": 0.5, "half an": 0.5, "a quarter of an": 0.25, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "sixty": 60,
}  # fmt: skip
_SPELLED = (
    rf"(?i:{'|'.join(sorted(_WORDS, key=len, reverse=True))}) (?:seconds|minutes?|hours?|days?|weeks?|months?)(?!\w)|half a second"
)
"""A time in words. "A second" counts things."""
QUANTITY = (
    rf"(?:\$ ?{_DIGITS}|{_DIGITS} ?(?:{'|'.join(sorted(map(re.escape, _SCALE), key=len, reverse=True))})(?!\w)"
    rf"|{_SPELLED}|\d{{1,3}}(?:,\d{{3}})+|\d+ (?:different )?(?:{_COUNTED})\b)"
)
_QUANTITY = re.compile(rf"(?<![\w.:/,-])(?<!RFC ){QUANTITY}")
_MEASURED = re.compile(r"<!-- measured: [^>]+ -->.*?<!-- measured: end -->", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_REFERENCE = re.compile(r"(template|[a-z]\w*(?:\.\w+)+|[\w./-]+\.ts):([\w.]+)")


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a page: its text, what stands around it, and where it begins."""

    text: str
    around: str
    start: int


def text_of(page: Path) -> str:
    """The prose of a page in which numbers must be bound, with single spaces, without code and addresses of links."""
    return _plain(_MEASURED.sub("", written(page)))


def count_written(page: Path) -> int:
    """How many numbers with a unit somebody wrote in the prose of a page, measured ones included."""
    return len(list(numbers(_plain(written(page)))))


def _plain(text: str) -> str:
    text = _COMMENT.sub("", text)
    text = re.sub(r"`[^`\n]*`", lambda span: _QUANTITY.sub("_", span[0]), text)
    return re.sub(r"\s+", " ", re.sub(r"\]\([^)]*\)", "]", text))


def numbers(text: str) -> Iterator[Number]:
    """Numbers with units, in order."""
    for match in _QUANTITY.finditer(text):
        yield Number(match[0], text[max(0, match.start() - 60) : match.end() + 40], match.start())


def places(text: str, fragment: str) -> list[re.Match[str]]:
    """Where a fragment occurs. ``{}`` is any number, with or without a unit."""
    pattern = re.escape(fragment).replace(r"\{\}", rf"({QUANTITY}|{_DIGITS})")
    return list(re.finditer(pattern, text))


def amount(text: str) -> float:
    """A number in bytes, seconds, or as it is counted."""
    words, _, unit = text.lower().rpartition(" ")
    if words in _WORDS:
        return _WORDS[words] * _SCALE[unit]
    matched = re.fullmatch(r"\$? ?(\d[\d,]*(?:\.\d+)?) ?(?:different )?([A-Za-z%]*)", text)
    assert matched, text
    return float(matched[1].replace(",", "")) * _SCALE.get(matched[2], 1)


def expected(source: str) -> float | None:
    """What a source says, in bytes, seconds or as counted; None for one outside the project, an estimate, and a test."""
    if source.startswith(("source: ", "estimate: ")) or "::" in source:
        return None
    return float(eval(_REFERENCE.sub(lambda each: repr(_value(*each.groups())), source), {"__builtins__": {}}))


def stated_by_test(source: str, text: str) -> bool:
    """Whether the source of a test, ``path::name``, has a number as one of its own, in whatever unit."""
    path, _, name = source.partition("::")
    tree = ast.parse((PROJECT / path).read_text())
    (test,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)
    digits = re.sub(r"[^\d.]", "", text)
    stated = re.findall(r"\d+(?:\.\d+)?", ast.unparse(test).replace("_", " "))
    return digits in stated or any(float(each) == amount(text) for each in stated)


def _value(place: str, name: str) -> float:
    if place == "template":
        return _in_template(name)
    if place.endswith(".ts"):
        matched = re.search(rf"\bconst {name} = ([\d_.]+);", (PROJECT / place).read_text())
        assert matched, f"{place} has no number {name}"
        number: Any = float(matched[1].replace("_", ""))
    else:
        number = importlib.import_module(place)
        first, _, rest = name.partition(".")
        number = getattr(number, first)
        for part in [rest] if isinstance(number, Mapping) else rest.split(".") if rest else []:
            number = number[part] if isinstance(number, Mapping) else _part(number, part)
        number = getattr(number, "total_seconds", lambda: number)()
    return float(number) / 1000 if name.endswith(("_MS", "_ms")) else float(number)


def _part(place: Any, name: str) -> Any:
    """An attribute; of a dataclass the default of a field."""
    if isinstance(place, type) and is_dataclass(place):
        defaults = {each.name: each.default for each in fields(place)}
        return defaults.get(name, getattr(place, name))
    return getattr(place, name)


def _in_template(path: str) -> float:
    place: Any = _template()
    for part in path.split("."):
        place = place[int(part) if isinstance(place, list) else part]
    return float(place)


@cache
def _template() -> dict[str, Any]:
    return generate.template()
