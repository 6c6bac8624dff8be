"""A start that the archive refuses, or that has a wrong clock or no UTF-8, costs no line."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from chalicelib.ports import MAX_AGE_MS as MAX_ACCEPTED_AGE_MS
from client.tests.dead_programs import leave, replace_state
from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler, RunName, Settings, starts
from runlake.__main__ import runlake
from runlake.spoolstate import SpoolState
from runlake.starts import MAX_AGE_MS, Start

_YEAR_MS = 365 * 86_400_000
_NOW_MS = 56 * _YEAR_MS


class _Clock:
    """A replacement of ``time``: wall clock and monotonic clock."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms, self.monotonic_s = now_ms, 5.0

    def time(self) -> float:
        return self.now_ms / 1000

    def monotonic(self) -> float:
        return self.monotonic_s


@pytest.mark.parametrize("began_ms", [_NOW_MS - 2000, _NOW_MS + 3_600_000, 60_000], ids=["right", "an hour ahead", "1970"])
def test_age_of_a_start_is_right_though_the_clock_is_set_meanwhile(began_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Clock(began_ms)
    monkeypatch.setattr(starts, "time", clock)
    start = Start.now(RunName("p", "r"), "./load.sh")
    clock.now_ms, clock.monotonic_s = _NOW_MS, clock.monotonic_s + 2
    kept = Start.of(start.facts())
    assert start.body()["ageMs"] == 2000
    clock.now_ms += 7000
    assert kept.body()["ageMs"] == 9000


@pytest.mark.parametrize(
    ("run", "set_below", "attempt"),
    [("p/r", "", 3), ("p/s", "", None), ("other/r", "", None), ("other/r", "4", 4), ("p/r", "4", 3)],
)
def test_attempt_of_the_environment_is_of_one_run_and_not_of_those_that_its_command_starts(
    run: str, set_below: str, attempt: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLAKE_ATTEMPT", "3")
    start = Start.now(RunName("p", "r"), "./load.sh")
    for name, value in start.environment(RunName("p", "r")).items():
        monkeypatch.setenv(name, value)
    if set_below:
        monkeypatch.setenv("RUNLAKE_ATTEMPT", set_below)
    assert (start.attempt, Start.now(RunName(*run.split("/")), "./part.sh").attempt) == (3, attempt)


@pytest.mark.parametrize(("began_ms", "age_ms"), [(60_000, 0), (_NOW_MS + 1, 0), (_NOW_MS - 9 * _YEAR_MS, 9 * _YEAR_MS)])
def test_age_of_a_start_from_disk_is_one_that_the_archive_accepts(
    began_ms: int, age_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starts, "time", _Clock(_NOW_MS))
    assert Start("id", began_ms=began_ms).body()["ageMs"] == age_ms <= MAX_AGE_MS == MAX_ACCEPTED_AGE_MS


def test_command_that_is_not_utf_8_is_started(server: FakeServer, settings: Settings, pace: Pace) -> None:
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh caf\udce9.csv")
    handler.write("one\n")
    handler.close()
    assert server.starts[0]["command"] == "./load.sh caf?.csv"
    assert server.lines("p", "r") == [b"one"] and server.runs["p", "r"].closed


@pytest.mark.parametrize("start", ["caf\udce9", "x" * 1000], ids=["not UTF-8", "too long"])
def test_start_of_the_environment_that_is_no_name_costs_no_line(
    start: str, server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FQN": "p", "RUN_ID": "r", "START": start}.items():
        monkeypatch.setenv(f"RUNLAKE_{name}", value)
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh")
    handler.write("one\n")
    handler.close()
    assert server.lines("p", "r") == [b"one"] and server.runs["p", "r"].closed


def refused(
    server: FakeServer, settings: Settings, pace: Pace, tries: int, attempt: int | None = None
) -> tuple[RunlogHandler, list[str]]:
    """A handler after one line and its close, whose first starts were refused, and its notices."""
    refusals = iter(["400"] * tries)
    server.fault = lambda method, path: next(refusals, "") if "/starts/" in path else ""
    notices: list[str] = []
    handler = RunlogHandler(
        "p", "r", settings=settings, pace=pace, tell=notices.append, close_run=True, command="./load.sh", attempt=attempt
    )
    handler.write("one\n")
    handler.close()
    return handler, notices


@pytest.mark.parametrize(
    ("tries", "started", "notice"),
    [
        (1, [{}], "p/r is started without host, command and age: as the test requires"),
        (2, [], "p/r: its start is refused: as the test requires"),
    ],
)
def test_refused_start_costs_its_details_or_the_start_and_no_line(
    tries: int, started: list[dict[str, str]], notice: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    handler, notices = refused(server, settings, pace, tries)
    assert server.lines("p", "r") == [b"one"] and server.runs["p", "r"].closed
    assert (server.starts, notices, handler.counts.lost_lines) == (started, [notice], 0)


def test_lines_of_a_refused_start_with_a_number_are_kept(server: FakeServer, settings: Settings, pace: Pace) -> None:
    """They are not lines of attempt 1."""
    handler, notices = refused(server, settings, pace, 2, attempt=2)
    assert (handler.counts.kept_lines, handler.counts.lost_lines, len(notices)) == (1, 0, 2)
    assert server.lines("p", "r") == []


def test_drain_starts_a_run_without_a_start_that_is_refused(server: FakeServer, settings: Settings) -> None:
    leave(settings.spool_root, server.url, start=Start("id", "./load.sh"))
    server.fault = lambda method, path: "400" if "/starts/" in path else ""
    assert CliRunner().invoke(runlake, ["--url", server.url, "--spool-dir", settings.spool_dir, "drain"]).exit_code == 0
    assert server.lines("p", "r") == [b"one"] and server.runs["p", "r"].closed


@pytest.mark.parametrize("facts", [b"{", b"\xe9", b"[]", b'{"url": 1}', None], ids=str)
def test_drain_goes_on_after_a_folder_with_any_error(facts: bytes | None, server: FakeServer, settings: Settings) -> None:
    bad, _ = [leave(settings.spool_root, server.url, name=name, run=RunName("p", name)) for name in ("bad", "good")]
    if facts is None:
        delivery = {"writer": "w", "firstId": 0, "endId": None, "count": "no number"}
        facts = SpoolState(server.url, RunName("p", "bad"), RunName("p", "bad"), "", facts=delivery).as_json()
    replace_state(bad, facts)
    options = ["--url", server.url, "--spool-dir", settings.spool_dir]
    listed = CliRunner().invoke(runlake, [*options, "drain", "--list"])
    assert (listed.exit_code, "good" in listed.stdout, "bad cannot be read" in listed.stderr) == (0, True, True)
    drained = CliRunner().invoke(runlake, [*options, "drain", "--json"])
    assert (drained.exit_code, drained.stdout) == (1, '{"stored": 1, "kept": 0, "failed": 1}\n')
    assert "bad stays as it is: " in drained.stderr
    assert server.lines("p", "good") == [b"one"]
    assert CliRunner().invoke(runlake, [*options, "drain", "--discard", "bad"]).exit_code == 0 and not bad.exists()
