"""No allowed request fails because of a too large response: content is measured with all other fields of the response."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from chalicelib import response_size
from chalicelib.ports import Run
from chalicelib.response_size import CONTENT_BYTES, RESPONSE_BYTES, envelope_bytes
from chalicelib.runlog import matching
from chalicelib.runlog.batch import Batch
from tests.functional.gateway import LOGS, Answer, call, installed
from tests.world import World

RUN = Run("svc.p", '"' * 280)
"""The longest frame: of the letters that fit a key, quotes take the most in a response."""
PATH = f"svc.p/{quote(RUN.run_id)}"
LETTERS = {"quote": ('"', 4), "backslash": ("\\", 4), "control": ("\x01", 7), "accent": ("é", 6), "separator": ("\u2028", 7)}
"""Letters, and the bytes that each takes of a response at most."""
NEXT = "2026-11-22 10:00:00 INFO next " + "." * 40


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def append(world: World, *lines: str) -> None:
    world.parts().writer.append(RUN, Batch.from_bytes("".join(f"{line}\n" for line in lines).encode()))


def served(url: str) -> Answer:
    answer = call("GET", url)
    assert answer.status == 200, (url[-40:], answer.body[:200])
    assert envelope_bytes(answer.body) <= RESPONSE_BYTES
    return answer


@pytest.mark.sampled(default=6)
@pytest.mark.slow
@pytest.mark.parametrize("name", LETTERS)
@pytest.mark.parametrize("over", [-1, 0, 1])
@pytest.mark.parametrize("limit_bytes", [CONTENT_BYTES, RESPONSE_BYTES], ids=["content", "response"])
def test_line_of_just_the_size_of_a_page_is_read(world: World, name: str, limit_bytes: int, over: int) -> None:
    letter, size = LETTERS[name]
    line = letter * ((limit_bytes - 6) // size + over)
    append(world, line, NEXT)
    if over == 0:
        world.parts().finalizer.close(RUN)
    page = served(f"{LOGS}/{PATH}?limit=10").json
    first = page["logs"].partition("\n")[0]
    assert page["after"] == "1" and line.startswith(first) and len(first) > len(line) * 0.8
    assert served(f"{LOGS}/{PATH}?limit=10&after=1").json["logs"] == NEXT
    streamed = served(f"{LOGS}/svc.p/stream/{quote(RUN.run_id)}?wait=0").body
    assert json.loads(streamed.partition("data: ")[2].partition("\n")[0])["after"] == "1"
    event = served(f"/v1/events/{PATH}?limit=1").json["events"][0]
    assert event["line"] == 0 and line.startswith(event["message"].partition("\n")[0])
    pieces, start, raw = "", 0, ""
    while start < len(f"{line}\n{NEXT}\n".encode()):
        piece = served(f"/v1/events/{PATH}/log?start={start}").json
        assert piece["next"] > start
        pieces, raw = pieces + piece["text"], raw + served(f"/v1/events/{PATH}/log?raw=true&start={start}").body
        start = piece["next"]
    assert pieces == raw == f"{line}\n{NEXT}\n"


@pytest.mark.parametrize("name", LETTERS)
def test_two_lines_that_make_just_a_page_are_read(world: World, name: str) -> None:
    letter, size = LETTERS[name]
    line = letter * ((RESPONSE_BYTES - 40) // size // 2)
    append(world, line, line, NEXT)
    read: list[str] = []
    while len(read) < 3:
        page = served(f"{LOGS}/{PATH}?limit=2&after={len(read)}").json
        read += page["logs"].split("\n")
    assert read == [line, line, NEXT]


def test_stream_that_waited_measures_a_frame_too(world: World) -> None:
    append(world, "first")
    served(f"{LOGS}/svc.p/stream/{quote(RUN.run_id)}?wait=0")
    line = "\u2028" * ((CONTENT_BYTES - 6) // 7 + 1)
    append(world, line)
    streamed = served(f"{LOGS}/svc.p/stream/{quote(RUN.run_id)}?wait=0&after=1").body
    told = json.loads(streamed.partition("data: ")[2].partition("\n")[0])
    assert told["after"] == "2" and told["cut"] and line.startswith(told["logs"].removesuffix("\n"))


@pytest.mark.slow
@pytest.mark.parametrize("options", ["", "&regex=true", "&ignoreCase=true"])
@pytest.mark.parametrize(
    "line", ["é" * 430 + "a" * 1470 + "x" * 100, "x\x01" * 1000, "x😀" * 1000], ids=["places", "controls", "pairs"]
)
def test_matches_of_an_allowed_request_fit_with_their_places(
    world: World, line: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "LINE_S", 600.0)
    append(world, *[line] * 1000)
    lines: list[int] = []
    after: str | None = "0"
    while after is not None:
        found = served(f"/v1/catalog/pipelines/svc.p/runs/{quote(RUN.run_id)}/grep?q=x&limit=1000&after={after}{options}").json
        assert all(len(each["spans"]) == 100 for each in found["matches"])
        lines += [each["line"] for each in found["matches"]]
        after = found["after"]
    assert lines == list(range(1000))


def test_names_of_lost_writers_count_for_their_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("svc.p", "r1")
    for number in range(30):
        assert call("PUT", f"/v1/events/svc.p/r1/writers/{number:02d}{'w' * 190}").status == 200
    world.parts().writer.append(run, Batch.from_bytes(b"one\n"))
    world.parts().finalizer.close(run)
    world.clock.advance(86_400)
    monkeypatch.setattr(response_size, "CONTENT_BYTES", 4000)
    writers: list[str] = []
    lost: list[str] = []
    after: str | None = "0"
    while after is not None:
        answer = served(f"/v1/events/svc.p/r1/completeness?after={after}")
        assert envelope_bytes(answer.body) <= 4000 + 200
        writers += [each["writer"] for each in answer.json["writers"]]
        lost += answer.json["lost"]
        after = answer.json["after"]
    assert len(writers) == 30 and lost == writers
