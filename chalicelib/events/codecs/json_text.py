"""JSON as agents send it: one value, a list, a value per line, or concatenated values.

Lone surrogates in texts and names become U+FFFD; NaN and infinities, which JSON does not have, become texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any

from chalicelib.events.ports import Refused
from chalicelib.events.well_formed import well_formed


@dataclass(frozen=True, slots=True)
class NotJson:
    """The rest of a line that is not JSON."""

    text: str


_decoder = JSONDecoder(strict=False, parse_constant=str)
_SPACES = " \t\r\n"
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NUMBER = re.compile("[-0-9][-+.0-9Ee]*+")
_LIST = re.compile(r'\[[ \t\r\n]*+(?:[\[{"]|\Z)')
"""Begins a list of records or texts. Other texts begin with a bracket, too: ``[INFO] x``."""
_MAX_REASON_CHARS = 120


def text_of(body: bytes | str) -> str:
    """A body as text: invalid UTF-8 becomes U+FFFD, a byte order mark is removed."""
    text = body if isinstance(body, str) else body.decode(errors="replace")
    return text.removeprefix("\ufeff")


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text, one at a time: a list of short lines takes 15 times their bytes. The last one needs no newline."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def values(body: bytes | str) -> Iterator[Any | Refused]:
    """The values of a body in any of these forms; NotJson for a line or the rest of one, a Refused (index 0) for another invalid value.

    Values before an error in a list are good; lines are independent of each other. Reads a valid body once, an invalid one twice.
    """
    text = text_of(body).strip(_SPACES)
    if not text:
        return iter(())
    may_be_unsound, (is_document, value) = _may_be_unsound(text), _parse(text)
    if is_document:
        found = iter(value if isinstance(value, list) else [value])
    else:
        found = elements(text) if _LIST.match(text) and not _is_lines(text) else _lines(text)
    return map(_sound_or_refused, found) if may_be_unsound else found


def value_of(text: bytes | str) -> Any:
    """Decode one value. Raises ValueError, RecursionError."""
    decoded = text_of(text)
    value = _decoder.decode(decoded)
    return well_formed(value) if _may_be_unsound(decoded) else value


def raw_value_of(text: bytes | str) -> Any:
    """Decode one value with lone surrogates, as deep as Python can. Raises ValueError, RecursionError."""
    return _decoder.decode(text_of(text))


def compact(value: Any) -> str:
    """A value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(text: str) -> tuple[bool, Any]:
    try:
        return True, _decoder.decode(text)
    except (ValueError, RecursionError):
        return False, None


def _is_lines(text: str) -> bool:
    """Whether each line is a list: the first line is a complete value."""
    return _parse(text.partition("\n")[0])[0]


def elements(text: str) -> Iterator[Any | Refused]:
    """The elements of a list up to an error; ``text`` begins with its bracket. A value that is nested too deeply, or has a
    number that is too long, is refused alone. Reads each character at most three times."""
    place = 1
    while True:
        place = _behind(text, place, _SPACES + ",")
        if place >= len(text):
            yield _refused("the list is not closed")
            return
        if text[place] == "]":
            if text[place + 1 :].strip(_SPACES):
                yield _refused("unexpected data after the list")
            return
        try:
            value, place = _decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            yield _refused(f"the list is invalid here: {_message(error)}")
            return
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or too many brackets
            value, place = _refused(_message(error)), _end_of(text, place)
        yield value


def _lines(text: str) -> Iterator[Any | Refused]:
    for line in lines_of(text):
        place = _behind(line, 0, _SPACES)
        while place < len(line):
            try:
                value, place = _value_in(line, place)
            except json.JSONDecodeError:
                yield NotJson(line[place:].rstrip(_SPACES))
                break
            except (ValueError, RecursionError) as error:
                yield _refused(f"not json: {_message(error)}")
                break
            yield value
            place = _behind(line, place, _SPACES)


def _value_in(line: str, place: int) -> tuple[Any, int]:
    """The value of a line at a place, and its end. Only objects may have others behind them: of a text such as ``12 rows`` no part is a value."""
    if line[place] == "{":
        return _decoder.raw_decode(line, place)
    return _decoder.decode(line[place:]), len(line)


def _end_of(text: str, place: int) -> int:
    """The end of the number, list or object at ``place``, by its brackets only; the end of the text if it is not closed."""
    if number := _NUMBER.match(text, place):
        return number.end()
    depth = 0
    for token in _TOKEN.finditer(text, place):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)


def _behind(text: str, place: int, letters: str) -> int:
    while place < len(text) and text[place] in letters:
        place += 1
    return place


def _message(error: Exception) -> str:
    message = (
        error.msg
        if isinstance(error, json.JSONDecodeError)
        else "nested too deeply"
        if isinstance(error, RecursionError)
        else str(error)
    )
    return message.lower()[:_MAX_REASON_CHARS]


def _refused(reason: str) -> Refused:
    return Refused(0, reason)


def _may_be_unsound(text: str) -> bool:
    """Whether the text may have surrogates: escaped, or decoded by a gateway."""
    if "\\ud" in text or "\\uD" in text:
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _sound_or_refused(value: Any) -> Any:
    try:
        return well_formed(value)
    except ValueError as error:
        return _refused(str(error))
