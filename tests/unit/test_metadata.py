"""The metadata document: each rule of the contract, and unknown keys preserved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chalicelib.catalog.file_ids import data_key
from chalicelib.catalog.file_state import file_key, url_key
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import MAX_DAYS, MAX_DOCUMENT_BYTES, Metadata, metadata_of, parse_metadata
from chalicelib.catalog.timestamps import DAY_MS, FIRST_MS, LAST_MS
from chalicelib.errors import InvalidMetadataError
from tests.support.file_ids import DOTS, FILE_IDS, HOSTILE, MANY_SEGMENTS, NO_IDS

NOW_MS = 1_790_000_000_000
ID = "0123456789abcdef0123456789abcdef"
OTHER_ID = "f" * 32
VALID: dict[str, Any] = {
    "version": 0,
    "start": 1_426_809_600_000,
    "end": 1_426_809_700_000,
    "path": "/var/log/syslog.1",
    "work_id": "job-1",
    "where": "web_1",
    "what": "sys-log",
    "id": ID,
    "hash": "0" * 32,
}
HANDS = ("stored", "handed in")
"""How a document comes: on an object, or from somebody."""


def checked(document: dict[str, Any], how: str = "stored") -> Metadata:
    return parse_metadata(json.dumps(document), OTHER_ID) if how == "stored" else metadata_of(document, NOW_MS)


def refusal(document: dict[str, Any], how: str = "stored") -> str:
    with pytest.raises(InvalidMetadataError) as caught:
        checked(document, how)
    assert len(str(caught.value)) < 500
    return str(caught.value)


@pytest.mark.parametrize("how", HANDS)
def test_a_document_is_itself(how: str) -> None:
    metadata = checked(VALID, how)
    assert metadata.document() == VALID and list(metadata.document()) == list(VALID)
    assert json.loads(metadata.text()) == VALID and metadata.text().isascii()


GOOD: list[tuple[str, Any]] = [
    ("end", None),
    ("end", VALID["start"]),
    ("work_id", None),
    ("work_id", "0"),
    ("work_id", "nullx"),
    ("work_id", "_-_"),
    ("where", "localhost"),
    ("where", "a" * 256),
    ("what", "-"),
    ("what", "null"),
    ("path", "/"),
    ("path", "/a b/ü\n"),
    ("path", "C:\\a"),
    ("path", "z:\\a\\b c.log"),
    ("hash", "f" * 32),
    *[("id", file_id) for file_id in HOSTILE + MANY_SEGMENTS + DOTS],
]


@pytest.mark.parametrize(("field", "value"), GOOD)
@pytest.mark.parametrize("how", HANDS)
def test_what_a_field_may_be(field: str, value: Any, how: str) -> None:
    assert checked(VALID | {field: value}, how).document() == VALID | {field: value}


def each(*fields: str, of: list[Any]) -> list[tuple[str, Any]]:
    return [(field, value) for field in fields for value in of]


NO_SLUGS = ["", "A", "syslog.gz", "a b", "a/b", "a:b", "a#b", "ü", "٣", "a\n", "\n", "a\0", 1, 1.5, True, [], {}, ["a"]]
NO_HEX = ["", "0" * 31, "0" * 33, "0" * 32 + "\n", "A" * 32, "g" * 32, "0" * 31 + "٣", None, 0, 10**31, [], {}]
NO_PATHS = ["", "a", "./a", "../a", "a/b", "~", "C:", "C:\\", "C:/a", "CC:\\a", "\\\\host\\a", " /a", None, 1, []]
BAD = [
    *each("version", of=[1, -1, None, "0", 0.0, False, [], 10**30]),
    *each("what", "where", "work_id", of=NO_SLUGS),
    *each("what", "where", of=[None, "a" * 257]),
    *each("work_id", of=["null"]),
    *each("id", of=list(NO_IDS)),
    *each("hash", of=NO_HEX),
    *each("path", of=NO_PATHS),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_error_of_an_invalid_value_names_the_field(field: str, value: Any) -> None:
    for how in HANDS:
        assert f'"{field}"' in refusal(VALID | {field: value}, how)


BAD_TIMES: list[Any] = ["", "x", "yesterday", [], {}, True, False, LAST_MS + 1, 10**30, "2015-03-20T10:00:00+24:00", "1e1000000"]


@pytest.mark.parametrize("value", BAD_TIMES)
@pytest.mark.parametrize("field", ["start", "end"])
def test_error_of_an_invalid_time_names_the_field(field: str, value: Any) -> None:
    for how in HANDS:
        assert f'"{field}"' in refusal(VALID | {field: value}, how)


def test_a_start_is_needed() -> None:
    for how in HANDS:
        assert '"start"' in refusal(VALID | {"start": None}, how)


@pytest.mark.parametrize("field", ["start", "path", "work_id", "where", "what", "hash"])
def test_what_must_be_there(field: str) -> None:
    for how in HANDS:
        assert f'"{field}"' in refusal({name: value for name, value in VALID.items() if name != field}, how)


def test_what_may_be_missing_of_a_stored_document() -> None:
    """An id is made then; and a file without an end is an instant."""
    document = {name: value for name, value in VALID.items() if name not in ("id", "version", "end")}
    assert checked(document).document() == document | {"id": OTHER_ID, "version": 0, "end": None}


@pytest.mark.parametrize(
    ("file_id", "reason"),
    [("", "empty"), ("a\n", "control"), ("\x7f", "control"), ("é" * 257, "512 bytes of UTF-8 are allowed, not 514")],
)
def test_message_says_what_an_id_may_be(file_id: str, reason: str) -> None:
    for how in HANDS:
        assert reason in refusal(VALID | {"id": file_id}, how)


@pytest.mark.parametrize("file_id", ["\ud800", "a\udfff", "\udc80\ud800"])
def test_no_lone_surrogate_is_in_an_id(file_id: str) -> None:
    for how in HANDS:
        assert "json" in refusal(VALID | {"id": file_id}, how)
    with pytest.raises(ValidationError):
        Metadata.model_validate(VALID | {"id": file_id})


@given(FILE_IDS)
def test_longest_names_fit_into_the_keys_of_every_table(file_id: str) -> None:
    """DynamoDB: 2,048 bytes for a partition, also of an index, 1,024 for a sort key; S3: 1,024."""
    longest = {"id": file_id, "where": "w" * 256, "what": "x" * 256, "work_id": None}
    record = FileRecord("s3://" + "b" * 63 + "/" + "k" * 1024, 7, NOW_MS, parse_metadata(json.dumps(VALID | longest), OTHER_ID))
    keys = [*record.file_rows(), *listing_rows(record), *directory_keys(record), file_key(file_id), url_key(record.url)]
    assert all(len(key.partition.encode()) <= 2048 and len(key.sort.encode()) <= 1024 for key in keys)
    for row in record.file_rows().values():
        assert len(row["work_id_index_key"].encode()) <= 2048
    assert len(data_key(file_id).encode()) <= 1024


def test_a_message_repeats_a_value_as_it_was() -> None:
    assert "SysLog" in refusal(VALID | {"what": "SysLog"})


@pytest.mark.parametrize("how", HANDS)
def test_an_end_before_the_start_is_refused(how: str) -> None:
    assert '"end"' in refusal(VALID | {"end": VALID["start"] - 1}, how)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "null",
        "[]",
        '"text"',
        "1",
        "{",
        "{]",
        '{"a":}',
        "not json",
        json.dumps(VALID)[:-1],
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        '{"a": "\\ud800"}',
        '{"\\ud800": 1}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "\ufeff{}",
    ],
)
def test_what_is_no_document(text: str) -> None:
    """Also if the remaining keys are valid."""
    texts = [text]
    if text.startswith('{"a": '):
        texts.append(json.dumps(VALID)[:-1] + ", " + text[1:])
    for each in texts:
        with pytest.raises(InvalidMetadataError) as caught:
            parse_metadata(each, ID)
        assert len(str(caught.value)) < 500


def test_an_object_without_a_document() -> None:
    with pytest.raises(InvalidMetadataError, match="no metadata"):
        parse_metadata(None, ID)


@pytest.mark.parametrize(
    "ms", [0, 1, -1, 5, 2015, 100_000_000, 99_999_999_999, 100_000_000_000, -62_135_596_800_000, FIRST_MS, LAST_MS]
)
def test_a_whole_number_in_a_stored_document_is_milliseconds_whatever_its_size(ms: int) -> None:
    """It was normalized once, by who stored it; taken for seconds it would be wrong for everything before 1973."""
    assert checked(VALID | {"start": ms, "end": None}).start == ms
    metadata = checked(VALID | {"start": ms, "end": ms})
    assert (metadata.start, metadata.end) == (ms, ms)
    assert parse_metadata(metadata.text(), OTHER_ID) == metadata


@pytest.mark.parametrize(
    ("value", "stored", "handed_in"),
    [
        (1_426_809_600, 1_426_809_600, 1_426_809_600_000),
        (1_426_809_600_000, 1_426_809_600_000, 1_426_809_600_000),
        (1_426_809_600.5, 1_426_809_600_500, 1_426_809_600_500),
        ("2015-03-20", 1_426_809_600_000, 1_426_809_600_000),
        ("2015-03-20T01:00:00+01:00", 1_426_809_600_000, 1_426_809_600_000),
        ("1426809600", 1_426_809_600_000, 1_426_809_600_000),
    ],
)
def test_other_times_are_normalized(value: Any, stored: int, handed_in: int) -> None:
    assert checked(VALID | {"start": value, "end": None}, "stored").start == stored
    assert checked(VALID | {"start": value, "end": None}, "handed in").start == handed_in


def test_now_is_valid_in_input_and_invalid_in_a_stored_document() -> None:
    document = VALID | {"start": NOW_MS - 5, "end": "now"}
    assert checked(document, "handed in").end == NOW_MS
    assert '"end"' in refusal(document, "stored")


EXTRAS: dict[str, Any] = {
    "fraction": 1.5, "small": 1e-300, "large": 10**60, "text": "naïve \U0001f600", "none": None, "yes": True, "list": [1, [2.5, {}]],
    "map": {"a": {"": None}}, "": 1, " ": 2, "a.b": 3, "cls": 4, "self": 5, "days": 6, "_fields_set": 7, "model_extra": 8, "__dict__": 9,
}  # fmt: skip


@pytest.mark.parametrize("how", HANDS)
def test_unknown_keys_are_kept(how: str) -> None:
    metadata = checked(VALID | EXTRAS, how)
    assert metadata.document() == VALID | EXTRAS
    assert parse_metadata(metadata.text(), OTHER_ID) == metadata


def test_unknown_keys_are_kept_in_a_record() -> None:
    record = FileRecord("s3://b/k", 1, 2, checked(VALID | EXTRAS))
    assert FileRecord.from_text(record.text()) == record


@pytest.mark.parametrize("extra", [float("nan"), float("inf"), [float("-inf")], "\ud800", {"\ud800": 1}])
def test_value_that_could_not_be_read_back_is_rejected(extra: Any) -> None:
    """A document that somebody hands in rides on an object later, and is parsed then: it would never be listed."""
    assert "extra" not in VALID and refusal(VALID | {"extra": extra}, "handed in")


def test_a_document_that_is_too_large_for_s3_is_not_taken() -> None:
    room = MAX_DOCUMENT_BYTES - len(json.dumps(VALID | {"extra": ""}))
    assert len(checked(VALID | {"extra": "x" * room}, "handed in").text()) == MAX_DOCUMENT_BYTES
    assert "too large" in refusal(VALID | {"extra": "x" * (room + 1)}, "handed in")


@pytest.mark.parametrize("start", [0, 1, -1, DAY_MS - 1, -DAY_MS, 20_000 * DAY_MS + 5])
def test_day_buckets(start: int) -> None:
    for last, days in ((start, 1), (start // DAY_MS * DAY_MS + DAY_MS - 1, 1), (start // DAY_MS * DAY_MS + DAY_MS, 2)):
        metadata = checked(VALID | {"start": start, "end": last})
        assert list(metadata.days()) == [start // DAY_MS + day for day in range(days)]
        assert metadata.last_ms == last
    instant = checked(VALID | {"start": start, "end": None})
    assert list(instant.days()) == [start // DAY_MS] and instant.last_ms == start


def test_a_file_of_more_than_thirty_days_is_refused() -> None:
    first = 20_000 * DAY_MS
    longest = VALID | {"start": first, "end": first + MAX_DAYS * DAY_MS - 1}
    too_long = VALID | {"start": first, "end": first + MAX_DAYS * DAY_MS}
    for how in HANDS:
        assert len(checked(longest, how).days()) == MAX_DAYS == 30
    with pytest.raises(InvalidMetadataError, match="30 days"):
        checked(too_long).days()
    assert "30 days" in refusal(too_long, "handed in")


SLUGS = st.text("abcxyz0189_-", min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
HEX = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")
DOCUMENTS = st.builds(
    lambda extras, document, duration: extras | document | {"end": None if duration is None else document["start"] + duration},
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), JSON, max_size=4),
    st.fixed_dictionaries({
        "version": st.just(0),
        "start": st.integers(FIRST_MS, LAST_MS - 29 * DAY_MS),
        "path": st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: "/" + text),
        "work_id": st.none() | SLUGS.filter(lambda slug: slug != "null"),
        "where": SLUGS,
        "what": SLUGS,
        "id": FILE_IDS,
        "hash": HEX,
    }),
    st.none() | st.integers(0, 29 * DAY_MS),
)  # fmt: skip


@given(DOCUMENTS)
def test_a_document_is_read_back(document: dict[str, Any]) -> None:
    metadata = parse_metadata(json.dumps(document), OTHER_ID)
    assert metadata.document() == document
    assert parse_metadata(metadata.text(), OTHER_ID) == metadata
    assert 1 <= len(metadata.days()) <= 30


@given(DOCUMENTS)
def test_a_record_is_read_back(document: dict[str, Any]) -> None:
    record = FileRecord("s3://archive/k", 7, NOW_MS, parse_metadata(json.dumps(document), OTHER_ID))
    assert FileRecord.from_text(record.text()) == record
    assert FileRecord.from_document(record.document()) == record


@given(st.dictionaries(st.sampled_from([*VALID, "extra"]), JSON | st.sampled_from(list(VALID.values())), max_size=10))
def test_no_document_does_anything_but_hold_or_be_refused(changes: dict[str, Any]) -> None:
    for how in HANDS:
        try:
            metadata = checked(VALID | changes, how)
        except InvalidMetadataError:
            continue
        assert parse_metadata(metadata.text(), OTHER_ID) == metadata
