"""The state of a run in one word, for people: see docs/glossary.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runlake.commands.output import time_of

OUTCOMES = ("running", "silent", "succeeded", "failed", "cancelled", "lost", "unknown")
_ENDING = {"SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"}
_WORDS = {"open": "running", "sealed": "closed"}


def state_of(facts: Mapping[str, Any]) -> str:
    """``running``, ``closed``, ``abandoned`` or ``finalized``. ``facts``: ``status`` and ``end`` as the API has them."""
    status = str(facts["status"])
    if status != "open" and facts["end"] == "abandoned":
        return "abandoned"
    return _WORDS.get(status, status)


def outcome_of(facts: Mapping[str, Any]) -> str:
    """The outcome of a run; for a silent one, with the time of its last sign of life."""
    since_ms = facts["silentSinceMs"]
    return f"silent since {time_of(since_ms)}" if since_ms else str(facts["outcome"])


def reason_of(facts: Mapping[str, Any]) -> str:
    """Why a run failed or was cancelled, in a few words; empty if its client reported no reason."""
    reasons = []
    if facts["signal"]:
        how = "terminated" if facts["signal"] in _ENDING else "killed"
        reasons.append(f"{how} by {facts['signal']}")
    elif facts["exitCode"]:
        reasons.append(f"exit status {facts['exitCode']}")
    if facts["exception"]:
        reasons.append(str(facts["exception"]))
    if facts["failedStep"]:
        reasons.append(f"in step {facts['failedStep']}")
    return ", ".join(reasons)


def outcome_with_reason(facts: Mapping[str, Any]) -> str:
    """The outcome, with the reason in parentheses if there is one."""
    reason = reason_of(facts)
    return outcome_of(facts) + (f" ({reason})" if reason else "")
