# Copied from chalicelib/masking/commands.py by docs.generate.
"""Passwords in command lines and statements: ``curl -u me:…``, ``mysql -p…``, ``sshpass -p …``, ``scott/…@db``, ``IDENTIFIED BY …``."""

from __future__ import annotations

import re
from functools import cache

from runlake._redaction.key_value_secrets import is_example
from runlake._redaction.text import Span, Text

_LONGEST_COMMAND = 4096
_COMMAND = re.compile(rb"(?:[^\n\\]++|\\[\s\S])*+")
_VALUE = (
    rb"\\{0,3}+(?:\"(?P<double>(?:[^\"\n\\]|\\++(?!\"))++)|'(?P<single>[^'\n]++)|(?P<bare>(?:[^\s\"';|&<>\\]|\\++(?![\"']))++))"
)
_OPTION, _TO = rb"[ \t]\\{0,3}+[\"']?", rb"(?:\\{0,3}+[\"'],?)?[ \t=]{0,4}"
"""Before an option and between it and its value, also in a list of words."""
_APART = rb"(?:\\{0,3}+[\"'],?[ \t]|[ \t=])[ \t]{0,3}"
_USER_AND_PASSWORD = rb"[ \t](?:-[a-zA-Z]{1,8}[ \t]{1,4}){0,4}" + _VALUE
_OPTIONS = {
    b"curl": _OPTION + rb"(?:-[a-zA-Z]{0,4}u|-U|--user|--proxy-user|(?P<cookie>-b|--cookie))" + _TO + _VALUE,
    b"wget": _OPTION + rb"--(?:http-|ftp-|proxy-)?password" + _APART + _VALUE,
    b"redis-cli": _OPTION + rb"(?:-a|--pass)" + _APART + _VALUE,
    b"keytool": _OPTION + rb"-(?:src|dest)?(?:store|key)pass" + _APART + _VALUE,
    b"openssl": _OPTION + rb"-pass(?:in|out)?" + _APART + rb"[\"']?pass:" + _VALUE,
    **dict.fromkeys((b"mysql", b"mariadb"), _OPTION + rb"-p" + _VALUE),
    **dict.fromkeys((b"sshpass", b"docker login", b"podman login", b"helm registry login"), _OPTION + rb"-p" + _TO + _VALUE),
    **dict.fromkeys((b"mongo", b"beeline"), _OPTION + rb"-p" + _APART + _VALUE),
    **dict.fromkeys((b"sqlcmd", b"bcp"), _OPTION + rb"-P" + _TO + _VALUE),
    **dict.fromkeys((b"ldapsearch", b"ldapmodify", b"ldapadd"), _OPTION + rb"-w" + _TO + _VALUE),
    **dict.fromkeys((b"sqlplus", b"expdp", b"impdp"), _USER_AND_PASSWORD),
}
_USERS = (b"curl",)
_SLASHED = (b"sqlplus", b"expdp", b"impdp")
_USER_AND = re.compile(rb"[^\s:<\[$]{0,64}+:(?!//)(?=\S)")
_USER_SLASH = re.compile(rb"[A-Za-z][\w$#]{0,64}+/(?=[^/\s@]{1,64}+@)")
_WORDS = frozenset((b"password", b"passwd", b"pass", b"token", b"secret"))
_FEWEST_LETTERS_OF_A_KEY = 12

_ORACLE_URL = b"jdbc:oracle:"
_ORACLE = re.compile(rb"(?:thin|oci8?):[\w$#]{1,64}+/(?P<password>[^@\s\"'/]{1,128}+)@")
_ORACLE_BYTES = 210
_IDENTIFIED_WORD = b"identified"
_IDENTIFIED = re.compile(
    rb"[ \t]{1,8}+(?:with[ \t]{1,8}+[\w\"'`]{1,64}+[ \t]{1,8}+)?(?:by|as)[ \t]{1,8}+(?:password[ \t]{1,8}+)?"
    rb"(?:'(?P<single>[^'\n]{1,200}+)|\"(?P<double>[^\"\n]{1,200}+)|(?P<bare>[^\s;'\"]{1,200}+))"
)
_SET = b"set password"
_SET_CLAUSE = re.compile(
    rb"(?:[ \t]{1,8}+for[ \t]{1,8}+[^\s=]{1,80}+)?[ \t]{0,8}+(?:=|to)[ \t]{0,8}+(?:password\([ \t]{0,8}+)?'(?P<value>[^'\n]{1,200}+)"
)
_OF_USERS = (b"create user ", b"alter user ")
_IDENTIFIED_BYTES = 320


def command_passwords(command: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Values of the options of a command, up to the end of its line; a line that ends in a backslash goes on."""
    start = at + len(command)
    end = text.run(_COMMAND, start, _LONGEST_COMMAND)
    for option in text.matches(_option(command), start, end):
        first, last = option.span(option.lastgroup or 0)
        if command in _USERS:
            first, last = _of_cookie(text, first, last) if option["cookie"] else _after_user(text, first, last)
        elif command in _SLASHED:
            user = text.match(_USER_SLASH, first, last - first)
            first, last = (user.end(), text.body.find(b"@", user.end(), last)) if user else (last, last)
        value = text.body[first:last]
        if value and value not in _WORDS and not is_example(value):
            spans.append((first, last))
    return max(end, start)


@cache  # compiled on first use
def _option(command: bytes) -> re.Pattern[bytes]:
    return re.compile(_OPTIONS[command])


def _after_user(text: Text, first: int, last: int) -> Span:
    """The password of ``user:password``, or a key as a user without one."""
    user = text.match(_USER_AND, first, last - first)
    if user:
        return user.end(), last
    key = text.body[first : last - 1]
    is_key = text.body[last - 1 : last] == b":" and len(key) >= _FEWEST_LETTERS_OF_A_KEY and not key.isalpha()
    return (first, last - 1) if is_key else (last, last)


def _of_cookie(text: Text, first: int, last: int) -> Span:
    """The values of ``name=value``; else it is a file."""
    start = text.body.find(b"=", first, last) + 1
    return (start, last) if start else (last, last)


def oracle_passwords(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``jdbc:oracle:thin:scott/…@``."""
    start = at + len(_ORACLE_URL)
    if url := text.match(_ORACLE, start, _ORACLE_BYTES):
        spans.append(url.span("password"))
    return start


def identified_by(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``IDENTIFIED BY '…'`` of SQL."""
    start = at + len(_IDENTIFIED_WORD)
    clause = text.match_any_case(_IDENTIFIED, start, _IDENTIFIED_BYTES)
    if clause:
        first, last = clause.span(clause.lastgroup or 0)
        is_statement = text.body.startswith(b"IDENTIFIED", at) or any(each in text.before(at, 80) for each in _OF_USERS)
        is_prose = clause.lastgroup == "bare" and not is_statement
        if not is_prose and not is_example(text.body[first:last]):
            spans.append((first, last))
    return start


def set_passwords(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``SET PASSWORD FOR … = '…'`` of SQL."""
    start = at + len(_SET)
    if clause := text.match_any_case(_SET_CLAUSE, start, _IDENTIFIED_BYTES):
        spans.append(clause.span("value"))
    return start
