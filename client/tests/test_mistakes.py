"""Mistakes in every command: an error in one line, the next step in another, a nonzero exit code, no traceback."""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from chalicelib.errors import InvalidNameError
from chalicelib.ports import Run
from chalicelib.runlog import layout
from client.tests.dead_programs import DeadProgram, leave, replace_state
from client.tests.fake_server import FakeServer
from client.tests.on_a_pty import on_a_pty
from client.tests.test_commands import answered, call, filled
from runlake import Archive, RunlogHandler, RunName, Settings, SettingsError
from runlake.__main__ import runlake
from runlake.commands.times import Seconds, since_of
from runlake.deliveries import EventDelivery, WriterEnd
from runlake.following import Follower
from runlake.names import MAX_RUN_NAME_BYTES, RESERVED_RUN_IDS, checked_run_name
from runlake.spool import folders_in
from runlake.tokens import Token

pytestmark = pytest.mark.slow  # it starts processes

assert filled  # a fixture
UNKNOWN = ("nightly.orders", "TYPO")
_READING = dict.fromkeys(("runs", "tail", "cat", "download", "why", "steps", "events", "status"), ("nightly.orders",))
ARGUMENTS = {
    **_READING,
    "grep": ("x", "nightly.orders"),
    "close": ("nightly.orders", "run-2"),
    "delete": ("nightly.orders", "run-2", "--yes"),
}
"""Of each command that asks the server, as they should be."""
OF_A_RUN = sorted(ARGUMENTS.keys() - {"runs"})
OTHERS = {"exec", "drain", "config", "profiles", "completion", "open", "pipelines", "files", "forward", "login", "logout", "whoami"}
"""Their arguments are no names on the server. Those of ``files`` are in ``test_files``."""
SURPLUS = {"completion": ("bash", "b"), "forward": ("a", "b", "c", "--target", os.devnull)}
_SRC = str(Path(__file__).parents[1] / "src")


def error_of(result: Result, code: int = 2) -> str:
    """The one line of error; checks that a next step follows."""
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    error, following = result.stderr.splitlines()
    assert error.startswith("runlake: ") and following.startswith("next: ")
    assert result.stdout == ""
    return error + "\n" + following


def wrongly_typed(command: str) -> int:
    """The exit code of a usage error: ``exec`` has one that differs from the command's."""
    return 125 if command == "exec" else 2


def unknown_run(command: str) -> tuple[str, ...]:
    return (command, *([] if command != "grep" else ["x"]), *UNKNOWN, *(["--yes"] if command == "delete" else []))


@pytest.mark.parametrize("module", ["click", "runlake.settings"])
def test_interrupt_while_it_starts_is_one_line(module: str) -> None:
    interrupted = (
        f"import sys, runpy; sys.modules[{module!r}] = Interrupt(); runpy.run_module('runlake_command', run_name='__main__')"
    )
    code = f"class Interrupt:\n def __getattr__(self, name): raise KeyboardInterrupt\n{interrupted}"
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": _SRC},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "runlake: interrupted\n")


def _has_argument(command: click.Command) -> bool:
    return any(isinstance(each, click.Argument) and each.required for each in command.params)


def test_every_command_is_here() -> None:
    assert ARGUMENTS.keys() | OTHERS == set(runlake.commands)


@pytest.mark.parametrize(
    "command", sorted(name for name, command in runlake.commands.items() if name != "files" and _has_argument(command))
)
def test_missing_argument_names_it(command: str, server: FakeServer) -> None:
    first = next(each for each in runlake.commands[command].params if isinstance(each, click.Argument))
    error = error_of(call(server, command), wrongly_typed(command))
    assert f"missing argument '{first.make_metavar(click.Context(runlake.commands[command]))}'" in error
    assert f"next: see `runlake {command} --help`" in error


@pytest.mark.parametrize("command", sorted(runlake.commands.keys() - {"files"}))
def test_unknown_option_and_surplus_argument_are_errors(command: str, server: FakeServer) -> None:
    assert "no such option '--nonsense'" in error_of(call(server, command, "--nonsense"), wrongly_typed(command)).lower()
    if command not in ("exec", "pipelines"):  # what follows is a command
        assert "unexpected extra argument" in error_of(call(server, command, *SURPLUS.get(command, "abcd")))


