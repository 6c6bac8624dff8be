"""Every command on a terminal, against a hostile server: only the client's own sequences reach the terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.tests.dead_programs import leave
from client.tests.hostile_server import FORGING, VISIBLE, HostileServer, hostile_server
from client.tests.on_a_pty import bytes_on_a_pty, on_a_pty
from client.tests.test_readme import COMMANDS
from client.tests.test_terminal import is_printable
from runlake import RunName

pytestmark = pytest.mark.slow  # it starts processes

STYLE = r"\x1b\[(?:0|2|1;31|[134](?:;[134])*(?:;(?:3|9)[1-6])?|(?:3|9)[1-6])m"
PROGRESS = r"\r[^\x00-\x1f]*\x1b\[K"
RUN = ("p", "r")
LETTER = ("audit", "files", *RUN, "0")
TYPED = FORGING.replace("\x00", "").encode("utf-8", "ignore").decode()
"""As far as a command line can have it."""
SHOWN: list[tuple[str, ...]] = [
    ("runs",), ("runs", "p"), ("runs", "--json"), ("runs", "p", "--json"), ("pipelines",), ("pipelines", "--json"),
    *[("pipelines", "dead", "list", "p", *form) for form in ((), ("r",), ("--json",))], ("pipelines", "dead", "list"),
    *[("pipelines", "dead", "show", *LETTER, *form) for form in ((), ("--json",))], ("pipelines", "dead", "resend", *LETTER, "--json"),
    ("pipelines", "files", "p", "a"), ("pipelines", "files", "p", "a", "--json"),
    ("pipelines", "cat", "p", "a"), ("pipelines", "cat", "p", "a", "--json"),
    ("tail", *RUN), ("tail", "p"), ("tail", "-f", *RUN), ("tail", "--json", *RUN), ("tail", "-f", "--json", *RUN),
    ("cat", *RUN), ("cat", *RUN, "--step", "s"), ("cat", *RUN, "--step", TYPED),
    ("grep", "x", *RUN), ("grep", "-n", "x", *RUN), ("grep", "--json", "x", *RUN), ("grep", "-C", "2", "x", *RUN),
    ("grep", "--runs", "2", "x", "p*"), ("grep", "--runs", "2", "-l", "x", "*"), ("grep", "--runs", "2", "--json", "x", "*"),
    ("why", *RUN), ("why", "--json", *RUN), ("open", "--failed"),
    ("steps", *RUN), ("steps", "--json", *RUN), ("events", *RUN), ("events", "--json", *RUN),
    ("status", *RUN), ("status", "p"), ("status", "--json", *RUN), ("download", "p", "-o", "{tmp}/log"),
    ("drain",), ("drain", "--json"), ("drain", "--list"), ("drain", "--list", "--json"), ("config",), ("config", "--json"),
    ("config", "--pipeline", "p"), ("config", "--pipeline", "p", "--json"),
    *[("files", "list", "--what", "w", "--start", "1d", *form) for form in ((), ("--json",), ("--format", "http"), ("--format", "s3"))],
    ("files", "latest", "w", "w"), ("files", "latest", "w", "w", "--json"), ("files", "fetch", "x"), ("files", "fetch", "x", "--json"),
    *[("files", "push", "--what", "w", "--where", "w", "--start", "now", *form) for form in ((), ("--json",))], ("files", "cat", "x"),
    ("login",),
]  # fmt: skip
SILENT: list[tuple[str, ...]] = [
    ("grep", "-c", "x", *RUN), ("download", *RUN, "-o", "{tmp}/log"), ("download", *RUN, "-o", "{tmp}/log", "--json"),
    ("close", *RUN), ("close", "--json", *RUN), ("exec", "--patience", "1", "p", "--", "true"), ("completion", "zsh"),
    ("pipelines", "download", "p", "a", "-o", "{tmp}"), ("pipelines", "dead", "resend", *LETTER), ("pipelines", "dead", "drop", *LETTER),
    ("profiles",), ("profiles", "--json"), ("why", "p"), ("drain", "--discard", "left"),
    ("forward", *RUN, "--target", __file__),
    ("logout",), ("whoami",), ("whoami", "--json"), ("delete", *RUN, "--yes"), ("delete", *RUN, "--yes", "--json"),
]  # fmt: skip
"""Their output has nothing of the server's, or no text of it."""
OFFLINE = {"config", "completion", "profiles", "logout"}


@pytest.fixture(scope="module")
def server() -> Iterator[HostileServer]:
    with hostile_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _accepting(server: HostileServer) -> None:
    server.status = 200


