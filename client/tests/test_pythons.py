"""Python 3.9 to 3.13, and click 8.1 to 8.5. ``make client-pythons`` runs these tests, and all that start programs, on each interpreter."""

from __future__ import annotations

import ast
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import runlake_command
from client.tests.fake_server import FakeServer
from runlake import Mask, SettingsError, targets
from runlake.masking import MARK

_SRC = Path(__file__).parents[1] / "src"


def test_client_needs_nothing_newer_than_3_9() -> None:
    sources = [str(path) for path in _SRC.rglob("*.py") if path.parent.name != "_redaction"]
    rules = ["-q", "-t=3.9-", "--exclude", "tomllib", "--violations"]
    command = [sys.executable, "-c", "import vermin; vermin.main()", *rules, *sources]
    if "RUNLAKE_CLIENT_PYTHON" in os.environ:
        pytest.skip("that interpreter has no vermin")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    unions = {
        f"{source}: {ast.unparse(node)}"
        for source in sources
        for node in ast.walk(ast.parse(Path(source).read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and isinstance(node.args[1], ast.BinOp)
    }
    assert not unions


@pytest.mark.parametrize(("arguments", "code"), [(["runs"], 2), (["exec", "p", "--", "true"], 125)])
def test_older_python_is_refused_in_a_line(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.version_info", (3, 8, 18))
    monkeypatch.setattr("sys.argv", ["runlake.pyz", *arguments])
    with pytest.raises(SystemExit) as caught:
        runlake_command.main()
    assert caught.value.code == code and capsys.readouterr().err.startswith("runlake: Python 3.8 is too old\nnext: ")


_EXIT_CODES: dict[tuple[str, ...], int] = {
    ("exec", "-q", "p", "--", "sh", "-c", "exit 3"): 3,
    ("exec", "-q", "p", "--", "sh", "-c", "kill -9 $$"): 137,
    ("exec", "-q", "p", "--", "/nowhere"): 127,
    ("exec", "-q", "p", "--", "/"): 126,
    ("exec", "--nonsense", "p", "--", "true"): 125,
    ("exec",): 125,
    (): 2,
    ("files",): 2,
    ("pipelines", "dead"): 2,
    ("--help",): 0,
    ("--version",): 0,
    ("nonsense",): 2,
    ("cat", "nobody"): 2,
    ("drain",): 0,
}
_EACH_IN_A_FORK = """
import ctypes, json, os, sys
import runlake_command, runlake.__main__
libc = ctypes.CDLL(None)
libc.__cxa_atexit(libc.abort, None, None)  # kills a process that ends as OpenSSL must not, while a thread may be in it
for sys.argv[1:] in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        runlake_command.main()
    print("code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_exit_codes(server: FakeServer, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    command = [sys.executable, "-c", _EACH_IN_A_FORK, json.dumps(list(_EXIT_CODES))]
    done = subprocess.run(command, capture_output=True, env=environ, text=True, timeout=120, check=True)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("code ")]
    assert dict(zip(_EXIT_CODES, codes, strict=True)) == _EXIT_CODES and "Traceback" not in done.stderr


@pytest.mark.slow
def test_times_and_settings_of_any_python(tmp_path: Path) -> None:
    code = (
        "import json; from runlake._python import read_toml, time_from\n"
        "times = '2026-11-21T10:00:00Z', '20261121', '20261121T101112.5+0100', '2026-11-21T10', '2026-11-21 10:00:00.123456'\n"
        "print(json.dumps([[time_from(each).isoformat() for each in times], read_toml('a = 1')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={"PYTHONPATH": str(_SRC)}, timeout=60, check=True)
    assert json.loads(done.stdout) == [
        ["2026-11-21T10:00:00+00:00", "2026-11-21T00:00:00", "2026-11-21T10:11:12.500000+01:00", "2026-11-21T10:00:00",
         "2026-11-21T10:00:00.123456"], {"a": 1},
    ]  # fmt: skip


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masking as below Python 3.11."""
    monkeypatch.setattr("runlake.masking.HAS_ATOMIC_GROUPS", False)
    monkeypatch.setattr("runlake.masking._is_reported", False)


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("{}", MARK),
        ("user:{}@host", f"user:{MARK}@host"),
        (json.dumps({"a": "x p'ä/w\"d"}), f'{{"a": "x {MARK}"}}'),
        (json.dumps(json.dumps({"a": "p'ä/w\"d"})), f'"{{\\"a\\": \\"{MARK}\\"}}"'),
        ("https://h/p%27%C3%A4%2Fw%22d?p%27%c3%a4%2fw%22d", f"https://h/{MARK}?{MARK}"),
        ("psql 'p'\\''ä/w\"d'", f"psql '{MARK}'"),
        ("&lt;p&#x27;ä/w&quot;d", f"&lt;{MARK}"),
        ("one\ntwo-lines", f"{MARK}\n{MARK}"),
        ("abcdefgh", MARK),  # two values that overlap
        (MARK, MARK),
        ("nothing", "nothing"),
    ],
)
def test_values_are_masked_below_3_11(line: str, masked: str, plain: None) -> None:
    mask = Mask(["p'ä/w\"d", "one\ntwo-lines", "abcdef", "cdefgh", "configured"])
    assert mask.text(line.replace("{}", "p'ä/w\"d") if "{}" in line else line) == masked


def test_values_in_base64_are_masked_below_3_11(plain: None) -> None:
    for before in ("", "u", "us", "user:"):
        encoded = base64.b64encode(f"{before}pa55word-q9".encode())
        assert b"NXdvcm" not in Mask(["pa55word-q9"]).bytes(b"Basic " + encoded)


def test_names_are_masked_in_data_below_3_11(plain: None) -> None:
    data: dict[str, Any] = {"db": {"password": "q1", "port": 1, "rows": [1, "v4lue", None]}, "API_KEY": ["x"], "n": 12345}
    masked = {"db": {"password": "***password***", "port": 1, "rows": [1, MARK, None]}, "API_KEY": ["***password***"], "n": MARK}
    assert Mask(["v4lue", "12345"]).json(data) == masked
    assert Mask(["v4lue", "12345"], shapes=False).json(data)["db"]["password"] == "q1"


def test_what_is_not_masked_below_3_11_is_said_once(plain: None) -> None:
    assert "Python 3.11" in Mask().missing() and not Mask().missing()


def test_targets_are_refused_below_3_11(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "HAS_FORWARDING", False)
    with pytest.raises(SettingsError, match=r"targets need Python 3\.11"):
        targets.TargetMethod({"kind": "elasticsearch"})
