"""Notices for a person while lines wait for the archive."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler, Settings
from runlake.notices import WaitNotices


@pytest.mark.parametrize(
    ("moves_s", "expected_s"),
    [
        ([], [5, 65, 125]),
        ([3], [8, 68, 128]),
        ([6], [5, 65, 125]),
        ([4, 8, 12, 16], [21, 81]),
        ([64], [5, 69, 129]),
    ],
)
def test_notice_comes_when_nothing_moved_and_is_repeated_rarely(moves_s: list[float], expected_s: list[float]) -> None:
    now_s, told_s = 0.0, list[float]()
    notices = WaitNotices(5, 60, lambda: now_s)
    for second in range(140):
        now_s = float(second)
        if now_s in moves_s:
            notices.progressed()
        if notices.take():
            told_s.append(now_s)
    assert told_s == expected_s


@pytest.mark.parametrize(
    ("lines", "spool_bytes", "told"),
    [
        (2, 1000, "2 lines of p/r wait for the archive, 60 s more while nothing moves; the rest is then left in {root} for `"),
        (0, 1000, "the end of p/r waits for the archive, "),
        (2, 0, "; the rest is then lost, because there is no spool"),
    ],
)
def test_wait_for_an_archive_that_is_away_is_told_before_it_is_given_up(
    lines: int, spool_bytes: int, told: str, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    server.down()
    notices: list[str] = []

    def tell(text: str) -> None:
        notices.append(text)
        server.up()

    handler = RunlogHandler(
        "p", "r", close_run=True, settings=replace(settings, spool_bytes=spool_bytes), pace=replace(pace, notice_s=0.01), tell=tell
    )
    handler.write("one\n" * lines)
    handler.finish(60, while_moving=True, report_wait=True)
    assert told.format(root=settings.spool_root) in notices[0] and len(notices) == 1
    assert server.lines("p", "r") == [b"one"] * lines and server.runs["p", "r"].closed


def test_only_exec_reports_its_wait(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.down()
    notices: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, pace=replace(pace, notice_s=0), tell=notices.append)
    handler.write("one\n")
    handler.finish(0.05)
    assert len(notices) == 1 and "1 lines of p/r wait in " in notices[0]
