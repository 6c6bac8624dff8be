"""One curated mutation: which syntax to change where, and the tests that must fail when it is changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A mutation of one expression or statement, addressed by name and syntax so that moving and reformatting code keeps it.

    ``where``: ``package.module:Class.method``, ``package.module:function``, or ``package.module:`` for the module's own level.
    ``find``: Python source of one expression or one statement. A single capital letter matches any expression, the same letter the
    same expression; a body of ``...`` matches any statements.
    ``replace``: Python source that takes its place and may use the same letters and ``...``.
    ``tests``: arguments of pytest, separated by spaces. Empty only for an ``equivalent`` mutant, which states why no test can fail.
    ``nth``: which occurrence, in source order.
    """

    where: str
    find: str
    replace: str
    tests: str = ""
    why: str = ""
    equivalent: str = ""
    nth: int = 0

    def __post_init__(self) -> None:
        if bool(self.tests) == bool(self.equivalent):
            raise ValueError(f"a mutant has tests or a reason why it is equivalent where={self.where} find={self.find!r}")

    @property
    def module(self) -> str:
        return self.where.partition(":")[0]

    @property
    def qualified_name(self) -> str:
        return self.where.partition(":")[2]
