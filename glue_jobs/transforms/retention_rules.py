"""The rules of retention: which runs of which pipelines are kept, how long, how many, how large together. Wrong ones are told by field."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from chalicelib.errors import InvalidInputError
from chalicelib.runlog.compaction import RETIRE_AFTER_MS

DAY_MS = 86_400_000
MIN_GRACE_DAYS = RETIRE_AFTER_MS / DAY_MS
_Limit = Annotated[int, Field(ge=1, strict=True)]


class Keep(BaseModel):
    """What is kept of each pipeline. Every limit holds by itself: a run expires by the first that it breaks.

    ``keep_days`` since a run's last object was written; ``keep_runs`` the newest; ``keep_bytes`` the newest that fit in together, and
    the newest one in any case. ``keep_all``: no limit, said so that it is not forgotten.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_days: Annotated[float, Field(gt=0, le=36_500)] | None = None
    keep_runs: _Limit | None = None
    keep_bytes: _Limit | None = None
    keep_all: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Keep:
        limits = [limit for limit in (self.keep_days, self.keep_runs, self.keep_bytes) if limit is not None]
        if bool(limits) == self.keep_all:
            raise ValueError("give keep_days, keep_runs or keep_bytes, or keep_all alone")
        return self


class Rule(Keep):
    """Of the pipelines whose whole name is like ``fqn``: ``*`` stands for any letters, ``?`` for one. Upper and lower case count."""

    fqn: Annotated[str, Field(min_length=1)]

    @property
    def expression(self) -> str:
        """The pattern as a regular expression of Java."""
        stands_for = {"*": ".*", "?": "."}
        return "(?s)^" + "".join(stands_for.get(letter) or re.escape(letter) for letter in self.fqn) + "\\z"


class Rules(BaseModel):
    """``rules`` in order: the first whose pattern is like a pipeline's name is its rule; ``default`` where none is, and without it such
    pipelines are kept. Nothing younger than ``grace_days`` expires, whatever a rule says: 20 minutes at least (decision 0001)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[Rule, ...] = ()
    default: Keep | None = None
    grace_days: Annotated[float, Field(ge=MIN_GRACE_DAYS, le=36_500)] = 1.0

    @property
    def grace_ms(self) -> int:
        """The grace period."""
        return int(self.grace_days * DAY_MS)


def read_rules(text: str) -> Rules:
    """Rules from JSON. Raises InvalidInputError, which names each wrong field, its value and what is allowed."""
    try:
        return Rules.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'rules'}: {each['msg']}, not {each['input']!r:.60}" for each in error.errors()
        )
        raise InvalidInputError(f"the rules of retention do not hold: {problems}") from error
