"""``cfg://`` references of a pipeline's file: what they refer to is what ``logging.config`` itself gives."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from logging.config import DictConfigurator
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.configuration import Logging, parse_pipeline_file
from chalicelib.pipelines.context import build_logging
from chalicelib.pipelines.references import References, plain
from tests.pipelines_harness import MODULES

NULL = {"class": "logging.NullHandler"}
ROOT = {"handlers": ["h"]}


class Taking(logging.Handler):
    """Keeps its arguments, with what their references refer to."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self.taken = plain(arguments)


def parsed(**section: Any) -> Logging:
    text = yaml.safe_dump({"logging": {"version": 1, "root": ROOT, **section}})
    return parse_pipeline_file(text, "p", modules=MODULES).logging


def taking(arguments: dict[str, Any], **section: Any) -> dict[str, Any]:
    return {**section, "handlers": {"h": {"()": f"{__name__}.Taking", **arguments}, "null": NULL}}


def by_logging(section: dict[str, Any]) -> Any:
    """The arguments by ``logging.config``; None if it raises."""
    configurator = DictConfigurator({"version": 1, "root": ROOT, **json.loads(json.dumps(section))})
    try:
        return configurator.configure_handler(configurator.config["handlers"]["h"]).taken  # type: ignore[attr-defined]
    except Exception:
        return None


def by_pipeline(section: dict[str, Any]) -> Any:
    config = parsed(**section)
    context = build_logging(config, None, lambda: 0)  # type: ignore[arg-type]
    handler = context.handlers.get("h")
    assert (handler is None) == ("h" in context.failures)
    return None if handler is None else handler.taken  # type: ignore[attr-defined]


keys = st.sampled_from(["a", "b", "c", "0", "1"])
leaves = st.one_of(st.integers(0, 3), st.booleans(), st.none(), st.sampled_from(["x", "ext://sys.stdout", "http://a", "cfg:/a"]))
steps = st.one_of(
    keys.map(".{}".format), keys.map("[{}]".format), st.sampled_from([" . a", "[ 0 ]", "[a", "..", "[-1]", "[0].a", "x", " "])
)
references = st.builds(
    lambda word, path: f"cfg://{word}{''.join(path)}",
    st.sampled_from(["mine", "mine", "mine", " mine", "handlers", "root", "nobody", "version", ""]),
    st.lists(steps, max_size=3),
)
values = st.recursive(
    st.one_of(leaves, references, references),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.behavior("References after cfg:// in a pipeline file resolve as in logging.config.")
@given(mine=values, arguments=st.dictionaries(st.sampled_from(["p", "q", "r"]), values, max_size=3))
@example(mine={"a": [{"b": 5}]}, arguments={"p": "cfg://mine.a[0].b"})
@example(mine={"a": {"b": [1, 2]}}, arguments={"p": {"c": [{"a": "cfg://mine[a].b[1]"}]}})
@example(mine={"a": "cfg://mine.b", "b": "cfg://mine.c", "c": [3]}, arguments={"p": "cfg://mine.a[0]"})
@example(mine={"a": "cfg://mine.b", "b": "cfg://mine.a"}, arguments={"p": "cfg://mine.a"})
@example(mine={"1": 1}, arguments={"p": "cfg://mine[1]"})
@example(mine={"1": 1}, arguments={"p": "cfg://mine.1"})
@example(mine=None, arguments={"p": "cfg://handlers.null.class"})
@example(mine=None, arguments={"p": "cfg://root.handlers[0]"})
def test_arguments_are_those_of_logging_config(mine: Any, arguments: dict[str, Any]) -> None:
    section = taking({**arguments, "s": "cfg://mine"}, mine=mine)
    expected = by_logging(section)
    assert by_pipeline(section) == expected
    config = parsed(**section)
    try:
        found = config.references().resolved(config.handlers["h"])
    except InvalidConfigurationError:
        assert expected is None
    else:
        if "ext://" not in json.dumps(section):  # which a static look does not resolve
            assert {key: value for key, value in found.items() if key != "()"} == expected


TREE = {
    "version": 1,
    "disable_existing_loggers": False,
    "mine": {
        "level": "WARNING", "loud": 40, "names": ["h"], "format": "%(levelname)s!%(message)s", "layout": "f", "filters": ["only"],
        "stream": "ext://sys.stdout", "off": False, "prefix": "a",
        "root": {"level": "NOTSET", "handlers": "cfg://mine.names"},
    },
    "formatters": {"f": {"format": "cfg://mine.format"}},
    "filters": {"only": {"name": "cfg://mine.prefix"}},
    "handlers": {
        "h": {
            "class": "logging.StreamHandler", "stream": "cfg://mine.stream", "formatter": "cfg://mine.layout", "level": "cfg://mine.level",
            "filters": "cfg://mine.filters", ".": {"terminator": "cfg://mine.names[0]"},
        },
    },
    "loggers": {"a.quiet": {"level": "cfg://mine.loud", "handlers": "cfg://mine.names", "propagate": "cfg://mine.off"}},
    "root": "cfg://mine.root",
}  # fmt: skip
RECORDS = [(name, level, f"{name}-{level}") for name in ("a", "a.quiet", "b") for level in (20, 30, 40)]


def test_whole_tree_is_that_of_logging_config(capsys: pytest.CaptureFixture[str]) -> None:
    code = f"""if True:
        import logging.config
        logging.config.dictConfig({TREE!r})
        for name, level, text in {RECORDS!r}:
            logging.getLogger(name).log(level, text)"""
    expected = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    config = parse_pipeline_file(yaml.safe_dump({"logging": TREE}), "p").logging
    context = build_logging(config, None, lambda: 0)  # type: ignore[arg-type]
    assert context.failures == {}
    for name, level, text in RECORDS:
        logger = context.loggers["a.quiet" if name == "a.quiet" else ""]
        record = logging.LogRecord(name, level, "", 0, text, (), None)
        if logger.isEnabledFor(level):
            logger.handle(record)
    assert expected and capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"handlers": {"h": NULL}, "mine": {"a": 1}}, "extra inputs are not permitted at=logging.mine"),
        ({"handlers": {"h": {**NULL, "x": "cfg://referenced"}}, "referenced": 1}, "extra inputs are not permitted: referenced"),
        ({"handlers": "cfg://mine", "mine": 5}, "input should be a valid dictionary"),
        ({"handlers": "cfg://nobody"}, "a reference cannot be resolved: KeyError: 'nobody'"),
        ({"handlers": {"h": "cfg://mine.x"}, "mine": {}}, "a reference cannot be resolved: KeyError: 'x'"),
        ({"handlers": {"h": NULL}, "root": {"handlers": ["cfg://mine"]}, "mine": "h"}, "no such handler: cfg://mine"),
        ({"handlers": {"h": NULL}, "root": {"handlers": "cfg://root.handlers"}}, "cannot be resolved: RecursionError"),
        ({"handlers": {"h": {**NULL, "s": "cfg://mine.s"}}, "mine": {"s": "ext://os.system"}}, "modules are not listed: os"),
    ],
)
def test_invalid_references_are_errors_of_the_file(section: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=reason.replace("(", r"\(")):
        parsed(**section)


