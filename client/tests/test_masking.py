"""Secrets are masked in every form, wherever a stream is cut, before anything leaves the process."""

from __future__ import annotations

import base64
import gzip
import html
import json
import logging
import random
import runpy
import sys
from dataclasses import replace
from urllib.parse import unquote

import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import runlake
from client.tests.fake_server import FakeServer
from runlake import Annotation, Mask, RunlogHandler, Settings, _words
from runlake.masking import _LONGEST_PENDING_BYTES, _OVERLAP_BYTES, MARK
from tests.spellings import spelling


@examples(deadline=None, max_examples=50)
@given(st.text("ab1 /&<>'\"\\\\%+=ü😀", min_size=4, max_size=16), st.randoms(use_true_random=False))
def test_value_in_any_spelling_is_masked(inner: str, chance: random.Random) -> None:
    value = f"a{inner}z"
    assume(len(html.unescape(unquote(value)).replace("\\", "")) >= 4)  # what is shorter without escapes is known as written only
    _, written = spelling(value, chance)
    mask = Mask([value])
    assert mask.text(f"x {written} y") == f"x {MARK} y"
    assert mask.bytes(f"x {written} y".encode()) == f"x {MARK} y".encode()


@examples(deadline=None)  # the machine may be busy
@given(st.text(max_size=9), st.text(max_size=9))
def test_in_base64_of_something_longer_nothing_but_the_edges_is_left(before: str, behind: str) -> None:
    """As in ``Authorization: Basic``: at most a letter at each edge has some of its bits."""
    secret = "correct-horse-battery"
    encoded = base64.b64encode(f"{before}{secret}{behind}".encode()).decode()
    left = Mask([secret]).text(encoded)
    assert MARK in left
    assert len(left.replace(MARK, "")) <= len(encoded) - len(secret) * 8 // 6 + 2


def test_the_longest_wins_and_what_overlaps_is_one() -> None:
    mask = Mask(["abc", "abcdef", "efgh", ""])
    assert mask.text("abcdef abc") == f"{MARK} {MARK}"
    assert mask.text("xabcdefghx") == f"x{MARK}x"
    assert mask.text("abcabc") == MARK + MARK
    assert Mask(["aa"]).text("aaa a") == f"{MARK} a"
    assert not Mask([""], shapes=False)


def test_a_key_of_many_lines_is_masked_line_by_line_too() -> None:
    key = "-----BEGIN KEY-----\nMIIBOgIBAAJBAKj34Gkx\nab\n-----END KEY-----\n"
    mask = Mask([key])
    assert mask.text(f"<{key}>") == f"<{MARK}\n{MARK}\n{MARK}\n{MARK}\n>", "lines stay"
    assert mask.text("10:00 MIIBOgIBAAJBAKj34Gkx") == f"10:00 {MARK}"
    assert mask.text("ab") == "ab"


@examples(deadline=None)  # the machine may be busy
@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3), st.text("abc", max_size=30), st.data())
def test_a_stream_is_masked_as_if_it_came_at_once(secrets: list[str], text: str, data: st.DataObject) -> None:
    """For any pieces: other text is unchanged, and the same text is masked."""
    mask = Mask(secrets)
    stream = mask.stream()
    masked, rest = b"", text.encode()
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        masked += stream.put(rest[:size])
        rest = rest[size:]
    masked += stream.end()
    assert masked == mask.bytes(text.encode())


def test_secret_in_an_endless_line_is_masked() -> None:
    mask, line = Mask(["hunter2!"]), b"x" * (_LONGEST_PENDING_BYTES - 2) + b"hunter2!" + b"y" * 5 * _OVERLAP_BYTES
    stream = mask.stream()
    pieces = [stream.put(line[at : at + 1000]) for at in range(0, len(line), 1000)]
    assert any(pieces) and b"".join([*pieces, stream.end()]) == mask.bytes(line)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_private_key_that_comes_line_by_line_is_masked(newline: str) -> None:
    mask, kind = Mask(), "RSA PRIVATE KEY"
    text = f"a|-----BEGIN {kind}-----|MIIB|AAA=|-----END {kind}-----|b|".replace("|", newline).encode()
    stream = mask.stream()
    assert b"".join([*map(stream.put, text.splitlines(keepends=True)), stream.end()]) == mask.bytes(text)
    endless, stream = f"-----BEGIN {kind}-----\n".encode() + b"words of a log\n" * 2000, mask.stream()
    left = b"".join(map(stream.put, endless.splitlines(keepends=True)))
    assert left.endswith(b"words of a log\n") and left.count(b"\n") == 2001