def environ(server: HostileServer, folder: Path, **more: str) -> dict[str, str]:
    """With a hostile leftover too."""
    leave(folder / "spool", server.url, run=RunName("p" + TYPED, TYPED), position="s.0", reason=server.text)
    spool = {"RUNLAKE_SPOOL_DIR": str(folder / "spool"), "RUNLAKE_TOKEN": "t"}
    return {"RUNLAKE_URL": server.url, "RUNLAKE_CONFIG": os.devnull, **spool, **more}


def typed(command: tuple[str, ...], folder: Path) -> list[str]:
    arguments = [word.replace("{tmp}", str(folder)) for word in command]
    match arguments[0]:
        case "config":
            return ["-m", "runlake", "--spool-dir", TYPED, *arguments]
        case "drain":
            return ["-m", "runlake", "drain", "--patience", "0", *arguments[1:]]
    return ["-m", "runlake", *arguments]


def assert_harmless(written: str) -> None:
    left = re.sub(rf"{STYLE}|{PROGRESS}", "", written.replace("\r\n", "\n"))
    assert is_printable(left.replace("\n", "")), ascii(left)
    styles = [found[0] for found in re.finditer(STYLE, written)]
    assert not styles or styles[-1] == "\x1b[0m"


def name_of(command: tuple[str, ...]) -> str:
    return next(name for words in (3, 2, 1) if (name := " ".join(command[:words])) in COMMANDS)


def test_every_command_is_here() -> None:
    assert {name_of(command) for command in [*SHOWN, *SILENT]} == set(COMMANDS)
    with_json = {name for name, command in COMMANDS.items() if any(each.name == "as_json" for each in command.params)}
    assert {name_of(command) for command in [*SHOWN, *SILENT] if "--json" in command} == with_json


@pytest.mark.behavior("The command line writes no control sequences of a server to the terminal.")
@pytest.mark.sampled(default=6)
@pytest.mark.parametrize("command", [*SHOWN, *SILENT], ids=lambda command: " ".join(command)[:40].encode("unicode_escape").decode())
def test_terminal_gets_only_our_sequences(command: tuple[str, ...], server: HostileServer, tmp_path: Path) -> None:
    _, written = on_a_pty(typed(command, tmp_path), environ(server, tmp_path))
    assert_harmless(written)
    assert (VISIBLE in written) == (command in SHOWN)
    assert "Traceback" not in written and "not understood" not in written


@pytest.mark.sampled(default=6)
@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 404, 409, 500])
@pytest.mark.parametrize("name", sorted(set(COMMANDS) - OFFLINE))
def test_error_messages_are_harmless(name: str, status: int, server: HostileServer, tmp_path: Path) -> None:
    command = next(each for each in [*SHOWN, *SILENT] if name_of(each) == name)
    server.status = status
    more = ("--patience", "1", "-q") if name == "exec" else ()
    code, written = on_a_pty(typed((command[0], *more, *command[1:]), tmp_path), environ(server, tmp_path))
    assert_harmless(written)
    assert (code != 0) == (name != "exec")
    assert "Traceback" not in written
    assert VISIBLE in written or (name, status) == ("exec", 500)


def test_next_step_is_harmless(server: HostileServer, tmp_path: Path) -> None:
    """It repeats the program's arguments."""
    script = "import sys\nsys.argv[0] = sys.argv.pop(1)\nfrom runlake.__main__ import runlake\nrunlake()\n"
    name = TYPED.replace("/", "")
    code, written = on_a_pty(["-c", script, name, "runs", "--no-such-option"], environ(server, tmp_path))
    error, following = written.removesuffix("\r\n").split("\r\n")
    assert code == 2 and error.startswith("runlake: ") and following.startswith("next: see `")
    assert VISIBLE in following
    assert_harmless(written)


