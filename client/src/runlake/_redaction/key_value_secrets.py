# Copied from chalicelib/masking/key_value_secrets.py by docs.generate.
"""``password=…``, ``"token": "…"``, ``--secret …``: values whose names mark them as secret.

The end of a name decides: ``db_password`` and ``accessToken`` are secret, ``token_count`` is not. A quoted value ends at the same quote
or at the end of its line; an unquoted one ends at white space, a quote or the start of the next pair (``a=1&b=2``, ``a=1,b=2``). Of a list or
an object, all texts are values. An example of a value, such as ``${PASSWORD}`` or ``<token>``, is no secret.
"""

from __future__ import annotations

import re
from functools import cache

from runlake._redaction.text import BASE64, Span, Text, run_pattern
from runlake._redaction.words import QUOTED

_PAGES = (
    b"next", b"page", b"paging", b"pagination", b"continuation", b"resume", b"sync", b"delta", b"idempotency", b"fencing", b"cancellation",
    b"expected", b"jsonweb", b"starting", b"special", b"public",
)  # fmt: skip
"""Whose token is a place in a list, an id, or a word of a parser's message."""
_LONGEST_WHOSE = 14
_HEAD_BYTES = 160
_QUOTE = rb"(?:[\"']|\\{1,3}+[\"'])"
_NEXT_NAME = rb"[A-Za-z_][A-Za-z0-9_.-]{0,63}+[=:]"
_BARE_TEXT = rb"[^\s\"',;&]*+(?:[,;&](?!" + _NEXT_NAME + rb")[^\s\"',;&]*+)*+"
_LONGEST_NEXT = 65
# The text between the word and the value, and an unquoted value. Each part is bounded, and none can match text that the next part needs.
# The first part is one of the others, for speed, as is ``(?:…|)`` for ``(?:…)?``.
_HEAD = re.compile(
    rb"(?:=(?=[ac-su-z0-9])(?![befnru]{1,2}[\"'\\])|"
    rb"(?:[_-]?(?:access[_-]?|)(?:key|value|string|text)|(?:(?<=password)|(?<=passwd))s|)"
    rb"(?:[_-](?:dev|test|qa|stage|staging|prod|production|old|new|v(?=\d))|)\d{0,2}+"
    rb"(?:\.[a-z0-9.-]{1,40}\.core\.windows\.net|)"
    rb"(?:" + _QUOTE + rb"|)(?:\](?=[ \t]{0,8}+=)|)"
    rb"(?:[ \t]{0,8}+:?[ \t]{0,8}+str(?:ing|)(?=[ \t]{0,8}+=)|)"
    rb"(?:[ \t]{0,64}+(?:[:?.]{0,3}+={1,3}+>?|:|->)[ \t]{0,24}+(?:\r?\n[ \t]{0,40}+(?=[\"'])|)"
    rb"|(?P<gap>[ \t]{1,8}+(?:\\\r?\n[ \t]{0,40}+|)|\r?\n[ \t]{0,40}+-[ \t]{1,4}+))"
    rb"(?:(?:bearer|basic|token)[ \t]{1,8}+(?=[^\s\"'\\])|)"
    rb"(?:(?:[befnru$]|br|rb)(?=" + _QUOTE + rb"[^\s,:;)}\]\"'])|))"
    rb"(?:(?P<quote>" + _QUOTE + rb")|(?P<bare>" + _BARE_TEXT + rb"))"
)
_SUFFIXES = (b"access", b"key", b"value", b"s", b"text")
_JOINTS = frozenset((b"_", b"-"))
_AFTER_JOINTS = (b"access", b"key", b"value", b"st", b"text", b">", b"dev", b"test", b"qa", b"prod", b"old", b"new", b"v")
"""Beginnings of words of ``_HEAD`` that may continue a name."""
_FOLLOWING = frozenset(bytes([each]) for each in b"_-0123456789\\\"' \t:?.=>,;]\r\n\v\f")
"""Other bytes that a value may follow."""
_BETWEEN, _BLANK = frozenset((b"_", b"-", b"k", b"a")), frozenset((b" ", b"\t"))
# The same where the name is itself a value: ("password", "…"); name: password, value: …; <password>…
_CALL = re.compile(rb"(?:\.[a-z0-9.-]{1,40}\.core\.windows\.net)?\\{0,3}+[\"'],[ \t]{0,8}+[bfru]?(?P<quote>" + _QUOTE + rb")")
_CALL_BYTES = 90
_NAMED = re.compile(
    rb"(?:"
    + _QUOTE
    + rb")?[\s,;]{1,40}+(?:"
    + _QUOTE
    + rb")?(?:type[\\\"' \t]{0,8}+[:=][\\\"' \t]{0,8}+\w{1,20}+[\\\"'\s,;]{1,40}+)?value(?:"
    + _QUOTE
    + rb")?[ \t]{0,8}+[:=][ \t]{0,8}+(?P<quote>"
    + _QUOTE
    + rb")?"
)
_SPACE = run_pattern(rb"\s")
_NAMED_ELEMENT = re.compile(rb"</(?:name|key)>\s{0,64}+<value>\s{0,64}+")
_TEXT = run_pattern(rb"^<")
_LONGEST_TEXT = 4096
_NAME_LETTERS = 64
_LETTERS_OF_A_NAME = b"abcdefghijklmnopqrstuvwxyz0123456789_.-"
_AWS_SECRET_LETTERS = 40
_MOST_BEFORE, _SURE_LETTERS = 32, 8
"""Between the name of a secret key and its value at most; and the letters of any such value behind these."""
_BASE64_LETTERS = frozenset(bytes([each]) for each in b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/+")
_REST_OF_KEYS = re.compile(rb"[_-]?(?:access[_-]?|)key")
_BARE = re.compile(_BARE_TEXT)
_QUOTED = {
    b'"': re.compile(rb"(?:[^\"\\\n]++|\\[^\n]|\"\")*+"),
    b"'": re.compile(rb"(?:[^'\\\n]++|\\[^\n]|'')*+"),
}
_QUOTED_IN_QUOTES = re.compile(rb"(?:[^\\\n]++|\\(?![\\\"']))*+")
_CHANGE = re.compile(rb"\" -> \"")
_COUNT_DIGITS = 7
_BRACED = run_pattern(rb"^}\n")
_CALLED = re.compile(rb"(?P<name>[A-Za-z_][\w.]{0,48}+)\((?:[bfru]?(?P<quote>[\"'])|[\w.]{0,48}+\))")
_READS = (b"get", b"env", b"secret_value", b"read", b"load", b"var", b"lookup", b"prompt", b"input", b"dtype")
_REFERENCES = (b"arn:aws", b"ssm:/", b"secretsmanager:", b"op://")
_BLANKS = run_pattern(rb" \t")
_BLOCK = re.compile(rb"(?:[|>][+-]?|<<[~-]?['\"]?\w{1,20}['\"]?)\r?\n")
_BLOCK_BYTES = 32
_BLOCK_LINES = re.compile(rb"(?:[ \t]{1,64}+[^\n]*+\n?)*+")
_CLOSING = b")]},;&.\\"
_OPENING = b"{[("
_OPEN = (b"[", b"{")
_SPECIAL = frozenset((b"|", b">", b"<", b"{", b"[", b"("))
"""First bytes of what is more than a value."""

_OPENED = frozenset((b'["', b"['", b'{"', b"{'", b"[\\", b"{\\"))
_MOST_DEPTH, _LONGEST_NESTED = 4, 4096
_PIECE = re.compile(
    rb"(?:[\s,]|\\[nrt]){0,64}+(?:(?P<open>[\[{(])|(?P<close>[\]})])|[bu]?(?P<quote>"
    + _QUOTE
    + rb")|(?P<number>-?\d[\d.eE+-]{0,40}+)|(?:null|true|false|None|True|False)\b)"
)
_PIECE_BYTES = 64
_NESTED_NAME = re.compile(rb"\\{0,3}+[\"'][ \t]{0,8}+:(?:[ \t\r\n]|\\[nrt]){0,64}+")

_EXAMPLE = (
    rb"(?:array<)?(?:string|str|text|n?varchar2?|char|bigint|integer|int|long|boolean|bool|bytes|binary|object|uuid)(?:\(\d{1,5}\)?)?>{0,8}"
    rb"|Optional\[\w{1,32}\]?|\((?:sensitive|known)|\$\{\{|!(?:Ref|Sub|GetAtt|ImportValue|secret|vault|reference)"
    rb"|\{\w{1,32}\([^\s{}]{0,64}\}?|<[a-z][\w:]{0,32} [\w:]{1,32}=|y{3,64}"
    rb"|[xX*.#_-]{2,64}|[01-]|\$(?:\d|[A-Z_][A-Z0-9_]{0,64}|\{[A-Za-z0-9_.]{1,64}(?::?[=-]\$\w{0,64})?\}?|\([^()]{0,64}\)?)"
    rb"|\{\{[^}]{0,64}(?:\}\})?|\{[A-Za-z_][\w.]{0,64}\}?|<[A-Za-z][A-Za-z_ -]{0,64}>?|%\(?[A-Za-z_]{0,64}\)?s|%[A-Za-z_]{1,64}%"
    rb"|\[[A-Za-z ]{1,64}\]?|[A-Z]{1,64}(?:_[A-Z]{1,64}){1,8}|`[a-z]{1,64}|(?:null|None|none|nil|[Tt]rue|[Ff]alse|NULL|NONE|TRUE|FALSE|undefined)"
    rb"|(?:\*{1,64}\([a-z ]{1,64})"
    rb"|(?:var|os\.environ|process\.env|secrets)[.\[(]\S{0,64}|ENC\[\S{0,64}"
)
_BEGIN_EXAMPLES = frozenset(
    each.encode()
    for each in (
        *"ABCDEFGHIJKLMNOPQRSTUVWXYZ*.#_-01$%{[<`(!",
        *("xx", "xX", "x*", "x.", "x#", "x_", "x-", "yy", "ar", "st", "te", "nv", "va", "ch", "bi", "in", "lo", "bo", "by", "ob"),
        *("ss", "op", "uu", "nu", "no", "ni", "tr", "fa", "un", "os", "pr", "se"),
    )
)
"""The first byte or two of ``_EXAMPLE`` and ``_REFERENCES``."""
_FEWEST_SAME = 10
_SAME, _ONE_WORD = re.compile(rb"([A-Za-z*#.])\1{9}|(\d)\2{15}"), re.compile(rb"[\w.~#*=-]*+")
_LONGEST_EXAMPLE = 128
_NAME_AGAIN = re.compile(rb"[A-Za-z0-9_.-]{0,40}(?:password|passwd|secret|token|key)[ ]?[:=][ ]?", re.IGNORECASE)
_ENDS_OF_NAMES = (b"=", b":", b" ")
_REMOTE = re.compile(rb"\s{1,64}+remoteref:")
"""What follows the name of a key of a secret, in resources of external secrets."""


def passwords(word: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Values whose name ends in ``word``, one of ``WORDS`` and ``KEYS``."""
    start, end = _value(text, word, at)
    if start < end:
        if word != b"pwd" or not text.body.startswith(b"/", start):  # PWD=/home/me
            spans.append((start, end))
        if text.body[end : end + 1] == b'"' and (change := text.match(_CHANGE, end, _CALL_BYTES)):  # a plan of Terraform
            start, end = _quoted(text, change.end(), b'"')
            spans.append((start, end))
        return end
    if text.body[start : start + 1] in (b"[", b"{") and text.body[start - 1] in b":= \t":
        return _nested(text, start, spans)
    return end


def aws_secret_keys(word: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Values of 40 characters named ``aws_secret_access_key``, ``SecretAccessKey`` or ``secret_key``."""
    far = at + len(word) + _MOST_BEFORE
    if text.body[far : far + 1] not in _BASE64_LETTERS or text.run(BASE64, far, _SURE_LETTERS) - far < _SURE_LETTERS:
        return at + len(word)  # no value
    start, end = _value(text, word, at)
    if end - start == _AWS_SECRET_LETTERS and text.run(BASE64, start, end - start) == end:
        spans.append((start, end))
    return end


@cache
def example() -> re.Pattern[bytes]:
    """Compiled on first use, as it is long."""
    return re.compile(_EXAMPLE)


def is_example(value: bytes) -> bool:
    """Whether a value stands for a secret and is none."""
    size = len(value)
    if size > _LONGEST_EXAMPLE:
        return False
    if (value[:1] in _BEGIN_EXAMPLES or value[:2] in _BEGIN_EXAMPLES) and example().fullmatch(value):
        return True
    return size >= _FEWEST_SAME and bool(_SAME.search(value) and _ONE_WORD.fullmatch(value))


def value_start(text: Text, at: int, behind: int) -> int:
    """Where a value may begin after a word from ``at`` to ``behind``; -1 if there is none."""
    if head := text.match_any_case(_CALL, behind, _CALL_BYTES):
        return head.end()
    head = text.match_any_case(_HEAD, behind, _HEAD_BYTES)
    if not head or (head["gap"] and not _is_option(text, at)):
        return -1
    start = head.end() if head["quote"] else head.start("bare")
    return start if text.body[start : start + 1].strip() else -1


def _value(text: Text, word: bytes, at: int) -> Span:
    """The span of the value after the word at ``at``; empty if there is none. The next search begins at its end."""
    behind, is_option = at + len(word), False
    after = text.lowered[behind : behind + 1]
    if after != b"=":
        if after == b">":
            return _element(text, at, behind)
        if after == b"<":
            return _named_element(text, behind)
        is_option = after in _BLANK and _is_option(text, at)
        if not is_option and not _may_have_value(text, word, at, behind, after):
            return behind, behind
    if word == b"token" and text.before(at, _LONGEST_WHOSE).rstrip(b"_-. ").endswith(_PAGES):
        return behind, behind
    head = text.match_any_case(_HEAD, behind, _HEAD_BYTES)
    if head is None:
        return _unusual_value(text, at, behind)
    gap, quote, bare = head.groups()
    end = head.end()
    start = end - len(bare) if bare else end
    if gap:
        if not (is_option or (after not in _BLANK and _is_option(text, at))):
            is_clause = quote == b"'" and (word == b"password" or text.body[at:behind].isupper())
            if not is_clause:  # ALTER USER me PASSWORD 'x'
                return _unusual_value(text, at, behind)
        elif text.body.startswith(b"-", start):
            return behind, behind  # the next option
    if quote:
        return _quoted(text, start, quote)
    if end - behind >= _HEAD_BYTES - _LONGEST_NEXT:
        end = text.run(_BARE, start)
    return _bare(text, start, end, word, at)


def _may_have_value(text: Text, word: bytes, at: int, behind: int, after: bytes) -> bool:
    """Whether a value may follow a word, by the next letters: most words of a text are not names."""
    lowered = text.lowered
    if word == b"secret" and after in _BETWEEN:
        is_key = lowered.startswith((b"key", b"_key", b"-key"), behind) or text.match_any_case(
            _REST_OF_KEYS, behind, _LONGEST_WHOSE
        )
        return not is_key  # ``secret_key`` is another word
    if after not in _FOLLOWING:
        return lowered.startswith(_SUFFIXES, behind)
    if after in _JOINTS:
        return lowered.startswith(_AFTER_JOINTS, behind + 1)
    if after in _BLANK and lowered[behind + 1 : behind + 4].isalnum():  # the next word
        return lowered.startswith(b"str", behind + 1) or _states_value(text, behind)
    return word != b"secret" or after != b":" or text.before(at, 1) != b":"  # arn:aws:secretsmanager:…:secret:name


def _states_value(text: Text, behind: int) -> bool:
    return text.find_any_case(b"value", behind, behind + _NAME_LETTERS) >= 0


def _element(text: Text, at: int, behind: int) -> Span:
    """The text of ``<password>…</password>``."""
    body, start = text.body, behind + 1
    before = text.before(at, _NAME_LETTERS)
    open_at = before.rfind(b"<")
    if open_at < 0 or before.startswith(b"/", open_at + 1) or body.startswith(b"<", start):
        return behind, behind
    if not before.rstrip(_LETTERS_OF_A_NAME).endswith((b"<", b":")):
        return behind, behind
    if body[start : start + 1].isspace():
        start = text.run(_SPACE, start, _NAME_LETTERS)
    end = text.run(_TEXT, start, _LONGEST_TEXT)
    close = end if body.startswith(b"</", end) else text.find(b"</", end, end + _HEAD_BYTES)
    if close < 0 or not text.lowered.startswith(text.lowered[at - len(before) + open_at + 1 : behind], close + 2):
        return behind, behind
    return start, start + len(body[start:end].rstrip())


def _named_element(text: Text, behind: int) -> Span:
    """The value of ``<name>…</name><value>…</value>``."""
    head = text.match_any_case(_NAMED_ELEMENT, behind, _HEAD_BYTES)
    if not head:
        return behind, behind
    end = text.run(_TEXT, head.end(), _LONGEST_TEXT)
    return (end, end) if is_example(text.body[head.end() : end]) else (head.end(), end)


def _unusual_value(text: Text, at: int, behind: int) -> Span:
    """The value of a name that is itself a value."""
    after = text.body[behind : behind + 1]
    head = text.match_any_case(_CALL, behind, _CALL_BYTES) if after in b"\\\"'." else None
    is_argument = bool(head) and _before_name(text, at).rstrip(b"\\\"'").endswith(b"(")
    if head and (is_argument or _is_option(text, at)):
        start, end = _quoted(text, head.end(), head["quote"])
        is_value = not is_argument or text.body[end : end + 8].lstrip(b"\\\"' \t").startswith(b")")
        return (start, end) if is_value else (behind, behind)
    if not _states_value(text, behind) or not _is_named(text, at):
        return behind, behind
    if head := text.match_any_case(_NAMED, behind, _HEAD_BYTES):
        return (
            _quoted(text, head.end(), head["quote"])
            if head["quote"]
            else _bare(text, head.end(), text.run(_BARE, head.end()), b"", at)
        )
    return behind, behind


def _quoted(text: Text, start: int, quote: bytes) -> Span:
    end = text.run(_QUOTED.get(quote, _QUOTED_IN_QUOTES), start)
    if end - start > _LONGEST_EXAMPLE:
        return start, end
    value = text.body[start:end]
    if value.endswith(_ENDS_OF_NAMES) and _NAME_AGAIN.fullmatch(value):
        return start, start  # "token = "x""
    return (start, end) if value.strip(quote) and not is_example(value) else (end, end)


def _bare(text: Text, start: int, end: int, word: bytes, at: int) -> Span:
    """An unquoted value after the word at ``at``, or a block of YAML, or the beginning of a list or an object."""
    body = text.body
    first = body[start : start + 1]
    if first in _SPECIAL:
        is_open = word in QUOTED or not {*b"\"'"}.isdisjoint(body[at + len(word) : start])
        if word and ((is_open and first in _OPEN) or body[start : start + 2] in _OPENED):
            return start, start
        if word and first == b"{" and _before_name(text, at).endswith(b";"):  # of ODBC
            start, end = start + 1, text.run(_BRACED, start + 1)
            return (end, end) if is_example(body[start:end]) else (start, end)
        if text.match(_BLOCK, start, _BLOCK_BYTES):
            return _block(text, body.find(b"\n", start) + 1)
    value = body[start:end].rstrip(_CLOSING)
    if not value or (first in _SPECIAL and not value.strip(_OPENING)):
        return start, start
    may_be_example = value[:1] in _BEGIN_EXAMPLES or value[:2] in _BEGIN_EXAMPLES or len(value) >= _FEWEST_SAME
    if may_be_example and (value.startswith(_REFERENCES) or is_example(value)):
        return end, end
    if b"(" in value and (call := text.match(_CALLED, start, _NAME_LETTERS)):  # SecretStr('x'), but not getenv('NAME')
        is_read = any(verb in call["name"].lower() for verb in _READS)
        return (end, end) if is_read or not call["quote"] else _quoted(text, call.end(), call["quote"])
    if value.isdigit() and _is_number(value, word):
        return end, end
    if word == b"secretkey" and text.match_any_case(_REMOTE, end, _NAME_LETTERS):
        return end, end
    if (
        word
        and text.lowered.startswith(word, start + len(value) - len(word))
        and _is_name(value, word, text.before(at, _NAME_LETTERS))
    ):
        return end, end
    return start, start + len(value)


def _is_number(value: bytes, word: bytes) -> bool:
    """Whether digits are an id or a count, such as the tokens of a prompt."""
    return word.startswith((b"account", *QUOTED)) or (word == b"token" and len(value) <= _COUNT_DIGITS)


def _is_name(value: bytes, word: bytes, before: bytes) -> bool:
    """Whether the value repeats its name: ``password=self.password``, ``a.account_key = b.account_key``."""
    name = before[len(before.rstrip(_LETTERS_OF_A_NAME)) :].rpartition(b".")[2] + word
    owner = value.lower().removesuffix(name)
    return len(owner) < len(value) and (not owner or (owner.endswith(b".") and not owner.strip(_LETTERS_OF_A_NAME)))


def _block(text: Text, first: int) -> Span:
    """The lines of a block that begins at ``first``: up to one that is indented less than the first."""
    start = text.run(_BLANKS, first, _NAME_LETTERS)
    end = text.run(_BLOCK_LINES, first, _LONGEST_TEXT)
    at = text.body.find(b"\n", start, end) + 1
    while 0 < at < end:
        begin = text.run(_BLANKS, at, start - first)
        if begin - at < start - first and text.body[begin : begin + 1].strip():
            return start, at - 1
        at = text.body.find(b"\n", at, end) + 1
    return start, max(end, start)


def _nested(text: Text, start: int, spans: list[Span]) -> int:
    """Adds the texts of a list or an object, which is open at ``start``, but not its names. Returns where it ends, or where it is no longer
    one."""
    at, open_kinds, end = start + 1, text.body[start : start + 1], min(start + _LONGEST_NESTED, len(text))
    values: list[Span] = []
    is_text = False
    while at < end and (piece := text.match(_PIECE, at, _PIECE_BYTES)):
        at, kind = piece.end(), piece.lastgroup
        if kind == "open":
            open_kinds += piece["open"]
        elif kind == "close":
            open_kinds = open_kinds[:-1]
        elif kind == "quote":
            is_text = True
            stop = text.run(_QUOTED.get(piece["quote"], _QUOTED_IN_QUOTES), at)
            if name := text.match(_NESTED_NAME, stop, _PIECE_BYTES):
                at = name.end()
                if open_kinds[-1:] != b"{":
                    break
                continue
            if at < stop and not is_example(text.body[at:stop]):
                values.append((at, stop))
            at = stop + len(piece["quote"])
        elif kind == "number" and is_text:
            values.append((piece.start("number"), at))
        if not 0 < len(open_kinds) <= _MOST_DEPTH:
            break
    spans += values
    return max(at, start + 1)


def _is_option(text: Text, at: int) -> bool:
    """Whether a value may follow the name after a blank: ``--db-password x``, ``aws configure set … x``, a line of ``.netrc``."""
    before = text.before(at, _NAME_LETTERS)
    if before.endswith(b" --"):
        return True
    if before.endswith(b" ") and not before.endswith((b"set ", b"setx ")) and b"machine " not in before:
        return False
    behind_name = before.rstrip(_LETTERS_OF_A_NAME)
    if before.startswith(b"--", len(behind_name)):
        return not behind_name.endswith(b"*")  # else it was part of a token that is masked
    return behind_name.endswith((b"configure set ", b"setx ")) or b"machine " in behind_name


def _is_named(text: Text, at: int) -> bool:
    """Whether the name is the value of ``name`` or ``key``."""
    before = text.before(at, _NAME_LETTERS).rstrip(_LETTERS_OF_A_NAME + b"/").rstrip(b"\\\"' \t")
    return before.endswith((b":", b"=")) and before[:-1].rstrip(b"\\\"' \t").endswith((b"name", b"key"))


def _before_name(text: Text, at: int) -> bytes:
    """The text before the name that a word ends."""
    return text.before(at, _NAME_LETTERS).rstrip(_LETTERS_OF_A_NAME)
