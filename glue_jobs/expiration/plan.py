"""The plan of a dry run: which runs are to go, in a file that a person reads and a later job applies.

JSON lines. The first: ``plan`` (the id, a digest of all the rest), bucket, prefix, when it was made, the rules, counts. Then one line a run.
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
    """``header`` is what the first line says beside the id."""

    header: Mapping[str, Any]
    runs: Sequence[ExpiringRun]

    @property
    def id(self) -> str:
        """A digest of the plan: another plan has another."""
        digest = blake2b(json.dumps(self.header, sort_keys=True).encode(), digest_size=8)
        for line in self._lines():
            digest.update(line.encode() + b"\n")
        return digest.hexdigest()

    def text(self) -> str:
        """The file."""
        return "\n".join([json.dumps({"plan": self.id, **self.header}), *self._lines()]) + "\n"

    def _lines(self) -> Iterable[str]:
        return (json.dumps(asdict(run)) for run in self.runs)

    def counts(self) -> dict[str, Any]:
        """Runs, objects and bytes that are to go, and how many runs for which reason."""
        return {
            "runs": len(self.runs),
            "objects": sum(run.objects for run in self.runs),
            "bytes": sum(run.bytes for run in self.runs),
            "reasons": dict(sorted(Counter(run.reason for run in self.runs).items())),
        }


def read_plan(text: str) -> Plan:
    """The inverse of ``Plan.text``. Raises InvalidInputError for anything else, and for a plan that was changed by hand."""
    try:
        header, *lines = (json.loads(line) for line in text.splitlines())
        said = header.pop("plan")
        plan = Plan(header, [ExpiringRun(**line) for line in lines])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(f"not a plan of retention error={error}") from error
    if plan.id != said:
        raise InvalidInputError(f"the plan was changed since it was made: make another plan={said} digest={plan.id}")
    return plan
