"""Writers of one text: what encoders, shells and templates make of a value. Independent of the product's reading of escapes."""

from __future__ import annotations

import base64
import json
import random
import shlex
import string
from collections.abc import Callable
from html.entities import codepoint2name
from xml.sax.saxutils import quoteattr

Writer = Callable[[str, random.Random], str]
_UNRESERVED = string.ascii_letters + string.digits + "_.-~"


def _cased(digits: str, chance: random.Random) -> str:
    return chance.choice([digits.lower(), digits.upper()])


def _utf_16(character: str, chance: random.Random) -> str:
    raw = character.encode("utf-16-be").hex()
    return "".join("\\u" + _cased(raw[at : at + 4], chance) for at in range(0, len(raw), 4))


def json_text(text: str, chance: random.Random) -> str:
    """In JSON, with any characters escaped besides those that must be."""
    share = chance.choice([0, 0.2, 1])
    short = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "/": "\\/"}

    def written(each: str, previous: str) -> str:
        if each == "\\":
            return short[each]  # no writer has another form
        if chance.random() < share and (share == 1 or previous != "\\"):
            return _utf_16(each, chance)
        return short[each] if each in '"\t' or (each == "/" and share) else each

    return "".join(map(written, text, f" {text}"))


def html_safe_json(text: str, chance: random.Random) -> str:
    """Like Go, Gson and .NET."""
    written = json.dumps(text, ensure_ascii=chance.random() < 0.5)[1:-1]
    return "".join(_utf_16(each, chance) if each in "<>&'=+" else each for each in written)


def xml(text: str, chance: random.Random) -> str:
    """Entities of any characters besides those that must be."""
    share = chance.choice([0, 0.2, 1])

    def written(each: str, previous: str) -> str:
        if each not in "&<>\"'" and (chance.random() >= share or (share < 1 and previous == "\\")):
            return each
        forms = [f"&#{ord(each)};", f"&#{chance.choice('xX')}{_cased(f'{ord(each):x}', chance)};"]
        names = {"'": "apos", **{chr(code): name for code, name in codepoint2name.items()}}
        return chance.choice([*forms, f"&{names[each]};"] if each in names else forms)

    return "".join(map(written, text, f" {text}"))


def attribute(text: str, _: random.Random) -> str:
    """Like Python's writers of XML."""
    return quoteattr(text)[1:-1]


def url(text: str, chance: random.Random) -> str:
    """Any bytes encoded besides those that must be; blanks also as in forms."""
    share, blank = chance.choice([0, 0.2, 1]), chance.choice(["+", "%20"])

    def written(each: str) -> str:
        if each == " ":
            return blank
        if each in "%+&#" or not each.isascii() or chance.random() < share or (each not in _UNRESERVED and chance.random() < 0.5):
            return "".join(f"%{_cased(f'{byte:02x}', chance)}" for byte in each.encode())
        return each

    return "".join(map(written, text))


def python(text: str, chance: random.Random) -> str:
    """As in a traceback or a dictionary."""
    return chance.choice([repr(text)[1:-1], ascii(text)[1:-1], repr(text.encode())[2:-1]])


def sql(text: str, _: random.Random) -> str:
    return text.replace("'", "''")


def csv(text: str, _: random.Random) -> str:
    return text.replace('"', '""')


def shell(text: str, chance: random.Random) -> str:
    """Quoted in any way that a shell has."""
    quoted = text.replace("'", chance.choice(["'\\''", "'\"'\"'"]))
    double = "".join(f"\\{each}" if each in '$`"\\' else each for each in text)
    bare = "".join(each if each.isalnum() or each in "_-" else f"\\{each}" for each in text)
    octal = "".join(
        each if each.isascii() and each not in "\\'" else "".join(f"\\{byte:03o}" for byte in each.encode()) for each in text
    )
    return chance.choice([quoted, shlex.quote(f"{text} ")[1:-2], double, bare, octal])


PLAIN: dict[str, Writer] = {
    each.__name__: each for each in (json_text, html_safe_json, xml, attribute, url, python, sql, csv, shell)
}
_OUTER: tuple[Writer, ...] = (html_safe_json, attribute, url, python)
"""Those that leave letters as they are."""


def spelling(text: str, chance: random.Random) -> tuple[str, str]:
    """The name of a writer, or of two, and what it makes of the text."""
    if chance.random() < 0.5:
        name = chance.choice(list(PLAIN))
        return name, PLAIN[name](text, chance)
    outer, inner = chance.choice(_OUTER), chance.choice(list(PLAIN.values()))
    return f"{outer.__name__} of {inner.__name__}", outer(inner(text, chance), chance)


def base64_text(text: str, chance: random.Random) -> tuple[int, str, int]:
    """The text between other bytes, in any alphabet, padding, and length of lines; and the numbers of other bytes."""
    encode = chance.choice([base64.b64encode, base64.urlsafe_b64encode])
    before, after = (chance.randbytes(chance.randrange(90)) for _ in range(2))
    encoded = encode(before + text.encode() + after).decode()
    encoded = encoded if chance.random() < 0.5 else encoded.rstrip("=")
    columns, end = chance.choice([64, 76, 10_000]), chance.choice(["\n", "\r\n", "\n  "])
    lines = (encoded[at : at + columns] for at in range(0, len(encoded), columns))
    return len(before), end.join(lines), len(after)
