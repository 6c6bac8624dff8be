"""How a run ended as one of its events states it: log agents close no run, so a record can say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.events.companion import Companion
from chalicelib.ports import CANCELLED, FAILED, SUCCEEDED, RunEnd

OUTCOME, EXIT_CODE = "runlake.outcome", "runlake.exit_code"
"""Names of an event's data."""
OUTCOMES = (SUCCEEDED, FAILED, CANCELLED)
_LEAST_CODE, _MOST_CODE = -(2**31), 2**32 - 1


def data_of_end(outcome: Any, exit_code: Any) -> Mapping[str, Any]:
    """The data of an event that states an end; empty where ``outcome`` is None. Raises ValueError."""
    if outcome is None:
        return {}
    if outcome not in OUTCOMES:
        raise ValueError(f"{OUTCOME} is {', '.join(OUTCOMES[:-1])} or {OUTCOMES[-1]}")
    code = int(exit_code) if isinstance(exit_code, str) and exit_code.isdecimal() and len(exit_code) < 11 else exit_code
    return {OUTCOME: outcome} | ({EXIT_CODE: code} if _is_code(code) else {})


def stated_end(companion: Companion) -> RunEnd | None:
    """What the last of its events that states an end says; None: none does."""
    for event in reversed([*companion.events]):
        outcome, code = event.data.get(OUTCOME), event.data.get(EXIT_CODE)
        if isinstance(outcome, str) and outcome in OUTCOMES:
            return RunEnd(outcome, exit_code=code if isinstance(code, int) and _is_code(code) else None, step=event.step or "")
    return None


def _is_code(value: Any) -> bool:
    return type(value) is int and _LEAST_CODE <= value <= _MOST_CODE
