"""Following a run: every line once, despite connection failures."""

from __future__ import annotations

import random
import threading

import pytest

from client.tests.fake_server import FakeServer
from runlake import Archive, RunName
from runlake.errors import ApiError, UnavailableError
from runlake.following import Follower
from runlake.sse import Event, events_of

RUN = RunName("p", "r")


def follower(archive: Archive, **more: int) -> Follower:
    return Follower(archive, RUN, pause=lambda seconds: None, **more)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_streamed", [True, False], ids=["stream", "pages"])
def test_every_line_once_while_the_connection_is_cut(seed: int, is_streamed: bool, server: FakeServer) -> None:
    chance = random.Random(seed)
    server.stream_lines = 20
    server.fault = lambda method, path: chance.choice(["", "", "", "500", "cut", "lost"])

    def write() -> None:
        for number in range(0, 300, 10):
            server.add("p", "r", b"".join(b"%d\n" % each for each in range(number, number + 10)), close=number == 290)

    writer = threading.Thread(target=write)
    with Archive(server.url) as archive:
        writer.start()
        pieces = list(follower(archive, _is_streamed=is_streamed).pieces())
        writer.join()
    assert [int(line) for piece in pieces for line in piece.lines] == list(range(300))
    assert pieces[-1].end == "runFinished"


def test_it_resumes_by_the_last_id(server: FakeServer) -> None:
    server.add("p", "r", b"".join(b"%d\n" % each for each in range(50)), close=True)
    server.stream_lines = 20
    with Archive(server.url) as archive:
        pieces = list(follower(archive, tail=30).pieces())
    assert [piece.first for piece in pieces] == [20, 40, 50]
    assert [headers.get("last-event-id") for *_, headers in server.requests] == [None, "40"]
    assert "tail=30" in server.requests[0][1]


def test_lines_that_come_again_are_left_out(server: FakeServer) -> None:
    with Archive(server.url) as archive:
        following = follower(archive)
        frame = '{"eventType": "logs", "logs": "%s", "after": "%d"}'
        seen = [following._piece_of(Event(frame % (logs, after), None, None)) for logs, after in ((r"a\nb\n", 2), (r"b\nc\n", 3))]
    assert [(piece.first, piece.lines) for piece in seen if piece] == [(0, ["a", "b"]), (2, ["c"])]


@pytest.mark.parametrize(
    ("reason", "end"),
    [("maxBytes", None), ("maxDuration", None), ("idleTimeout", "idleTimeout"), ("untilReached", "untilReached")],
)
def test_a_limit_of_one_response_is_no_end_and_keeps_the_position(reason: str, end: str | None, server: FakeServer) -> None:
    with Archive(server.url) as archive:
        following = follower(archive, tail=0)
        frame = f'{{"eventType": "complete", "after": "7", "reason": "{reason}"}}'
        piece = following._piece_of(Event(frame, None, None))
    assert ((piece and piece.end), following.next_line) == (end, 7)


@pytest.mark.parametrize(("kind", "error"), [("interrupted", UnavailableError), ("error", ApiError)])
def test_failures_of_the_stream(kind: str, error: type[Exception], server: FakeServer) -> None:
    with Archive(server.url) as archive, pytest.raises(error, match="the reason"):
        follower(archive)._piece_of(Event(f'{{"eventType": "{kind}", "message": "the reason"}}', None, None))


@pytest.mark.parametrize(("is_silent", "end"), [(False, "runFinished"), (True, "idleTimeout")])
def test_stream_of_a_run_without_lines_ends_only_if_it_is_silent(
    is_silent: bool, end: str, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While heartbeats come, lines are waited for by pages."""
    server.add("p", "r", b"a\n")
    server.silent.update({"r"} if is_silent else set())
    with Archive(server.url) as archive:
        following = follower(archive, next_line=1)
        idle = following._piece_of(Event('{"eventType": "complete", "after": "1", "reason": "idleTimeout"}', None, None))
        monkeypatch.setattr(Follower, "_streamed", lambda _: iter([idle]))
        pieces = following.pieces()
        server.add("p", "r", b"b\n", close=not is_silent)
        found = list(pieces)
    assert found[-1].end == end and [line for piece in found for line in piece.lines] == ([] if is_silent else ["b"])


def test_events_of_a_stream() -> None:
    text = "retry: 250\n\n: heartbeat\n\nid: 4\ndata: a\ndata:b\nevent: x\n\nid\ndata: cut"
    assert list(events_of(text.split("\n"))) == [Event("a\nb", "4", 250)]
