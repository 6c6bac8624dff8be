"""Markers ``behavior``: each has a statement of its own."""

from __future__ import annotations

from collections import Counter

from tests.behaviors import MARKER, behaviors_of, files_of_tests


def test_each_behavior_has_a_statement_of_its_own() -> None:
    """In text, on a test function or in ``pytestmark``: elsewhere ``--behaviors`` does not list it."""
    statements = Counter[str]()
    for path in files_of_tests():
        listed = list(behaviors_of(path))
        assert len(listed) == path.read_text().count(f"{MARKER}("), f"{path} has a marker that `--behaviors` does not list"
        statements.update(each.statement for each in listed)
    assert statements and all(statement.strip() for statement in statements)
    assert [statement for statement, number in statements.items() if number > 1] == []
