"""The plan of a dry run: the runs to delete, in a file that a person reviews and a later job applies.

JSON lines. The first has ``plan`` (the id, a digest of the rest), bucket, prefix, time of creation, the rules, counts; each other
line is a run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from chalicelib.errors import InvalidInputError
from glue_jobs.expiration.expiry import ExpiringRun


@dataclass(frozen=True, slots=True)
class Plan:
    """``header``: the first line without the id."""

    header: Mapping[str, Any]
    runs: Sequence[ExpiringRun]

    @property
    def id(self) -> str:
        """A digest of the plan's content."""
        digest = blake2b(json.dumps(self.header, sort_keys=True).encode(), digest_size=8)
        for line in self._lines():
            digest.update(line.encode() + b"\n")
        return digest.hexdigest()

    def text(self) -> str:
        """The content of the file."""
        return "\n".join([json.dumps({"plan": self.id, **self.header}), *self._lines()]) + "\n"

    def _lines(self) -> Iterable[str]:
        return (json.dumps(asdict(run)) for run in self.runs)

    def counts(self) -> dict[str, Any]:
        """Runs, objects and bytes to delete, and the number of runs by reason."""
        return {
            "runs": len(self.runs),
            "objects": sum(run.objects for run in self.runs),
            "bytes": sum(run.bytes for run in self.runs),
            "reasons": dict(sorted(Counter(run.reason for run in self.runs).items())),
        }


def read_plan(text: str) -> Plan:
    """The inverse of ``Plan.text``. Raises InvalidInputError for any other text, and for a plan that was edited."""
    try:
        header, *lines = (json.loads(line) for line in text.splitlines())
        said = header.pop("plan")
        plan = Plan(header, [ExpiringRun(**line) for line in lines])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"not a plan of retention error={error}") from error
    if plan.id != said:
        raise InvalidInputError(f"the plan was modified: create a new one plan={said} digest={plan.id}")
    return plan
