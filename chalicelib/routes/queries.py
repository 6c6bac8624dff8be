"""Lenient query parameters of a page: an invalid value counts as missing (a cursor that is not a number: from line 0)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from chalicelib.ports import ARRIVAL, LINES
from chalicelib.runlog.following import HOLD_S, FollowRequest
from chalicelib.runlog.reader import DEFAULT_LIMIT, MAX_LIMIT, MAX_WAIT_S, PageRequest

MAX_RUNS = 1000
DEFAULT_RUNS = 10
_MAX_LINE = 10**15
_MAX_DIGITS = 18
_DIGITS = re.compile(r"[0-9]+")
_DATE = re.compile(r"[0-9]{8}")
_SECONDS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?")


def page_request(query: Mapping[str, str], spare_s: float) -> PageRequest:
    """``after`` (or ``offset``), ``limit``, ``tail``, ``since`` (epoch ms, or ISO 8601) by ``clock``, ``wait`` (s, up to ``spare_s``)."""
    tail = _number(query.get("tail"), None, MAX_LIMIT)
    return PageRequest(
        after=_number(query.get("after", query.get("offset")), 0, _MAX_LINE) or 0,
        limit=max(_number(query.get("limit"), tail or DEFAULT_LIMIT, MAX_LIMIT) or 0, 1),
        tail=tail,
        since_ms=moment_ms(query.get("since")),
        wait_s=max(min(_seconds(query.get("wait"), 0.0), MAX_WAIT_S, spare_s), 0.0),
        clock=clock if (clock := query.get("clock")) in (LINES, ARRIVAL) else None,
    )


def follow_request(query: Mapping[str, str], last_event_id: str | None) -> FollowRequest:
    """``after``, or ``tail``, and ``until`` (epoch ms, or ISO 8601). ``last_event_id`` takes precedence over the first two, and ``after`` over
    ``tail``: a client that began with ``tail`` adds ``after`` to its address, and would get the last lines again and again.

    The limit of bytes is for OpenMetadata's page, which keeps the whole log in memory: it begins at the first line and continues by ``after``.
    """
    last_line, after = _number(last_event_id, None, _MAX_LINE), _number(query.get("after"), None, _MAX_LINE)
    tail = None if last_line is not None else _number(query.get("tail"), None, MAX_LIMIT)
    return FollowRequest(
        after=last_line if last_line is not None else after or 0,
        tail=tail if after is None else None,
        until_ms=moment_ms(query.get("until")),
        has_limit=last_line is None and tail is None,
    )


def hold_s(query: Mapping[str, str], spare_s: float) -> float:
    """``wait``: how long a response of the stream waits for lines, up to ``spare_s``."""
    return max(min(_seconds(query.get("wait"), HOLD_S), HOLD_S, spare_s), 0.0)


def runs_limit(query: Mapping[str, str]) -> int:
    """Number of listed runs."""
    return max(_number(query.get("limit"), DEFAULT_RUNS, MAX_RUNS) or 0, 1)


def _number(text: str | None, default: int | None, most: int) -> int | None:
    if not text or not _DIGITS.fullmatch(text):
        return default
    return min(int(text), most) if len(text) <= _MAX_DIGITS else most


def _seconds(text: str | None, default: float) -> float:
    return float(text) if text and _SECONDS.fullmatch(text) else default


def moment_ms(text: str | None) -> int | None:
    """Epoch ms, or ISO 8601 (UTC unless it names a zone), in ms; None for anything else. Eight digits are a date such as 20300101: as a number
    of ms they would be a time on the first day of 1970."""
    number = None if text and _DATE.fullmatch(text) else _number(text, None, _MAX_LINE)
    if number is not None or not text:
        return number
    try:
        moment = datetime.fromisoformat(text)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
