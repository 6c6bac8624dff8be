"""Every number with a unit in README and ``docs/`` is generated, measured, or bound to the code: ``numbers.py`` says how."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.files.key_layout import checked_extension
from chalicelib.routes import openapi
from chalicelib.settings import Settings
from docs import generate
from tests.docs import facts
from tests.docs.numbers import Number, amount, count_written, expected, numbers, places, stated_by_test, text_of
from tests.docs.pages import DOCS, PAGES, PROJECT, name_of, written
from tests.docs.references import command_problem

CHECKED = [page for page in PAGES if name_of(page) not in facts.EXEMPT and page.parent != DOCS / "decisions"]
COUNTED = [*CHECKED, DOCS / "performance.md"]
OPENAPI = "OpenAPI"
BOUND = [
    (page, fragment, sources)
    for page, rows in (facts.FACTS | {OPENAPI: facts.OPENAPI}).items()
    for fragment, sources in rows.items()
]
ADVICE = "delete it, or generate it between `value` comments (docs/generate.py)"


def unbound(text: str, fragments: list[str]) -> list[Number]:
    """Numbers that no fragment covers."""
    covered = [match.span() for fragment in fragments for match in places(text, fragment)]
    return [each for each in numbers(text) if not any(begin <= each.start < end for begin, end in covered)]


@pytest.mark.parametrize("page", CHECKED, ids=name_of)
def test_every_number_of_a_page_is_bound(page: Path) -> None:
    missing = unbound(text_of(page), list(facts.FACTS.get(name_of(page), ())))
    assert [f"{each.text!r} in {each.around!r}: {ADVICE}" for each in missing] == []


@pytest.mark.parametrize("page", COUNTED, ids=name_of)
def test_page_gets_no_further_written_number(page: Path) -> None:
    """Each copy of a number in prose has to be found when the number changes: a new one is generated, an old one may go."""
    count, allowed = count_written(page), facts.WRITTEN.get(name_of(page), 0)
    assert count <= allowed, f"{count - allowed} new numbers in the prose of {name_of(page)}: put them between `value` comments"
    assert count == allowed, f"{name_of(page)} has fewer numbers: write {count} in WRITTEN of tests/docs/facts.py"


def test_generated_numbers_are_not_written_ones(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    generated = (
        "<!-- value: five-failures -->10 minutes<!-- value: end -->\n<!-- generated: limits -->\n5 MB\n<!-- generated: end -->\n"
    )
    page.write_text(f"{generated}<!-- measured: make bench -->\n4 ms\n<!-- measured: end -->\nafter 30 s, `7 s`\n")
    assert count_written(page) == 2


def openapi_texts() -> str:
    """The texts of the OpenAPI document, without examples."""

    def texts(node: object) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (node[key] for key in ("summary", "description") if isinstance(node.get(key), str))
            node = [value for key, value in node.items() if key not in ("example", "examples")]
        for each in node if isinstance(node, list) else ():
            yield from texts(each)

    return re.sub(r"\s+", " ", " | ".join(texts(openapi.document("/"))))


def test_every_number_of_the_openapi_document_is_bound() -> None:
    missing = unbound(openapi_texts(), list(facts.OPENAPI))
    assert [f"{each.text!r} in {each.around!r}: delete it, or bind it in OPENAPI of tests/docs/facts.py" for each in missing] == []


@pytest.mark.parametrize(("page", "fragment", "sources"), BOUND, ids=[f"{page}-{fragment[:40]}" for page, fragment, _ in BOUND])
def test_number_is_what_its_source_says(page: str, fragment: str, sources: str | tuple[str, ...]) -> None:
    sources = (sources,) if isinstance(sources, str) else sources
    matches = places(openapi_texts() if page == OPENAPI else text_of(PROJECT / page), fragment)
    assert matches, f"{page} no longer has the text {fragment!r}: correct or delete the row in tests/docs/facts.py"
    for match in matches:
        assert len(match.groups()) == len(sources), f"{fragment!r} has {len(match.groups())} numbers and {len(sources)} sources"
        for text, source in zip(match.groups(), sources, strict=True):
            assert_same(page, text, source)


def assert_same(page: str, text: str, source: str) -> None:
    value = expected(source)
    if "::" in source:
        assert stated_by_test(source, text), f"{page} says {text!r}, which {source} does not state"
    elif value is not None:
        assert math.isclose(amount(text), value, rel_tol=0.001), f"{page} says {text!r}, {source} is {value:g}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_measured_sections_name_a_command_that_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"<!-- measured: ([^>]+) -->", text)
    assert named[1::2] == ["end"] * (len(named) // 2) and len(named) % 2 == 0
    assert [problem for command in named[::2] if (problem := command_problem(command))] == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20 minutes", 1200),
        ("5 MiB", 5 * 2**20),
        ("400 KB", 400_000),
        ("10,000", 10_000),
        ("0.25 s", 0.25),
        ("70 %", 0.7),
        ("$32", 32),
    ],
)
def test_number_is_recognized_with_its_unit(text: str, value: float) -> None:
    (number,) = numbers(f"at most {text}, and RFC 5424 of 2026-11-21 or port 4566")
    assert number.text == text and amount(number.text) == pytest.approx(value)


def test_unbound_and_wrong_numbers_are_noticed() -> None:
    text = "A lease lasts 10 minutes. It is renewed 3 times, for 5 MiB."
    assert [each.text for each in unbound(text, ["lasts {}.", "renewed {},"])] == ["5 MiB"]
    assert [each.text for each in unbound(text.replace("10", "11"), ["lasts 10 minutes"])] == ["11 minutes", "3 times", "5 MiB"]
    assert_same("page", "29 s", "template:Resources.APIHandler.Properties.Timeout")
    for wrong in ("28 s", "29 minutes", "29 ms"):
        with pytest.raises(AssertionError, match="says"):
            assert_same("page", wrong, "template:Resources.APIHandler.Properties.Timeout")


def test_constant_that_was_renamed_is_noticed() -> None:
    with pytest.raises(AttributeError):
        expected("chalicelib.runlog.compaction:RETIRE_LATER_MS")
    with pytest.raises(KeyError):
        expected("template:Resources.Nothing")
    with pytest.raises(AssertionError):
        expected("viewer/src/log/lines.ts:NOTHING")


def defaults() -> dict[str, str]:
    """Of the template's parameters and of the settings, under each of their names."""
    values = {name: str(row.get("Default", "")) for name, row in generate.template()["Parameters"].items()}
    for name, field in Settings.model_fields.items():
        values |= dict.fromkeys(
            (re.sub(r"_(\w)", lambda each: each[1].upper(), name), f"RUNLAKE_{name.upper()}"), str(field.default)
        )
    return values