def test_unknown_command_and_bad_values_are_errors(server: FakeServer) -> None:
    assert "invalid value" in error_of(call(server, "tail", "p", "-n", "many"))
    assert "neither 10m" in error_of(call(server, "tail", "p", "r", "--since", "yesterday"))
    assert "invalid value" in error_of(call(server, "completion", "tcsh"))


@pytest.mark.parametrize(
    ("typed", "suggested"),
    [
        ("tial", "tail"), ("step", "steps"), ("RUNS", "runs"),
        ("logs", "cat"), ("log", "cat"), ("show", "cat"), ("read", "cat"), ("less", "cat"),
        ("follow", "tail -f"), ("list", "runs"), ("ls", "runs"), ("ps", "runs"),
        ("explain", "why"), ("failures", "runs --failed"),
        ("push", "files push"), ("upload", "files push"), ("clos", None), ("closed", None), ("drian", None), ("delet", None), ("rm", None),
    ],
)  # fmt: skip
def test_unknown_command_suggests_one_that_only_reads(typed: str, suggested: str | None, server: FakeServer) -> None:
    try_it = f"try `runlake {suggested}`, or " if suggested else ""
    expected = f"runlake: no such command '{typed}'\nnext: {try_it}see `runlake --help`"
    assert error_of(CliRunner().invoke(runlake, [typed, "X"], prog_name="runlake")) == expected
    assert "--discard" not in error_of(call(server, "drain", "--discrad", "folder"))


@pytest.mark.parametrize("command", ["runs", "files list", "exec"])
def test_general_option_after_the_command_is_moved_before_it(command: str, server: FakeServer) -> None:
    error = error_of(call(server, *command.split(), "--url", server.url), wrongly_typed(command))
    assert error.endswith(f"next: try `runlake --url … {command}`, or see `runlake {command} --help`")


@pytest.mark.parametrize("command", OF_A_RUN)
def test_unknown_run_is_an_error(command: str, filled: FakeServer) -> None:
    before = set(filled.runs)
    assert "check the names" in error_of(call(filled, *unknown_run(command)))
    assert set(filled.runs) == before, "a typing error makes no run"


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_unknown_pipeline_is_an_error(command: str, filled: FakeServer) -> None:
    arguments = ["TYPO" if each == "nightly.orders" else each for each in ARGUMENTS[command]]
    error = error_of(call(filled, command, *arguments))
    assert (
        command in ("close", "delete")
        or "the pipeline has no runs fqn='TYPO'\nnext: check the name with `runlake pipelines`" in error
    )


def test_following_unknown_run_is_an_error(filled: FakeServer) -> None:
    assert "check the names" in error_of(call(filled, "tail", "-f", *UNKNOWN))


def test_empty_run_is_no_error(server: FakeServer) -> None:
    server.runs["p", "empty"].closed = True
    for command in (("tail", "p", "empty"), ("events", "p", "empty"), ("steps", "p", "empty")):
        result = call(server, *command)
        assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_server_away_is_an_error(command: str, filled: FakeServer) -> None:
    filled.down()
    error = error_of(call(filled, command, *ARGUMENTS[command]))
    assert f"no response from {filled.url[7:-4]}: " in error and "next: is the server up, and the address right?" in error


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_unauthorized_is_an_error(command: str, filled: FakeServer) -> None:
    filled.token = "secret"
    assert "next: log in with `runlake login`, set a token" in error_of(
        call(filled, "--token", "wrong", command, *ARGUMENTS[command])
    )


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
@pytest.mark.parametrize("path", ["/api/v2", "/api/v1/ui", "", "/apj"])
def test_wrong_path_of_the_url_is_an_error(command: str, path: str, filled: FakeServer) -> None:
    url = filled.url.removesuffix("/api") + path
    error = error_of(CliRunner().invoke(runlake, ["--url", url, command, *ARGUMENTS[command]]))
    assert "the server at this address is not Runlake: " in error and f"url={url}" in error
    assert "next: check the path of the url" in error


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_page_of_others_is_an_error(command: str, filled: FakeServer) -> None:
    filled.fault = lambda method, path: "page"
    if command in ("cat", "download"):
        return  # any bytes are a valid log; a download is compared with the archive's counts, if it has any
    assert "is there a proxy in between" in error_of(call(filled, command, *ARGUMENTS[command]))


