"""Commands of this machine print what servers and stacks say by one function, which makes it harmless for a terminal."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from deploy.__main__ import main as deploy
from local import __main__ as local_commands
from local.state import LocalError
from local.terminal import printable, show

PROJECT = Path(__file__).parents[2]
OUTPUT = {"local/terminal.py"}
DEMO = {"local/demo.py"}  # shows a stack of its own, whose every string it wrote
HOSTILE = "Visible\x1b]52;c;AAAA\x07\x1b[2J\x9b2J\u202e\u2028\ufeff\r\ud800"


def writes_of(path: Path) -> list[str]:
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return [name for name in map(ast.unparse, calls) if name == "print" or name.startswith(("sys.stdout.", "sys.stderr."))]


@pytest.mark.parametrize(
    "path", sorted([*PROJECT.glob("local/*.py"), *PROJECT.glob("deploy/*.py")]), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_only_one_module_prints(path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    assert bool(writes_of(path)) == (name in OUTPUT | DEMO)


def test_text_of_others_is_printable() -> None:
    assert printable("a\tb\n" + HOSTILE) == "a\tb\nVisible\ufffd]52;c;AAAA\ufffd\ufffd[2J\ufffd2J\ufffd\ufffd\ufffd\ufffd?"


def test_shown_text_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    show(HOSTILE, end="")
    show(HOSTILE, end="", file=sys.stderr)
    assert capsys.readouterr() == (printable(HOSTILE), printable(HOSTILE))


def test_smoke_of_a_hostile_address_prints_harmless_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert deploy(["smoke", "--url", f"http://127.0.0.1:1/{HOSTILE[:-1]}"]) == 1
    out, err = capsys.readouterr()
    assert "FAILED" in out and (out + err) == printable(out + err)


def test_error_of_a_command_is_harmless(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: object) -> None:
        raise LocalError(HOSTILE)

    monkeypatch.setattr(local_commands, "_status", fail)
    assert local_commands.main(["status"]) == 1
    assert capsys.readouterr().err == f"runlake: {printable(HOSTILE)}\n"
