"""Queries of the archive: converts parameters to queries of the catalog, or errors with the datalake's codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from chalice.app import ChaliceViewError

from chalicelib.catalog.cursor import CursorSigner
from chalicelib.catalog.search import FileQuery
from chalicelib.catalog.timestamps import FIRST_MS, LAST_MS, parse_time_ms
from chalicelib.errors import InvalidTimeError

DEFAULT_LOOKBACK_DAYS = 14
MAX_LOOKBACK_DAYS = 36_500


class ArchiveErrorCode(StrEnum):
    """Codes of the archive's errors."""

    NO_ARGS = "NoArgs"
    NO_WHAT = "NoWhat"
    NO_WORK_INTERVAL = "NoWorkInterval"
    INVALID_WORK_INTERVAL = "InvalidWorkInterval"
    INVALID_TIME = "InvalidTime"
    INVALID_CURSOR = "InvalidCursor"
    INVALID_ORDER = "InvalidOrder"
    INVALID_LOOKBACK = "InvalidLookback"
    INVALID_METADATA = "InvalidMetadata"
    TOO_MANY_NAMES = "TooManyNames"
    TOO_LARGE = "TooLarge"
    NO_SUCH_FILE = "NoSuchFile"
    NOT_CHANGEABLE = "NotChangeable"
    UNAVAILABLE = "Unavailable"


class ArchiveRequestError(ChaliceViewError):
    """An error with an archive code. ``message``: the datalake's, to the letter, where it has one; ``detail``: more help, or empty."""

    def __init__(self, code: ArchiveErrorCode, message: str, status: int = 400, detail: str = "") -> None:
        super().__init__(message)
        self.code, self.STATUS_CODE, self.detail = code, status, detail


_ORDERS = {"oldest": False, "newest": True}
_TIMES = ("start", "end")
_BOTH = "You must provide only work_id or start/end. Not both."


def file_query(parameters: Mapping[str, str], cursors: CursorSigner, now_ms: int) -> FileQuery:
    """``what`` (several by commas), and ``work_id``, or ``start`` and ``end``, or with ``combine=true`` all three; ``where``, ``order``,
    ``cursor``. An empty parameter counts as missing, but an empty time is invalid. Raises ArchiveRequestError, InvalidCursorError."""
    if not parameters:
        raise ArchiveRequestError(ArchiveErrorCode.NO_ARGS, "Please provide minimal query arguments")
    parameters = {name: value for name, value in parameters.items() if value or name in _TIMES}
    whats = tuple(name.strip() for name in parameters.get("what", "").split(",") if name.strip())
    if not whats:
        raise ArchiveRequestError(ArchiveErrorCode.NO_WHAT, "You must provide the `what` paramater")
    start_ms, end_ms = _interval(parameters, now_ms)
    query = FileQuery(whats, parameters.get("where"), parameters.get("work_id"), start_ms, end_ms, _is_newest_first(parameters))
    if "cursor" not in parameters:
        return query
    return cursors.read(parameters["cursor"], query)


def lookback_days(parameters: Mapping[str, str]) -> int:
    """The largest age of the latest file in days. Raises ArchiveRequestError."""
    text = parameters.get("lookback") or str(DEFAULT_LOOKBACK_DAYS)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ArchiveRequestError(
            ArchiveErrorCode.INVALID_LOOKBACK,
            "lookback must be an integer not <class 'str'>",  # the datalake names the type
            detail=f"a number of days, not {text[:40]!r}",
        )
    return min(int(text), MAX_LOOKBACK_DAYS)


def _interval(parameters: Mapping[str, str], now_ms: int) -> tuple[int, int]:
    times = [(name, parameters[name]) for name in _TIMES if name in parameters]
    if not times and "work_id" not in parameters:
        raise ArchiveRequestError(ArchiveErrorCode.NO_WORK_INTERVAL, "You must provide either work_id or start/end")
    if not times:
        return FIRST_MS, LAST_MS
    if "work_id" in parameters and parameters.get("combine", "").lower() != "true":
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_WORK_INTERVAL, _BOTH, detail="combine=true finds files that match both")
    if len(times) == 1:
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_WORK_INTERVAL, "start and end must always be provided together.")
    start_ms, end_ms = (_moment(name, value, now_ms) for name, value in times)
    if start_ms > end_ms:
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_WORK_INTERVAL, "start must be before end")
    return start_ms, end_ms


def _moment(name: str, value: str, now_ms: int) -> int:
    try:
        return parse_time_ms(value, now_ms)
    except InvalidTimeError as error:
        message = f"{name} must be milliseconds since the epoch."
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_TIME, message, detail=f"or ISO 8601: {error}") from error


def _is_newest_first(parameters: Mapping[str, str]) -> bool:
    try:
        return _ORDERS[parameters.get("order", "oldest")]
    except KeyError:
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_ORDER, f"order is one of {', '.join(_ORDERS)}") from None
