"""A pipeline's own logging tree: routes like ``logging``, and does not touch the process's logging."""

from __future__ import annotations

import gc
import logging
import logging.handlers
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.configuration import Logging, Properties, parse_pipeline_file
from chalicelib.pipelines.context import LoggingContext, build_logging
from tests.pipelines_harness import MODULES, RECORDS, RecordingHandler
from tests.sampling import pick


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    RecordingHandler.forget()
    yield
    RecordingHandler.forget()


class Refuses(logging.Handler):
    """Cannot be built."""

    def __init__(self) -> None:
        super().__init__()
        raise OSError("no such device")


class Levelled(logging.Handler):
    """Its level is a text, which ``setLevel`` would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.level = "LOUD"  # type: ignore[assignment]


class KeepsErrors(logging.Handler):
    """Its errors cannot be collected."""

    handleError = property(lambda self: None)  # type: ignore[assignment]


class Aims(logging.Handler):
    """Has a ``target`` of its own, which fails."""

    @property
    def target(self) -> str:
        raise OSError("no such target")


class Exits(logging.Handler):
    """Calls ``sys.exit``."""

    def __init__(self) -> None:
        raise SystemExit(3)


class Loud(logging.Filter):
    """Passes messages in upper case."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.getMessage().isupper()


def config(**given: Any) -> Logging:
    return parse_pipeline_file(yaml.safe_dump({"logging": {"version": 1, **given}}), "p", modules=MODULES).logging


def remember(*names: str, **more: Any) -> dict[str, Any]:
    return {name: {"class": RECORDS, "to": name, **more} for name in names}


def built(properties: Properties | None = None, **given: Any) -> LoggingContext:
    return build_logging(config(**given), properties or Properties(), lambda: 0)


def routed(context: LoggingContext, name: str) -> list[str]:
    return [handler for handler, _ in context.route(name, 0).handlers]


def state() -> dict[str, Any]:
    """The state of the process's logging."""
    return {
        "loggers": dict(logging.root.manager.loggerDict),
        "root": (list(logging.root.handlers), logging.root.level, list(logging.root.filters)),
        "handlers": [id(reference()) for reference in logging._handlerList],  # type: ignore[attr-defined]
        "names": dict(logging._handlers),  # type: ignore[attr-defined]
        "levels": dict(logging._levelToName),
        "class": logging.getLoggerClass(),
        "manager": logging.Logger.manager,
    }


@pytest.mark.behavior("Building a pipeline does not change the logging of its process.")
def test_the_processs_own_logging_stays_as_it_was(tmp_path: Path) -> None:
    mine = logging.getLogger("somebody.elses")
    handler = logging.NullHandler()
    handler.set_name("file")
    mine.addHandler(handler)
    gc.collect()  # handlers of earlier tests
    before = state()
    file = {"class": "logging.handlers.RotatingFileHandler", "filename": str(tmp_path / "log"), "delay": True}
    memory = {"class": "logging.handlers.MemoryHandler", "capacity": 10, "target": "file"}
    context = built(
        handlers={"file": file, "memory": memory},
        formatters={"f": {"format": "%(message)s"}},
        filters={"loud": {"()": f"{__name__}.Loud"}},
        loggers={"somebody.elses": {"handlers": ["memory"], "level": "DEBUG", "propagate": False}},
        root={"handlers": ["file"], "level": "ERROR"},
    )
    assert state() == before
    context.route("a.b.c", 0)
    list(context.close())
    assert state() == before
    assert mine.handlers == [handler]
    mine.removeHandler(handler)


def test_the_most_specific_configured_logger_wins() -> None:
    context = built(
        handlers=remember("root", "a", "ab"),
        loggers={"a": {"handlers": ["a"]}, "a.b": {"handlers": ["ab"], "level": "ERROR"}},
        root={"handlers": ["root"], "level": "INFO"},
    )
    assert routed(context, "a.b.c.d") == ["ab", "a", "root"]
    assert routed(context, "a.b") == ["ab", "a", "root"]
    assert routed(context, "a.bc") == ["a", "root"]
    assert routed(context, "z") == routed(context, "") == ["root"]
    assert context.route("a.b.c", 0).level == logging.ERROR
    assert context.route("a.c", 0).level == logging.INFO  # its own level is unset: the parent's


def test_propagate_false_stops_the_parent() -> None:
    context = built(
        handlers=remember("root", "a", "ab"),
        loggers={"a": {"handlers": ["a"], "propagate": False}, "a.b": {"handlers": ["ab"]}},
        root={"handlers": ["root"]},
    )
    assert routed(context, "a.b") == ["ab", "a"]


