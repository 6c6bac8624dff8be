"""The README documents every command, option and setting, and nothing that does not exist."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner

from client.tests.fake_server import FakeServer, StoredRun
from runlake.__main__ import runlake
from runlake.execution import _Execution
from runlake.methods import choose_method
from runlake.settings import NAMES, Settings, help_of, load_settings

_CLIENT = Path(__file__).parents[1]
_README = (_CLIENT / "README.md").read_text()


def commands_of(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Commands by their words, without groups that do nothing of their own."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{before}{name} ")
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{before}{name}", command


COMMANDS = dict(commands_of(runlake))


def options() -> Iterator[tuple[str, str]]:
    """Each option of each command, and of the program."""
    for name, command in [("", runlake), *COMMANDS.items()]:
        for option in [*command.params, command.get_help_option(click.Context(command, help_option_names=["-h", "--help"]))]:
            if isinstance(option, click.Option):
                yield from ((name, each) for each in option.opts)


def about(command: str) -> str:
    """The README's text about a command: its row, or its section."""
    rows = "\n".join(line for line in _README.splitlines() if line.startswith(f"| `runlake {command}"))
    section = re.search(rf"^## runlake {command}\n(.*?)^## ", _README, re.DOTALL | re.MULTILINE)
    return rows + (section[1] if section else "") if command else _README


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_is_documented(command: str) -> None:
    assert about(command)
    assert COMMANDS[command].help
    shown = CliRunner().invoke(runlake, [*command.split(), "--help"]).stdout
    assert shown and max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(("command", "option"), sorted(set(options())))
def test_every_option_is_documented(command: str, option: str) -> None:
    text = _README if option in ("-h", "--help") else about(command)
    assert re.search(rf"`{option}[`= ]", text), f"{option} of {command or 'runlake'} is missing"


def test_the_settings_are_these() -> None:
    table = _README.partition("<!-- settings -->\n")[2].partition("<!-- settings: end -->")[0]
    rows = [f"| `{name}` | {getattr(Settings(), name)} | {help_of(name)} |" for name in NAMES]
    assert table.splitlines() == ["| setting | default | meaning |", "|---|---|---|", *rows]


def blocks_of(heading: str) -> list[str]:
    """The Python below a heading, up to the next one."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##)", _README, re.DOTALL | re.MULTILINE)
    assert section
    return re.findall(r"^```python\n(.*?)^```$", section[1], re.DOTALL | re.MULTILINE)


def ran(block: str, settings: Settings, **environment: str) -> str:
    """Run a block as a program; returns its stdout."""
    own = {"PYTHONPATH": str(_CLIENT / "src"), "RUNLAKE_URL": settings.url, "RUNLAKE_SPOOL_DIR": settings.spool_dir}
    done = subprocess.run(
        [sys.executable, "-c", block],
        capture_output=True,
        text=True,
        env={**os.environ, **own, **environment},
        timeout=120,
        check=True,
    )
    return done.stdout


def only_run(server: FakeServer) -> StoredRun:
    ((fqn, _),) = server.runs
    assert fqn == "nightly.orders"
    return next(iter(server.runs.values()))


def test_steps_block_archives_its_line_and_makes_two_steps(server: FakeServer, settings: Settings) -> None:
    (block,) = blocks_of("Steps and events")
    ran(block, settings)
    run = only_run(server)
    steps = {step: (facts["name"], facts["parent"]) for step, facts in run.events.steps.items()}
    load = next(step for step, (name, _) in steps.items() if name == "Load")
    assert steps == {load: ("Load", None), "orders": ("Orders", load)}
    said = [(event["step"], event["message"].rpartition(": ")[2]) for event in run.events.stored]
    assert sorted(said, key=str) == [
        (load, "3 rows left out"),
        ("orders", "copied"),
        ("orders", "this line is of the step Orders, which is a part of Load"),
    ]
    assert run.closed


@pytest.mark.slow
def test_blocks_of_lines_archive_what_they_say(server: FakeServer, settings: Settings) -> None:
    first, handler, structlog = blocks_of("In Python")
    assert ran(first, settings) == "printed\n"
    logged, *rest = only_run(server).lines
    assert logged.endswith(b" WARNING root: logged, by any logger") and rest == [b"printed", b"written as it is"]
    server.runs.clear()
    ran(handler + "logging.warning('of the handler')", settings)
    assert only_run(server).lines[0].endswith(b" WARNING root: of the handler")
    server.runs.clear()
    ran(structlog + "structlog.get_logger().info('of structlog')", settings)
    assert only_run(server).lines == [b'{"event": "of structlog"}']
    assert only_run(server).closed


def test_block_of_secrets_masks_them(server: FakeServer, settings: Settings) -> None:
    (block,) = blocks_of("Secrets")
    ran(block, settings, DB_PASSWORD="hunter2-hunter2")
    assert only_run(server).lines == [b"connecting as orders:***configured-value***"]


def test_block_of_files_fetches_what_it_pushed(
    server: FakeServer, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = blocks_of("Files")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nginx.log").write_text("GET /\n")
    path = ran(block, settings).strip()
    assert path.startswith("nginx-") and (tmp_path / path).read_text() == "GET /\n"


def settings_of(block: int, profile: str, folder: Path) -> Settings:
    """With a settings file of the page."""
    path = folder / "config.toml"
    path.write_text(re.findall(r"^```toml\n(.*?)^```$", _README, re.DOTALL | re.MULTILINE)[block])
    return load_settings({"profile": profile} if profile else {}, {"RUNLAKE_CONFIG": str(path)})


def test_settings_files_choose_what_the_page_says(tmp_path: Path) -> None:
    targets = settings_of(0, "", tmp_path)
    assert {fqn: choose_method(targets, fqn).name for fqn in ("batch.orders", "orders")} == {
        "batch.orders": "target",
        "orders": "runlog",
    }
    assert settings_of(1, "", tmp_path).url == "https://logs.test.example.com/api"
    production = settings_of(1, "production", tmp_path)
    assert (production.url, production.token_command) == ("https://logs.example.com/api", "secret-tool lookup runlake production")
    jobs = settings_of(2, "jobs", tmp_path)
    assert (jobs.signer(jobs.url) is not None, jobs.page_url) == (True, "https://logs.example.com/api")


def test_result_lines_are_those_of_exec() -> None:
    (block,) = re.findall(r"^```text\n(.*?)^```$", _README, re.DOTALL | re.MULTILINE)
    handler = Mock()
    for code in (0, -9):
        execution = _Execution(Mock(**{"wait.return_value": code}), 1, "failed", Mock())
        execution.begin(lambda: handler)
        execution.end()
    lines = [call.args[0].decode() for call in handler.write_bytes.call_args_list]
    assert [re.sub(r"\d+\.\d+", "", line) for line in lines] == [re.sub(r"\d+\.\d+", "", line) for line in block.splitlines(True)]


def test_code_parses_and_links_and_files_are_there() -> None:
    for code in re.findall(r"^```python\n(.*?)^```$", _README, re.DOTALL | re.MULTILINE):
        ast.parse(code)
    for link in re.findall(r"\]\(([^)]+)\)", _README):
        assert (_CLIENT / link).exists()
    for path in re.findall(r"client/[\w/]+\.py", _README):
        assert (_CLIENT.parent / path).exists()
    for name in re.findall(r"`(\w+\.py)`", _README):
        assert (_CLIENT / "src/runlake" / name).exists()
