"""Cursors of listings: they go on where they left off, and only in the query that they are of."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.access.cursor_cipher import CursorCipher
from chalicelib.aws import run_catalog as dynamodb_runs
from chalicelib.catalog.cursor import CursorSigner
from chalicelib.catalog.search import FileQuery
from chalicelib.catalog.timestamps import FIRST_MS, LAST_MS
from chalicelib.coordination import administration
from chalicelib.coordination.store import IndexPosition
from chalicelib.errors import InvalidCursorError, InvalidInputError
from tests.support.file_ids import FILE_IDS, HOSTILE
from tests.support.run_catalog import InMemoryRunCatalog

SIGNER = CursorSigner(["key-one"])
AFTER = (1_790_000_000_000, "0123456789abcdef" * 2)
QUERY = FileQuery(("syslog", "nginx-*"), "web-1", "job-1", 5, 1_790_000_000_000, True)
NAMES = st.text("abcz019_-*", min_size=1, max_size=12)
QUERIES = st.builds(
    FileQuery,
    whats=st.lists(NAMES, min_size=1, max_size=4).map(tuple),
    where=st.none() | NAMES,
    work_id=st.none() | NAMES,
    start_ms=st.integers(FIRST_MS, LAST_MS),
    end_ms=st.integers(FIRST_MS, LAST_MS),
    newest_first=st.booleans(),
)
PLACES = st.tuples(st.integers(FIRST_MS, LAST_MS), FILE_IDS)


@given(QUERIES, PLACES)
def test_a_cursor_is_read_back(query: FileQuery, place: tuple[int, str]) -> None:
    text = SIGNER.write(query, place)
    assert SIGNER.read(text, query) == replace(query, after=place)
    assert all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in text), "it needs no quoting in a URL"


def test_a_cursor_fits_into_an_address() -> None:
    """An address has at most 8 KiB, and a cursor may be encrypted besides."""
    cipher = CursorCipher(["key-one"])
    for file_id in [*HOSTILE, "".join(map(chr, range(0x4E00, 0x4E00 + 170))), "".join(map(chr, range(0x100, 0x200)))]:
        assert len(cipher.encrypt(SIGNER.write(QUERY, (LAST_MS, file_id)), "someone", "syslog")) < 4096


def test_length_of_an_encrypted_cursor_reveals_no_name() -> None:
    cipher, names = CursorCipher(["key-one"]), ["a", "a" * 60, "ü" * 60, "a" * 1023, "ü" * 512, "a\0"]
    cursors = [cipher.encrypt(name, "someone") for name in names]
    assert {len(cursor) for cursor in cursors} == {1485}
    assert [cipher.decrypt(cursor, "someone") for cursor in cursors] == names


@given(QUERIES, PLACES, PLACES)
def test_the_next_cursor_of_a_listing_is_of_the_same_query(query: FileQuery, one: tuple[int, str], other: tuple[int, str]) -> None:
    going_on = SIGNER.read(SIGNER.write(query, one), query)
    assert SIGNER.read(SIGNER.write(going_on, other), query) == replace(query, after=other)


@given(st.data())
def test_a_changed_cursor_is_refused(data: st.DataObject) -> None:
    text = SIGNER.write(QUERY, AFTER)
    at = data.draw(st.integers(0, len(text) - 2))  # the last letter of a base64 text has bits that mean nothing
    letter = data.draw(st.sampled_from("abcXYZ019-_.é%").filter(lambda letter: letter != text[at]))
    with pytest.raises(InvalidCursorError):
        SIGNER.read(text[:at] + letter + text[at + 1 :], QUERY)


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_a_cut_cursor_is_refused(cut: int) -> None:
    text = SIGNER.write(QUERY, AFTER)
    for part in (text[:-cut], text[cut:], text + "A" * cut, "." * cut + text):
        with pytest.raises(InvalidCursorError):
            SIGNER.read(part, QUERY)


@given(st.text(max_size=60))
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        SIGNER.read(text, QUERY)


@pytest.mark.parametrize("text", ["", ".", "..", "\ud800", "é.é", "null", "0", "eyJhIjoxfQ.sig", "a" * 100_000, ".eJw.x"])
def test_more_garbage_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursorError):
        SIGNER.read(text, QUERY)


@pytest.mark.parametrize(
    "other",
    [
        replace(QUERY, whats=("syslog",)),
        replace(QUERY, whats=("syslog", "nginx-")),
        replace(QUERY, whats=("syslog,nginx-*",)),
        replace(QUERY, where=None),
        replace(QUERY, where="web-10"),
        replace(QUERY, work_id=None),
        replace(QUERY, where="job-1", work_id="web-1"),
        replace(QUERY, start_ms=6),
        replace(QUERY, end_ms=6),
        replace(QUERY, newest_first=False),
    ],
)
def test_a_cursor_of_another_query_is_refused(other: FileQuery) -> None:
    for query, asked in ((QUERY, other), (other, QUERY)):
        with pytest.raises(InvalidCursorError):
            SIGNER.read(SIGNER.write(query, AFTER), asked)


def test_the_order_of_whats_means_nothing() -> None:
    assert SIGNER.read(SIGNER.write(QUERY, AFTER), replace(QUERY, whats=("nginx-*", "syslog"))).after == AFTER


def test_keys_rotate() -> None:
    old = SIGNER.write(QUERY, AFTER)
    rotated = CursorSigner(["key-two", "key-one"])
    assert rotated.read(old, QUERY).after == AFTER
    with pytest.raises(InvalidCursorError):
        SIGNER.read(rotated.write(QUERY, AFTER), QUERY)
    with pytest.raises(InvalidCursorError):
        CursorSigner(["key-two"]).read(old, QUERY)


def test_a_text_that_another_part_of_the_house_signed_is_refused() -> None:
    """Positions of runs are signed with the same keys."""
    from chalicelib.ports import Run
    from chalicelib.runlog.position import Position, PositionSigner

    position = Position("00ff", 1, 7, 70, 7000, False, 1_700_000_000_000)
    with pytest.raises(InvalidCursorError):
        SIGNER.read(PositionSigner(["key-one"]).dumps(Run("svc.pipeline", "run-1"), position), QUERY)


def made_by_hand(*values: object) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize("run_id", ["\ud800", "caf\udce9", "r" * 1025, "ü" * 513, "", None, 5, ["r"]])
def test_run_cursor_of_no_possible_run_is_refused(run_id: object) -> None:
    with pytest.raises(InvalidInputError, match="invalid cursor"):
        dynamodb_runs.read_cursor(made_by_hand(5, run_id))
    with pytest.raises(InvalidInputError, match="invalid cursor"):
        InMemoryRunCatalog().newest("svc.pipeline", 1, made_by_hand(5, run_id))


@pytest.mark.parametrize("key", ["\ud800", "k" * 1025, "", None, 5])
@pytest.mark.parametrize("at", [0, 1])
def test_partition_cursor_of_no_possible_key_is_refused(key: object, at: int) -> None:
    values: list[object] = ["2026-11-22T00:00:00.000Z", "svc.pipeline/run-1"]
    values[at] = key
    with pytest.raises(InvalidCursorError):
        administration.read_cursor(made_by_hand(*values))


def test_longest_keys_are_read_back_from_a_cursor() -> None:
    key = "ü" * 512
    assert dynamodb_runs.read_cursor(dynamodb_runs.write_cursor(5, key)) == {"started_ms": 5, "run_id": key}
    assert administration.read_cursor(administration.write_cursor(IndexPosition(key, key))) == IndexPosition(key, key)