@pytest.mark.parametrize(
    "body", [b"{}", b'{"runs": 7}', b'{"runs": [{}], "pipelines": null, "logs": 1}', b'{"total": "x", "logs": []}', b"[]"]
)
@pytest.mark.parametrize("command", sorted(ARGUMENTS.keys() - {"cat", "download"}))
def test_answer_of_another_api_is_an_error(command: str, body: bytes, filled: FakeServer) -> None:
    filled.replacement = body
    result = call(filled, command, *ARGUMENTS[command])
    assert isinstance(result.exception, SystemExit) and result.exit_code in (0, 2)
    assert result.exit_code == 0 or error_of(result)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "address is missing"),
        ("logs.example.com/api", "has no scheme"),
        ("localhost:4566/api", "has no scheme"),
        ("ftp://x/api", "has no scheme"),
        ("http:/x/api", "has no scheme"),
        ("http:///api", "no valid host"),
        ("http://x:99999/api", "is not a URL"),
        ("http://[::1/api", "is not a URL"),
        ("http://x:0/api", "no valid host"),
        ("http://x/a b", "no valid host"),
        ("https://x/api?stage=1", "has a query"),
        ("https://x/api#top", "has a query"),
    ],
)
@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_bad_url_says_what_is_wrong_with_it(command: str, url: str, reason: str) -> None:
    error = error_of(CliRunner().invoke(runlake, ["--url", url, command, *ARGUMENTS[command]]))
    assert reason in error and (not url or f"url={url!r}" in error)


@pytest.mark.parametrize(
    "url", ["http://x.invalid/api", "http://127.0.0.1:1/api", "http://xn--a/api", "http://a..b/api", "http://" + "a" * 300 + "/api"]
)
def test_host_that_does_not_exist_is_an_error(url: str) -> None:
    error_of(CliRunner().invoke(runlake, ["--url", url, "runs"]))


@pytest.mark.parametrize("token", ["sécret", "two words", "line\nbreak", "nul\0"])
def test_token_that_no_header_carries_is_not_shown(token: str, filled: FakeServer) -> None:
    with (
        pytest.raises(SettingsError, match="the token has invalid characters") as caught,
        Archive(filled.url, Token(lambda: token)) as archive,
    ):
        list(archive.pipelines())
    assert token not in str(caught.value)


def test_unwritable_paths_are_errors_before_anything_is_fetched(filled: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "a.part").mkdir()
    os.mkfifo(tmp_path / "pipe")
    wrong = {"no/log": "No such file", "file/log": "Not a directory", "a": "is not a regular file", "pipe": "is not a regular file"}
    for name, reason in wrong.items():
        assert reason in error_of(call(filled, "download", "nightly.orders", "run-2", "-o", str(tmp_path / name)))
    assert filled.requests == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.part", "file", "pipe"]


def test_download_into_a_folder_is_named_after_the_run(filled: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    answered(filled, "download", "nightly.orders", "run-1", "-o", str(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"nightly.orders-run-1.log": b"old\n"}
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "-n", "0"), ("pipelines", "-n", "-1"), ("runs", "nightly.orders", "-n", "0"), ("tail", "nightly.orders", "-n", "-1"),
        ("events", "nightly.orders", "-n", "0"), ("grep", "x", "nightly.orders", "-m", "0"),
        ("open", "p", "r", "--line", "0"),
        *[("grep", "x", "p", option, "1001") for option in ("-A", "-B", "-C", "--runs")],
        *[("--timeout-s", value, "runs") for value in ("-1", "0", "nan", "inf", "1e10")],
        *[("drain", "--patience", value) for value in ("-1", "nan", "inf")],
        *[("exec", "--patience", value, "p", "--", "true") for value in ("-1", "nan", "inf")],
        *[("exec", "--heartbeat", value, "p", "--", "true") for value in ("-1", "5", "86401")],
    ],
    ids=" ".join,
)  # fmt: skip
def test_number_out_of_range_is_an_error(arguments: tuple[str, ...], filled: FakeServer) -> None:
    assert "is not in the range" in error_of(call(filled, *arguments), wrongly_typed(arguments[0]))
    assert filled.requests == []


