"""A pipeline's YAML file: valid and invalid contents, and the selection of files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from chalicelib.errors import InvalidConfigurationError, ObjectNotFoundError
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.config_loader import BUILT_IN, BucketPrefix, ConfigFile, LocalFolder, load_pipelines
from chalicelib.pipelines.configuration import MAX_VALUES, Properties, _Loader, parse_pipeline_file
from chalicelib.ports import PutOptions
from tests.support.clock import ManualClock
from tests.support.object_store import InMemoryObjectStore

NULL = {"class": "logging.NullHandler"}
LOGGING = {"version": 1, "handlers": {"h": NULL}, "root": {"handlers": ["h"]}}
GOOD = yaml.safe_dump({"logging": LOGGING})


def text(**sections: object) -> str:
    return yaml.safe_dump({"logging": LOGGING, **sections})


def with_errors(errors: object) -> str:
    """A pipeline whose handler has ``errors``."""
    return yaml.safe_dump({"logging": {**LOGGING, "handlers": {"h": {"class": "logging.NullHandler", "errors": errors}}}})


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
    said, unsaid = parse_pipeline_file(example, "file"), parse_pipeline_file(GOOD, "audit")
    assert said == unsaid
    assert unsaid.name == "audit"  # the file's stem


def test_exactly_the_listed_properties_may_be_overridden() -> None:
    defaults = Properties(event_delay_ms=7, fetch_bytes=4096)
    assert parse_pipeline_file(text(properties={"event_delay_ms": 9}), "p", defaults).properties == Properties(
        event_delay_ms=9, fetch_bytes=4096
    )
    assert sorted(Properties.model_fields) == sorted([
        "event_delay_ms", "buffer_bytes", "checkpoint_interval_ms", "fetch_bytes", "logger_cache_size", "logger_cache_ttl_ms",
    ])  # fmt: skip
    with pytest.raises(InvalidConfigurationError, match=r"extra inputs are not permitted at=properties\.delay"):
        parse_pipeline_file(text(properties={"delay": 9}), "p")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (text(colour="red"), "extra inputs are not permitted at=colour"),
        (text(error={"max": 1}), "not permitted, did you mean errors.* at=error"),
        (text(errors={"windows": 1}), r"did you mean window_s\? at=errors.windows"),
        (text(properties={"event_delay": 1}), r"did you mean event_delay_ms\? at=properties.event_delay"),
        (yaml.safe_dump({"logging": {**LOGGING, "handler": {}}}), r"did you mean handlers\? at=logging.handler"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": ["h"], "levle": 1}}}), r"not levle, did you mean level\?"),
        (
            yaml.safe_dump(
                {"logging": {**LOGGING, "handlers": {"file": {"class": "logging.NullHandler"}}, "root": {"handlers": ["flie"]}}}
            ),
            r"no such handler: flie, did you mean file\?",
        ),
        (text(errors={"max": 0}), r"at=errors\.max"),
        (text(errors={"max": "many"}), r"at=errors\.max"),
        (text(source={"include": ["later"]}), r"at=source\.include"),
        (text(source={"what": []}), "must not be empty"),
        (text(name="a b"), "at=name"),
        (text(properties={"fetch_bytes": True}), r"at=properties\.fetch_bytes"),
        (text(properties=[1]), "at=properties"),
        ("a: [", "invalid yaml"),
        ("target: {headers: {Authorization: hunter2}", r"invalid yaml: (?!.*hunter2).* line=1 column=\d+ file=p$"),
        ("- a", "must be a mapping"),
        ("", "must be a mapping"),
        ("!!python/object/apply:os.system ['true']", "invalid yaml"),
        ("name: a\nname: b\n", "duplicate name: name"),
        ("a" * 300_000, "at most"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": ["other"]}}}), "no such handler: other"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": [["other"]]}}}), "no such handler: \\['other'\\]"),
        (text(logging={**LOGGING, "handlers": {"5": NULL}, "root": {"handlers": [5]}}), "no such handler: 5"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": 5}}}), "must be a list of names"),
        (yaml.safe_dump({"logging": {**LOGGING, "loggers": {"a": {"handlers": "other"}}}}), "must be a list of names"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {}}}), "no logger has a handler"),
        (yaml.safe_dump({"logging": {**LOGGING, "root": {"handlers": ["h"], "lvl": 1}}}), "not lvl"),
        (yaml.safe_dump({"logging": {**LOGGING, "incremental": True}}), "at=logging.incremental"),
        (yaml.safe_dump({"logging": {**LOGGING, "version": 2}}), "at=logging.version"),
        (yaml.safe_dump({"logging": {**LOGGING, "handlers": {"h": {"level": "INFO"}}}}), "needs class or"),
        (with_errors({"max": 0}), r"errors of a handler: .* at=max value='0' handler=h at=logging"),
        (with_errors({"window_s": "long"}), "at=window_s value='long' handler=h"),
        (with_errors({"retries": 1}), "at=retries value='1' handler=h"),
        (with_errors("cfg://nobody"), "a reference cannot be resolved: KeyError: 'nobody' handler=h"),
    ],
)
def test_invalid_file_is_rejected_with_the_reason(given: str, told: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=told):
        parse_pipeline_file(given, "p")


def test_the_scan_of_a_folder_has_the_built_in_pipeline_first(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(GOOD)
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "notes.txt").write_text("no pipeline")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text(GOOD)
    found = load_pipelines(LocalFolder(tmp_path)())
    assert [each.name for each in found.pipelines] == [BUILT_IN, "a", "b"]
    assert found.problems == []
    assert found.named("b") is found.pipelines[2]


def test_the_scan_of_a_prefix_finds_the_same() -> None:
    store = InMemoryObjectStore(ManualClock())
    for name in ("b.yaml", "a.yaml", "notes.txt", "below/c.yaml"):
        store.put(f"conf/{name}", GOOD.encode(), PutOptions())
    store.put("conference.yaml", GOOD.encode(), PutOptions())
    assert [each.name for each in load_pipelines(BucketPrefix(store, "conf")()).pipelines] == [BUILT_IN, "a", "b"]


@pytest.mark.parametrize("kind", ["folder", "prefix"])
def test_files_that_accompany_pipelines_are_bounded_and_are_no_pipelines(tmp_path: Path, kind: str) -> None:
    store = InMemoryObjectStore(ManualClock())
    source = LocalFolder(tmp_path) if kind == "folder" else BucketPrefix(store, "conf/")
    assert source.write("lib/0/a.yaml", GOOD.encode()).endswith("lib/0/a.yaml")
    assert (source.read("lib/0/a.yaml", 5), source.read("lib/0/a.yaml", 1 << 20)) == (GOOD.encode()[:5], GOOD.encode())
    assert list(source()) == []
    with pytest.raises((OSError, ObjectNotFoundError)):
        source.read("lib/1", 5)


def test_a_missing_built_in_pipeline_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="built-in pipeline is missing"):
        load_pipelines([], built_in=tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("[")
    with pytest.raises(InvalidConfigurationError, match="invalid yaml"):
        load_pipelines([], built_in=tmp_path / "bad.yaml")


def test_first_pattern_that_matches_a_name_includes_or_excludes_it() -> None:
    source = parse_pipeline_file(text(source={"what": ["a.keep", "!a.*", "*"]}), "p").source
    assert [source.matches(fqn) for fqn in ("a.keep", "a.b", "b")] == [True, False, True]
    assert not parse_pipeline_file(text(source={"what": ["b.*"]}), "p").source.matches("a.b")


def test_missing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigurationError, match="no such folder"):
        list(LocalFolder(tmp_path / "none")())


@pytest.mark.behavior("Invalid and duplicate pipeline files are left out, and the others run.")
def test_bad_and_duplicate_files_are_left_out_and_the_first_is_kept() -> None:
    files = [
        ConfigFile("1.yaml", "1", text(name="same", errors={"max": 1})),
        ConfigFile("2.yaml", "2", "["),
        ConfigFile("3.yaml", "3", text(name="same", errors={"max": 3})),
        ConfigFile("4.yaml", "4", text(name="runlake")),
        ConfigFile("5.yaml", "5", GOOD),
    ]
    found = load_pipelines(files)
    assert [(each.name, each.errors.max) for each in found.pipelines] == [("runlake", 100), ("same", 1), ("5", 100)]
    assert [(each.location, each.reason.split(":")[0]) for each in found.problems] == [
        ("2.yaml", "invalid yaml"),
        ("3.yaml", "another pipeline has this name name=same in=1.yaml"),
        ("4.yaml", found.problems[2].reason.split(":")[0]),
    ]
    assert "another pipeline has this name name=runlake" in found.problems[2].reason


@pytest.mark.behavior("A pipeline file can use only modules that the operator allows.")
@pytest.mark.parametrize(
    "config",
    [
        {**LOGGING, "filters": {"f": {"()": "os.system", "command": "true"}}},
        {**LOGGING, "formatters": {"f": {"()": "os.system", "command": "true"}}},
        {**LOGGING, "formatters": {"f": {"class": "os.system"}}},
        {**LOGGING, "handlers": {"h": {"()": "os.system", "command": "true"}}},
        {**LOGGING, "handlers": {"h": {"()": "ext://os.system", "command": "true"}}},
        {**LOGGING, "handlers": {"h": {"class": "logging.StreamHandler", "stream": "ext://os.system"}}},
        {**LOGGING, "handlers": {"h": {"class": "logging.NullHandler", ".": {"a": [{"b": "ext://os.system"}]}}}},
    ],
)
def test_a_module_that_is_not_listed_is_refused_with_the_setting_to_add(config: dict[str, object]) -> None:
    text = yaml.safe_dump({"logging": config})
    with pytest.raises(InvalidConfigurationError, match="not listed: os: set RUNLAKE_PIPELINE_MODULES=site,os at=logging"):
        parse_pipeline_file(text, "p", modules=AllowedModules(("site",)))
    parse_pipeline_file(text, "p", modules=AllowedModules(("os",)))


def test_misspelt_module_is_refused_with_the_closest_one() -> None:
    text = yaml.safe_dump({"logging": {**LOGGING, "handlers": {"h": {"class": "loging.NullHandler"}}}})
    with pytest.raises(InvalidConfigurationError, match=r"loging, did you mean logging\? Otherwise set RUNLAKE_"):
        parse_pipeline_file(text, "p")


def test_a_file_cannot_list_modules_itself() -> None:
    for name in ("modules", "_modules"):
        with pytest.raises(InvalidConfigurationError, match="extra inputs are not permitted"):
            parse_pipeline_file(yaml.safe_dump({"logging": {**LOGGING, name: ["os"]}}), "p")


def test_a_scan_takes_the_list_of_modules() -> None:
    found = [ConfigFile("a.yaml", "a", yaml.safe_dump({"logging": {**LOGGING, "handlers": {"h": {"class": "site.Handler"}}}}))]
    assert [each.name for each in load_pipelines(found).pipelines] == [BUILT_IN]
    assert "site" in load_pipelines(found).problems[0].reason
    assert [each.name for each in load_pipelines(found, modules=AllowedModules(("site",))).pipelines] == [BUILT_IN, "a"]


def with_handlers(*names: str) -> str:
    return yaml.safe_dump({"logging": {**LOGGING, "handlers": {name: {"class": "logging.NullHandler"} for name in names}}})


def tens(levels: int) -> str:
    """Each level is ten aliases of the one before: 10 ** levels values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, levels)]
    return "\n".join([*lines, GOOD])


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (tens(5), "aliases expand to too much"),
        ("m0: &m0 {a: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [{','.join([f'*m{n - 1}'] * 20)}]}}\n" for n in range(1, 5)), "too much"),
        (f"a: &a {'x' * 100_000}\nb: [*a, *a, *a]\n", "aliases expand to too much"),
        ("a: &a [x, *a]\n", "contains itself"),
        ("a: &a {b: *a}\n", "contains itself"),
        ("a: [" + "x," * 30_000 + "]\n", "more than 20000 values"),
        ("a: &a 1\nb: [" + "*a," * 30_000 + "]\n", "more than 20000 values"),
        ("a: " + "[" * 60 + "]" * 60, "more than 50 levels"),
        (f"name: 0x{'f' * 5000}\n", "a number is too long"),
        ("name: !!bool maybe\n", "invalid yaml"),
        ("name: !!timestamp never\n", "invalid yaml"),
        ("name: !!int ''\n", "invalid yaml"),
        (yaml.safe_dump({f"k{at}": at for at in range(5000)}), "at=k1004 value='1004'; … file=p"),
        (with_handlers(*(f"h{at}" for at in range(201))), "at most 200 handlers"),
        (with_handlers("h" * 201), "at most 200 characters"),
    ],
)  # fmt: skip
def test_a_file_that_stands_for_too_much_is_refused(given: str, reason: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=reason) as refused:
        parse_pipeline_file(given, "p")
    assert len(str(refused.value)) < 20_000


