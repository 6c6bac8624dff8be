"""A pipeline's own logging: loggers, handlers, formatters and filters that nothing of the process knows of.

``logging.config.dictConfig`` would clear the process's handlers and enter ours into its lists, which are flushed and closed when the
process ends. So the pieces of its ``DictConfigurator`` build what the file says, and what they registered on the way is taken out again.

Events go where the most specific configured logger sends them. A name that is not configured makes no logger: which one serves it is
remembered for a while, and for so many names.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from logging.config import DictConfigurator
from typing import Any, cast

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.allowed_modules import names_in
from chalicelib.pipelines.configuration import Logging, Properties

Caught = (Exception, SystemExit)
"""What a handler may raise without stopping anything."""


@dataclass(slots=True)
class Swallowed:
    """An error that a handler kept to itself. ``handler`` is the configured name of the one that had it."""

    handler: str
    record: logging.LogRecord
    error: BaseException


@dataclass(frozen=True, slots=True)
class HandlerRoute:
    """What serves a logger's name: its effective level, its filters, and the handlers of it and of those above it, by name."""

    logger: logging.Logger
    level: int
    handlers: tuple[tuple[str, logging.Handler], ...]


@dataclass(slots=True)
class LoggingContext:
    """What a file's ``logging`` became. ``handlers``: those that could be built, by name; ``failures``: why the others could not.

    ``swallowed`` fills with what handlers gave to ``handleError``; whoever looks at it takes it out. ``owners``: the handler that loggers
    know, for one that stands behind it (``MemoryHandler.target``)."""

    handlers: Mapping[str, logging.Handler]
    failures: Mapping[str, str]
    loggers: Mapping[str, logging.Logger]
    properties: Properties
    now_ms: Callable[[], int]
    swallowed: list[Swallowed] = field(default_factory=list)
    owners: Mapping[str, str] = field(default_factory=dict)
    _routes: OrderedDict[str, tuple[int, HandlerRoute]] = field(default_factory=OrderedDict)

    def route(self, name: str, now_ms: int) -> HandlerRoute:
        """What serves this name. Keeps ``logger_cache_size`` names, each for ``logger_cache_ttl_ms``."""
        known = self._routes.get(name)
        if known is not None and known[0] > now_ms:
            self._routes.move_to_end(name)
            return known[1]
        route = self._routed(name)
        self._routes[name] = (now_ms + self.properties.logger_cache_ttl_ms, route)
        self._routes.move_to_end(name)
        if len(self._routes) > self.properties.logger_cache_size:
            self._routes.popitem(last=False)
        return route

    @property
    def cached_routes(self) -> int:
        """Names that are remembered now."""
        return len(self._routes)

    def forget_routes(self, now_ms: int) -> None:
        """Let names go whose time is over."""
        for name in [name for name, (until_ms, _) in self._routes.items() if until_ms <= now_ms]:
            del self._routes[name]

    def attached(self) -> list[str]:
        """Handlers that some logger has, in order of their names: those that events are given to."""
        found = {id(handler) for logger in self.loggers.values() for handler in logger.handlers}
        return sorted(name for name, handler in self.handlers.items() if id(handler) in found)

    def close(self) -> Iterator[tuple[str, BaseException]]:
        """Close every handler; those that fail are told, and the others are closed all the same."""
        for name, handler in self.handlers.items():
            try:
                handler.close()
            except Caught as error:
                yield name, error

    def _routed(self, name: str) -> HandlerRoute:
        logger = self.loggers[_most_specific(name, self.loggers)]
        names = {id(handler): known for known, handler in self.handlers.items()}
        handlers: list[tuple[str, logging.Handler]] = []
        current: logging.Logger | None = logger
        while current is not None:
            handlers += [(names[id(handler)], handler) for handler in current.handlers]
            current = current.parent if current.propagate else None
        return HandlerRoute(logger, logger.getEffectiveLevel(), tuple(handlers))


def _most_specific(name: str, loggers: Mapping[str, logging.Logger]) -> str:
    while name and name not in loggers:
        name = name.rpartition(".")[0]
    return name


def build_logging(config: Logging, properties: Properties, now_ms: Callable[[], int]) -> LoggingContext:
    """Build a pipeline's logging. A handler that cannot be built is told in ``failures``, and the others are there. Raises
    InvalidConfigurationError for formatters, filters and loggers that cannot be: then nothing is."""
    pieces = _Pieces(config)
    manager = _manager()
    handlers, failures = pieces.build_handlers()
    loggers: dict[str, logging.Logger] = {}
    for name, definition in config.each_logger():
        logger = manager.getLogger(name) if name else manager.root
        pieces.configure_one(logger, definition, handlers)
        loggers[name] = logger
    swallowed: list[Swallowed] = []
    for name, handler in handlers.items():
        _watch(name, handler, swallowed)
    return LoggingContext(handlers, failures, loggers, properties, now_ms, swallowed, _owners(handlers))


def validate_logging(config: Logging) -> None:
    """Whether all that a file names can be found. Modules that are listed are imported; nothing of the file is called: no handler opens
    a file or connection. Raises InvalidConfigurationError."""
    for kind in ("handlers", "formatters", "filters"):
        for name, definition in getattr(config, kind).items():
            try:
                _check(config, definition)
            except Exception as error:
                raise InvalidConfigurationError(f"one of {kind} cannot be built: {_described(error)} name={name}") from None


