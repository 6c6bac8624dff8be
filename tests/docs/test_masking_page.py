"""Checks docs/masking.md against the code: it lists every shape, and its examples are masked as shown."""

from __future__ import annotations

import json

from chalicelib.masking.mask import mask
from chalicelib.masking.rules import MaskingRule, parse_rules
from chalicelib.masking.shapes import NAMES, SHAPES, finders
from chalicelib.masking.token_formats import FORMATS
from tests.docs.pages import DOCS, blocks, rows, section
from tests.support.tokens import token_of

PAGE = DOCS / "masking.md"
TOKEN = next(each for each in FORMATS if each.vendor == "github")
ROWS = [[cell.strip("` ") for cell in row] for row in rows(section(PAGE, "Known shapes"))]


def test_every_shape_is_listed_in_order() -> None:
    assert [row[0] for row in ROWS] == list(NAMES)


def test_every_example_is_masked_as_it_says() -> None:
    found = finders(SHAPES, [b"the-old-password"])
    texts = [row[2].replace(f"{TOKEN.literal}…", token_of(TOKEN)) for row in ROWS]
    assert [mask(text.encode(), found).body.decode() for text in texts] == [row[3] for row in ROWS]


def test_the_rules_of_the_page_are_rules() -> None:
    (example,) = [block.text for block in blocks(PAGE, "json")]
    assert len(parse_rules(example)) == len(json.loads(example))
    assert [row[0].strip("`") for row in rows(section(PAGE, "Rules"))] == list(MaskingRule.model_fields)
