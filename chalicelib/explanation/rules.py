"""The rules in words, for people who see what a rule chose."""

from __future__ import annotations

from chalicelib.explanation.families import RULES
from chalicelib.explanation.ranking import STRUCTURE

_ABOUT = {rule.name: rule.about for rule in RULES} | {name: text for name, (_, text) in STRUCTURE.items()}


def about(rule: str) -> str:
    """What a rule looks for. The name itself, if another release stored it and this one has no such rule."""
    return _ABOUT.get(rule, rule)