@pytest.mark.parametrize("given", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
@pytest.mark.parametrize(
    "command", [("cat", *RUN), ("tail", *RUN), ("grep", "-n", "x", *RUN), ("events", *RUN), ("steps", *RUN)], ids=lambda it: it[0]
)
def test_no_sequences_without_colours(
    command: tuple[str, ...], given: dict[str, str], server: HostileServer, tmp_path: Path
) -> None:
    _, written = on_a_pty(typed(command, tmp_path), environ(server, tmp_path, **given))
    assert VISIBLE in written and is_printable(written.replace("\r\n", ""))


def test_raw_log_is_the_bytes(server: HostileServer, tmp_path: Path) -> None:
    code, written = bytes_on_a_pty(typed(("cat", "--raw", *RUN), tmp_path), environ(server, tmp_path))
    assert (code, written) == (0, (FORGING + "\n").encode("utf-8", "surrogatepass").replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    "command",
    [
        ("runs",),
        ("runs", "p"),
        ("pipelines",),
        ("steps", *RUN),
        ("status", *RUN),
        ("drain", "--list"),
        ("config",),
        ("config", "--pipeline", "p"),
    ],
    ids=" ".join,
)
def test_rows_for_programs_are_not_forged(command: tuple[str, ...], server: HostileServer, tmp_path: Path) -> None:
    config = 4 if len(command) == 1 else 2
    columns = {"runs": 10 if len(command) == 1 else 9, "pipelines": 6, "steps": 7, "status": 2, "drain": 7, "config": config}[
        command[0]
    ]
    environment = {
        **os.environ,
        **environ(server, tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(
        [sys.executable, *typed(command, tmp_path)], capture_output=True, env=environment, timeout=120, check=False
    )
    lines = done.stdout.decode().split("\n")[:-1]
    assert [line.count("\t") + 1 for line in lines] == [columns] * len(lines) and lines
    assert all(is_printable(line) for line in lines)
    assert VISIBLE in done.stdout.decode() and is_printable(done.stderr.decode().replace("\n", ""))


def test_long_run_id_is_whole_at_80_columns(tmp_path: Path) -> None:
    run_id = "nightly-" + "0123456789" * 12
    with hostile_server(run_id) as server:
        _, written = on_a_pty(typed(("runs", "p"), tmp_path), environ(server, tmp_path), columns=80)
    assert f"{run_id}  " in written
    assert written.endswith(f"\r\npage: {server.url}/v1/ui/?p=p\r\n")


@pytest.mark.parametrize(("options", "fits"), [((), True), (("--wide",), False)])
def test_runs_fit_80_columns_unless_wide(options: tuple[str, ...], *, fits: bool, tmp_path: Path) -> None:
    with hostile_server("nightly-2026-11-28") as server:
        _, written = on_a_pty(typed(("runs", *options), tmp_path), environ(server, tmp_path), columns=80)
    *rows, _page = written.splitlines()
    assert all(len(re.sub(STYLE, "", row)) <= 80 for row in rows) == fits and rows[1].startswith("nightly-2026-11-28  nightly")
    assert "nightly-2026-11-28" in rows[-1]


def test_matches_that_overlap_repeat_no_text(tmp_path: Path) -> None:
    with hostile_server("x" * 100) as plain:
        code, written = on_a_pty(typed(("grep", "x", *RUN), tmp_path), environ(plain, tmp_path))
    assert (code, re.sub(STYLE, "", written)) == (0, "x" * 100 + "\r\n")


@pytest.mark.parametrize("earlier", [2, 300_000])
def test_progress_bar_in_a_log_shows_its_last_state(earlier: int, tmp_path: Path) -> None:
    with hostile_server(" 10 %\r" * earlier + "100 %\r") as server:
        assert on_a_pty(typed(("cat", *RUN), tmp_path), environ(server, tmp_path)) == (0, f"[{earlier} overwritten] 100 %\r\n")


def test_long_cell_does_not_widen_other_rows(tmp_path: Path) -> None:
    with hostile_server("x" * 900) as server:
        _, written = on_a_pty(typed(("runs", "p"), tmp_path), environ(server, tmp_path))
    head, row = written.split("\r\n")[:2]
    assert head.startswith("RUN ") and len(head) < 250 and "x" * 900 in row


def test_progress_is_drawn_on_stderr_within_the_window(server: HostileServer, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom runlake.commands.output import ProgressLine\nnow = iter([0, 0.01, 1, 2])\n"
        "with ProgressLine(sys.argv[1], lambda: next(now)) as line:\n    for done in (1, 2, 3, 4): line.update(done << 20, 8 << 20)\n"
        "    line.report('retrying')\n"
    )
    code, written = on_a_pty(["-c", script, "語" * 50 + "\x1b[2J\n"], {"TERM": "xterm"}, columns=60)
    drawn = written.split("\r")
    assert (code, drawn[0], drawn[-2:]) == (0, "", ["\x1b[Krunlake: retrying", "\n"])
    assert [re.findall(r"(\d)\.0 MiB of 8.0 MiB \((\d+) %\)\x1b\[K$", each) for each in drawn[1:-2]] == [
        [("1", "12")],
        [("3", "37")],
        [("4", "50")],
    ]
    assert all(len(each.encode("utf-16-le")) // 2 + each.count("語") - len("\x1b[K") < 60 for each in drawn[1:-2])
    assert_harmless(written)


def test_no_progress_where_nobody_watches(tmp_path: Path) -> None:
    script = "from runlake.commands.output import ProgressLine\nwith ProgressLine('x') as line: line.update(1, 2)\n"
    assert on_a_pty(["-c", script], {"TERM": "dumb"}) == (0, "")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, timeout=120, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
