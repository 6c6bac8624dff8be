"""Checks docs/masking.md against the code: it lists every shape, and its examples are masked as shown."""

from __future__ import annotations

import json

from chalicelib.masking.mask import mask
from chalicelib.masking.rules import MaskingRule, parse_rules
from chalicelib.masking.shapes import NAMES, SHAPES, finders
from tests.docs.pages import DOCS, blocks, rows, section

PAGE = DOCS / "masking.md"
ROWS = [[cell.strip("` ") for cell in row] for row in rows(section(PAGE, "Known shapes"))]


def test_every_shape_is_listed_in_order() -> None:
    assert [row[0] for row in ROWS] == list(NAMES)


def test_every_example_is_masked_as_it_says() -> None:
    found = finders(tuple(SHAPES), [b"the-old-password"])
    assert [mask(row[2].encode(), found).body.decode() for row in ROWS] == [row[3] for row in ROWS]


def test_the_rules_of_the_page_are_rules() -> None:
    (example,) = [block.text for block in blocks(PAGE, "json")]
    assert len(parse_rules(example)) == len(json.loads(example))
    assert [row[0].strip("`") for row in rows(section(PAGE, "Turn it on"))] == list(MaskingRule.model_fields)
