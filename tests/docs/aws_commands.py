"""Commands of the AWS CLI in the documents, against botocore's models, from which the AWS CLI makes its commands."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from botocore import xform_name
from botocore.validate import ParamValidator

from tests.docs.other_systems import service_model

_GLOBAL = frozenset({"output", "query", "profile", "region"})
_OWN = {
    ("cloudformation", "deploy"): frozenset({"stack-name", "template-file", "capabilities", "parameter-overrides"}),
    ("s3", "rb"): frozenset({"force"}),
    ("s3", "cp"): frozenset({"recursive", "metadata"}),
    ("s3", "ls"): frozenset(),
    ("s3", "sync"): frozenset({"delete"}),
    ("sso", "login"): frozenset(),
    ("configure", "sso"): frozenset(),
}
"""Commands that are no operation of a service, with those of their options that the documents use."""
_RENAMED = {("sns", "subscribe", "notification-endpoint"): "endpoint"}
"""Options with another name than the operation's field."""
_UNKNOWN = "x" * 40
"""A variable's value: longer than the shortest that is allowed."""


def aws_commands(text: str) -> Iterator[list[str]]:
    """The arguments of each ``aws`` in a command line, inside of ``$(…)`` too."""
    for part in re.split(r"(?:^|\$\(|[|;&(]\s*)(?:[A-Z_]+=\S+ )*aws ", text)[1:]:
        lexer = shlex.shlex(part, posix=True, punctuation_chars="|;&)")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if word[0] in "|;&)":
                break
            words.append(word)
        yield words


def aws_problem(words: list[str]) -> str | None:
    """What is wrong with the arguments of ``aws``: no such operation or option, a required one or the form of a value."""
    service, command, *arguments = words
    options, name = {}, ""
    for word in arguments:
        if word.startswith("--"):
            name = word[2:]
            options[name] = []
        elif name:
            options[name].append(word)
    given = {_RENAMED.get((service, command, name), name): values for name, values in options.items() if name not in _GLOBAL}
    if (service, command) in _OWN:
        unknown = given.keys() - _OWN[service, command]
        return f"aws {service} {command} has no option {', '.join(sorted(unknown))}" if unknown else None
    model = service_model(service)
    names = {} if model is None else {xform_name(each, "-"): each for each in model.operation_names}
    if command not in names:
        return f"there is no aws {service} {command}"
    shape = model.operation_model(names[command]).input_shape
    members = {xform_name(each, "-"): (each, member) for each, member in (shape.members if shape else {}).items()}
    if unknown := given.keys() - members.keys() - {f"no-{each}" for each in members}:
        return f"aws {service} {command} has no option {', '.join(sorted(unknown))}"
    values = {members[name][0]: _value(members[name][1], words) for name, words in given.items() if name in members}
    report = ParamValidator().validate(values, shape)
    return report.generate_report() if report.has_errors() else None


def _value(member: Any, words: list[str]) -> Any:
    """A value as the operation takes it, if it is JSON or text; anything of its type if it is in the shorthand of the AWS CLI."""
    (text, *_) = words or ["true"]
    if member.type_name == "string":
        return _UNKNOWN if "$" in text else text
    if member.type_name == "boolean":
        return True
    if text[:1] in "{[":
        return json.loads(text)
    if member.type_name == "list" and member.member.type_name == "structure":
        return [dict(pair.split("=", 1) for pair in each.split(",")) for each in words]
    return {"list": words, "integer": 1, "long": 1}[member.type_name]
