"""Lines of data platforms: only secrets change. ``«name:value»`` is a secret, ``«vendor-token»`` a token made when the test runs."""

from __future__ import annotations

import re
from pathlib import Path

from chalicelib.masking.mask import mask
from chalicelib.masking.shapes import SHAPES, finders
from chalicelib.masking.token_formats import FORMATS
from tests.support.tokens import token_of

LINES = (Path(__file__).parent / "masking_lines.txt").read_text().splitlines()
_SECRET = re.compile(r"«([a-z-]+)(?::([^»]+))?»")


def _sent(secret: re.Match[str]) -> str:
    return secret[2] or token_of(next(each for each in FORMATS if each.name == secret[1]))


def test_only_the_secrets_of_two_hundred_lines_change() -> None:
    assert len(LINES) >= 200
    found = finders(SHAPES)
    wrong = []
    for line in LINES:
        sent, expected = _SECRET.sub(_sent, line), _SECRET.sub(r"***\1***", line)
        if (stored := mask(sent.encode(), found).body.decode()) != expected:
            wrong.append((stored, expected))
    assert wrong == []
