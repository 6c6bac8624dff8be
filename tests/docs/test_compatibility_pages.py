"""The pages on compatibility: each statement names the code and tests, each difference its reason."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS, headings, rows, section

PAGES = ["openmetadata.md", "datalake.md", "external-logging.md", "cdap-logging.md"]
CODE = r"`(chalicelib|client/src|infra|docs)/[\w/.-]+`"
TEST = r"`(client/)?tests/[\w/]+\.py::test_\w+`"
CHECKLISTS = [(page, heading) for page in PAGES for heading in headings(DOCS / page)[1:-2]]


@pytest.mark.parametrize(("page", "heading"), CHECKLISTS)
def test_every_statement_names_code_and_tests(page: str, heading: str) -> None:
    found = rows(section(DOCS / page, heading))
    assert len(found) >= 6
    for row in found:
        assert len(row) == (4 if page == "cdap-logging.md" else 3) and all(row), row
        assert re.fullmatch(rf"{CODE}(, {CODE})*", row[-2]), row
        assert re.fullmatch(rf"{TEST}(, {TEST})*", row[-1]), row


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(("heading", "columns"), [("Differences", 3), ("Not included", 2)])
def test_every_difference_is_complete(page: str, heading: str, columns: int) -> None:
    found = rows(section(DOCS / page, heading))
    assert len(found) >= 6 and {len(row) for row in found} == {columns}
    assert all(cell for row in found for cell in row)