def test_the_work_for_aliases_is_bounded_by_the_file() -> None:
    """Counts visited nodes and built values, not time."""
    loader = _Loader(tens(60))
    with pytest.raises(yaml.YAMLError, match="aliases expand to too much"):
        loader.get_single_data()
    assert loader._values < 1000 and max(values for values, _ in loader._sizes.values()) <= MAX_VALUES


def test_aliases_and_merges_of_a_usual_file_work() -> None:
    text = """
logging:
  version: 1
  handlers:
    a: &handler {class: logging.NullHandler, level: INFO}
    b: {<<: *handler, level: ERROR}
    c: *handler
  root: {handlers: [a, b, c]}
"""
    assert parse_pipeline_file(text, "p").logging.handlers == {
        "a": {"class": "logging.NullHandler", "level": "INFO"},
        "b": {"class": "logging.NullHandler", "level": "ERROR"},
        "c": {"class": "logging.NullHandler", "level": "INFO"},
    }


ROLLING = {"class": "chalicelib.pipelines.files.handler.RollingS3Handler"}


def rolling(**handlers: dict[str, object]) -> str:
    named = {name: {**ROLLING, **options} for name, options in handlers.items()}
    return yaml.safe_dump({"logging": {"version": 1, "handlers": named, "root": {"handlers": list(named)}}})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"base": "a"}, {"base": "a", "format": "text"}),
        ({"base": "a", "format": "jsonl"}, {"base": "a", "format": "jsonl", "max_bytes": 7}),
        ({"base": "a", "format": "text"}, {"base": "a", "format": "jsonl", "extension": "log"}),
        ({"base": "a", "path": "{level}.log"}, {"base": "a", "path": "all.log"}),
        ({"base": "a/b", "path": "{level}"}, {"base": "a", "path": "{fqn}/x-{level}"}),
        ({"base": "a", "path": "{fqn}"}, {"base": "a", "path": "{program}"}),
        ({"base": "a"}, {"base": "a", "()": ROLLING["class"]}),
    ],
)
def test_handlers_that_write_the_same_files_are_refused(first: dict[str, object], second: dict[str, object]) -> None:
    with pytest.raises(InvalidConfigurationError, match="two handlers write the same files"):
        parse_pipeline_file(rolling(one=first, two=second), "p")
    alone = [ConfigFile("1.yaml", "1", rolling(one=first)), ConfigFile("2.yaml", "2", rolling(two=second))]
    scanned = load_pipelines(alone)
    assert [each.name for each in scanned.pipelines] == [BUILT_IN, "1"]
    assert "another pipeline writes the same files pipeline=1" in scanned.problems[0].reason


def test_handlers_of_one_base_with_extensions_of_their_own_are_accepted() -> None:
    handlers = {
        "a": {"base": "x"},
        "b": {"base": "x", "format": "jsonl"},
        "c": {"base": "x", "extension": "c"},
        "d": {"base": "x/y"},
    }
    assert sorted(parse_pipeline_file(rolling(**handlers), "p").logging.handlers) == ["a", "b", "c", "d"]


def test_the_files_of_the_built_in_pipeline_are_its_own() -> None:
    scanned = load_pipelines([ConfigFile("mine.yaml", "mine", rolling(one={"base": "pipeline-files", "format": "jsonl"}))])
    assert [each.name for each in scanned.pipelines] == [BUILT_IN] and "pipeline=runlake" in scanned.problems[0].reason
