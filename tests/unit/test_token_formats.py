"""Tokens of vendors: each row of the table, with tokens made from its facts."""

from __future__ import annotations

import json

from chalicelib.masking.mask import mask
from chalicelib.masking.masker import Masker
from chalicelib.masking.rules import parse_rules
from chalicelib.masking.shapes import SHAPES, VENDOR_TOKEN, finders
from chalicelib.masking.token_formats import FORMATS
from tests.support.clock import ManualClock
from tests.support.tokens import token_of

ALL, TOKENS_ONLY = finders(SHAPES), finders([VENDOR_TOKEN])


def masked(text: str, found: object = ALL) -> str:
    return mask(text.encode(), found).body.decode()  # type: ignore[arg-type]


def test_table_has_eighty_vendors_or_more_and_each_literal_once() -> None:
    literals = [each.literal for each in FORMATS]
    assert len(literals) == len(set(literals)) and len({each.vendor for each in FORMATS}) >= 80


CONTEXTS = ("2026-11-21 INFO got {} from the vault", json.dumps({"x": ["{}"]}), "a={},", "\\n{}\\n", "'{}'; next")


def test_token_is_masked_wherever_it_stands() -> None:
    missed = []
    for form in FORMATS:
        marker = f"{form.literal if form.is_public else ''}***{form.name}***"
        for text in CONTEXTS if form.before == (0, 0) else CONTEXTS[:2]:
            expected = text.replace("{}", marker)
            found = masked(text.replace("{}", token_of(form)))
            if (found, masked(expected)) != (expected, expected):
                missed.append((form.literal, found))
    assert missed == []


def test_text_that_resembles_a_token_is_unchanged() -> None:
    changed = []
    for form in FORMATS:
        token = token_of(form)
        texts = [f"{form.literal} is a prefix"]
        if form.fewest and form.distinct:
            texts += [token[: 1 - form.fewest], f"{form.literal}{'x' * form.fewest}"]
        if form.literal[0].isalnum() and not form.is_public and "." not in form.literal:
            texts.append(f"word{token}")
        changed += [(form.literal, text) for text in texts if masked(text, finders([form.name])) != text]
    assert changed == []


def test_tokens_of_one_vendor_can_be_switched_off() -> None:
    by_rules = Masker(parse_rules('[{"without": ["github-token"]}]'), None, ManualClock(0))
    github, slack = (token_of(next(each for each in FORMATS if each.vendor == vendor)) for vendor in ("github", "slack"))
    assert by_rules.mask("a", f"{github} {slack}".encode()).body.decode() == f"{github} ***slack-token***"


def test_table_can_be_used_alone_or_by_vendor() -> None:
    github, slack = (token_of(next(each for each in FORMATS if each.vendor == vendor)) for vendor in ("github", "slack"))
    text = f"{github} {slack} password=hunter2"
    assert masked(text, TOKENS_ONLY) == "***github-token*** ***slack-token*** password=hunter2"
    assert masked(text, finders(["slack-token"])) == f"{github} ***slack-token*** password=hunter2"
