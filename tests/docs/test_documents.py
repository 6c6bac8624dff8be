"""What documents name is there: links, generated tables, code that parses (references: ``test_references.py``). No path of somebody's machine."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

from chalicelib.routes.operations import OPERATIONS
from docs import generate
from tests.docs.pages import DOCS, PAGES, PROJECT, anchor, blocks, headings, name_of, prose

CHANGELOG_WORDS = 1000
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TEST = re.compile(r"`((?:client/)?tests/[\w/]+\.py)(?:::(\w+))?`")
_MACHINE = re.compile(r"(?<![\w.])(/(?:work|root|home|Users|tmp|mnt)/[\w.-]+)")

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def test_the_documents_that_the_readme_promises_are_there() -> None:
    named = {"http-api.md", "how-to.md", "operations.md", "failure-modes.md", "performance.md", "configuration.md"}
    assert named <= {page.name for page in DOCS.glob("*.md")}
    numbers = [page.name[:4] for page in sorted((DOCS / "decisions").glob("*.md"))]
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]


def test_changelog_stays_short() -> None:
    assert len((PROJECT / "CHANGELOG.md").read_text().split()) <= CHANGELOG_WORDS


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    broken = [link for link in _LINK.findall(prose(page)) if not _leads_somewhere(page, link)]
    assert broken == []


@every_page
def test_recipes_allow_calls_of_functions_through_the_url_alone(page: Path) -> None:
    """Whoever may invoke the function behind it otherwise can name any role in an event."""
    conditions = {"lambda:InvokeFunctionUrl": "FunctionUrlAuthType", "lambda:InvokeFunction": "InvokedViaFunctionUrl"}
    for block in (each for language in ("json", "yaml", "sh") for each in blocks(page, language)):
        for action, condition in conditions.items():
            grants = len(re.findall(rf"{action}\b", block.text))
            assert block.text.replace("-", "").lower().count(condition.lower()) == grants, block.text


def _leads_somewhere(page: Path, link: str) -> bool:
    if link.startswith("https://"):
        return True
    path, _, fragment = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(PROJECT) or not target.exists():
        return False
    return not fragment or fragment in map(anchor, headings(target))


@every_page
def test_code_parses(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block.text)
    for block in blocks(page, "toml"):
        tomllib.loads(block.text)
    for block in blocks(page, "python"):
        ast.parse(block.text)


@every_page
def test_every_block_says_what_it_is(page: Path) -> None:
    known = {"diff", "json", "python", "console", "sh", "sql", "text", "toml", "yaml", "nginx"}
    fences = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)
    assert {language for language in fences[::2] if language} <= known
    assert set(fences[1::2]) <= {""}


@every_page
def test_no_path_of_a_machine(page: Path) -> None:
    assert _MACHINE.findall(page.read_text()) == []


@every_page
def test_generated_tables_are_up_to_date(page: Path) -> None:
    assert generate.regenerated(page.read_text(), page) == page.read_text(), "run: python -m docs.generate"


@every_page
def test_every_value_is_known(page: Path) -> None:
    named = re.findall(r"<!-- value: ([a-z-]+) -->", page.read_text())
    assert set(named) <= {*generate.VALUES, "end"} and named[1::2] == ["end"] * (len(named) // 2)


def test_values_follow_from_template_and_code() -> None:
    """Against pauses that grow by a minute, and S3's own rule."""
    assert {name: value() for name, value in generate.VALUES.items()} == {
        "unfinished-uploads": "1 day",
        "five-failures": f"{1 + 2 + 3 + 4} minutes",
        "ten-failures": f"{sum(range(1, 10))} minutes",
        "joined-parts": "1 MiB",
    }
    stale = "<!-- value: five-failures -->a quarter of an hour<!-- value: end -->"
    assert generate.regenerated(stale, Path("page.md")) == "<!-- value: five-failures -->10 minutes<!-- value: end -->"


def test_the_page_of_agents_has_each_address() -> None:
    table = re.findall(r"^\| .* \| `(/v1/agents/.*?)` \|", (DOCS / "agents.md").read_text(), re.MULTILINE)
    lacking = [each.path for each in OPERATIONS if each.agent and not each.path.startswith(tuple(table))]
    assert not lacking, f"add a row to the first table of docs/agents.md: {', '.join(lacking)}"


def test_every_generated_table_is_used() -> None:
    used = {name for page in PAGES for name in re.findall(r"<!-- generated: ([a-z-]+) -->", page.read_text())} - {"end"}
    assert used == set(generate.TABLES)


@pytest.mark.parametrize("page", sorted((DOCS / "decisions").glob("*.md")), ids=name_of)
def test_a_decision_says_why_what_else_and_what_shows_it(page: Path) -> None:
    number, title = re.fullmatch(r"(\d{4})\. (.+)", headings(page)[0]).groups()  # type: ignore[union-attr]
    assert page.name.startswith(number + "-")
    assert title
    assert {"Context", "Decision", "Alternatives", "Requests"} <= set(headings(page))
    assert any(heading.startswith("Compatibility") for heading in headings(page))
    assert _TEST.findall(page.read_text())