@pytest.mark.parametrize(
    ("document", "reference"),
    [
        ({"a0": [1] * 10} | {f"a{at}": [f"cfg://a{at - 1}"] * 10 for at in range(1, 6)}, "cfg://a5"),
        ({"a": "x" * 100_000}, ["cfg://a"] * 3),
        ({"a": {"b": ["cfg://a"]}}, "cfg://a"),
    ],
)
def test_references_that_expand_to_too_much_are_refused(document: dict[str, Any], reference: Any) -> None:
    with pytest.raises(InvalidConfigurationError, match="expand to too much"):
        References(document).resolved(reference)


def test_references_of_a_file_import_nothing() -> None:
    assert References({"a": "ext://no_such_module.NAME"}).resolved(["cfg://a"]) == ["ext://no_such_module.NAME"]


def test_forwarding_target_gets_what_its_references_refer_to() -> None:
    target = {"kind": "fluentd", "url": "cfg://mine.url", "headers": {"X-Key": "cfg://mine.key"}}
    handler = {"class": "chalicelib.pipelines.forward_handler.ForwardHandler", "target": target}
    config = parsed(handlers={"h": handler}, mine={"url": "http://here.example", "key": "secret"})
    built = build_logging(config, None, lambda: 0).handlers["h"]  # type: ignore[arg-type]
    found = built._configuration  # type: ignore[attr-defined]
    assert (found.url, found.all_headers(lambda _: "")) == ("http://here.example", {"X-Key": "secret"})


def test_rolling_handlers_are_compared_by_what_their_references_refer_to() -> None:
    rolling = {"class": "chalicelib.pipelines.files.handler.RollingS3Handler"}
    handlers = {"h": {**rolling, "base": "cfg://mine"}, "i": {**rolling, "base": "pipeline-files/a"}}
    with pytest.raises(InvalidConfigurationError, match="two handlers write the same files"):
        parsed(handlers=handlers, mine="pipeline-files/a")
