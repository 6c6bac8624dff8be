"""A batch's bytes and lines, and the metadata of its segment."""

import itertools
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import DamagedLogError
from chalicelib.ports import SegmentEntry
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.choice import Choice
from chalicelib.runlog.segment import entry_of, landmarks_of, metadata_of


@pytest.mark.parametrize(
    ("text", "body", "lines"),
    [
        ("", b"", 0),
        ("a", b"a\n", 1),
        ("a\n", b"a\n", 1),
        ("a\n\n", b"a\n\n", 2),
        ("\n", b"\n", 1),
        ("a\r\nb\x0bc\u2028d", "a\r\nb\x0bc\u2028d\n".encode(), 2),
        ("nul\0 \ud800 lone", "nul\0 \ufffd lone\n".encode(), 1),
    ],
)
def test_lines_split_on_newlines_only(text: str, body: bytes, lines: int) -> None:
    batch = Batch.from_text(text)
    assert (batch.body, batch.lines) == (body, lines)
    assert batch.digest == blake2b(body, digest_size=16).hexdigest()


def test_bytes_that_are_no_utf8_are_kept() -> None:
    assert Batch.from_bytes(b"\xff\xfe\r").body == b"\xff\xfe\r\n"


NUMBERS = st.integers(0, 2**50)
ENTRIES = st.builds(
    SegmentEntry,
    sequence=NUMBERS,
    kind=st.sampled_from(["data", "seal"]),
    epoch=NUMBERS,
    line=NUMBERS,
    byte=NUMBERS,
    lines=NUMBERS,
    bytes=NUMBERS,
    session=st.text("abcdef0123456789-k", min_size=1, max_size=34),
    base=NUMBERS,
    digest=st.text("abcdef0123456789", max_size=32),
    appended_ms=NUMBERS,
    connector=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    reason=st.sampled_from(["", "closed", "abandoned"]),
    landmarks=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5).map(lambda marks: tuple(sorted(marks))),
    errors=st.none() | NUMBERS,
    first_ms=NUMBERS,
    last_ms=NUMBERS,
)


@given(ENTRIES)
def test_metadata_is_read_back(entry: SegmentEntry) -> None:
    metadata = metadata_of(entry)
    assert all(value.isascii() and "\n" not in value for value in metadata.values())
    # Landmarks ascend in both numbers in a real segment; sorted tuples may not in the second.
    assert entry_of(entry.sequence, metadata, entry.bytes) == entry


def test_metadata_stays_below_two_kilobytes_for_the_largest_batch() -> None:
    body = (b"x" * 63 + b"\n") * (1024 * 1024)
    entry = SegmentEntry(
        9_999_999_999, "data", 99, 10**12, 10**14, body.count(b"\n"), len(body), "k-" + "f" * 32, 9_999_999_999, "f" * 32, 10**13,
        "é" * 400, "", landmarks_of(body), body.count(b"\n"), first_ms=10**13, last_ms=10**13,
    )  # fmt: skip
    metadata = metadata_of(entry) | Choice(browser="b" * 100).segment_metadata()
    assert sum(len(key) + len(value) for key, value in metadata.items()) < 2048


def test_a_segment_without_its_metadata_is_damaged() -> None:
    with pytest.raises(DamagedLogError, match="sequence=3"):
        entry_of(3, {"kind": "data"}, 10)


@given(st.lists(st.integers(0, 200_000), max_size=60))
def test_landmarks_stand_at_line_starts(line_lengths: list[int]) -> None:
    lines = [b"x" * length + b"\n" for length in line_lengths]
    body = b"".join(lines)
    starts = {(number, sum(map(len, lines[:number]))) for number in range(1, len(lines))}
    marks = landmarks_of(body)
    assert set(marks) <= starts and len(marks) <= 96
    edges = [0, *(byte for _, byte in marks), len(body)]
    assert all(
        after - before <= 256 * 1024 + max(line_lengths, default=0) + 1 or after == len(body)
        for before, after in itertools.pairwise(edges)
    )