@pytest.mark.parametrize("page", CHECKED, ids=name_of)
def test_default_behind_a_settings_name_is_its_default(page: Path) -> None:
    """``SetAsideDays`` (7)."""
    stated = re.findall(r"`(\w+)` \((\d[\d,]*)\)", written(page))
    assert [f"`{name}` ({value})" for name, value in stated if defaults().get(name, value) != value.replace(",", "")] == []


def test_defaults_are_compared() -> None:
    assert (defaults()["SetAsideDays"], defaults()["setAsideAfterFailures"], defaults()["RUNLAKE_EXPIRATION_DAYS"]) == (
        "7",
        "20",
        "30",
    )


def test_time_in_words_is_a_number() -> None:
    text = "Tried after a minute, for half an hour, and a quarter of an hour; seven days; a second report."
    assert [amount(each.text) for each in numbers(text)] == [60, 1800, 900, 7 * 86_400]


def test_fact_is_bound_to_code_estimate_or_a_named_source() -> None:
    """What code cannot say is named, and little."""
    sources = [source for _, _, each in BOUND for source in ((each,) if isinstance(each, str) else each)]
    others = [source for source in sources if expected(source) is None]
    assert all(re.match(r"(source|estimate): \S|tests/.*::", source) for source in others)
    assert len([source for source in others if source.startswith("estimate: ")]) <= 12


def test_extension_has_40_letters_at_most() -> None:
    assert checked_extension("x" * 40)
    with pytest.raises(InvalidConfigurationError):
        checked_extension("x" * 41)
