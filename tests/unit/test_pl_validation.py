"""Checks of a pipeline's file that execute nothing of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.configuration import Properties, parse_pipeline_file
from chalicelib.pipelines.context import build_logging
from chalicelib.pipelines.validation import check_pipeline

NULL = {"class": "logging.NullHandler"}
ROLLING = {"class": "chalicelib.pipelines.files.handler.RollingS3Handler", "base": "pipeline-files/a"}
FORWARD = {"class": "chalicelib.pipelines.forward_handler.ForwardHandler", "target": {"kind": "fluentd", "url": "http://a"}}
FILE = {"class": "logging.FileHandler", "filename": "/nowhere/at/all"}


def section(**given: Any) -> dict[str, Any]:
    return {"version": 1, "root": {"handlers": ["h"]}, "handlers": {"h": NULL}, **given}


def problems(*, in_job: bool = False, modules: AllowedModules | None = None, **given: Any) -> list[str]:
    text = yaml.safe_dump({"logging": section(**given)})
    return list(check_pipeline(parse_pipeline_file(text, "p", modules=modules or AllowedModules()), in_job=in_job))


def handler(**given: Any) -> dict[str, Any]:
    return {"handlers": {"h": given}}


@pytest.mark.parametrize(
    "given",
    [
        {},
        handler(**FILE, encoding="utf-8", level="INFO", errors={"max": 1}),
        handler(**FILE, errors="replace", level=10),
        handler(**{"()": "logging.StreamHandler", "stream": "ext://sys.stdout", ".": {"terminator": ""}}),
        handler(**ROLLING, keep_days=1, keep_bytes=5, path="{application}/{level}.log"),
        handler(**FORWARD),
        handler(**{**ROLLING, "base": "cfg://mine.base"}) | {"mine": {"base": "pipeline-files/b"}},
        {"handlers": {"h": {"class": "logging.handlers.MemoryHandler", "capacity": 5, "target": "t"}, "t": NULL}},
        handler(**NULL, filters=["f"]) | {"filters": {"f": {"name": "a"}}},
        handler(**NULL, formatter="f") | {"formatters": {"f": {"format": "%(message)s", "validate": False, "datefmt": "%H"}}},
        {"formatters": {"f": {"()": "logging.Formatter", "format": "%(message)s"}}},
        {"formatters": {"f": {"()": "logging.Formatter", ".": {"default_msec_format": "%s"}}}},
        handler(**ROLLING, max_bytes="ext://logging.handlers.SYSLOG_UDP_PORT"),
    ],
)
def test_valid_file_has_no_problems(given: dict[str, Any]) -> None:
    assert problems(**given) == []


@pytest.mark.behavior("Validating a pipeline file finds wrong names and arguments, and executes nothing that the file names.")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (handler(**{"class": "logging.handlers.NoSuch"}),
            "the module has no such class name='logging.handlers.NoSuch' handler=h"),
        (handler(**{"class": "chalicelib.no.such.Handler"}), "the module has no such class name='chalicelib.no.such.Handler' handler=h"),
        (handler(**{"class": "logging.handlers.SYSLOG_UDP_PORT"}), "not callable: logging.handlers.SYSLOG_UDP_PORT handler=h"),
        (handler(**{"class": "logging.Filter"}), "not a handler: logging.Filter handler=h"),
        (handler(**{"()": "ext://logging.Filter"}), "not a handler: ext://logging.Filter handler=h"),
        (handler(**NULL, target="t"), "unknown argument: target handler=h"),
        (handler(**NULL, level=2.5), "unknown level: 2.5 handler=h"),
        (handler(**FILE, enconding="utf-8"), "unknown argument: enconding, did you mean encoding? handler=h"),
        (handler(**FILE, formater="f"), "unknown argument: formater, did you mean formatter? handler=h"),
        (handler(**NULL, errors="replace"), "unknown argument: errors handler=h"),
        (handler(**NULL, format="parquet"), "unknown argument: format, did you mean formatter? handler=h"),
        (handler(**FILE, colour=1), "unknown argument: colour handler=h"),
        (handler(**{"class": "logging.FileHandler"}), "missing argument: filename handler=h"),
        (handler(**{"()": "logging.NullHandler", "class": "logging.NullHandler"}), "unknown argument: class handler=h"),
        (handler(**ROLLING, max_byte=1), "unknown argument: max_byte, did you mean max_bytes? handler=h"),
        (handler(**ROLLING, max_bytes="1"), "an argument must be int: max_bytes value='1' handler=h"),
        (handler(**ROLLING, max_open=True), "an argument must be int: max_open value='True' handler=h"),
        (handler(**ROLLING, max_bytes=0), "a limit of files must be positive max_bytes=0 handler=h"),
        (handler(**{**ROLLING, "base": "/a"}),
            "a base must be folders of letters, digits and ._=-, separated by slashes base='/a' handler=h"),
        (handler(**ROLLING, format="parquet"),
            "Parquet needs pyarrow, which the functions lack: run the pipeline in the job run_pipelines handler=h"),
        (handler(**NULL, formatter="fi") | {"formatters": {"file": {}}}, "no such formatter: fi, did you mean file? handler=h"),
        (handler(**NULL, formatter="ext://sys.stdout"), "no such formatter: ext://sys.stdout handler=h"),
        (handler(**NULL, formatter=5), "no such formatter: 5 handler=h"),
        (handler(**NULL, filters=["f"]), "no such filter: f handler=h"),
        (handler(**NULL, filters="f"), "filters must be a list handler=h"),
        (handler(**NULL, level=[1]), "unknown level: [1] handler=h"),
        (handler(**{"class": 5}), "not a name of a class: 5 handler=h"),
        (handler(**NULL, level="warn ing"), "unknown level: warn ing, did you mean WARNING? handler=h"),
        (handler(**FILE, mode="cfg://mine.mode") | {"mine": {}},
            "a reference cannot be resolved: KeyError: 'mode' handler=h"),
        (handler(**{"class": "logging.handlers.MemoryHandler", "capacity": 5, "target": "t"}), "no such handler: t handler=h"),
        ({"root": {"handlers": ["h"], "level": "LOUD"}}, "unknown level: LOUD logger=root"),
        ({"loggers": {"a": {"filters": ["f"]}}}, "no such filter: f logger=a"),
        ({"formatters": {"f": {"formt": "%(message)s"}}}, "unknown key: formt, did you mean format? formatter=f"),
        ({"formatters": {"f": {"format": "none"}}}, "ValueError: Invalid format 'none' for '%' style formatter=f"),
        ({"formatters": {"f": {"()": "logging.Formatter", "stile": "{"}}}, "unknown argument: stile, did you mean style? formatter=f"),
        ({"filters": {"f": {"class": "logging.Filter"}}}, "unknown key: class filter=f"),
        ({"filters": {"f": {"()": "logging.Filter", "nam": "a"}}}, "unknown argument: nam, did you mean name? filter=f"),
    ],
)  # fmt: skip
def test_problem_is_named(given: dict[str, Any], expected: str) -> None:
    assert problems(**given) == [expected]


def test_parquet_is_valid_in_the_job() -> None:
    assert problems(in_job=True, **handler(**ROLLING, format="parquet")) == []


@pytest.mark.parametrize(
    "given",
    [
        handler(**FILE, enconding="utf-8"),
        handler(**ROLLING, max_byte=1),
        handler(**ROLLING, max_bytes=0),
        handler(**NULL, formatter="f"),
        handler(**NULL, level="LOUD"),
        handler(**NULL, level=2.5),
        handler(**{"class": ["logging.NullHandler"]}),
        handler(**{"class": "logging.FileHandler"}),
    ],
)
def test_what_is_found_fails_the_start_of_the_handler(given: dict[str, Any]) -> None:
    file = parse_pipeline_file(yaml.safe_dump({"logging": section(**given)}), "p")
    assert list(check_pipeline(file)) and list(build_logging(file.logging, Properties(), lambda: 0).failures) == ["h"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AllowedModules]:
    """A package that fails when it is imported."""
    (tmp_path / "site_pkg").mkdir()
    (tmp_path / "site_pkg" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield AllowedModules(("site_pkg.*", "logging.site"))
    assert "site_pkg" not in sys.modules


@pytest.mark.parametrize(
    "given",
    [
        handler(**{"class": "site_pkg.Handler", "any": 1}),
        handler(**{"()": "ext://site_pkg.inner.made", "any": 1}),
        handler(**{"class": "logging.site.Handler"}),
        handler(**{"class": "logging.StreamHandler", "stream": "ext://site_pkg.STREAM"}),
        {"formatters": {"f": {"class": "site_pkg.Formatter", "format": "its own"}, "g": {"()": "site_pkg.made", "any": 1}}},
        {"filters": {"f": {"()": "site_pkg.Filter", "any": 1}}},
        handler(**FILE, mode="cfg://mine.mode") | {"mine": {"mode": "ext://site_pkg.MODE"}},
    ],
)
def test_modules_of_the_operator_are_not_imported(package: AllowedModules, given: dict[str, Any]) -> None:
    assert problems(modules=package, **given) == []


def test_no_class_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a constructor was called")

    monkeypatch.setattr("logging.Handler.__init__", refuse)
    file = {**FILE, "filename": str(tmp_path / "log")}
    assert problems(handlers={"h": file, "i": ROLLING}, filters={"f": {"()": "logging.Filter"}}) == []
    assert list(tmp_path.iterdir()) == []
