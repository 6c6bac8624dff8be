"""One curated mutation: which syntax to change where, and the tests that must fail when it is changed."""

from __future__ import annotations

from dataclasses import dataclass

Row = tuple[str, str, str, str] | tuple[str, str, str, str, str]
"""Name in the module, what to find, its replacement, why a test must fail; and the tests, if they are not those of the group."""


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


def group(module: str, tests: str, *rows: Row) -> tuple[Mutant, ...]:
    """The mutants of one module. Tests of a row that begin with ``::`` are in the group's file.

    A mutant with ``nth`` or ``equivalent`` is written in full beside the groups.
    """
    return tuple(_of_row(module, tests, *row) for row in rows)


def _of_row(module: str, group_tests: str, name: str, find: str, replace: str, why: str, tests: str = "") -> Mutant:
    if tests.startswith("::"):
        tests = group_tests + tests
    return Mutant(f"{module}:{name}", find, replace, tests or group_tests, why)
