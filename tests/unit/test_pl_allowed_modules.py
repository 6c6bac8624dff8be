"""The modules that a pipeline's file may name: a name resolves to an object of a listed module, or not at all."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.allowed_modules import AllowedModules, names_in
from chalicelib.pipelines.configuration import Properties, parse_pipeline_file
from chalicelib.pipelines.context import build_logging
from chalicelib.pipelines.files.handler import RollingS3Handler


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("logging.NullHandler", logging.NullHandler),
        ("logging.Filter", logging.Filter),
        ("logging.handlers.SysLogHandler", logging.handlers.SysLogHandler),
        ("logging.handlers.SysLogHandler.LOG_LOCAL0", logging.handlers.SysLogHandler.LOG_LOCAL0),
        ("chalicelib.pipelines.files.handler.RollingS3Handler", RollingS3Handler),
        ("sys.stdout", sys.stdout),
        ("sys.stderr", sys.stderr),
    ],
)
def test_default_modules_lead_to_classes_of_logging_and_constants(name: str, expected: object) -> None:
    assert AllowedModules().resolve(name) is expected


@pytest.mark.parametrize(
    "name",
    [
        "logging." + "a." * 300 + "b", "os.system", "subprocess.Popen", "logging", "sys.exit", "sys.modules", "",
        "logging.os.system", "logging.handlers.os.system", "logging.config.listen", "logging.shutdown", "logging.Logger",
        "logging.Handler.__init__", "logging._acquireLock", "logging.NoSuch",
        "chalicelib.pipelines.files.handler.uuid4", "chalicelib.pipelines.files.handler.ThreadPoolExecutor",
        "chalicelib.pipelines.files.handler.logging.FileHandler", "chalicelib.composition.services", "chalicelib.no.such.Handler",
    ],
)  # fmt: skip
def test_other_names_lead_nowhere(name: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        AllowedModules().resolve(name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of the operator, with imports from other packages."""
    root = tmp_path / "site_pkg"
    root.mkdir()
    (root / "__init__.py").write_text(
        "import os\nfrom os import system\nfrom logging import NullHandler\nfrom functools import partial\n"
        "from site_pkg._inner import Inner\nPORT = 5\nfactory = partial(Inner)\n"
    )
    (root / "_inner.py").write_text("class Inner:\n    class Nested: ...\n    def method(self): ...\n")
    (root / "other.py").write_text("raise RuntimeError('imported')\n")
    (root / "lacking.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "site_pkg"
    for name in [name for name in sys.modules if name.partition(".")[0] == "site_pkg"]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["Inner", "Inner.Nested", "PORT", "factory", "NullHandler"])
def test_an_added_module_leads_to_what_its_package_defines(package: str, name: str) -> None:
    assert AllowedModules((package,)).resolve(f"{package}.{name}") is not None


@pytest.mark.parametrize("name", ["system", "os.system", "partial", "_inner.Inner", "Inner.method.__globals__", "none"])
def test_an_added_module_does_not_lead_to_what_it_imported(package: str, name: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        AllowedModules((package,)).resolve(f"{package}.{name}")


def test_an_entry_is_one_module_unless_it_ends_in_a_star(package: str) -> None:
    with pytest.raises(InvalidConfigurationError):
        AllowedModules((package,)).resolve(f"{package}.other.Handler")
    with pytest.raises(RuntimeError, match="imported"):
        AllowedModules((f"{package}.*",)).resolve(f"{package}.other.Handler")
    assert AllowedModules((f"{package}.*",)).missing([f"{package}.Inner", f"{package}.a.b.C", f"{package}more.C"]) == [
        f"{package}more"
    ]


def test_a_library_that_a_module_lacks_is_named(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        AllowedModules((f"{package}.*",)).resolve(f"{package}.lacking.Handler")


def test_a_module_that_is_not_listed_is_not_imported(package: str) -> None:
    for name in (f"{package}.other.Handler", f"{package}.other"):
        with pytest.raises(InvalidConfigurationError, match="not listed"):
            AllowedModules().resolve(name)
    assert package not in sys.modules


@pytest.mark.parametrize("text", ["a b", "cfg://a", "os;", "a..b", ".a", "*", "a.*.b", "1a", "a.*b"])
def test_a_bad_entry_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="RUNLAKE_PIPELINE_MODULES="):
        AllowedModules.read(f"good, {text}")


def test_the_setting_is_read_with_spaces_and_empty_entries() -> None:
    assert AllowedModules.read(" a.b ,, c.*,") == AllowedModules(("a.b", "c.*"))
    assert AllowedModules.read(None) == AllowedModules.read("") == AllowedModules()


def test_names_of_a_definition_are_found_at_any_depth() -> None:
    given = {"()": "ext://a.B", "class": "c.D", "x": ["ext://e.F", {"y": ("ext://g.H", 1)}], ".": {"z": "ext://i.J"}, "n": "k.L"}
    assert sorted(names_in(given)) == ["a.B", "c.D", "e.F", "g.H", "i.J"]


@pytest.mark.parametrize(
    "sections",
    [
        {"formatters": {"f": {"class": "logging.os.system"}}},
        {"formatters": {"f": {"class": "logging.os.path.join", "format": "a", "datefmt": "b"}}},
        {"formatters": {"f": {"()": "logging.os.system"}}},
        {"filters": {"f": {"()": "logging.shutdown"}}},
    ],
)
def test_building_resolves_by_the_same_rules(sections: dict[str, object]) -> None:
    text = yaml.safe_dump(
        {"logging": {"version": 1, **sections, "handlers": {"h": {"class": "logging.NullHandler"}}, "root": {"handlers": ["h"]}}}
    )
    file = parse_pipeline_file(text, "p")
    with pytest.raises(InvalidConfigurationError, match="cannot be built"):
        build_logging(file.logging, file.properties, lambda: 0)


@pytest.mark.parametrize(
    "definition", [{"()": "logging.os.system"}, {"class": "logging.StreamHandler", "stream": "ext://logging.os"}]
)
def test_a_handler_is_resolved_by_the_same_rules(definition: dict[str, object]) -> None:
    text = yaml.safe_dump({"logging": {"version": 1, "handlers": {"h": definition}, "root": {"handlers": ["h"]}}})
    context = build_logging(parse_pipeline_file(text, "p").logging, Properties(), lambda: 0)
    assert context.handlers == {} and "InvalidConfigurationError" in context.failures["h"]


def test_a_formatters_class_and_arguments_are_taken() -> None:
    layout = {"class": "logging.Formatter", "format": "{message}!", "style": "{", "validate": True}
    text = yaml.safe_dump(
        {
            "logging": {
                "version": 1,
                "formatters": {"f": layout},
                "handlers": {"h": {"class": "logging.NullHandler", "formatter": "f"}},
                "root": {"handlers": ["h"]},
            }
        }
    )
    handler = build_logging(parse_pipeline_file(text, "p").logging, Properties(), lambda: 0).handlers["h"]
    assert handler.format(logging.makeLogRecord({"msg": "hello"})) == "hello!"
