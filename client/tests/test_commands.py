"""The command line, against an archive in memory."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from client.tests.fake_server import FakeServer
from runlake.__main__ import runlake
from runlake.commands import deletion
from runlake.commands.output import duration_of, size_of
from runlake.commands.page import has_display
from runlake.commands.states import state_of
from runlake.commands.times import since_of
from runlake.names import page_url


@pytest.fixture
def filled(server: FakeServer) -> FakeServer:
    server.add("nightly.orders", "run-1", b"old\n", close=True)
    server.add("nightly.orders", "run-2", b"".join(b"line %d\n" % number for number in range(250)), close=True)
    server.add("nightly.stock", "run-1", b"a\n\nb\n")
    server.add("weekly", "run-1", b"one\n")
    return server


def call(server: FakeServer, *arguments: str, environ: dict[str, str] | None = None, typed: str = "") -> Result:
    return CliRunner().invoke(runlake, ["--url", server.url, *arguments], env=environ, input=typed)


def answered(server: FakeServer, *arguments: str) -> str:
    result = call(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_pipelines_are_listed_over_pages(filled: FakeServer) -> None:
    rows = [line.split("\t") for line in answered(filled, "pipelines").splitlines()]
    assert [row[:4] for row in rows] == [
        ["nightly.orders", "run-2", "finalized", "250"],
        ["nightly.stock", "run-1", "running", "3"],
        ["weekly", "run-1", "running", "1"],
    ]
    assert answered(filled, "pipelines", "--prefix", "week").startswith("weekly\t")


def test_events_in_pipeline_files_are_printed_over_pages(filled: FakeServer) -> None:
    filled.file_events = [
        {
            "time": 1_790_000_000_000 + at,
            "level": level,
            "logger": "app",
            "message": f"m{at}",
            "fqn": "svc.a",
            "runId": "r",
            "line": at,
        }
        for at, level in enumerate(("INFO", "ERROR", "INFO"))
    ]
    cat = ("pipelines", "cat", "svc", "a")
    rows = [line.split("\t") for line in answered(filled, *cat).splitlines()]
    assert [row[1:] for row in rows] == [["INFO", "app", "m0"], ["ERROR", "app", "m1"], ["INFO", "app", "m2"]]
    for spelling in ("error", "err"):
        assert answered(filled, *cat, "--level", spelling).split()[-1] == "m1"
    assert answered(filled, *cat, "--from", "1790000000001", "-n", "1").split()[-1] == "m1"
    assert json.loads(answered(filled, *cat, "--level", "ERROR", "--json")) == filled.file_events[1]
    empty = call(filled, "pipelines", "cat", "svc", "empty")
    assert empty.stdout == "" and "no events: " in empty.stderr
    assert "2 missing or damaged files" in empty.stderr and "1 files have a format" in empty.stderr
    assert call(filled, *cat, "--level", "x").exit_code == 2


@pytest.fixture
def with_files(filled: FakeServer) -> FakeServer:
    """Two files, whose objects are logs of runs; of the first one, two bytes were never committed."""
    times = {"firstTime": 1_790_000_000_000, "lastTime": 1_790_000_060_000, "events": 1, "format": "text", "complete": True}
    filled.pipeline_files = [
        {"key": f"pipeline-files/svc/{name}.log", "bytes": size, "url": f"{filled.url}/store/{fqn}/run-1", **times}
        for name, fqn, size in (("one", "nightly.stock", 3), ("two", "weekly", 4))
    ]
    return filled


def test_files_of_pipelines_are_listed_over_pages(with_files: FakeServer) -> None:
    rows = [line.split("\t") for line in answered(with_files, "pipelines", "files", "svc", "a").splitlines()]
    assert rows[0] == [
        "pipeline-files/svc/one.log", "text", "3 B", "1", "2026-09-21T14:13:20Z", "2026-09-21T14:14:20Z", "complete",
    ]  # fmt: skip
    assert len(rows) == 2
    first = call(with_files, "pipelines", "files", "svc", "a", "-n", "1", "--json")
    assert json.loads(first.stdout) == with_files.pipeline_files[0] and "more than these 1" in first.stderr
    assert "no files" in call(with_files, "pipelines", "files", "svc", "empty").stderr


def test_committed_bytes_of_pipeline_files_are_downloaded(with_files: FakeServer, tmp_path: Path) -> None:
    with_files.token = "secret"
    command = ("--token", "secret", "pipelines", "download", "svc", "a", "-o", str(tmp_path / "new"))
    paths = [Path(line) for line in answered(with_files, *command).splitlines()]
    assert [path.name for path in paths] == ["pipeline-files_svc_one.log", "pipeline-files_svc_two.log"]
    assert [path.read_bytes() for path in paths] == [b"a\n\n", b"one\n"]
    with_files.pipeline_files[1]["bytes"] = 5
    short = call(with_files, *command)
    assert short.exit_code == 2 and "1 bytes less than listed" in short.stderr
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [path.name for path in paths]
    with_files.pipeline_files = []
    assert "no files" in call(with_files, *command).stderr


def dead_letter(line: int, run_id: str = "run-1") -> dict[str, Any]:
    """As the server lists one, with its details."""
    event = {"time": 0, "level": "INFO", "logger": "app", "message": f"one\ntwo {line}", "step": "", "data": {"rows": 3}}
    details = {"reason": "OSError: full", "trace": "Traceback\n", "attempts": 4, "failedAt": "2026-09-21T14:00:00.000Z"}
    names = {"pipeline": "audit", "handler": "files", "fqn": "weekly", "runId": run_id, "line": line}
    more = {"event": event, "resendRequestedAt": None, "truncated": False}
    return {**names, "storedAt": "2026-09-21T14:00:00.000Z", "bytes": 1234, "details": details | more}


def test_dead_letters_are_listed_over_pages(filled: FakeServer) -> None:
    assert "no dead letters" in call(filled, "pipelines", "dead", "list", "weekly").stderr
    filled.letters = [dead_letter(0), dead_letter(1), dead_letter(0, "run-2")]
    rows = [line.split("\t") for line in answered(filled, "pipelines", "dead", "list", "weekly").splitlines()]
    assert [row[3:5] for row in rows] == [["run-1", "0"], ["run-1", "1"], ["run-2", "0"]]
    assert rows[0] == ["audit", "files", "weekly", "run-1", "0", "1.2 KiB", "2026-09-21T14:00:00.000Z"]
    assert len(answered(filled, "pipelines", "dead", "list", "weekly", "run-2").splitlines()) == 1
    few = call(filled, "pipelines", "dead", "list", "weekly", "-n", "2", "--json")
    assert [json.loads(line)["line"] for line in few.stdout.splitlines()] == [0, 1] and "more than these 2" in few.stderr
    filled.letters[2] |= {"fqn": "daily", "handler": "mail"}
    for options, count in (((), 3), (("--handler", "mail"), 1), (("--pipeline", "none"), 0), (("weekly", "--handler", "mail"), 0)):
        assert len(call(filled, "pipelines", "dead", "list", *options).stdout.splitlines()) == count


def test_dead_letter_is_shown_sent_again_and_dropped(filled: FakeServer) -> None:
    filled.letters = [dead_letter(0), dead_letter(1)]
    letter = ("audit", "files", "weekly", "run-1", "1")
    shown = answered(filled, "pipelines", "dead", "show", *letter)
    assert "reason\tOSError: full\n" in shown and shown.endswith('data\t{"rows": 3}\n\none\ntwo 1\n\nTraceback\n')
    assert "requested: " in call(filled, "pipelines", "dead", "resend", *letter).stderr
    requested = json.loads(answered(filled, "pipelines", "dead", "resend", *letter, "--json"))["requestedAt"]
    assert json.loads(answered(filled, "pipelines", "dead", "show", *letter, "--json"))["resendRequestedAt"] == requested
    assert call(filled, "pipelines", "dead", "drop", *letter).stderr == "runlake: dropped\n"
    assert [each["line"] for each in filled.letters] == [0]
    again = call(filled, "pipelines", "dead", "drop", *letter)
    assert again.exit_code == 2 and "there is no such dead letter" in again.stderr
    assert "whether it was accepted or dropped: `runlake pipelines dead list`" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        ((), ["nightly.orders run-1", "nightly.orders run-2", "nightly.stock run-1", "weekly run-1"]),
        (("nightly.*",), ["nightly.orders run-1", "nightly.orders run-2", "nightly.stock run-1"]),
        (("--outcome", "running"), ["nightly.stock run-1", "weekly run-1"]),
        (("*ly", "--outcome", "running", "--outcome", "failed"), ["weekly run-1"]),
        (("--failed",), []),
        (("nightly.orders",), ["run-2", "run-1"]),
        (("nightly.orders", "--outcome", "unknown", "--since", "1000d"), ["run-1", "run-2"]),
        (("nightly.orders", "--failed"), []),
        (("nightly.orders", "--since", "2100-01-01"), []),
    ],
)
def test_runs_by_pipeline_outcome_and_time(filled: FakeServer, arguments: tuple[str, ...], listed: list[str]) -> None:
    result = call(filled, "runs", *arguments)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [" ".join(row[: len(listed[0].split())]) for row in rows] == listed
    newest = f"`runlake status {arguments[0] if 'nightly.orders' in arguments else 'FQN'}` shows the newest run of a pipeline"
    assert result.stderr == ("" if listed else f"runlake: no run matches; lists lag by seconds: {newest}\n")


@pytest.mark.parametrize(("arguments", "count"), [(("runs",), 4), (("runs", "nightly.orders"), 2), (("pipelines",), 3)])
def test_list_says_when_there_is_more(filled: FakeServer, arguments: tuple[str, ...], count: int) -> None:
    whole, part = call(filled, *arguments, "-n", str(count)), call(filled, *arguments, "-n", str(count - 1), "--json")
    assert (len(whole.stdout.splitlines()), whole.stderr) == (count, "")
    assert len(part.stdout.splitlines()) == count - 1
    assert part.stderr == f"runlake: there are more than these {count - 1}: -n {5 * (count - 1)} lists more\n"


@pytest.mark.parametrize(
    ("status", "end", "state"),
    [
        ("open", None, "running"),
        ("sealed", "closed", "closed"),
        ("finalized", "closed", "finalized"),
        ("sealed", "abandoned", "abandoned"),
        ("finalized", "abandoned", "abandoned"),
    ],
)
def test_state_is_a_word_of_the_glossary(status: str, end: str | None, state: str) -> None:
    assert state_of({"status": status, "end": end}) == state
    assert f"| **{state}** |" in (Path(__file__).parents[2] / "docs/glossary.md").read_text()


@pytest.mark.parametrize("fqn", ["p", "*"])
def test_silent_run_says_since_when(fqn: str, server: FakeServer) -> None:
    for run_id in ("a", "b"):
        server.add("p", run_id, b"x\n")
    server.silent.add("b")
    (row,) = answered(server, "runs", fqn, "--outcome", "silent").splitlines()
    assert "\tsilent since 2026-09-21T14:13:20Z\t".join(["b", "running"]) in row


def test_runs_of_a_pipeline(filled: FakeServer) -> None:
    first, second = answered(filled, "runs", "nightly.orders").splitlines()
    assert first == "run-2\tunknown\tfinalized\t250\t2140\t2026-05-28T20:27:40Z\t0:01:00\t1\t"
    assert second.startswith("run-1\t")
    found = [json.loads(line)["runId"] for line in answered(filled, "runs", "nightly.orders", "--json").splitlines()]
    assert found == ["run-2", "run-1"]


def test_attempts_of_a_run_are_listed_together(server: FakeServer) -> None:
    for run_id in ("a", "b", "b~2", "c", "b~3", "a~9"):
        server.add("p", run_id, b"x\n")
    server.attempts = {"b~2": ("b", 2), "b~3": ("b", 3)}
    rows = [line.split("\t") for line in answered(server, "runs", "p").splitlines()]
    assert [(row[0], row[-2]) for row in rows] == [("a~9", "1"), ("b~3", "3"), ("b~2", "2"), ("b", "1"), ("c", "1"), ("a", "1")]
    assert "attempt\t3 of b\n" in answered(server, "status", "p", "b~3")


@pytest.mark.parametrize(
    ("run_id", "attempts"),
    [("b", "3, latest b~3: failed (exit status 1)"), ("b~2", "3, latest b~3: failed (exit status 1)"), ("b~3", None), ("a", None)],
)
def test_status_names_the_latest_attempt_after_the_one_that_is_asked_for(
    run_id: str, attempts: str | None, server: FakeServer
) -> None:
    for each in ("a", "b", "b~2", "c", "b~3", "a~9"):
        server.add("p", each, b"x\n", close=True)
    server.attempts = {"b~2": ("b", 2), "b~3": ("b", 3)}
    server.runs["p", "b~3"].end = {"outcome": "failed", "exitCode": 1}
    rows = dict(line.split("\t") for line in answered(server, "status", "p", run_id).splitlines())
    assert rows.get("attempts") == attempts
    latest = json.loads(answered(server, "status", "p", run_id, "--json")).get("latestAttempt")
    assert (latest and latest["runId"]) == (attempts and "b~3")
    assert len([path for _, path, _ in server.requests if "/p/runs?" in path]) == 2


def test_newest_run_is_not_looked_for_among_later_attempts(server: FakeServer) -> None:
    server.add("p", "a", b"x\n")
    assert "attempts" not in answered(server, "status", "p")
    assert [path for _, path, _ in server.requests if "/p/runs?" in path] == []


@pytest.mark.parametrize(
    ("url", "names", "address"),
    [
        ("http://h:4566/api", (), "http://h:4566/api/v1/ui/"),
        ("https://h/", ("warehouse.nightly",), "https://h/v1/ui/?p=warehouse.nightly"),
        ("https://h/api/", ("a b+/&?#%ü", "run=1+2"), "https://h/api/v1/ui/?p=a%20b%2B%2F%26%3F%23%25%C3%BC&r=run%3D1%2B2"),
        ("https://user:password@h/api", ("p", "r"), "https://h/api/v1/ui/?p=p&r=r"),
    ],
)
def test_address_of_the_page(url: str, names: tuple[str, ...], address: str) -> None:
    assert page_url(url, *names) == address


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (None, "unknown"),
        ({"outcome": "succeeded", "exitCode": 0}, "succeeded"),
        ({"outcome": "failed", "exitCode": 3, "lostLines": 7}, "failed (exit status 3)"),
        ({"outcome": "failed", "signal": "SIGTERM"}, "failed (terminated by SIGTERM)"),
        ({"outcome": "failed", "signal": "SIGKILL"}, "failed (killed by SIGKILL)"),
        ({"outcome": "failed", "exception": "KeyError: 'x'", "step": "load"}, "failed (KeyError: 'x', in step load)"),
    ],
)
def test_outcome_of_a_run_is_shown_with_its_reason(server: FakeServer, end: dict[str, Any] | None, outcome: str) -> None:
    server.add("p", "r", b"x\n", close=True)
    server.runs["p", "r"].end = end or {}
    shown = answered(server, "status", "p", "r")
    assert f"outcome\t{outcome}\n" in shown and ("lost by its client\t7 lines\n" in shown) == ("lostLines" in (end or {}))
    assert answered(server, "runs", "p").split("\t")[1] == outcome.partition(" ")[0]


def test_tail(filled: FakeServer) -> None:
    assert answered(filled, "tail", "nightly.orders", "-n", "2") == "line 248\nline 249\n"
    assert answered(filled, "tail", "nightly.orders", "run-1") == "old\n"
    assert answered(filled, "tail", "nightly.stock", "-n", "2") == "\nb\n"
    assert answered(filled, "tail", "nightly.orders", "-n", "1", "--json") == '{"line": 249, "text": "line 249"}\n'
    assert answered(filled, "tail", "nightly.orders", "--since", "1h").startswith("line 0\n")


@pytest.mark.parametrize(
    ("options", "clock", "told"),
    [
        ([], "lines", "runlake: times are those of the lines (UTC where they name no zone), or of arrival where that is later\n"),
        ([], "arrival", "runlake: times are those of arrival, because those of the lines are unknown\n"),
        (["--clock", "lines"], "lines", "runlake: times are those of the lines (UTC where they name no zone)\n"),
        (["--clock", "lines"], "arrival", "runlake: times are those of arrival, because those of the lines are unknown\n"),
        (["--clock", "arrival"], "arrival", ""),
    ],
)
def test_tail_since_tells_whose_times_it_means(options: list[str], clock: str, told: str, filled: FakeServer) -> None:
    filled.clock = clock
    result = call(filled, "tail", "nightly.orders", "run-1", "--since", "1h", *options)
    assert (result.stdout, result.stderr) == ("old\n", told)
    asked = [path for _, path, _ in filled.requests if "since=" in path]
    assert [path.endswith("&clock=" + options[1]) if options else "clock" not in path for path in asked] == [True]
    assert call(filled, "tail", "nightly.orders", "run-1", "--clock", "lines").exit_code == 2
    assert call(filled, "tail", "nightly.orders", "run-1").stderr == ""


def test_tail_since_tells_the_zone_of_the_run(filled: FakeServer) -> None:
    filled.clock, filled.runs["nightly.orders", "run-1"].zone = "lines", "Europe/Berlin"
    notice = call(filled, "tail", "nightly.orders", "run-1", "--since", "1h", "--clock", "lines").stderr
    assert notice == "runlake: times are those of the lines (Europe/Berlin where they name no zone)\n"


def test_tail_follows_to_the_end(filled: FakeServer) -> None:
    filled.stream_lines = 7
    assert answered(filled, "tail", "-f", "nightly.orders", "-n", "100") == "".join(f"line {n}\n" for n in range(150, 250))
    assert answered(filled, "tail", "-f", "nightly.orders", "--since", "1d") == "".join(f"line {n}\n" for n in range(250))


def test_cat_writes_the_bytes(server: FakeServer) -> None:
    data = b"\xff\x00\r\n\x1b]0;title\x07\n"
    server.add("p", "r", data)
    assert call(server, "cat", "p", "r").stdout_bytes == data
    assert call(server, "cat", "p").stdout_bytes == data
    server.links_above_bytes = 1
    assert call(server, "cat", "p").stdout_bytes == data


def test_grep_goes_on_to_the_end_of_the_log(filled: FakeServer) -> None:
    assert answered(filled, "grep", "-n", "9", "nightly.orders", "run-2").splitlines()[:2] == ["10:line 9", "20:line 19"]
    assert answered(filled, "grep", "-c", "line", "nightly.orders") == "250\n"
    assert len(answered(filled, "grep", "-m", "3", "line", "nightly.orders").splitlines()) == 3
    match = {"line": 249, "text": "line 249", "spans": [[5, 8]]}
    assert json.loads(answered(filled, "grep", "--json", "249", "nightly.orders")) == match
    assert call(filled, "grep", "nothing", "nightly.orders").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        ((), ""),
        (("weekly",), "?p=weekly"),
        (("a b", "run 1"), "?p=a%20b&r=run%201"),
        (("weekly", "run-1", "--line", "12"), "?p=weekly&r=run-1#L12"),
        (("--failed",), "?p=nightly.orders&r=run-2"),
        (("weekly", "--failed"), "?p=weekly&r=run-1#L1"),
        (("weekly", "--failed", "--line", "3"), "?p=weekly&r=run-1#L3"),
        (("night*", "--failed"), "?p=nightly.orders&r=run-2"),
    ],
)
@pytest.mark.parametrize("opens", [True, False, None], ids=["browser", "no browser", "no display"])
def test_open_shows_the_address_or_opens_it(
    arguments: tuple[str, ...], page: str, opens: bool | None, filled: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (("nightly.orders", "run-2"), ("weekly", "run-1")):
        filled.runs[name].closed, filled.runs[name].end = True, {"outcome": "failed"}
    filled.runs["weekly", "run-1"].explained = "one"
    filled.add("a b", "run 1", b"x\n")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or opens)
    display = {"DISPLAY": "" if opens is None else ":0", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    result = call(filled, "--token", "secret", "open", *arguments, environ=display)
    address = f"{filled.url}/v1/ui/{page}"
    assert result.exit_code == 0 and opened == ([] if opens is None else [address])
    assert result.stdout == ("" if opens else f"{address}\n")
    assert (
        result.stderr
        == {True: f"runlake: opened {address}\n", False: "runlake: there is no browser that opens it\n", None: ""}[opens]
    )
    assert len(filled.requests) == bool(arguments)
    printed = call(filled, "open", "--print", *arguments, environ={"DISPLAY": ":0"})
    assert (printed.stdout, printed.stderr) == (f"{address}\n", "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("weekly", "run-1", "--failed"), "--failed chooses the run: leave RUN out"),
        (("weekly", "--line", "1"), "--line needs a run: add RUN, or --failed"),
        (("weekly", "--failed"), "no run has failed fqn='weekly'"),
        (("--failed",), "no run has failed\nnext: `runlake runs` lists"),
        (("weekly", "run-7"), "check the names with `runlake pipelines`"),
        (("week",), "the pipeline has no runs fqn='week'"),
    ],
)
def test_nothing_to_open_is_an_error(arguments: tuple[str, ...], error: str, filled: FakeServer) -> None:
    result = call(filled, "open", *arguments)
    assert (result.exit_code, result.stdout) == (2, "") and error in result.stderr and "\nnext: " in result.stderr


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [({}, "linux", False), ({"DISPLAY": ":0"}, "linux", True), ({"BROWSER": "w3m"}, "linux", True), ({}, "darwin", True)],
)
def test_display_of_a_browser(environ: dict[str, str], platform: str, expected: bool) -> None:
    assert has_display(environ, platform) == expected


_FAILED = b"".join(
    b"%s %d\n" % (b"ERROR no disk" if number in (3, 7) else b"WARN low" if number == 5 else b"line", number) for number in range(9)
)


@pytest.fixture
def failed(server: FakeServer) -> FakeServer:
    server.add("shop.a", "run-1", _FAILED, close=True)
    server.runs["shop.a", "run-1"].end = {"outcome": "failed", "exitCode": 3}
    server.add("shop.a", "run-2", b"ERROR\x1b[31m two\n")
    server.add("shop.b", "run-1", b"fine\n", close=True)
    return server


@pytest.mark.parametrize("arguments", [(), ("shop.a",), ("shop.*",), ("shop.a", "run-1")])
def test_why_shows_the_lines_with_their_context_and_page(failed: FakeServer, arguments: tuple[str, ...]) -> None:
    lines = [
        "shop.a/run-1: failed (exit status 3)",
        "line 8, a disk is full: ERROR no disk 7",
        *("       6 WARN low 5", "       7 line 6", ">      8 ERROR no disk 7", "       9 line 8"),
        "line 4, a disk is full: ERROR no disk 3",
        f"page: {failed.url}/v1/ui/?p=shop.a&r=run-1#L8",
    ]
    result = call(failed, "why", *arguments)
    assert (result.exit_code, result.stdout.splitlines(), result.stderr) == (0, lines, "")


def test_runs_end_with_the_line_that_explains_a_failure(failed: FakeServer) -> None:
    assert answered(failed, "runs", "--failed").endswith("\t1\texit status 3\n")
    failed.runs["shop.a", "run-1"].explained = "ERROR no\tdisk"
    assert answered(failed, "runs", "--failed").endswith("\t1\tERROR no\ufffddisk\n")


def test_why_of_a_running_run_of_a_part_and_of_none(failed: FakeServer) -> None:
    result = call(failed, "why", "shop.a", "run-2")
    assert result.exit_code == 0 and "ERROR" in result.stdout and "\x1b" not in result.stdout
    assert result.stderr == "runlake: the run is running: this is preliminary\n"
    result = call(failed, "why", "--json", "shop.a", "run-1")
    found = json.loads(result.stdout)
    assert [each["line"] for each in found.pop("candidates")] == [7, 5, 3]
    assert found == {"fqn": "shop.a", "runId": "run-1", "outcome": "failed", "fromLine": 0, "complete": True, "streaming": False}
    failed.runs["shop.a", "run-1"].explained_from = 3
    assert call(failed, "why", "shop.a").stderr == "runlake: searched from line 4 on\n"
    for arguments, problem in [(("shop.b",), "no run of shop.b has failed"), (("shop.b", "run-1"), "no line explains it")]:
        result = call(failed, "why", *arguments)
        assert (result.exit_code, result.stderr) == (1, f"runlake: {problem}\n")
    failed.runs["shop.a", "run-1"].end = {}
    result = call(failed, "why")
    assert (result.exit_code, result.stderr) == (1, "runlake: no run has failed\n")


@pytest.mark.parametrize(
    ("fqn", "problem"),
    [
        ("nobody", "the pipeline has no runs fqn='nobody'\nnext: check the name with `runlake pipelines`"),
        ("nobody.*", "no run matches fqn='nobody.*'\nnext: check the name with `runlake pipelines`; lists lag by seconds"),
        ("shop.a/run 1", "check the name with `runlake pipelines`, or write the run as a word of its own: shop.a 'run 1'"),
    ],
)
@pytest.mark.parametrize("command", ["why", "runs --failed", "runs --since 2100-01-01", "open --failed", "grep --runs 9 x"])
def test_misspelled_pipeline_does_not_look_like_one_without_failures(
    command: str, fqn: str, problem: str, failed: FakeServer
) -> None:
    result = call(failed, *command.split(), fqn)
    assert (result.exit_code, result.stdout) == (2, "") and problem in result.stderr


def test_close_and_status(filled: FakeServer) -> None:
    before = dict(line.split("\t") for line in answered(filled, "status", "weekly").splitlines())
    assert (before["status"], before["finalized"], before["pending"], before["lost"]) == ("running", "no", "4 B", "0 lines")
    assert answered(filled, "close", "weekly", "run-1") == "weekly/run-1 is closed\n"
    assert json.loads(answered(filled, "status", "weekly", "run-1", "--json"))["complete"]


def test_deleted_run_is_counted_and_refused_afterwards(filled: FakeServer) -> None:
    refused = call(filled, "delete", "weekly", "run-1")
    assert refused.exit_code == 2 and "nobody can be asked" in refused.stderr and "--yes" in refused.stderr and not filled.deleted
    assert "RUN is empty" in call(filled, "delete", "weekly", "", "--yes").stderr and not filled.deleted
    result = call(filled, "delete", "weekly", "run-1", "--yes", "--reason", "a password")
    assert (result.exit_code, result.stdout) == (0, "weekly/run-1 is deleted: 1 object\n")
    assert "outstanding: dataset, until its next job has ended" in result.stderr and "not reached: backups" in result.stderr
    assert filled.deleted == {("weekly", "run-1"): "a password"}
    assert "the run was deleted" in call(filled, "cat", "weekly", "run-1").stderr
    assert json.loads(answered(filled, "delete", "weekly", "run-1", "--yes", "--json"))["state"] == "deleted"


@pytest.mark.parametrize("typed", ["nightly.orders", "nightly", ""])
def test_pipeline_is_deleted_once_its_name_is_typed(typed: str, filled: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "is_a_person_there", lambda: True)
    names = {name for name in filled.runs if name[0] == "nightly.orders"}
    result = call(filled, "delete", "nightly.orders", typed=f"{typed}\n")
    is_deleted = typed == "nightly.orders"
    assert (result.exit_code, set(filled.deleted)) == ((0, names) if is_deleted else (2, set()))
    assert ("deleting: 1 object so far" if is_deleted else "the name differs") in result.stderr
    assert f"is deleted: {len(names)} objects" in result.stdout or not is_deleted


def test_a_download_is_verified(filled: FakeServer, tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert answered(filled, "download", "nightly.orders", "-o", str(path)) == f"{path}: 250 lines, 2.1 KiB, verified\n"
    assert path.read_bytes() == filled.runs["nightly.orders", "run-2"].data
    assert "not finalized yet" in answered(filled, "download", "weekly", "-o", str(path))


def test_a_download_that_is_cut_goes_on_where_it_was(filled: FakeServer, tmp_path: Path) -> None:
    filled.links_above_bytes, filled.link_cuts = 1, [100, 200]
    path = tmp_path / "log"
    (tmp_path / "log.part").write_bytes(filled.runs["nightly.orders", "run-2"].data[:50])
    result = call(filled, "download", "nightly.orders", "-o", str(path), "--json")
    assert json.loads(result.stdout) == {"path": str(path), "bytes": 2140, "lines": 250, "resumedAt": 50, "verified": True}
    assert result.stderr.endswith(": retrying\n") and result.stderr.count("\n") == 1
    assert path.read_bytes() == filled.runs["nightly.orders", "run-2"].data
    assert [headers["range"] for _, url, headers in filled.requests if "/store/" in url] == [
        "bytes=50-",
        "bytes=150-",
        "bytes=350-",
    ]


def test_a_download_of_something_else_is_not_kept(filled: FakeServer, tmp_path: Path) -> None:
    filled.links_above_bytes = 1
    path = tmp_path / "log"
    (tmp_path / "log.part").write_bytes(b"x" * 5000)
    result = call(filled, "download", "nightly.orders", "-o", str(path))
    assert result.exit_code == 2
    assert "bytes=5000 of 2140" in result.stderr and "next: run the download again" in result.stderr
    assert list(tmp_path.glob("log*")) == []
    assert answered(filled, "download", "nightly.orders", "-o", str(path)).endswith("verified\n")


def test_errors_tell_what_to_do_next(filled: FakeServer) -> None:
    missing = call(filled, "cat", "nobody", "knows")
    assert missing.exit_code == 2
    assert missing.stderr.splitlines() == [
        "runlake: there is no such run",
        "next: check the names with `runlake pipelines` and `runlake runs FQN`",
    ]
    assert "the pipeline has no runs" in call(filled, "tail", "somebody").stderr
    filled.token = "secret"
    assert "next: log in" in call(filled, "runs").stderr
    filled.token = None
    filled.replacement, filled.replacement_status = b'{"code": 503, "message": "the policy cannot be read"}', 503
    assert "next: ask the operator" in call(filled, "runs").stderr
    filled.down()
    assert "next: is the server up" in call(filled, "runs").stderr
    assert "--url, RUNLAKE_URL, or url in" in CliRunner().invoke(runlake, ["runs"]).stderr


def test_tokens_by_value_file_and_command(filled: FakeServer, tmp_path: Path) -> None:
    filled.token = "secret"
    file = tmp_path / "token"
    file.write_text("secret\n")
    for option in (["--token", "secret"], ["--token-file", str(file)], ["--token-command", f"cat {file}"]):
        assert call(filled, *option, "runs").exit_code == 0
    assert call(filled, "runs", environ={"RUNLAKE_TOKEN": "secret"}).exit_code == 0
    for option, what in (("command", "false"), ("command", " "), ("file", "~nobody-of-this-name/token"), ("file", "\0")):
        broken = call(filled, f"--token-{option}", what, "runs")
        assert broken.exit_code == 2 and f"runlake: the token's {option} " in broken.stderr and "Error" not in broken.stderr


def test_config_tells_origins_and_no_secret(filled: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('url = "http://of.the.file"\ntimeout_s = 7\ntoken_file = "t"\n')
    environ = {"RUNLAKE_TIMEOUT_S": "8", "RUNLAKE_TOKEN": "secret", "RUNLAKE_CONFIG": str(tmp_path / "config.toml")}
    shown: dict[str, Any] = json.loads(call(filled, "config", "--json", environ=environ).output)
    assert shown["url"] == {"value": filled.url, "origin": "argument"}
    assert shown["timeout_s"] == {"value": 8.0, "origin": "environment"}
    assert shown["token"] == {"value": "(set)", "origin": "environment"}
    assert shown["token_file"]["value"] == ""  # another form of the token, further away
    assert "secret" not in call(filled, "config", environ=environ).output


def test_config_of_a_pipeline_is_what_the_server_chooses(filled: FakeServer) -> None:
    problem = {"kind": "browser", "name": "absent", "problem": "cannot be loaded", "fallback": "runlog"}
    chosen: dict[str, Any] = {"browser": "absent", "outputs": ["a", "b"], "locator": "shop.*"}
    broken = {"kind": "output", "name": "a", "problem": "invalid target", "fallback": None}
    filled.configuration = {"chosen": chosen, "plugins": [{"problem": None}, problem, broken]}
    shown = call(filled, "config", "--pipeline", "shop.a")
    assert shown.stdout == "pipeline\tshop.a\nmethod\trunlog\nbrowser\tabsent\noutputs\ta, b\nlocator\tshop.*\n"
    assert (
        shown.stderr
        == "runlake: browser absent is replaced by runlog: cannot be loaded\nrunlake: output a cannot be used: invalid target\n"
    )
    listed = json.loads(call(filled, "config", "--pipeline", "shop.a", "--json").stdout)
    assert listed == {"fqn": "shop.a", "method": "runlog", **chosen, "problems": [problem, broken]}
    filled.configuration["chosen"] = chosen | {"outputs": [], "locator": None}
    assert call(filled, "config", "--pipeline", "x").stdout.endswith("outputs\t-\nlocator\t-\n")


@pytest.mark.parametrize("text", ["nonsense = 1", "timeout_s = 'soon'", "= ="])
def test_a_broken_file_is_told_with_its_path(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    result = CliRunner().invoke(runlake, ["config"], env={"RUNLAKE_CONFIG": str(path)})
    assert result.exit_code == 2
    error, following = result.stderr.splitlines()
    assert str(path) in error
    assert following == f"next: correct {path}, or name another file with RUNLAKE_CONFIG"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    result = CliRunner().invoke(runlake, ["completion", shell])
    assert result.exit_code == 0 and "_RUNLAKE_COMPLETE" in result.output


def test_times_for_since() -> None:
    ago_ms = time.time() * 1000 - int(since_of("2h"))
    assert 7_199_000 < ago_ms < 7_300_000
    assert since_of("2026-11-21T10:00:00Z") == "2026-11-21T10:00:00Z"
    assert since_of("1780000000000") == "1780000000000"
    assert since_of("20261121") == "2026-11-21T00:00:00"
    for wrong in ("yesterday", "90", "1780000000"):
        with pytest.raises(click.BadParameter, match="neither 10m"):
            since_of(wrong)


def test_units() -> None:
    assert [size_of(size) for size in (0, 1023, 1536, 3 << 30, 5 << 40)] == ["0 B", "1023 B", "1.5 KiB", "3.0 GiB", "5.0 TiB"]
    assert duration_of(3_723_000) == "1:02:03"
