"""The examples of CONTRIBUTING.md, applied to a copy of the project as they are written: their tests pass there.

A block of Python is a new file, named in its first line. A block ``diff`` changes files: ``+++ PATH`` names one, ``@@`` separates its places,
and the lines of a place, without those that are added, must occur exactly once in the file.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs import generate
from tests.docs.pages import PROJECT, Block, blocks, headings

PAGE = PROJECT / "CONTRIBUTING.md"
RECIPES = [heading for heading in headings(PAGE) if heading.startswith("Add a ")]
COPIED = ("bench", "chalicelib", "infra", "tests", "app.py", "conftest.py", "pyproject.toml")
OF_THE_TABLE, OF_OPERATIONS = (
    ["tests/unit/test_route_table.py", "tests/unit/test_openapi.py"],
    [
        "tests/functional/test_access_table.py",
        "tests/functional/test_http_bad_names.py",
        "tests/functional/test_http_budgets.py",
        "tests/functional/test_no_secret_leaves.py",
    ],
)
FURTHER_TESTS = {
    "Add a setting": [["tests/unit/test_template_settings.py"]],
    "Add a codec": [OF_THE_TABLE, [*OF_OPERATIONS, "-k", "every_operation or logfmt"]],
    "Add a route": [
        OF_THE_TABLE,
        [*OF_OPERATIONS, "tests/functional/test_http_catalog.py", "-k", "every_operation or /lines or lines_of_a_run"],
    ],
}
"""Tests of the project that must pass with the example too, as arguments of runs of pytest, with every case of the new operation."""


def blocks_under(heading: str, page: Path) -> list[Block]:
    """The examples under a heading of the second level."""
    text = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [Block(*match) for match in re.findall(r"^```(python|diff)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def apply(examples: list[Block], root: Path) -> list[str]:
    """Create and change the files of the examples. Returns their paths."""
    paths = []
    for example in examples:
        if example.language == "python":
            name, _, text = example.text.removeprefix("# ").partition("\n")
            assert not (root / name).exists(), f"exists already: {name}"
            (root / name).write_text(text)
            paths.append(name)
        else:
            for part in re.split(r"^\+\+\+ ", example.text, flags=re.MULTILINE)[1:]:
                name, _, places = part.partition("\n")
                for place in re.split(r"^@@\n", places, flags=re.MULTILINE):
                    change(root / name, place.splitlines(keepends=True))
                paths.append(name)
    return paths


def change(path: Path, lines: list[str]) -> None:
    assert {line[0] for line in lines} <= set(" +-\n"), f"a line begins with none of blank, + and -: {lines}"
    old, new = ("".join(line[1:] or line for line in lines if line[0] not in without) for without in "+-")
    text = path.read_text()
    found = [match.start() for match in re.finditer(f"^{re.escape(old)}", text, re.MULTILINE)]
    assert len(found) == 1, f"CONTRIBUTING.md: not once in {path.name}:\n{old}"
    path.write_text(text[: found[0]] + new + text[found[0] + len(old) :])


def run(root: Path, *arguments: str) -> None:
    """Run a module of Python in the copy."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RUNLAKE_", "PYTEST_"))}
    environment["RUNLAKE_SAMPLE"] = "all"
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in COPIED:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, tmp_path / name)
        else:
            shutil.copy2(PROJECT / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_example_applies_and_its_test_passes(recipe: str, root: Path) -> None:
    paths = apply(blocks_under(recipe, PAGE), root)
    modules = [path for path in paths if path.endswith(".py")]
    created = [path for path in modules if not (PROJECT / path).exists() and Path(path).name.startswith("test_")]
    run(root, "ruff", "check", *modules)
    run(root, "ruff", "format", "--check", *modules)
    for arguments in [*([created] if created else []), *FURTHER_TESTS[recipe]]:
        run(root, "pytest", "-q", "-p", "no:cacheprovider", *arguments)


@pytest.mark.slow
def test_example_of_a_setting_reaches_the_functions(root: Path) -> None:
    apply(blocks_under("Add a setting", PAGE), root)
    template = yaml.load((root / "infra" / "template.yaml").read_text(), generate._CloudFormation)
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["RUNLAKE_COMPACTION_READERS"] == {"Ref": "CompactionReaders"}
    assert template["Parameters"]["CompactionReaders"]["Default"] == 8


def test_every_example_of_a_recipe_is_applied() -> None:
    assert set(FURTHER_TESTS) == set(RECIPES)
    applied = [block for recipe in RECIPES for block in blocks_under(recipe, PAGE)]
    assert len(applied) == len(blocks(PAGE, "python") + blocks(PAGE, "diff"))


@pytest.mark.parametrize("text", ["one\n", "one\ntwo\none\ntwo\n", "one\n two\n"])
def test_example_that_no_longer_applies_is_noticed(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(text)
    with pytest.raises(AssertionError, match=r"not once in a\.py"):
        apply([Block("diff", "+++ a.py\n one\n-two\n+three\n")], tmp_path)
    assert (tmp_path / "a.py").read_text() == text


def test_example_changes_lines_and_creates_files(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\nfour\n")
    example = [Block("diff", "+++ a.py\n one\n-two\n+2\n@@\n+3.5\n four\n"), Block("python", "# b.py\nx = 1\n")]
    assert apply(example, tmp_path) == ["a.py", "b.py"]
    assert (tmp_path / "a.py").read_text() == "one\n2\nthree\n3.5\nfour\n"
    assert (tmp_path / "b.py").read_text() == "x = 1\n"