def _check(config: Logging, definition: Mapping[str, Any]) -> None:
    named = definition.get("()", definition.get("class"))
    for name in names_in(definition):
        value = config.modules.resolve(name)
        if name == named and not callable(value):
            raise TypeError(f"it cannot be called: {name}")
    if named is None and "format" in definition:
        layout = (definition.get(key, default) for key, default in (("style", "%"), ("validate", True)))
        logging.Formatter(definition["format"], definition.get("datefmt"), *layout)


def _manager() -> logging.Manager:
    root = logging.RootLogger(logging.NOTSET)
    manager = logging.Manager(root)
    root.manager = manager  # a class attribute of Logger, which is of the process
    manager.loggerClass = _Logger
    manager.emittedNoHandlerWarning = True
    return manager


class _Logger(logging.Logger):
    """Of a manager of its own: ``Logger.manager`` is the process's."""


class _Pieces(DictConfigurator):
    """What ``DictConfigurator`` builds with, over a copy of what the file says."""

    def __init__(self, config: Logging) -> None:
        definitions = {name: copy.deepcopy(dict(getattr(config, name))) for name in ("formatters", "filters", "handlers")}
        self._modules = config.modules
        super().__init__(
            {"version": 1, **{name: {key: dict(one) for key, one in each.items()} for name, each in definitions.items()}}
        )
        self._build("formatters", self.configure_formatter)
        self._build("filters", self.configure_filter)

    def resolve(self, s: str) -> Any:
        """All that ``DictConfigurator`` resolves comes this way: classes, factories, and values behind ``ext://``."""
        return self._modules.resolve(s)

    def configure_formatter(self, config: Any) -> Any:
        """The class of a formatter is the one name that ``logging.config`` resolves by a function of its own."""
        named = config.get("class")
        if not named or "()" in config:
            return super().configure_formatter(config)
        made = named if callable(named) else self.resolve(named)
        checks = [config["validate"]] if "validate" in config else []
        return made(config.get("format"), config.get("datefmt"), config.get("style", "%"), *checks)

    def _build(self, kind: str, configure: Callable[[Any], Any]) -> None:
        built = self.config[kind]
        for name in list(built):
            try:
                built[name] = configure(built[name])
            except Exception as error:
                raise InvalidConfigurationError(f"one of {kind} cannot be built: {_described(error)} name={name}") from error

    def build_handlers(self) -> tuple[dict[str, logging.Handler], dict[str, str]]:
        """Those that refer to others are built behind them, as ``dictConfig`` does."""
        definitions = self.config["handlers"]
        handlers: dict[str, logging.Handler] = {}
        failures: dict[str, str] = {}
        waiting = sorted(definitions)
        for last in (False, True):
            deferred = []
            for name in waiting:
                try:
                    handlers[name] = definitions[name] = self._handler(definitions[name])
                except Caught as error:
                    if not last and "target not configured yet" in str(error.__cause__):
                        deferred.append(name)
                    else:
                        failures[name] = _described(error)
            waiting = deferred
        return handlers, failures

    def _handler(self, definition: Any) -> logging.Handler:
        handler = self.configure_handler(definition)
        if not isinstance(handler, logging.Handler):
            raise TypeError(f"no logging.Handler: {type(handler).__name__}")
        _unregister(handler)
        return handler

    def configure_one(self, logger: logging.Logger, definition: Mapping[str, Any], handlers: Mapping[str, logging.Handler]) -> None:
        """A logger's level, filters, handlers (those that there are) and whether the one above it is asked too."""
        there = [name for name in definition.get("handlers") or () if name in handlers]
        try:
            self.common_logger_config(logger, cast(Any, {**definition, "handlers": there}))
        except Exception as error:
            raise InvalidConfigurationError(f"a logger cannot be built: {_described(error)} logger={logger.name}") from error
        if definition.get("propagate") is not None and logger.parent is not None:
            logger.propagate = bool(definition["propagate"])


def _unregister(handler: logging.Handler) -> None:
    """Out of the list of what is closed when the process ends: the pipeline closes it. It has no name either: a name is entered into the
    process's list, and taken out of it when the handler is closed, whosever it is."""
    references: list[Any] = logging._handlerList  # type: ignore[attr-defined]
    with logging._lock:  # type: ignore[attr-defined]
        references[:] = [each for each in references if each() is not handler]
    if handler.name:
        handler.name = None


def _watch(name: str, handler: logging.Handler, swallowed: list[Swallowed]) -> None:
    """Handlers catch their own errors and give them to ``handleError``, which prints. Ours are seen; what a class does there besides
    (closing a socket) it still does."""
    own = handler.handleError if type(handler).handleError is not logging.Handler.handleError else None

    def seen(record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        swallowed.append(Swallowed(name, record, error or RuntimeError("an error that the handler does not tell")))
        if own is not None:
            own(record)

    handler.handleError = seen  # type: ignore[method-assign]


def _owners(handlers: Mapping[str, logging.Handler]) -> dict[str, str]:
    names = {id(handler): name for name, handler in handlers.items()}
    targets = {name: names.get(id(getattr(handler, "target", None))) for name, handler in handlers.items()}
    return {target: name for name, target in targets.items() if target}


def _described(error: BaseException) -> str:
    """An error with what caused it: ``DictConfigurator`` wraps."""
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return f"{type(error).__name__}: {error}{cause}"[:500]