def test_every_number_of_the_command_line_has_a_range() -> None:
    options = [
        each
        for command in (runlake, *runlake.commands.values(), *runlake.commands["files"].commands.values())  # type: ignore[attr-defined]
        for each in command.params
        if isinstance(each, click.Option)
    ]
    numbers = [each for each in options if isinstance(each.type, click.types.IntParamType | click.types.FloatParamType)]
    assert {each.name for each in numbers} == {
        "after_context",
        "attempt",
        "before_context",
        "context",
        "limit",
        "line",
        "lines",
        "max_count",
        "timeout_s",
        "patience",
        "run_count",
        "heartbeat",
        "lookback",
    }
    assert [each for each in numbers if not isinstance(each.type, click.IntRange | Seconds) or each.type.min is None] == []


def test_no_last_lines_are_none(filled: FakeServer) -> None:
    assert answered(filled, "tail", "nightly.orders", "-n", "0") == ""


def test_message_that_is_null_is_not_printed(filled: FakeServer) -> None:
    for replacement in (b'{"message": null}', b'{"message": ""}', b"{}", b"[]", b"null"):
        filled.replacement, filled.replacement_status = replacement, 403
        error = error_of(call(filled, "runs"))
        assert error.startswith("runlake: Forbidden status=403\n") and "None" not in error


def test_null_reasons_of_events_and_streams_are_not_printed(filled: FakeServer) -> None:
    delivery = EventDelivery(RunName("p", "r"), "w", lambda: WriterEnd(1))
    filled.replacement = b'{"position": "s.1", "errors": [{"message": null}]}'
    with Archive(filled.url) as archive:
        assert delivery.append(archive, b'{"id": 0}\n', "").reason == "refused without a reason"
        follower = Follower(archive, RunName("p", "r"), next_line=0, notice=pytest.fail)
        filled.replacement = b'data: {"eventType": "complete", "after": "4", "reason": null}\n\n'
        assert [piece.end for piece in follower.pieces()] == ["no reason given"]
        filled.replacement = b'data: {"eventType": "interrupted", "message": null}\n\n'
        with pytest.raises(pytest.fail.Exception, match=r"^the stream was interrupted: retrying"):
            list(follower.pieces())


# next steps


