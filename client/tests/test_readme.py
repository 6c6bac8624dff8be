"""What can be typed and set is documented, and what is documented is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from runlake.__main__ import runlake
from runlake.settings import NAMES, Settings, help_of

_CLIENT = Path(__file__).parents[1]
_README = (_CLIENT / "README.md").read_text()


def options() -> Iterator[tuple[str, str]]:
    """Each option of each command, and of the program."""
    for name, command in [("", runlake), *runlake.commands.items()]:
        for option in [*command.params, command.get_help_option(click.Context(command, help_option_names=["-h", "--help"]))]:
            if isinstance(option, click.Option):
                yield from ((name, each) for each in option.opts)


def about(command: str) -> str:
    """What the page says of a command: its row, or its section."""
    rows = "\n".join(line for line in _README.splitlines() if line.startswith(f"| `runlake {command}"))
    section = re.search(rf"^## runlake {command}\n(.*?)^## ", _README, re.DOTALL | re.MULTILINE)
    return rows + (section[1] if section else "") if command else _README


@pytest.mark.parametrize("command", list(runlake.commands))
def test_every_command_is_documented(command: str) -> None:
    assert about(command)
    assert runlake.commands[command].help


@pytest.mark.parametrize(("command", "option"), sorted(set(options())))
def test_every_option_is_documented(command: str, option: str) -> None:
    text = _README if option in ("-h", "--help") else about(command)
    assert re.search(rf"`{option}[`= ]", text), f"{option} of {command or 'runlake'} is missing"


def test_the_settings_are_these() -> None:
    table = _README.partition("<!-- settings -->\n")[2].partition("<!-- settings: end -->")[0]
    rows = [f"| `{name}` | {getattr(Settings(), name)} | {help_of(name)} |" for name in NAMES]
    assert table.splitlines() == ["| setting | default | meaning |", "|---|---|---|", *rows]


def test_code_parses_and_links_and_files_are_there() -> None:
    for code in re.findall(r"^```python\n(.*?)^```$", _README, re.DOTALL | re.MULTILINE):
        ast.parse(code)
    for link in re.findall(r"\]\(([^)]+)\)", _README):
        assert (_CLIENT / link).exists()
    for path in re.findall(r"client/[\w/]+\.py", _README):
        assert (_CLIENT.parent / path).exists()
    for name in re.findall(r"`(\w+\.py)`", _README):
        assert (_CLIENT / "src/runlake" / name).exists()
