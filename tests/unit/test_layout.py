"""Keys: no two names share one, none escapes the prefix, and every key of the layout is parsed back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidNameError
from chalicelib.ports import Run
from chalicelib.runlog.layout import Layout, ParsedKey, checked_run, encode_name

LAYOUT = Layout("pipeline-logs")
NAMES = st.text(st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=["Cs"]), min_size=1, max_size=24)
RUN_IDS = NAMES.filter(lambda name: "/" not in name and name not in {"last", "close", "download"})


@given(NAMES, RUN_IDS, st.integers(0, 10**10 - 1))
def test_every_key_is_read_back(fqn: str, run_id: str, sequence: int) -> None:
    run = checked_run(fqn, run_id)
    assert LAYOUT.parse(LAYOUT.segment(run, sequence)) == ParsedKey(run, "segment", sequence)
    assert LAYOUT.parse(LAYOUT.partial(run)) == ParsedKey(run, "partial")
    assert LAYOUT.parse(LAYOUT.logs(run)) == ParsedKey(run, "logs")
    assert LAYOUT.parse(LAYOUT.marker(run, "host-1/9")) == ParsedKey(run, "marker")


@pytest.mark.behavior("Runs with different names never share an object.")
@given(NAMES, NAMES)
def test_two_names_never_share_a_key(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@pytest.mark.parametrize(
    "name", ["..", ".", "../../etc", ".active", "a/../b", "%2e%2e", "a%2Fb", "a b", "naïve/ünï", "'\"", "a\\b", "*?"]
)
def test_no_name_escapes_its_prefix(name: str) -> None:
    element = encode_name(name)
    assert "/" not in element and not element.startswith(".") and element.isascii()
    key = LAYOUT.segment(checked_run(name, "run-1"), 0)
    assert key == f"pipeline-logs/{element}/run-1/segments/0000000000"


def test_ordinary_names_stay_readable() -> None:
    run = Run("mysql_prod.sales-2.ingest~1", "0f1e2d3c-0000-4000-8000-000000000001")
    assert (
        LAYOUT.segment(run, 12)
        == "pipeline-logs/mysql_prod.sales-2.ingest~1/0f1e2d3c-0000-4000-8000-000000000001/segments/0000000012"
    )
    assert LAYOUT.legacy_logs(run) == "pipeline-logs/mysql_prod_sales-2_ingest_1/0f1e2d3c-0000-4000-8000-000000000001/logs.txt"


@pytest.mark.parametrize(
    ("fqn", "run_id"),
    [
        ("", "r"),
        ("f", ""),
        ("f\0", "r"),
        ("f", "r\n"),
        ("f", "a/b"),
        ("f", "last"),
        ("f", "close"),
        ("f", "download"),
        ("\ud800", "r"),
    ],
)
def test_names_that_cannot_be_stored_are_refused(fqn: str, run_id: str) -> None:
    with pytest.raises(InvalidNameError):
        checked_run(fqn, run_id)


def test_a_name_too_long_for_a_key_is_refused_and_256_characters_are_not() -> None:
    assert len(LAYOUT.segment(checked_run("f" * 256, "r"), 0)) < 1024
    with pytest.raises(InvalidNameError, match="limit="):
        LAYOUT.segment(checked_run("語" * 256, "r"), 0)


def test_names_that_no_layout_has_room_for_are_refused_before_a_key_is_made() -> None:
    with pytest.raises(InvalidNameError, match="limit="):
        checked_run("語" * 256, "r")


@pytest.mark.parametrize(
    "key",
    [
        "other/a/b/logs.txt",
        "pipeline-logs/a/b/segments/1",
        "pipeline-logs/a/b/segments/00000000001",
        "pipeline-logs/a/b/c/logs.txt",
        "pipeline-logs/a/logs.txt",
        "pipeline-logs/a/b/notes.txt",
        "pipeline-logs/.active/a/b",
        "pipeline-logs/%ff/b/logs.txt",
        "pipeline-logs",
    ],
)
def test_unknown_keys_are_not_parsed(key: str) -> None:
    assert LAYOUT.parse(key) is None
