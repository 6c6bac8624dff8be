"""Just enough of a shell, of curl, jq and aws to run the documents' examples against the function, without a socket."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from tests.functional.gateway import Answer, call

_SHOWN_HEADERS = ("Content-Type", "Content-Disposition", "Location", "Retry-After", "Allow")


@dataclass
class Example:
    """A command, and what the document says that it prints."""

    command: str
    printed: str


def examples(console: str) -> list[Example]:
    """The commands of a console block with what follows each of them."""
    found: list[Example] = []
    for line in console.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append(Example(line[2:].rstrip("\n"), ""))
        else:
            found[-1].printed += line
    return found


@dataclass
class Shell:
    """Variables and cookie jars live as long as it does. ``after`` is called behind each request, ``store`` for an object that is
    copied to S3: its bucket, key, bytes and metadata."""

    after: Callable[[], None]
    store: Callable[[str, str, bytes, dict[str, str]], None]
    variables: dict[str, str] = field(default_factory=dict)
    jars: dict[str, str] = field(default_factory=dict)

    def run(self, command: str) -> str:
        """What a command prints."""
        if assignment := re.fullmatch(r"([A-Z]+)=(\$\((.+)\)|\S+)", command):
            name, value, inner = assignment.groups()
            self.variables[name] = self.run(inner).rstrip("\n") if inner else self._expanded(value)
            return ""
        data = b""
        for stage in _stages(command):
            name, *arguments = stage
            if name == "printf":
                data = arguments[0].encode().decode("unicode_escape").encode()
            elif name == "gzip":
                data = gzip.compress(data)
            elif name == "curl":
                data = self._curl(arguments, data).encode()
            elif name == "jq":
                data = "".join(f"{value}\n" for value in _picked(json.loads(data), *arguments)).encode()
            elif name == "aws":
                data = self._copied(arguments, data).encode()
            else:
                raise AssertionError(f"not a command of the examples: {name}")
        return data.decode()

    def _expanded(self, text: str) -> str:
        return re.sub(r"\$([A-Z]+)", lambda name: self.variables[name[1]], text)

    def _curl(self, arguments: list[str], piped: bytes) -> str:
        method, url, body, jar = "GET", "", None, ""
        api = urlsplit(self.variables["API"])
        headers: dict[str, str] = {"Host": api.netloc, "X-Forwarded-Proto": api.scheme}
        shows_headers = False
        rest = iter(arguments)
        for argument in rest:
            if argument in ("-s", "-si"):
                shows_headers = argument == "-si"
            elif argument == "-X":
                method = next(rest)
            elif argument in ("-b", "-c"):
                jar = next(rest)
            elif argument == "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            elif argument in ("--json", "--data-binary"):
                text = next(rest)
                body, method = (piped if text == "@-" else text), "POST" if method == "GET" else method
                headers.setdefault("Content-Type", "application/json") if argument == "--json" else None
            else:
                assert not argument.startswith("-"), f"not an option of the examples: {argument}"
                url = self._expanded(argument)
        if jar in self.jars:
            headers["Cookie"] = self.jars[jar]
        answer = call(method, url.removeprefix(self.variables["API"]), body, headers)
        if jar and "Set-Cookie" in answer.headers:
            self.jars[jar] = answer.cookie
        self.after()
        return (_head(answer) if shows_headers else "") + answer.body

    def _copied(self, arguments: list[str], piped: bytes) -> str:
        """``aws s3 cp - s3://bucket/key --metadata JSON``."""
        service, command, source, target, option, metadata = map(self._expanded, arguments)
        assert (service, command, source, option) == ("s3", "cp", "-", "--metadata"), arguments
        bucket, _, key = target.removeprefix("s3://").partition("/")
        self.store(bucket, key, piped, json.loads(metadata))
        self.after()
        return ""


def _picked(document: Any, option: str, path: str) -> list[Any]:
    """``jq -r`` of a path such as ``.records[].url``."""
    assert option == "-r", option
    values = [document]
    for name, each in re.findall(r"\.(\w+)(\[\])?", path):
        values = [value[name] for value in values]
        values = [item for value in values for item in value] if each else values
    return values


def _stages(command: str) -> list[list[str]]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    return stages


def _head(answer: Answer) -> str:
    """The status line, and those headers that a document may show."""
    shown = "".join(f"{name}: {answer.headers[name]}\n" for name in _SHOWN_HEADERS if name in answer.headers)
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\n{shown}"


def same(printed: str, real: str, later_ms: int = 0) -> bool:
    """Whether a document tells the truth. ``…`` stands for any text in a field; a moment may be so much later."""
    try:
        return _alike(json.loads(printed), json.loads(real), later_ms)
    except ValueError:
        head, _, body = printed.rstrip("\n").rpartition("\n")
        real_head, _, real_body = real.rstrip("\n").rpartition("\n")
        return head == real_head and (
            body == real_body or (bool(head) and body.startswith("{") and same(body, real_body, later_ms))
        )


def _alike(printed: object, real: object, later_ms: int) -> bool:
    if isinstance(printed, dict) and isinstance(real, dict):
        return list(printed) == list(real) and all(_alike(printed[name], real[name], later_ms) for name in printed)
    if isinstance(printed, list) and isinstance(real, list):
        return len(printed) == len(real) and all(_alike(one, other, later_ms) for one, other in zip(printed, real, strict=True))
    if isinstance(printed, int) and isinstance(real, int) and printed + later_ms == real:
        return True
    return printed == real or (printed == "…" and isinstance(real, str) and bool(real))
