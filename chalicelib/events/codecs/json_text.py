"""JSON as agents write it: one value, a list, a value a line, or values one behind the other without anything between them.

Texts and names that UTF-8 has no form for (lone surrogates) become U+FFFD; NaN and infinities, which JSON does not have, texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json import JSONDecoder
from typing import Any

from chalicelib.events.ports import Refused
from chalicelib.events.well_formed import well_formed

_decoder = JSONDecoder(strict=False, parse_constant=str)
_SPACES = " \t\r\n"
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_MAX_REASON_CHARS = 120


def text_of(body: bytes | str) -> str:
    """A body as text: bytes that are no UTF-8 become U+FFFD. A byte order mark is left out."""
    text = body if isinstance(body, str) else body.decode(errors="replace")
    return text.removeprefix("\ufeff")


def values(body: bytes | str) -> Iterator[Any | Refused]:
    """The values of a body, whichever way they are strung together; a Refused (its index is 0) for what is none.

    Of a list that breaks off the values before the break are good; of lines every one stands for itself. Reads a body once, or twice
    where it is broken.
    """
    text = text_of(body).strip(_SPACES)
    if not text:
        return iter(())
    may_be_unsound, (is_document, value) = _may_be_unsound(text), _parse(text)
    if is_document:
        found = iter(value if isinstance(value, list) else [value])
    else:
        found = elements(text) if text[0] == "[" and not _is_lines(text) else _lines(text)
    return map(_sound_or_refused, found) if may_be_unsound else found


def value_of(text: bytes | str) -> Any:
    """One value. Raises ValueError, RecursionError."""
    decoded = text_of(text)
    value = _decoder.decode(decoded)
    return well_formed(value) if _may_be_unsound(decoded) else value


def raw_value_of(text: bytes | str) -> Any:
    """One value, lone surrogates and all, as deep as Python reads it. Raises ValueError, RecursionError."""
    return _decoder.decode(text_of(text))


def compact(value: Any) -> str:
    """A value as text, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(text: str) -> tuple[bool, Any]:
    try:
        return True, _decoder.decode(text)
    except (ValueError, RecursionError):
        return False, None


def _is_lines(text: str) -> bool:
    """Whether each line is a list of its own: the first one is whole."""
    return _parse(text.partition("\n")[0])[0]


def elements(text: str) -> Iterator[Any | Refused]:
    """What a list holds up to where it breaks; ``text`` begins with its bracket. A value that is nested too deeply to be read costs itself
    alone. Reads each character at most three times."""
    place = 1
    while True:
        place = _behind(text, place, _SPACES + ",")
        if place >= len(text):
            yield _refused("the list does not end")
            return
        if text[place] == "]":
            if text[place + 1 :].strip(_SPACES):
                yield _refused("something stands behind the list")
            return
        try:
            value, place = _decoder.raw_decode(text, place)
        except RecursionError as error:
            value, place = _refused(_message(error)), _end_of(text, place)
        except ValueError as error:
            yield _refused(f"the list breaks here: {_message(error)}")
            return
        yield value


def _lines(text: str) -> Iterator[Any | Refused]:
    for line in text.split("\n"):
        place = _behind(line, 0, _SPACES)
        while place < len(line):
            try:
                value, place = _decoder.raw_decode(line, place)
            except (ValueError, RecursionError) as error:
                yield _refused(f"not json: {_message(error)}")
                break
            yield value
            place = _behind(line, place, _SPACES)


def _end_of(text: str, place: int) -> int:
    """Where the list or object that begins here ends, by its brackets alone; the text's end where they do not close."""
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
    """Whether there may be surrogates: escaped, or in a text that a gateway made."""
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