@pytest.mark.parametrize(
    ("arguments", "following"),
    [
        (("drain", "--discard", "nosuch"), "next: `runlake --spool-dir {tmp} drain --list` lists them"),
        (("exec", "--mask-env", "NOSUCH", "p", "--", "true"), "next: set the variable, or correct the name after --mask-env"),
        (("exec", "", "--", "true"), "next: choose another fqn"),
        (("cat", "p", "r", "--step", "Nope"), "next: name a step by its id: `runlake steps p r` lists them"),
        (("events", "p", "r", "--from", "foo"), "next: see `runlake events --help`"),
        (("tail", "p", "r", "--since", "foo"), "next: see `runlake tail --help`"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, tuple) else "",
)
def test_next_step_leads_on(arguments: tuple[str, ...], following: str, server: FakeServer, tmp_path: Path) -> None:
    server.add("p", "r", b"line\n")
    error = error_of(call(server, "--spool-dir", str(tmp_path), *arguments), wrongly_typed(arguments[0]))
    assert error.endswith("\n" + following.format(tmp=tmp_path))


@pytest.mark.parametrize(("command", "option"), [("events", "--from"), ("events", "--to"), ("tail", "--since")])
def test_wrong_time_names_its_option(command: str, option: str, server: FakeServer) -> None:
    assert f"invalid value for '{option}': 'foo' is neither 10m" in error_of(call(server, command, "p", "r", option, "foo"))


def test_time_before_the_epoch_is_its_beginning() -> None:
    assert since_of("9" * 400 + "w") == since_of("99999w") == "0"


def test_unexpected_error_has_a_traceback_on_request(filled: FakeServer) -> None:
    filled.replacement = b"{}"
    assert "invalid response: KeyError: 'runs'" in error_of(call(filled, "runs", "nightly.orders"))
    assert isinstance(call(filled, "runs", "nightly.orders", environ={"RUNLAKE_DEBUG": "1"}).exception, KeyError)


def test_help_without_a_command_is_no_error_line() -> None:
    result = CliRunner().invoke(runlake, [])
    assert result.exit_code == 2 and result.stderr.startswith("Usage: ")


# events of plain lines


def test_events_of_plain_lines_have_no_time(filled: FakeServer) -> None:
    event = {"timestamp": None, "level": None, "step": None, "message": "plain", "line": 0, "lines": 1}
    filled.runs["nightly.stock", "run-1"].events.stored.append(event)
    assert answered(filled, "events", "nightly.stock", "run-1") == "-\t-\t-\tplain\n"


# exec


def ran(server: FakeServer, folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": _SRC, "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "runlake", "exec", *arguments], capture_output=True, env=environment, timeout=120, check=False
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("p", "--run-id", "r", "--", "echo", "--run-id", "x"),
        ("--run-id", "r", "p", "--", "echo", "--run-id", "x"),
        ("p", "--run-id=r", "-q", "echo", "--run-id", "x"),
        ("-q", "--run-id", "r", "p", "echo", "--run-id", "x"),
        ("--run-id", "r", "--", "p", "echo", "--run-id", "x"),
    ],
)
def test_options_of_exec_stand_before_or_after_the_pipeline(arguments: tuple[str, ...], server: FakeServer, tmp_path: Path) -> None:
    done = ran(server, tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (0, b"--run-id x\n")
    assert list(server.runs) == [("p", "r")]


def test_dashes_of_the_command_are_its_own(server: FakeServer, tmp_path: Path) -> None:
    assert ran(server, tmp_path, "-q", "p", "echo", "a", "--", "b").stdout == b"a -- b\n"
    assert ran(server, tmp_path, "-q", "p", "--", "echo", "--", "b").stdout == b"-- b\n"


@pytest.mark.parametrize(
    "arguments", [("p",), ("p", "--"), ("--run-id",), ("p", "--nonsense", "--", "true"), ("p", "--patience", "soon", "--", "true")]
)
def test_exec_without_a_command_or_with_bad_options_runs_nothing(arguments: tuple[str, ...], server: FakeServer) -> None:
    error_of(call(server, "exec", *arguments), code=125)
    assert server.requests == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--timeout-s", "-1", "exec", "p", "--", "true"), 125),
        (("--nonsense", "exec", "p", "--", "true"), 125),
        (("--spool-dir", "~nobody-of-this-name", "exec", "p", "--", "true"), 125),
        (("--nonsense", "grep", "exec", "p"), 2),
        (("grep", "--nonsense", "exec", "p"), 2),
        (("exce", "p", "--", "exec"), 2),
    ],
)
def test_wrong_options_before_exec_end_as_those_of_exec(arguments: tuple[str, ...], code: int, server: FakeServer) -> None:
    error_of(call(server, *arguments), code)
    assert server.requests == []


@pytest.mark.parametrize("run_id", [*sorted(RESERVED_RUN_IDS), "a/b", ".", "..", " r", "r ", "x" * 1100])
def test_exec_runs_nothing_under_a_name_that_is_refused(run_id: str, server: FakeServer, tmp_path: Path) -> None:
    made = tmp_path / "made"
    error = error_of(call(server, "exec", "--run-id", run_id, "p", "--", "touch", str(made)), code=125)
    assert "next: choose another run id" in error
    assert not made.exists() and server.requests == []


