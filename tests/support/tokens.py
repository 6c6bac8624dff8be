"""Tokens of vendors' formats, made when a test runs: none stands in the repository, where scanners of secrets would report it."""

from __future__ import annotations

import random
import re

from chalicelib.masking.token_formats import TokenFormat

_LETTERS = [chr(number) for number in range(33, 127)]


def token_of(form: TokenFormat, seed: int = 0) -> str:
    """A token of the smallest length, of many different characters."""
    chance = random.Random(f"{form.literal}{seed}")
    return _letters(form.alphabet_before, form.before[1], chance) + form.literal + _letters(form.alphabet, form.fewest, chance)


def _letters(alphabet: str, count: int, chance: random.Random) -> str:
    if not count:
        return ""
    usual = [each for each in _LETTERS if re.match(f"[{alphabet}]", each) and each.isalnum()]
    chance.shuffle(usual)
    return "".join((usual * count)[:count])
