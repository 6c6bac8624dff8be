"""A pipeline's own logging tree: loggers, handlers, formatters and filters that are not registered in the process.

``logging.config.dictConfig`` would clear the process's handlers and add ours to its lists, which are flushed and closed at exit.
So the methods of its ``DictConfigurator`` build the tree, and their registrations are undone.

Events go to the most specific configured logger. A name that is not configured creates no logger: its route is cached, for a
limited time and a limited number of names.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from logging.config import DictConfigurator
from typing import Any, cast

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.configuration import ERRORS, Logging, Properties

Caught = (Exception, SystemExit)
"""The exceptions of a handler that are caught."""
SHARED_PARTS = "formatters and filters"
"""Stands for a handler's name while the parts that handlers share are built."""
NoteCall = Callable[[str], None]
"""Called with a handler's name before the code of its module or class runs."""


def ignore_call(handler: str) -> None:
    """Nobody watches."""


@dataclass(slots=True)
class Swallowed:
    """An error that a handler caught itself. ``handler`` is the handler's configured name."""

    handler: str
    record: logging.LogRecord
    error: BaseException


@dataclass(frozen=True, slots=True)
class HandlerRoute:
    """The route of a logger's name: its effective level, its filters, and its handlers and those of its ancestors, by name."""

    logger: logging.Logger
    level: int
    handlers: tuple[tuple[str, logging.Handler], ...]


@dataclass(slots=True)
class LoggingContext:
    """The logging tree that was built from a file. ``handlers``: those that could be built, by name; ``failures``: the errors of
    those that could not.

    ``swallowed`` collects the errors that handlers passed to ``handleError``; its reader removes them. ``owners``: for a handler
    that another one forwards to (``MemoryHandler.target``), the handler that is attached to loggers."""

    handlers: Mapping[str, logging.Handler]
    failures: Mapping[str, str]
    loggers: Mapping[str, logging.Logger]
    properties: Properties
    now_ms: Callable[[], int]
    swallowed: list[Swallowed] = field(default_factory=list)
    owners: Mapping[str, str] = field(default_factory=dict)
    _routes: OrderedDict[str, tuple[int, HandlerRoute]] = field(default_factory=OrderedDict)

    def owner_of(self, handler: str) -> str:
        """The handler that receives a handler's events from loggers: itself, unless another one forwards to it."""
        return self.owners.get(handler, handler)

    def route(self, name: str, now_ms: int) -> HandlerRoute:
        """The route of this name. Caches ``logger_cache_size`` names, each for ``logger_cache_ttl_ms``."""
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
        """The number of cached names."""
        return len(self._routes)

    def forget_routes(self, now_ms: int) -> None:
        """Remove expired names from the cache."""
        for name in [name for name, (until_ms, _) in self._routes.items() if until_ms <= now_ms]:
            del self._routes[name]

    def attached(self) -> list[str]:
        """Handlers that are attached to a logger, sorted by name: those that events are delivered to."""
        found = {id(handler) for logger in self.loggers.values() for handler in logger.handlers}
        return sorted(name for name, handler in self.handlers.items() if id(handler) in found)

    def close(self, note_call: NoteCall = ignore_call) -> Iterator[tuple[str, BaseException]]:
        """Close every handler. Yields the errors of those that fail; the remaining ones are closed all the same."""
        for name, handler in self.handlers.items():
            note_call(name)
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


def build_logging(
    config: Logging,
    properties: Properties,
    now_ms: Callable[[], int],
    note_call: NoteCall = ignore_call,
    disabled: Collection[str] = (),
) -> LoggingContext:
    """Build a pipeline's logging tree, without ``disabled`` handlers: the constructor of one may never return. A handler that cannot
    be built is reported in ``failures`` and the rest are built. Raises InvalidConfigurationError for formatters, filters and loggers
    that cannot be built, and errors of ``note_call``."""
    note_call(SHARED_PARTS)
    pieces = _TreeBuilder(config)
    manager = _manager()
    swallowed: list[Swallowed] = []
    handlers, failures = pieces.build_handlers(note_call, disabled, swallowed)
    loggers: dict[str, logging.Logger] = {}
    for name, definition in config.each_logger():
        logger = manager.getLogger(name) if name else manager.root
        pieces.configure_one(logger, definition, handlers)
        loggers[name] = logger
    return LoggingContext(handlers, failures, loggers, properties, now_ms, swallowed, _owners(handlers))


def _manager() -> logging.Manager:
    root = logging.RootLogger(logging.NOTSET)
    manager = logging.Manager(root)
    root.manager = manager  # a class attribute of Logger, shared by the process
    manager.loggerClass = _Logger
    manager.emittedNoHandlerWarning = True
    return manager


