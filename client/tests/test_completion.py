"""Completion in shells: candidates of the server, by one request and without errors; and quoting in a real bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.tests.fake_server import FakeServer
from client.tests.test_commands import filled
from runlake.__main__ import runlake
from runlake.commands import candidates
from runlake.commands.completion import typed_words

assert filled  # a fixture
SEPARATORS = " \t\n\"'@><=;|&(:"
"""The usual COMP_WORDBREAKS."""
ODD = ("odd:one two", "odd:it's", "odd:$(touch pwned)", "odd:a*b", "odd:comma,", "odd:~")


def completed(server: FakeServer, line: str, **environ: str) -> list[str]:
    """The lines that bash's script reads."""
    words = {"_RUNLAKE_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_WORDBREAKS": SEPARATORS, "RUNLAKE_URL": server.url}
    result = CliRunner().invoke(runlake, [], prog_name="runlake", env=words | environ)
    assert (result.exit_code, result.stderr) == (0, "")
    return [each.removeprefix("plain,") for each in result.stdout.splitlines() if each]


@pytest.mark.parametrize(
    ("line", "expected", "requests"),
    [
        ("runlake comp", ["completion"], 0),
        ("runlake tail --fol", ["--follow"], 0),
        ("runlake tail ni", ["nightly.orders", "nightly.stock"], 1),
        ("runlake grep text we", ["weekly"], 1),
        ("runlake exec we", ["weekly"], 1),
        ("runlake why we", ["weekly"], 1),
        ("runlake why nightly.orders ", ["run-2", "run-1"], 1),
        ("runlake open ", ["nightly.orders", "nightly.stock", "weekly"], 2),  # the fake server has two pipelines a page
        ("runlake tail nightly.orders ", ["run-2", "run-1"], 1),
        ("runlake close nightly.orders run-1", ["run-1"], 1),
        ("runlake grep -n text nightly.orders run", ["run-2", "run-1"], 1),
        ("runlake tail nobody ", [], 1),
        ("runlake --profile ", ["test", "prod"], 0),
        ("runlake --profile=p", ["prod"], 0),
        ("runlake --profile nonsense tail ni", [], 0),
        ("runlake --token wrong tail ni", [], 1),
    ],
)
def test_candidates(line: str, expected: list[str], requests: int, filled: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[profiles.test]\n[profiles.prod]\n")
    filled.token = "secret"
    environ = {"RUNLAKE_CONFIG": str(tmp_path / "config.toml"), "RUNLAKE_TOKEN": "secret"}
    assert completed(filled, line, **environ) == expected
    assert len(filled.requests) == requests


@pytest.mark.parametrize("fault", ["500", "400", "cut", "page", "hang"])
def test_no_candidates_after_an_error(fault: str, filled: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "TIMEOUT_S", 0.2 if fault == "hang" else 10)
    filled.fault = lambda method, path: fault
    assert completed(filled, "runlake tail ni") == completed(filled, "runlake tail weekly ") == []
    filled.down()
    assert completed(filled, "runlake tail ni") == []


def test_names_with_control_characters_are_no_candidates(server: FakeServer) -> None:
    for name in ("a\x1b]0;x\x07", "a\u202e", "a"):
        server.add(name, "r", b"x\n")
    assert completed(server, "runlake tail ") == ["a"]


def test_typed_text_is_a_candidate_where_names_may_be_missing(filled: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the shell would complete a common beginning that a pipeline which is not listed does not have."""
    monkeypatch.setattr(candidates, "MAX_PIPELINES", 2)
    assert completed(filled, "runlake tail n") == ["nightly.orders", "nightly.stock", "n"]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", [r"a\!rm", r"\~root", "a"]),  # without the option
        ("~", [r"\~root"]),
        ("a", [r"a\!rm", "a"]),
        ("'a", ["a!rm", "a"]),
        ('"a', ["a"]),
        ('"a!', []),
        ("-- ", [r"a\!rm", r"\~root", "a"]),
    ],
)
def test_names_that_a_shell_would_read_otherwise_are_quoted_or_no_candidates(
    typed: str, expected: list[str], server: FakeServer
) -> None:
    for name in ("a!rm", "--json", "~root", "a"):
        server.add(name, "r", b"x\n")
    assert sorted(completed(server, "runlake cat " + typed)) == sorted(expected)


@pytest.mark.parametrize(
    ("typed", "words", "replaced"),
    [
        ("a", ["a"], r"a\ b:c\ \'d"),
        ("runlake a", ["runlake", "a"], r"a\ b:c\ \'d"),
        ("runlake a ", ["runlake", "a", ""], r"a\ b:c\ \'d"),
        (r"a\ b", ["a b"], r"a\ b:c\ \'d"),
        (r"a\ b:", ["a b:"], r"c\ \'d"),
        (r"a\ b\:", ["a b:"], r"a\ b:c\ \'d"),
        ("'a b:", ["a b:"], r"a b:c '\''d"),
        ('"a b', ["a b"], "a b:c 'd"),
        ("a\\ b:'c ", ["a b:c "], r"c '\''d"),
        ("'a b'", ["a b"], r"a\ b:c\ \'d"),
        ("--x=a b", ["--x=a", "b"], r"a\ b:c\ \'d"),
        ("--x=", ["--x="], r"a\ b:c\ \'d"),
        ("'' ", ["", ""], r"a\ b:c\ \'d"),
    ],
)
def test_words_of_a_line_and_the_text_that_replaces_the_last(typed: str, words: list[str], replaced: str) -> None:
    split = typed_words(typed, SEPARATORS)
    assert (split.words, split.replacement("a b:c 'd")) == (words, replaced)


def test_dollars_are_escaped_in_double_quotes() -> None:
    assert typed_words('"a', SEPARATORS).replacement('a$b`c"d\\e') == r"a\$b\`c\"d\\e"


@pytest.mark.slow
def test_bash_completes_names_as_they_are(server: FakeServer, tmp_path: Path) -> None:
    """Each result is evaluated as bash would when Enter is pressed, which runs nothing and expands to the name."""
    for name in ODD:
        server.add(name, "r", b"x\n")
    command = tmp_path / "runlake"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m runlake "$@"\n')
    command.chmod(0o755)
    script = r"""
        eval "$(runlake completion bash)"
        complete -p runlake >&2
        complete_line() {
            COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$SEPARATORS
            _runlake_completion runlake
            for each in "${COMPREPLY[@]}"; do eval "printf '%s\\n' odd:$each"; done
        }
        complete_line 'runlake tail odd:'
        complete_line 'runlake tail odd:a\*'
    """
    own = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        "RUNLAKE_URL": server.url,
        "SEPARATORS": SEPARATORS,
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **own}, timeout=120
    )
    assert done.stderr == "complete -o nosort -F _runlake_completion runlake\n"
    assert sorted(done.stdout.splitlines()) == sorted([*ODD, "odd:a*b"])
    assert not (tmp_path / "pwned").exists()
