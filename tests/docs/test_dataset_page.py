"""docs/dataset.md names what a reader has to install."""

from __future__ import annotations

import re

import duckdb

from tests.docs.pages import DOCS

TIMES = "select timestamptz '2026-11-21 03:00:00+00'"


def test_packages_that_duckdb_needs_for_times_are_named() -> None:
    (named,) = re.findall(r"`pip install ([\w ]+)`", (DOCS / "dataset.md").read_text())
    assert {"duckdb", *_missing()} <= set(named.split())


def _missing() -> list[str]:
    """What DuckDB asks for when a query returns a time, and this environment lacks."""
    with duckdb.connect() as connection:
        try:
            connection.execute(TIMES).fetchall()
        except duckdb.InvalidInputException as error:
            return re.findall(r"No module named '(\w+)'", str(error))
    return []