@examples(deadline=None, max_examples=50)
@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, unique=True), st.text("abc"))
def test_search_without_the_package_finds_the_same(words: list[str], text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ahocorasick_rs", None)
        without = runpy.run_path(_words.__file__)
    assert _words.HAS_AUTOMATON and not without["HAS_AUTOMATON"]
    every = [
        kind([word.encode() for word in words]).find_matches_as_indexes(text.encode(), overlapping=True)
        for kind in (_words.BytesAhoCorasick, without["BytesAhoCorasick"])
    ]
    assert sorted(every[0]) == sorted(every[1])
    assert [end for _, _, end in every[1]] == sorted(end for _, _, end in every[1])


def test_missing_package_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runlake._words.HAS_AUTOMATON", False)
    monkeypatch.setattr("runlake.masking._is_reported", False)
    assert not Mask(shapes=False).missing()
    assert "ahocorasick-rs" in Mask().missing() and not Mask().missing()
    assert Mask(["hunter2!"]).text("hunter2! password=x") == f"{MARK} password=***password***"


@examples(deadline=None)  # the machine may be busy
@given(st.text("abxy", max_size=30))
def test_positions_move_with_the_text(text: str) -> None:
    masked, moved = Mask(["ab", "bba"]).with_positions(text)
    for position, letter in enumerate(text):
        if letter in "xy":  # of no secret
            assert masked[moved(position)] == letter
            assert [each for each in masked[: moved(position)] if each in "xy"] == [
                each for each in text[:position] if each in "xy"
            ]
    assert moved(len(text)) == len(masked)
    assert Mask(["ab"]).with_positions("xaby")[1](2) == 1


def test_what_is_logged_written_and_annotated_is_masked_on_its_way(server: FakeServer, settings: Settings) -> None:
    logger = logging.Logger("app")
    with runlake.run("p", "r", logger=logger, events=True, secrets=["hunter2!"], settings=settings) as run:
        logger.info("logged %s", "hunter2!")
        run.write("written hunter2!\n")
        with run.step("with hunter2!"):
            data = {"deep": [{"hunter2!": ("hunter2!", ValueError("hunter2!"))}], "n": float("nan")}
            run.event("see hunter2! here", data=data, annotations=[Annotation(13, {"href": "https://x/hunter2%21"})])
    events = server.runs["p", "r"].events
    assert events.stored[1]["message"] == f"written {MARK}"
    assert events.stored[2]["data"] == {"deep": [{MARK: [MARK, f"ValueError('{MARK}')"]}], "n": "nan"}
    assert events.stored[2]["annotations"] == [{"position": 5 + len(MARK), "note": {"href": f"https://x/{MARK}"}}]
    assert b"hunter2" not in server.runs["p", "r"].data
    assert "hunter2" not in json.dumps([events.stored, events.steps])


@pytest.mark.parametrize(
    ("secret", "words", "command"),
    [
        ("hunter2'Zx81", ["./load.sh", "--password=hunter2'Zx81", "a b"], "./load.sh '--password=***password***' 'a b'"),
        ("two words", ["./load.sh", "two words"], f"./load.sh '{MARK}'"),
        ("two words", ["./load.sh", "two", "words"], f"./load.sh {MARK}"),
        ("hunter2", "./load.sh 'hunter2'", f"./load.sh '{MARK}'"),
    ],
    ids=["apostrophe", "space", "several words", "text"],
)
def test_secret_in_the_command_is_masked(
    secret: str, words: str | list[str], command: str, server: FakeServer, settings: Settings
) -> None:
    handler = RunlogHandler("p", "r", secrets=[secret], settings=settings, close_run=True, command=words)
    handler.close()
    assert server.starts[0]["command"] == command


def test_secret_in_the_command_of_a_block_is_masked(
    server: FakeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["load.py", "hunter2'Zx81"])
    with runlake.run("p", "r", logger=None, secrets=["hunter2'Zx81"], settings=settings):
        pass
    assert server.starts[0]["command"] == f"load.py '{MARK}'"


@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.behavior("The client masks secrets before lines are buffered.")
def test_lines_are_masked_before_they_stand_in_memory_or_on_disk(server: FakeServer, settings: Settings, is_masked: bool) -> None:
    server.down()
    own = replace(settings, mask=is_masked)
    handler = RunlogHandler("p", "r", secrets=["hunter2!"], settings=own, tell=lambda text: None)
    handler.write("text hunter2! password=own\n")
    handler.write_bytes(b"bytes hunter2!\n", 0)
    handler.finish(0.01)
    sent = b"".join(gzip.decompress(path.read_bytes()) for path in settings.spool_root.rglob("sent.gz"))
    kept = sent + b"".join(path.read_bytes() for path in sorted(settings.spool_root.rglob("*.chunk")))
    own_password = "***password***" if is_masked else "own"
    assert kept == f"text {MARK} password={own_password}\nbytes {MARK}\n".encode()
