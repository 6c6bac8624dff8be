"""Ids of files and their keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.catalog.file_ids import data_key, has_data_key, id_of_key, is_file_id
from tests.support.file_ids import DOTS, FILE_IDS, HOSTILE, MANY_SEGMENTS, NO_IDS


@given(FILE_IDS)
def test_an_id_is_one(file_id: str) -> None:
    assert is_file_id(file_id)


@pytest.mark.parametrize("text", [*(text for text in NO_IDS if isinstance(text, str)), "\ud800", "a\udfff"], ids=ascii)
def test_other_texts_are_none(text: Any) -> None:
    assert not is_file_id(text)


@given(FILE_IDS, FILE_IDS)
def test_no_two_ids_share_a_key(one: str, other: str) -> None:
    assert (data_key(one) == data_key(other)) == (one == other)


@given(FILE_IDS | st.text(max_size=20))
def test_a_key_has_an_id_exactly_if_the_id_has_the_key(file_id: str) -> None:
    is_expected = is_file_id(file_id) and has_data_key(file_id)
    assert id_of_key(data_key(file_id)) == (file_id if is_expected else None)


@pytest.mark.parametrize("file_id", HOSTILE, ids=ascii)
def test_one_segment_has_a_key(file_id: str) -> None:
    assert has_data_key(file_id)


@pytest.mark.parametrize("file_id", [*MANY_SEGMENTS, *DOTS], ids=ascii)
def test_no_path_has_a_key(file_id: str) -> None:
    assert not has_data_key(file_id) and id_of_key(f"{file_id}/data") is None


@pytest.mark.parametrize("key", ["", "data", "/data", "foo", "foo/dat", "foo/data/", "foo/Data", "a\n/data", "x" * 513 + "/data"])
def test_other_keys_have_no_id(key: str) -> None:
    assert id_of_key(key) is None