def test_names_that_the_client_refuses_are_those_that_the_archive_refuses() -> None:
    assert RESERVED_RUN_IDS == layout.RESERVED_RUN_IDS
    shortest = layout.Layout(prefix="")
    longest = RunName("f" * 2, "r" * (MAX_RUN_NAME_BYTES - 2))
    assert checked_run_name(longest) == longest
    assert shortest.run_prefix(Run(longest.fqn, longest.run_id))
    with pytest.raises(InvalidNameError):
        shortest.run_prefix(Run(longest.fqn, longest.run_id + "r"))
    with pytest.raises(SettingsError, match="must have at most"):
        checked_run_name(RunName(longest.fqn, longest.run_id + "r"))


def test_no_command_is_advised_for_a_run_that_can_never_be_closed(server: FakeServer, settings: Settings) -> None:
    notices: list[str] = []
    server.fault = lambda method, path: "400" if method == "POST" else ""
    handler = RunlogHandler("p", "r", settings=settings, close_run=True, tell=notices.append)
    handler.write("one\n")
    handler.close()
    listing = f"runlake --spool-dir {settings.spool_root} drain --list"
    assert notices[1:] == ["p/r cannot be closed: as the test requires", f"1 lines of p/r were refused: `{listing}` shows them"]
    assert "as the test requires" in notices[0]


