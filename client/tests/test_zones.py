"""The zone of a run, as the client states it: by an option, or by a formatter that writes times without one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.tests.dead_programs import leave
from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler, RunName, Settings, SettingsError, zones
from runlake.__main__ import runlake
from runlake.draining import drain_folder
from runlake.spool import claim, folders_in
from runlake.starts import Start
from runlake.zones import checked_zone, local_zone, zone_of_formatter

BERLIN = "Europe/Berlin"
UNZONED = logging.Formatter("%(asctime)s %(message)s")


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", BERLIN)
        time.tzset()
        yield
    time.tzset()


def handler_of(settings: Settings, pace: Pace, notices: list[str] | None = None, **more: object) -> RunlogHandler:
    tell = (notices if notices is not None else []).append
    return RunlogHandler("p", "r", settings=settings, pace=pace, tell=tell, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zone", "stated"),
    [("local", BERLIN), ("America/New_York", "America/New_York"), ("+05:30", "+05:30"), ("-03", "-03"), ("UTC", "UTC")],
)
def test_zone_is_a_name_an_offset_or_that_of_the_process(zone: str, stated: str) -> None:
    assert checked_zone(zone) == stated


@pytest.mark.parametrize("zone", ["Europe/Berln", "+1", "+25:00", "+01:60", "Mars", "../UTC", ""])
def test_unknown_zone_is_refused_at_once(zone: str) -> None:
    with pytest.raises(SettingsError, match="there is no such zone"):
        checked_zone(zone)


@pytest.mark.parametrize(
    ("variable", "link", "zone"),
    [
        (":Asia/Tokyo", "", "Asia/Tokyo"),
        ("", "/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
        ("", "/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ("<+03>-3", "", "+03:00"),  # rules of POSIX have no name
        ("<-0930>9:30", "/usr/share/zoneinfo/Asia/Tokyo", "-09:30"),
    ],
)
def test_zone_of_the_process(variable: str, link: str, zone: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", variable)
    time.tzset()
    localtime = tmp_path / "localtime"
    if link:
        localtime.symlink_to(link)
    monkeypatch.setattr(zones, "_LOCALTIME", localtime)
    assert local_zone() == zone


def of_gmtime() -> logging.Formatter:
    formatter = logging.Formatter("%(asctime)s %(message)s")
    formatter.converter = time.gmtime  # type: ignore[assignment]
    return formatter


@pytest.mark.parametrize(
    ("formatter", "zone"),
    [
        (UNZONED, BERLIN),
        (logging.Formatter("%(asctime)s %(message)s", "%d.%m.%Y %H:%M:%S"), BERLIN),
        (logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S%z"), ""),
        (logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%SZ"), ""),
        (logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S %Z"), ""),
        (logging.Formatter("{asctime} {message}", "%I:%M:%S %p", style="{"), BERLIN),
        (logging.Formatter("%(levelname)s %(message)s"), ""),
        (of_gmtime(), "UTC"),
        (None, ""),
    ],
)
def test_formatter_states_the_zone_that_its_times_lack(formatter: logging.Formatter | None, zone: str) -> None:
    assert zone_of_formatter(formatter) == zone


@pytest.mark.parametrize("is_started", [False, True])
@pytest.mark.parametrize(
    ("zone", "formatter", "stated"),
    [("", None, ""), ("", UNZONED, BERLIN), ("+09:00", None, "+09:00"), ("+09:00", UNZONED, "+09:00")],
)
def test_handler_states_the_zone_of_the_run(
    zone: str,
    formatter: logging.Formatter | None,
    stated: str,
    is_started: bool,
    server: FakeServer,
    settings: Settings,
    pace: Pace,
) -> None:
    handler = handler_of(settings, pace, zone=zone, command="load" if is_started else None)
    if formatter:
        handler.setFormatter(formatter)
    handler.write("one\n")
    handler.flush()
    handler.setFormatter(UNZONED)  # too late
    handler.write("two\n")
    handler.close()
    assert (server.lines("p", "r"), server.runs["p", "r"].zone) == ([b"one", b"two"], stated)


@pytest.mark.parametrize("is_started", [False, True])
def test_lines_are_stored_without_the_zone_if_the_run_has_another(
    is_started: bool, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.add("p", "r", b"before\n")
    notices: list[str] = []
    handler = handler_of(settings, pace, notices, zone=BERLIN, command="load" if is_started else None)
    handler.write("one\n")
    handler.close()
    assert (server.lines("p", "r"), server.runs["p", "r"].zone) == ([b"before", b"one"], "")
    assert notices == [f"p/r: the zone of a run cannot change: its lines are stored without the zone {BERLIN}"]


def test_zone_is_stated_again_for_the_next_attempt(server: FakeServer, settings: Settings, pace: Pace) -> None:
    handler = handler_of(settings, pace, zone=BERLIN)
    handler.write("one\n")
    handler.flush()
    server.runs["p", "r"].closed = True
    handler.write("two\n")
    handler.close()
    assert [(server.lines("p", run), server.runs["p", run].zone) for run in ("r", "r~2")] == [
        ([b"one"], BERLIN),
        ([b"two"], BERLIN),
    ]


@pytest.mark.parametrize("exec_zone", ["", BERLIN])
def test_command_of_exec_states_the_zone_of_exec(
    exec_zone: str, server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Start.now(RunName("p", "r"), "load").environment(RunName("p", "r"), exec_zone).items():
        monkeypatch.setenv(name, value)
    handler = handler_of(settings, pace)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.write("one\n")
    handler.close()
    assert server.runs["p", "r"].zone == exec_zone


@pytest.mark.parametrize("start", [None, Start("a", "load", "host", 1)])
def test_drain_states_the_zone_that_the_program_stated(
    start: Start | None, server: FakeServer, settings: Settings, tmp_path: Path
) -> None:
    folder = leave(tmp_path / "spool", server.url, start=start, zone=BERLIN)
    result = drain_folder(folder, settings, 10)
    assert result and result.is_done
    assert (server.lines("p", "r"), server.runs["p", "r"].zone) == ([b"one"], BERLIN)


def test_killed_program_leaves_its_zone_on_disk(settings: Settings, pace: Pace, server: FakeServer) -> None:
    server.down()
    handler = handler_of(settings, pace)
    handler.setFormatter(UNZONED)
    handler.write("one\n")
    handler.finish(0)
    (folder,) = folders_in(settings.spool_root)
    spool = claim(folder)
    assert spool and spool.state.zone == BERLIN
    spool.close()


@pytest.mark.parametrize(("options", "zone"), [([], ""), (["--zone", "local"], BERLIN), (["--zone", "+09:00"], "+09:00")])
def test_exec_states_a_zone_only_if_it_is_told(options: list[str], zone: str, server: FakeServer, tmp_path: Path) -> None:
    arguments = ["--url", server.url, "--spool-dir", str(tmp_path), "exec", "-q", "--run-id", "r", *options, "p", "true"]
    assert CliRunner().invoke(runlake, arguments).exit_code == 0
    assert server.runs["p", "r"].zone == zone
    shown = CliRunner().invoke(runlake, ["--url", server.url, "status", "p", "r"]).output
    assert f"zone\t{zone or 'none stated: times without one are in UTC'}\n" in shown


@pytest.mark.parametrize("zone", ["Mars", ""])  # an empty one is a variable that is not set
def test_exec_with_an_unknown_zone_runs_nothing(zone: str, server: FakeServer, tmp_path: Path) -> None:
    arguments = ["--url", server.url, "--spool-dir", str(tmp_path), "exec", "--zone", zone, "p", "true"]
    assert CliRunner().invoke(runlake, arguments).exit_code == 125
    assert not server.runs
