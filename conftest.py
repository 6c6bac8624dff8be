"""Settings of all tests: Hypothesis has no deadline, because the machine may be busy; a level selects cases
(``tests/sampling.py``)."""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from tests import behaviors, sampling, session
from tests.jvm import use_installed_pyspark, use_short_lived_jvms

settings.register_profile("fast", deadline=None, max_examples=10, print_blob=True)
settings.register_profile("default", deadline=None, max_examples=35, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(sampling.LEVEL)

_ROOT = Path(__file__).parent
_LONG = tuple(f"{_ROOT}/tests/{folder}/" for folder in ("spark", "integration", "browser"))
_STARTS_SPARK = re.compile(r"/tests/spark/|/tests/integration/.*_job\.py$")
_FAST_CASES = 2
"""Cases of a parametrized test in a fast run, unless its ``sampled`` marker has another number."""
_SERVERS = {"moto", "ministack"}
_SERVER_FIXTURES = {"moto_url", "ministack_url"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--behaviors", action="store_true", help="list the behaviors that tests show, and run none")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not config.option.behaviors:
        return None
    print(behaviors.listing())
    return 0


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "behavior(statement): what the test shows that users rely on; `--behaviors` lists all")
    config.addinivalue_line("markers", "slow: takes seconds, or a server: not part of `make unit`")
    config.addinivalue_line("markers", "thorough: part of `make test-thorough` only; the reason is in docs/testing.md")
    config.addinivalue_line(
        "markers",
        "sampled(default, fast, group): how many of its cases `make test` and `make unit` run; thorough: all. "
        "Tests of a group are the cases of one family",
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    level = f"level: RUNLAKE_TESTS={sampling.LEVEL}, sample: RUNLAKE_SAMPLE={sampling.SEED}"
    word = _only_word(config)
    return [level, f"files without the word {word!r} are ignored; for all files: -k '({word})'"] if word else [level]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-k word``, files without the word in their path or text are not imported: importing all takes seconds."""
    word = _only_word(config)
    is_test_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    if not word or not is_test_file or word in str(collection_path.relative_to(_ROOT)).lower():
        return None
    return None if word in collection_path.read_text().lower() else True


def _only_word(config: pytest.Config) -> str:
    """The word of ``-k word`` in lower case; empty for expressions, which may match names that no file contains."""
    word: str = config.option.keyword
    return word.lower() if re.fullmatch(r"\w+", word) else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start long files first, so that none starts last and delays the end. The sort is stable: order within a file is kept."""
    is_chosen_by_id = any("::" in argument for argument in config.args)
    if not is_chosen_by_id:
        _select(config, items)
    items.sort(key=lambda item: not str(item.path).startswith(_LONG))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collected items live until the end, so the garbage collector need not scan them repeatedly."""
    if any(_STARTS_SPARK.search(str(item.path)) for item in session.items) and not session.config.option.collectonly:
        use_short_lived_jvms()
        use_installed_pyspark()
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    session.shared.close()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def _select(config: pytest.Config, items: list[pytest.Item]) -> None:
    of_level = [item for item in items if _is_of_level(item)]
    families: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in of_level:
        families[_family_of(item)].append(item)
    chosen = {id(item) for name, family in families.items() for item in _sampled(name, family)}
    left_out = [item for item in items if id(item) not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if id(item) in chosen]


def _family_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("sampled")
    return (marker and marker.kwargs.get("group")) or item.nodeid.partition("[")[0]


def _is_of_level(item: pytest.Item) -> bool:
    if item.get_closest_marker("thorough"):
        return sampling.IS_COMPLETE
    if sampling.LEVEL != "fast":
        return True
    values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    needs_server = not _SERVER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    return not (
        item.get_closest_marker("slow") or needs_server or any(value in _SERVERS for value in values if isinstance(value, str))
    )


def _sampled(name: str, family: list[pytest.Item]) -> list[pytest.Item]:
    marker = family[0].get_closest_marker("sampled")
    if marker is None:
        return sampling.sample(family, name, len(family), _FAST_CASES)
    numbers = {level: number for level, number in marker.kwargs.items() if level != "group"}
    return sampling.sample(family, name, **{"fast": _FAST_CASES, **numbers})
