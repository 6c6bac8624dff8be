"""The end of a run as stated by one of its events. Log agents close no runs, so a record can state the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.events.sidecar import Sidecar
from chalicelib.ports import EXIT_CODES, STATED_OUTCOMES, RunEnd

OUTCOME, EXIT_CODE = "runlake.outcome", "runlake.exit_code"
"""Names in an event's data."""


def data_of_end(outcome: Any, exit_code: Any) -> Mapping[str, Any]:
    """The data of an event that states an end; empty if ``outcome`` is None. Raises ValueError."""
    if outcome is None:
        return {}
    if outcome not in STATED_OUTCOMES:
        raise ValueError(f"{OUTCOME} must be {', '.join(STATED_OUTCOMES[:-1])} or {STATED_OUTCOMES[-1]}")
    code = _code(int(exit_code) if isinstance(exit_code, str) and exit_code.isdecimal() and len(exit_code) < 11 else exit_code)
    return {OUTCOME: outcome} | ({} if code is None else {EXIT_CODE: code})


def stated_end(sidecar: Sidecar) -> RunEnd | None:
    """The end that the last such event of a sidecar states; None if there is none."""
    for event in reversed([*sidecar.events]):
        outcome = event.data.get(OUTCOME)
        if isinstance(outcome, str) and outcome in STATED_OUTCOMES:
            return RunEnd(outcome, exit_code=_code(event.data.get(EXIT_CODE)), step=event.step or "")
    return None


def _code(value: Any) -> int | None:
    """The value, if it is an exit code."""
    return value if type(value) is int and value in EXIT_CODES else None