def test_a_name_is_routed_as_logging_itself_would() -> None:
    given = {
        "loggers": {
            "a": {"handlers": ["a"]},
            "a.b": {"handlers": ["ab"], "propagate": False},
            "a.b.c": {"level": "ERROR"},
            "x.y": {},
        },
        "root": {"handlers": ["root"], "level": "WARNING"},
    }
    context = built(handlers=remember("root", "a", "ab"), **given)
    manager = logging.Manager(logging.RootLogger(logging.WARNING))
    manager.root.addHandler(_named("root"))
    for name, one in given["loggers"].items():
        logger = logging.Logger.__new__(logging.Logger)
        logger = manager.getLogger(name)
        for handler in one.get("handlers", ()):
            logger.addHandler(_named(handler))
        logger.setLevel(one.get("level", "NOTSET"))
        logger.propagate = one.get("propagate", True)
        logger.parent = logger.parent or manager.root
    for name in ("a", "a.b", "a.b.c", "a.b.c.d", "a.z", "x", "x.y.z", "q"):
        expected, current = [], manager.getLogger(name)
        level = current.getEffectiveLevel()
        walk: logging.Logger | None = current
        while walk is not None:
            expected += [handler.name for handler in walk.handlers]
            walk = walk.parent if walk.propagate else None
        assert routed(context, name) == expected, name
        assert context.route(name, 0).level == (level or logging.NOTSET)


def _named(name: str) -> logging.Handler:
    handler = logging.NullHandler()
    handler._name = name  # type: ignore[attr-defined]
    return handler


@pytest.mark.slow
def test_any_number_of_names_creates_no_loggers_and_keeps_a_thousand_entries() -> None:
    context = built(handlers=remember("root"), loggers={"a": {"handlers": ["root"]}}, root={"handlers": ["root"]})
    there = dict(context.loggers["a"].manager.loggerDict)
    before = len(logging.root.manager.loggerDict)
    for number in range(pick(20_000, 50_000, 1_000_000)):
        context.route(f"a.logger{number}.b", 0)
    assert context.cached_routes == 1000
    assert context.loggers["a"].manager.loggerDict == there
    assert len(logging.root.manager.loggerDict) == before
    tracemalloc.start()
    for number in range(20_000):
        context.route(f"a.other{number}.b", 0)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 2_000_000


def test_names_are_kept_for_their_time_and_no_longer() -> None:
    context = built(
        Properties(logger_cache_size=2, logger_cache_ttl_ms=1000), handlers=remember("root"), root={"handlers": ["root"]}
    )
    first = context.route("a", 0)
    assert context.route("a", 999) is first
    assert context.route("a", 1000) is not first
    context.route("b", 1000)
    context.route("c", 1000)
    assert context.cached_routes == 2
    context.forget_routes(2000)
    assert context.cached_routes == 0


def test_a_handler_that_cannot_be_made_leaves_the_others() -> None:
    context = built(
        handlers={
            **remember("good"),
            "bad": {"class": f"{__name__}.Refuses"},
            "exits": {"class": f"{__name__}.Exits"},
            "none": {"class": "tests.no.such.Class"},
            "level": {"class": f"{__name__}.Levelled"},
            "errors": {"class": f"{__name__}.KeepsErrors"},
            "behind": {"class": "logging.handlers.MemoryHandler", "capacity": 1, "target": "bad"},
        },
        root={"handlers": ["good", "bad", "exits", "none", "level", "errors", "behind"]},
    )
    assert sorted(context.handlers) == ["good"]
    assert sorted(context.failures) == ["bad", "behind", "errors", "exits", "level", "none"]
    assert "the level of a handler must be a number level='LOUD'" in context.failures["level"]
    assert "no such device" in context.failures["bad"]
    assert routed(context, "any") == ["good"]


@pytest.mark.parametrize(
    "given",
    [
        {"formatters": {"f": {"()": "tests.no.such.Formatter"}}},
        {"filters": {"f": {"()": "tests.no.such.Filter"}}},
        {"root": {"handlers": ["h"], "filters": ["none"]}},
        {"root": {"handlers": ["h"], "level": "LOUD"}},
    ],
)
def test_formatters_filters_and_loggers_that_cannot_be_built_are_fatal(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigurationError):
        built(**{"handlers": remember("h"), "root": {"handlers": ["h"]}, **given})


def test_errors_that_a_handler_keeps_to_itself_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    context = built(handlers={"s": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}}, root={"handlers": ["s"]})
    record = logging.makeLogRecord({"msg": "%d", "args": ("no number",), "levelno": 20})
    context.handlers["s"].handle(record)
    [seen] = context.swallowed
    assert (seen.handler, seen.record, type(seen.error)) == ("s", record, TypeError)
    assert capsys.readouterr().err == ""


def test_text_in_errors_is_an_argument_of_the_handler_and_a_mapping_is_not(tmp_path: Path) -> None:
    file = {"class": "logging.FileHandler", "filename": str(tmp_path / "log"), "encoding": "ascii", "delay": True}
    context = built(
        handlers={"f": {**file, "errors": "replace"}, "g": {**file, "errors": {"max": 1}}}, root={"handlers": ["f", "g"]}
    )
    assert context.failures == {}
    assert [context.handlers[name].errors for name in "fg"] == ["replace", None]  # type: ignore[attr-defined]


def test_owner_of_a_forwarding_target_is_known() -> None:
    memory = {"class": "logging.handlers.MemoryHandler", "capacity": 10, "target": "z"}
    context = built(
        handlers={"memory": memory, "own": {"class": f"{__name__}.Aims"}, **remember("z")}, root={"handlers": ["memory"]}
    )
    assert context.owners == {"z": "memory"}
    assert context.attached() == ["memory"]
