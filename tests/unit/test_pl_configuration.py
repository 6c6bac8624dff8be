"""One YAML file a pipeline: what it may say, what it may not, and which files count."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from chalicelib.errors import InvalidConfigurationError
from chalicelib.memory.clock import ManualClock
from chalicelib.memory.object_store import InMemoryObjectStore
from chalicelib.pipelines.configuration import Properties, parsed
from chalicelib.pipelines.context import checked
from chalicelib.pipelines.scan import BUILT_IN, Folder, Found, Prefix, scan
from chalicelib.ports import PutOptions

LOGGING = {"version": 1, "handlers": {"h": {"class": "logging.NullHandler"}}, "root": {"handlers": ["h"]}}
GOOD = yaml.safe_dump({"logging": LOGGING})


def text(**sections: object) -> str:
    return yaml.safe_dump({"logging": LOGGING, **sections})


def test_the_contracts_example_is_a_pipeline_and_its_figures_are_the_defaults() -> None:
    example = """
name: audit
properties: {event_delay_ms: 2000, buffer_bytes: 0, checkpoint_interval_ms: 10000,
             fetch_bytes: 1048576, logger_cache_size: 1000, logger_cache_ttl_ms: 300000}
errors: {max: 100, window_s: 300, retries: 3}
source: {include: [finalized, live], what: ["*"]}
logging:
  version: 1
  handlers: {h: {class: logging.NullHandler}}
  root: {handlers: [h]}
"""
    said, unsaid = parsed(example, "file"), parsed(GOOD, "audit")
    assert said == unsaid
    assert unsaid.name == "audit"  # the file's stem


def test_exactly_the_listed_properties_may_be_overridden() -> None:
    defaults = Properties(event_delay_ms=7, fetch_bytes=4096)
    assert parsed(text(properties={"event_delay_ms": 9}), "p", defaults).properties == Properties(
        event_delay_ms=9, fetch_bytes=4096
    )
    assert sorted(Properties.model_fields) == sorted([
        "event_delay_ms", "buffer_bytes", "checkpoint_interval_ms", "fetch_bytes", "logger_cache_size", "logger_cache_ttl_ms",
    ])  # fmt: skip
    with pytest.raises(InvalidConfigurationError, match=r"extra inputs are not permitted at=properties\.delay"):
        parsed(text(properties={"delay": 9}), "p")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (text(colour="red"), "at=colour"),
        (text(errors={"max": 0}), r"at=errors\.max"),
        (text(errors={"max": "many"}), r"at=errors\.max"),
        (text(source={"include": ["later"]}), r"at=source\.include"),
        (text(source={"what": []}), "name one at least"),
        (text(name="a b"), "at=name"),
        (text(properties={"fetch_bytes": True}), r"at=properties\.fetch_bytes"),
        (text(properties=[1]), "at=properties"),
        ("a: [", "no yaml"),
        ("- a", "names and values"),
        ("", "names and values"),
        ("!!python/object/apply:os.system ['true']", "no yaml"),
        ("name: a\nname: b\n", "stands twice: name"),
        ("a" * 300_000, "at most"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": ["other"]}}}), "no such handler: other"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {}}}), "no logger has a handler"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": ["h"], "lvl": 1}}}), "not lvl"),
        (yaml.safe_dump({"logging": {**LOGGING, "incremental": True}}), "at=logging.incremental"),
        (yaml.safe_dump({"logging": {**LOGGING, "version": 2}}), "at=logging.version"),
        (yaml.safe_dump({"logging": {**LOGGING, "handlers": {"h": {"level": "INFO"}}}}), "has class or"),
    ],
)
def test_what_is_wrong_is_told(given: str, told: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=told):
        parsed(given, "p")


def test_the_scan_of_a_folder_has_the_built_in_pipeline_first(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "notes.txt").write_text("no pipeline")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text(GOOD)
    found = scan(Folder(tmp_path)())
    assert [each.name for each in found.pipelines] == [BUILT_IN, "a", "b"]
    assert found.problems == []
    assert found.named("b") is found.pipelines[2]


def test_the_scan_of_a_prefix_finds_the_same() -> None:
    store = InMemoryObjectStore(ManualClock())
    for name in ("b.yaml", "a.yaml", "notes.txt", "below/c.yaml"):
        store.put(f"conf/{name}", GOOD.encode(), PutOptions())
    store.put("conference.yaml", GOOD.encode(), PutOptions())
    assert [each.name for each in scan(Prefix(store, "conf")()).pipelines] == [BUILT_IN, "a", "b"]


def test_a_missing_built_in_pipeline_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="built-in pipeline is missing"):
        scan([], built_in=tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("[")
    with pytest.raises(InvalidConfigurationError, match="no yaml"):
        scan([], built_in=tmp_path / "bad.yaml")


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="no such folder"):
        list(Folder(tmp_path / "none")())


def test_bad_and_duplicate_files_are_left_out_and_the_first_is_kept() -> None:
    files = [
        Found("1.yaml", "1", text(name="same", errors={"max": 1})),
        Found("2.yaml", "2", "["),
        Found("3.yaml", "3", text(name="same", errors={"max": 3})),
        Found("4.yaml", "4", text(name="runlake")),
        Found("5.yaml", "5", GOOD),
    ]
    found = scan(files)
    assert [(each.name, each.errors.max) for each in found.pipelines] == [("runlake", 100), ("same", 1), ("5", 100)]
    assert [(each.place, each.reason.split(":")[0]) for each in found.problems] == [
        ("2.yaml", "no yaml"),
        ("3.yaml", "another has the name already name=same in=1.yaml"),
        ("4.yaml", found.problems[2].reason.split(":")[0]),
    ]
    assert "another has the name already name=runlake" in found.problems[2].reason


def test_what_a_file_names_is_looked_for_without_being_built() -> None:
    checked(parsed(GOOD, "p").logging)
    unknown = {**LOGGING, "handlers": {"h": {"class": "logging.handlers.NoSuch"}}}
    with pytest.raises(InvalidConfigurationError, match="cannot be found"):
        checked(parsed(yaml.safe_dump({"logging": unknown}), "p").logging)
    opening = {**LOGGING, "handlers": {"h": {"class": "logging.FileHandler", "filename": "/nowhere/at/all"}}}
    checked(parsed(yaml.safe_dump({"logging": opening}), "p").logging)