class _Logger(logging.Logger):
    """A logger of a separate manager: ``Logger.manager`` is the process's."""


class _TreeBuilder(DictConfigurator):
    """The methods of ``DictConfigurator``, over a copy of the file's definitions."""

    def __init__(self, config: Logging) -> None:
        self._modules = config.modules
        super().__init__(copy.deepcopy(config.document()))
        self._build("formatters", self.configure_formatter)
        self._build("filters", self.configure_filter)

    def resolve(self, s: str) -> Any:
        """``DictConfigurator`` resolves all names through this method: classes, factories, and values after ``ext://``."""
        return self._modules.resolve(s)

    def configure_formatter(self, config: Any) -> Any:
        """The class of a formatter is the one name that ``logging.config`` resolves by another function."""
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

    def build_handlers(
        self, note_call: NoteCall, disabled: Collection[str], swallowed: list[Swallowed]
    ) -> tuple[dict[str, logging.Handler], dict[str, str]]:
        """Handlers that refer to other handlers are built after them, as ``dictConfig`` does."""
        definitions = self.config["handlers"]
        handlers: dict[str, logging.Handler] = {}
        failures: dict[str, str] = {}
        waiting = sorted(set(definitions) - set(disabled))
        for last in (False, True):
            deferred = []
            for name in waiting:
                note_call(name)
                try:
                    handler = self._handler(definitions[name])
                    _collect_errors(name, handler, swallowed)
                    handlers[name] = definitions[name] = handler
                except Caught as error:
                    if not last and "target not configured yet" in str(error.__cause__):
                        deferred.append(name)
                    else:
                        failures[name] = _described(error)
            waiting = deferred
        return handlers, failures

    def _handler(self, definition: Any) -> logging.Handler:
        if isinstance(definition.get(ERRORS), dict):
            del definition[ERRORS]
        handler = self.configure_handler(definition)
        if not isinstance(handler, logging.Handler):
            raise TypeError(f"not a logging.Handler: {type(handler).__name__}")
        if not isinstance(handler.level, int):
            raise TypeError(f"the level of a handler must be a number level={handler.level!r}"[:200])
        _unregister(handler)
        return handler

    def configure_one(self, logger: logging.Logger, definition: Mapping[str, Any], handlers: Mapping[str, logging.Handler]) -> None:
        """Set a logger's level, filters, handlers (those that exist) and propagation."""
        there = [name for name in definition.get("handlers") or () if name in handlers]
        try:
            self.common_logger_config(logger, cast(Any, {**definition, "handlers": there}))
        except Exception as error:
            raise InvalidConfigurationError(f"a logger cannot be built: {_described(error)} logger={logger.name}") from error
        if definition.get("propagate") is not None and logger.parent is not None:
            logger.propagate = bool(definition["propagate"])


def _unregister(handler: logging.Handler) -> None:
    """Remove a handler from the list of handlers that are closed at exit: the pipeline closes it. Remove its name too: names are
    registered in a process-wide list, and closing a handler removes its name from it, even if another handler has the same
    one."""
    references: list[Any] = logging._handlerList  # type: ignore[attr-defined]
    with logging._lock:  # type: ignore[attr-defined]
        references[:] = [each for each in references if each() is not handler]
    if handler.name:
        handler.name = None


def _collect_errors(name: str, handler: logging.Handler, swallowed: list[Swallowed]) -> None:
    """Handlers catch their own errors and pass them to ``handleError``, which prints them. Collect these errors; other actions of
    a class's own ``handleError`` (closing a socket) still run."""
    own = handler.handleError if type(handler).handleError is not logging.Handler.handleError else None

    def seen(record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        swallowed.append(Swallowed(name, record, error or RuntimeError("the handler reported an error without an exception")))
        if own is not None:
            own(record)

    handler.handleError = seen  # type: ignore[method-assign]


def _owners(handlers: Mapping[str, logging.Handler]) -> dict[str, str]:
    names = {id(handler): name for name, handler in handlers.items()}
    targets = {name: names.get(id(_target_of(handler))) for name, handler in handlers.items()}
    return {target: name for name, target in targets.items() if target}


def _target_of(handler: logging.Handler) -> object:
    try:
        return getattr(handler, "target", None)
    except Caught:  # a property of the handler's own, which has nothing to do with forwarding
        return None


def _described(error: BaseException) -> str:
    """An error with its cause: ``DictConfigurator`` wraps errors."""
    cause = f": {error.__cause__}" if error.__cause__ else ""
    return f"{type(error).__name__}: {error}{cause}"[:500]
