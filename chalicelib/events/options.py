"""Checks options of built-in browsers, outputs and rules, without building anything and without a request.

Options of a plugin are checked by its factory, when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from pydantic import JsonValue

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.configuration import parse_configuration

OTHER_STORES = ("elasticsearch", "opensearch", "cloudwatch")
"""Names of built-in browsers of other stores: kinds of targets (``targets.configuration``) whose events can be read."""
Options = Mapping[str, JsonValue]


def target_document(kind: str, options: Options) -> dict[str, JsonValue]:
    """The target that a browser of another store reads. Raises InvalidConfigurationError."""
    if "kind" in options:
        raise InvalidConfigurationError(f"the name of a browser is its kind browser={kind} field=kind")
    return {**options, "kind": kind}


def problem_of_options(name: str, options: Options) -> str | None:
    """The reason why options of a built-in browser are invalid, without values; None: they are valid, or of a plugin."""
    return _problem(lambda: _check_target(target_document(name, options))) if name in OTHER_STORES else None


def problem_of_target(target: JsonValue) -> str | None:
    """The reason why the target of an output is invalid, without values."""
    return _problem(partial(_check_target, target))


def problems_of_document(document: str, browser: str = "") -> Iterator[str]:
    """What is invalid in a value of ``RUNLAKE_EVENTS``, without values. Names that are not built in may be plugins."""
    from chalicelib.events.routing import Router

    try:
        configuration = parse_configuration(document, browser)
        Router.of(configuration.rules)
    except InvalidConfigurationError as error:
        yield str(error)
        return
    for name in sorted(configuration.browsers_in_use):
        if problem := problem_of_options(name, configuration.browsers.get(name, {})):
            yield f"{problem} browser={name}"
    for name, target in configuration.named_outputs:
        if problem := problem_of_target(target):
            yield f"{problem} output={name}"


def _check_target(document: JsonValue) -> None:
    from chalicelib.events.targets.configuration import target_of  # few configurations have targets

    target_of(document)


def _problem(check: Callable[[], object]) -> str | None:
    try:
        check()
    except InvalidConfigurationError as error:
        return str(error)
    return None