def test_exec_of_a_missing_command_says_so_at_the_terminal(server: FakeServer, tmp_path: Path) -> None:
    environment = {"RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    code, written = on_a_pty(["-m", "runlake", "exec", "-q", "p", "--", "no-such-command"], environment)
    assert (code, written) == (127, "runlake: no-such-command could not be started: No such file or directory\r\n")


@pytest.mark.parametrize(("fqn", "run_id"), [("p\u202e", "r"), ("p", "r\x1b[2J"), ("p", "a\tb"), ("", "r"), ("p\ud800", "r")])
def test_names_that_the_archive_refuses_are_errors_at_once(fqn: str, run_id: str, settings: Settings) -> None:
    with pytest.raises(SettingsError, match="printable characters only"):
        RunlogHandler(fqn, run_id, settings=settings)


def test_step_label_is_made_printable(server: FakeServer, settings: Settings) -> None:
    handler = RunlogHandler("p", "r", events=True, settings=settings)
    assert handler.step("Load\x1b[2J\u202e\tall").name == "Load\ufffd[2J\ufffd\ufffdall"
    handler.close()


# drain


def test_drain_says_what_waits_for_which_run_and_server(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server.url, b"one\ntwo\n")
    DeadProgram(tmp_path, server.url, b"one\n", run=RunName("p", "killed")).die()
    rows = [row.split("\t") for row in answered(server, "--spool-dir", str(tmp_path), "drain", "--list").splitlines()]
    (folder, run, url, lines, size, _since, why), (_, other, *_, of_other) = rows
    assert (folder, run, url, lines, size, why) == ("left", "p/r", server.url, "2", "8 B", "")
    assert (other, of_other) == ("p/killed", "the program was killed")
    row, _ = map(json.loads, answered(server, "--spool-dir", str(tmp_path), "drain", "--list", "--json").splitlines())
    assert (row["folder"], row["fqn"], row["runId"], row["url"], row["lines"], row["bytes"]) == ("left", "p", "r", server.url, 2, 8)
    assert server.requests == []
    server.down()
    result = call(server, "--spool-dir", str(tmp_path), "drain", "--patience", "0")
    assert result.exit_code == 1
    why = f"no response from {server.url[7:-4]}: "
    assert result.stderr.startswith(f"runlake: 2 lines of p/r wait for {server.url} in {tmp_path}/left: {why}")
    assert why in answered(server, "--spool-dir", str(tmp_path), "drain", "--list")


def test_drain_list_fits_80_columns_and_has_no_password(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server.url.replace("127", "user:secret@127"), name="f" * 49)
    environment = {"NO_COLOR": "1", "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    code, written = on_a_pty(["-m", "runlake", "drain", "--list"], environment)
    head, row, note = written.splitlines()
    assert (code, head.split(), row.split()[1:4]) == (0, ["FOLDER", "LINES", "SIZE", "AGE"], ["1", "4", "B"])
    assert note == f"  p/r for {server.url}" and max(map(len, written.splitlines())) <= 80
    assert "secret" not in call(server, "--spool-dir", str(tmp_path), "--token", "x", "drain").output


def test_lines_of_a_wrong_address_are_drained_to_the_right_one(server: FakeServer, tmp_path: Path) -> None:
    wrong = server.url.removesuffix("/api")
    leave(tmp_path, wrong, b"one\n")
    other = leave(tmp_path, "https://test.example.com/api", b"two\n", name="other")
    spool = ("--spool-dir", str(tmp_path), "--token", "t")
    assert "see `runlake drain --moved-from`" in call(server, *spool, "drain").stderr and server.lines("p", "r") == []
    assert call(server, *spool, "drain", "--moved-from", wrong).stdout.startswith("1 lines stored, ")
    assert server.lines("p", "r") == [b"one"] and folders_in(tmp_path) == [other]


def test_drain_reports_lines_that_it_put_aside(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server.url)
    server.fault = lambda method, path: "400" if path.endswith("/logs/p/r") else ""
    result = call(server, "--spool-dir", str(tmp_path), "drain")
    assert (result.exit_code, result.stdout) == (1, "0 lines stored, 1 still wait, 0 folders could not be read or sent\n")
    assert f"1 lines of p/r were refused: `runlake --spool-dir {tmp_path} drain --list` shows them" in result.stderr
    (row,) = map(json.loads, answered(server, "--spool-dir", str(tmp_path), "drain", "--list", "--json").splitlines())
    assert (row["lines"], row["reason"]) == (1, "as the test requires")


def test_drain_discards_what_is_named_and_nothing_else(server: FakeServer, tmp_path: Path) -> None:
    leave(tmp_path, server.url)
    leave(tmp_path, server.url, name="kept")
    spool = ("--spool-dir", str(tmp_path))
    assert "no such folder of unsent lines: typo" in error_of(
        call(server, *spool, "drain", "--discard", "typo", "--discard", "left")
    )
    assert len(folders_in(tmp_path)) == 2
    left = str(tmp_path / "left")
    assert answered(server, *spool, "drain", "--discard", left) == f"{left} is deleted, and its lines are lost\n"
    assert [folder.name for folder in folders_in(tmp_path)] == ["kept"]
    assert not (tmp_path / "left").exists() and server.requests == []


def test_list_counts_the_batch_that_was_sent_and_not_what_was_stored(server: FakeServer, tmp_path: Path) -> None:
    program = DeadProgram(tmp_path, server.url, b"one\ntwo\nthree\n")
    program.acknowledge(program.send(4, "s.0"), "s.1")
    program.send(4, "s.1")
    program.die()
    (row,) = map(json.loads, answered(server, "--spool-dir", str(tmp_path), "drain", "--list", "--json").splitlines())
    assert (row["lines"], row["bytes"]) == (2, 10)


def test_folder_with_a_file_of_others_stops_no_other(server: FakeServer, tmp_path: Path) -> None:
    (leave(tmp_path, server.url, name="torn", run=RunName("p", "torn")) / "notes.chunk").touch()
    leave(tmp_path, server.url)
    result = call(server, "--spool-dir", str(tmp_path), "drain")
    assert (result.exit_code, server.lines("p", "r")) == (1, [b"one"])
    assert f"{tmp_path}/torn stays as it is: " in result.stderr
    assert "torn cannot be read: " in call(server, "--spool-dir", str(tmp_path), "drain", "--list").stderr


@pytest.mark.parametrize("damage", ["torn", "text"])
def test_damaged_folder_is_reported_and_can_be_discarded(damage: str, server: FakeServer, tmp_path: Path) -> None:
    folder = leave(tmp_path, server.url)
    if damage == "text":
        replace_state(folder, b'{"url": 1')
    else:
        os.truncate(folder / "state", 10)
    spool = ("--spool-dir", str(tmp_path))
    result = call(server, *spool, "drain")
    assert result.exit_code == 1 and "stays as it is: its state cannot be read" in result.stderr
    assert "runlake drain --discard" in result.stderr
    assert "cannot be read" in call(server, *spool, "drain", "--list").stderr
    answered(server, *spool, "drain", "--discard", "left")
    assert folders_in(tmp_path) == []


def test_drain_sends_no_token_for_a_folder_of_others(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, server.url)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    for command in (["drain"], ["drain", "--list"], ["drain", "--discard", "left"]):
        assert "belongs to another user" in error_of(call(server, "--spool-dir", str(tmp_path), "--token", "secret", *command))
    assert server.requests == [] and (tmp_path / "left").exists()


def test_folder_of_others_in_an_own_spool_gets_no_token(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a spool that a group may write."""
    folder, stat = leave(tmp_path, server.url), os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: os.stat_result((*stat(file)[:4], os.getuid() + 1, *stat(file)[5:])))
    result = call(server, "--spool-dir", str(tmp_path), "--token", "secret", "drain")
    assert result.exit_code == 1 and "belongs to another user" in result.stderr
    assert server.requests == [] and folder.exists()


def test_token_of_one_server_is_not_sent_to_another(server: FakeServer, tmp_path: Path) -> None:
    folder = leave(tmp_path, "http://127.0.0.1:1/api")
    spool = ("--spool-dir", str(tmp_path))
    result = call(server, *spool, "--token", "secret", "drain")
    assert result.exit_code == 1 and folder.exists() and server.requests == []
    refusal = f"{folder} stays as it is: its lines are for another server: http://127.0.0.1:1/api"
    assert (
        f"{refusal} (give its address and token: --url http://127.0.0.1:1/api, or a --profile with it; if it was wrong, see `runlake drain"
        in result.stderr
    )
    assert "no response from 127.0.0.1:1" in call(server, *spool, "drain", "--patience", "0").stderr, "there is no token to lose"


# in Python


@pytest.mark.parametrize(
    "arguments",
    [
        '"p"',
        '"p", url="no-scheme"',
        '"p\\x1b", url="http://x"',
        '"p", url="http://x", events=True, writer=""',
        '"p", url="http://x", secrets=[7]',
    ],
)
def test_handler_that_cannot_be_made_leaves_nothing_for_the_exit(arguments: str) -> None:
    make = f"try:\n    runlake.RunlogHandler({arguments})\nexcept Exception as error:\n    print(type(error).__name__)"
    script = f"import runlake\n{make}\nelse:\n    print('made')\n"
    environment = {**os.environ, "PYTHONPATH": _SRC, "RUNLAKE_CONFIG": os.devnull}
    environment.pop("RUNLAKE_URL", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert done.stderr == "" and done.stdout != "made\n"


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_requests_of_the_client_are_not_logged_and_those_of_others_are(
    level: int, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(level)
    server.add("p", "r", b"line\n" * 10_000, close=True)
    with Archive(server.url) as archive:
        archive.facts(RunName("p", "r"))
        with archive.download(RunName("p", "r")) as (_, pieces):
            assert sum(map(len, pieces)) == 50_000
    assert [record for record in caplog.records if record.name.startswith(("httpx", "httpcore"))] == []
    httpx.get(server.url + "/v1/health")
    assert "/v1/health" in "".join(record.getMessage() for record in caplog.records if record.name == "httpx")


def test_follower_reports_an_outage_once(server: FakeServer) -> None:
    server.add("p", "r", b"one\n", close=True)
    faults = iter(["500", "500", "500"])
    server.fault = lambda method, path: next(faults, "")
    notices: list[str] = []
    with Archive(server.url) as archive:
        follower = Follower(archive, RunName("p", "r"), next_line=0, pause=lambda seconds: None, notice=notices.append)
        assert [line for piece in follower.pieces() for line in piece.lines] == ["one"]
    assert notices == ["as the test requires status=500: retrying"]


def test_lines_wait_where_the_address_is_wrong(server: FakeServer, settings: Settings) -> None:
    notices: queue.Queue[str] = queue.Queue()
    wrong = replace(settings, url=server.url + "/typo", exit_s=0.05)
    handler = RunlogHandler("p", "r", settings=wrong, tell=notices.put)
    handler.write("one\n")
    notice = notices.get(timeout=60)
    assert "the server at this address is not Runlake: " in notice and "check the path of the url" in notice
    handler.close()
    assert (handler.counts.refused_lines, handler.counts.kept_lines) == (0, 1)
