"""Retention rules: how long, how many and how large the runs of which pipelines are kept. Errors name the wrong field."""

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
    """Limits for each pipeline. They are independent: a run expires by the first limit that it exceeds.

    ``keep_days`` after a run's last write; ``keep_runs``: the newest runs; ``keep_bytes``: the newest runs that fit together, and
    always the newest one. ``keep_all``: no limit, stated explicitly.
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
    """Limits of the pipelines whose complete name matches ``fqn``: ``*`` matches any characters, ``?`` one. Case-sensitive."""

    fqn: Annotated[str, Field(min_length=1)]

    @property
    def expression(self) -> str:
        """The pattern as a regular expression of Java."""
        stands_for = {"*": ".*", "?": "."}
        return "(?s)^" + "".join(stands_for.get(letter) or re.escape(letter) for letter in self.fqn) + "\\z"


class Rules(BaseModel):
    """The first of ``rules`` that matches a pipeline's name applies, otherwise ``default``; without a default such pipelines are
    kept. No rule expires a run younger than ``grace_days``, which is at least 20 minutes (decision 0001)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[Rule, ...] = ()
    default: Keep | None = None
    grace_days: Annotated[float, Field(ge=MIN_GRACE_DAYS, le=36_500)] = 1.0

    @property
    def grace_ms(self) -> int:
        """The grace period."""
        return int(self.grace_days * DAY_MS)


def read_rules(text: str) -> Rules:
    """Rules from JSON. Raises InvalidInputError that names each wrong field, its value and the allowed values."""
    try:
        return Rules.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'rules'}: {each['msg']}, not {each['input']!r:.60}" for each in error.errors()
        )
        raise InvalidInputError(f"invalid retention rules: {problems}") from error
