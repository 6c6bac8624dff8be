"""Checks of a pipeline's file beyond its schema, for ``runlake-pipelines validate``: executes nothing that the file names.

The schema rejects files; what is found here would fail a handler, or the pipeline, when it starts. Classes of ``logging`` and of
Runlake are imported, and arguments are compared with their signatures. Modules that the operator added are not imported: whether they exist
and define what a file names, and the arguments of that, only a start of the pipeline tells. So do the values of arguments that only a
constructor checks, and everything outside of the file: paths, hosts, buckets, roles and secrets.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator, Mapping
from logging.handlers import MemoryHandler
from typing import Any, Final, get_type_hints

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.allowed_modules import DEFAULTS_ONLY, names_in
from chalicelib.pipelines.configuration import ERRORS, FACTORY, ROLLING_HANDLER, Logging, PipelineFile, class_of
from chalicelib.pipelines.files.key_layout import PARQUET, PARQUET_NEEDS_JOB
from chalicelib.pipelines.suggestions import did_you_mean

Definition = Mapping[str, Any]
_UNSEEN: Final = object()
"""In place of an object of an added module."""
_EXTERNAL = "ext://"
_ATTRIBUTES = "."
_OF_HANDLERS = {"level", "formatter", "filters", _ATTRIBUTES}
_OF_FORMATTERS = ("class", "format", "datefmt", "style", "validate")
_OF_FILTERS = ("name",)
_SIMPLE: Mapping[Any, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}


def check_pipeline(file: PipelineFile, *, in_job: bool = False) -> Iterator[str]:
    """The problems of a valid file, in order. ``in_job``: only the job runs it, which has pyarrow."""
    config = file.logging
    for kind, check in (("formatter", _check_formatter), ("filter", _check_filter), ("handler", _check_handler)):
        for name, definition in getattr(config, f"{kind}s").items():
            try:
                resolved = config.references().resolved(definition)
            except InvalidConfigurationError as error:
                yield f"{error} {kind}={name}"
                continue
            yield from (f"{problem} {kind}={name}" for problem in check(config, resolved))
            if kind == "handler" and not in_job and class_of(resolved) == ROLLING_HANDLER and resolved.get("format") == PARQUET:
                yield f"{PARQUET_NEEDS_JOB} {kind}={name}"
    for name, logger in config.each_logger():
        yield from (f"{problem} logger={name or 'root'}" for problem in _check_level_and_filters(config, logger))


def _check_handler(config: Logging, definition: Definition) -> Iterator[str]:
    yield from _check_level_and_filters(config, definition)
    yield from _check_name(definition.get("formatter"), config.formatters, "formatter")
    factory = yield from _factory(config, definition)
    if isinstance(factory, type) and not issubclass(factory, logging.Handler):
        yield f"not a handler: {class_of(definition)}"
        return
    taken = _OF_HANDLERS | ({FACTORY} if FACTORY in definition else {"class"})
    taken |= {ERRORS} if isinstance(definition.get(ERRORS), dict) else set()
    arguments = {name: value for name, value in definition.items() if name not in taken}
    yield from _check_arguments(factory, arguments, taken)
    if isinstance(factory, type) and issubclass(factory, MemoryHandler):
        yield from _check_name(definition.get("target"), config.handlers, "handler")


def _check_formatter(config: Logging, definition: Definition) -> Iterator[str]:
    factory = yield from _factory(config, definition)
    if FACTORY in definition:
        # logging.config passes ``format`` as ``fmt`` if the factory does not take it
        arguments = {"fmt" if name == "format" else name: value for name, value in definition.items() if name != FACTORY}
        yield from _check_arguments(factory, arguments, {FACTORY})
        return
    yield from _check_keys(definition, _OF_FORMATTERS)
    if not definition.get("class"):
        try:
            layout = (definition.get(key, default) for key, default in (("style", "%"), ("validate", True)))
            logging.Formatter(definition.get("format"), definition.get("datefmt"), *layout)
        except Exception as error:  # any value may be there
            yield f"{type(error).__name__}: {str(error)[:200]}"


def _check_filter(config: Logging, definition: Definition) -> Iterator[str]:
    factory = yield from _factory(config, definition)
    if FACTORY in definition:
        yield from _check_arguments(factory, {name: value for name, value in definition.items() if name != FACTORY}, {FACTORY})
    else:
        yield from _check_keys(definition, _OF_FILTERS)


def _factory(config: Logging, definition: Definition) -> Any:
    """Generator: yields the problems of the names in a definition; returns its class or factory, as far as it can be seen."""
    named, factory = class_of(definition), _UNSEEN
    if named is not None and not isinstance(named, str):
        yield f"a class must be a name: {str(named)[:80]}"
    for name in names_in(definition):
        if config.modules.is_added(name):
            continue
        try:
            value = DEFAULTS_ONLY.resolve(name)
        except Exception as error:  # an import of one of our modules may lack a library
            yield str(error)[:300]
            continue
        if isinstance(named, str) and name == named.removeprefix(_EXTERNAL):
            if not callable(value):
                yield f"not callable: {name}"
            else:
                factory = value
    return factory


def _check_level_and_filters(config: Logging, values: Definition) -> Iterator[str]:
    level = values.get("level")
    if isinstance(level, str) and level not in logging.getLevelNamesMapping():
        yield f"unknown level: {level[:100]}{did_you_mean(level.upper(), logging.getLevelNamesMapping())}"
    elif level is not None and not isinstance(level, str | int):
        yield f"a level must be a name or a number: {str(level)[:80]}"
    filters = values.get("filters") or ()
    if not isinstance(filters, list | tuple):
        yield "filters must be a list"
        return
    for name in filters:
        yield from _check_name(name, config.filters, "filter")


def _check_name(name: Any, known: Mapping[str, Any], kind: str) -> Iterator[str]:
    if isinstance(name, str) and name and not name.startswith(_EXTERNAL) and name not in known:
        yield f"no such {kind}: {name[:100]}{did_you_mean(name, known)}"


def _check_keys(definition: Definition, known: tuple[str, ...]) -> Iterator[str]:
    for name in definition:
        if name not in (*known, FACTORY):
            yield f"unknown key: {str(name)[:100]}{did_you_mean(str(name), (*known, FACTORY))}"


def _check_arguments(factory: Any, arguments: Definition, keys: set[str]) -> Iterator[str]:
    """``keys``: those that ``logging.config`` takes itself."""
    if factory is _UNSEEN:
        return
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (ValueError, TypeError):
        return  # no signature
    named = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for name in arguments:
            if name not in named and name != _ATTRIBUTES:
                yield f"unknown argument: {str(name)[:100]}{did_you_mean(str(name), (*named, *keys - {_ATTRIBUTES}))}"
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in arguments:
            yield f"missing argument: {name}"
    if str(getattr(factory, "__module__", "")).startswith("chalicelib."):
        yield from _check_values(factory, {name: value for name, value in arguments.items() if name in named})


def _check_values(factory: Any, arguments: Definition) -> Iterator[str]:
    """Of one of our classes: the types of its arguments, then what its ``check_options`` finds."""
    try:
        hints = get_type_hints(vars(factory).get("__init__", factory) if isinstance(factory, type) else factory)
    except NameError:  # a type that only the type checker imports
        hints = {}
    is_well = True
    for name, value in arguments.items():
        types = _SIMPLE.get(hints.get(name))
        if types and not (isinstance(value, str) and value.startswith(_EXTERNAL)) and type(value) not in types:
            is_well = False
            yield f"an argument must be {hints[name].__name__}: {name} value={str(value)[:80]!r}"
    if is_well and hasattr(factory, "check_options"):
        try:
            factory.check_options(arguments)
        except InvalidConfigurationError as error:
            yield str(error)
