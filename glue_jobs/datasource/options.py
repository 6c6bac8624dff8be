"""Options of a read, checked before the first request. Their meaning: docs/spark.md."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from chalicelib.errors import InvalidConfigurationError
from chalicelib.lines.formats import LogFormat, format_named
from chalicelib.lines.levels import ORDER, level_of_name
from chalicelib.lines.zones import zone_of
from glue_jobs.datasource.schema import EVENTS, PROBLEMS

if TYPE_CHECKING:
    from chalicelib.settings import Settings

OPEN, SEALED, FINALIZED = "open", "sealed", "finalized"
EARLIEST, LATEST = "earliest", "latest"
PERMISSIVE, FAILFAST = "permissive", "failfast"
MIB = 1024 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIZE = re.compile(r"(\d{1,15})\s*(|k|m|g)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": MIB, "g": 1024 * MIB}
_SPAN = re.compile(r"(\d{1,9})\s*(s|m|h|d)", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Options:
    """Checked options. Their text forms contain no secrets."""

    bucket: str
    prefix: str = "pipeline-logs"
    region: str | None = None
    endpoint: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    runs_table: str | None = None
    segments_table: str | None = None
    fqn: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    from_us: int | None = None
    to_us: int | None = None
    status: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()
    zone: str = "UTC"
    log_format: str | None = None
    bytes_per_partition: int = 64 * MIB
    time_slack_s: int | None = 15 * 60
    mode: str = PERMISSIVE
    rows: str = EVENTS
    pushdown: bool = False
    starting_offsets: str = field(default=EARLIEST, repr=False)
    ending_offsets: str = field(default=LATEST, repr=False)
    max_bytes_per_batch: int | None = None
    flush_after_s: int | None = 60

    @property
    def is_strict(self) -> bool:
        """Whether damage is an error."""
        return self.mode == FAILFAST

    @property
    def is_between_offsets(self) -> bool:
        """Whether a batch read is bounded by offsets."""
        return self.starting_offsets != EARLIEST or self.ending_offsets != LATEST

    @property
    def format(self) -> LogFormat | None:
        """The format of every run, unless it is detected for each."""
        return format_named(self.log_format) if self.log_format else None

    def tz_in(self, zone: str) -> tzinfo:
        """The zone of timestamps without one in a run whose own zone this is; empty: it states none."""
        return zone_of(zone or self.zone)

    def credentials(self) -> dict[str, str]:
        """Arguments for boto3; empty if its own credential chain applies."""
        if not self.access_key_id:
            return {}
        keys = {"aws_access_key_id": self.access_key_id, "aws_secret_access_key": self.secret_access_key or ""}
        return keys | ({"aws_session_token": self.session_token} if self.session_token else {})


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text.strip()


def _prefix(text: str) -> str:
    return _text(text).strip("/")


def _names(text: str) -> tuple[str, ...]:
    """One name, or a JSON list of names."""
    if not text.lstrip().startswith("["):
        return (_text(text),)
    try:
        names = json.loads(text)
    except ValueError as error:
        raise ValueError("is not a valid JSON list") from error
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("must be a list of names")
    return tuple(names)


def _endpoint(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s@/?#]+/?", text):
        raise ValueError("must be an address such as http://127.0.0.1:4566, without user, password and path")
    return text.rstrip("/")


def _zone(text: str) -> str:
    zone_of(text)
    return text


def _format(text: str) -> str:
    try:
        return format_named(text).name
    except KeyError:
        raise ValueError("is not a known format: docs/log-formats.md lists them") from None


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not size:
        raise ValueError("must be a size such as 67108864 or 64m")
    return size


def _span(text: str) -> int | None:
    """Seconds; None for "none"."""
    if text.strip().lower() == "none":
        return None
    match = _SPAN.fullmatch(text.strip())
    if not match:
        raise ValueError("must be a span such as 90s, 15m, 2h or none")
    return int(match[1]) * _SECONDS[match[2].lower()]


def _status(text: str) -> frozenset[str]:
    names = frozenset(word.strip().lower() for word in text.split(","))
    if unknown := names - {OPEN, SEALED, FINALIZED}:
        raise ValueError(f"must be open, sealed or finalized, not {', '.join(sorted(unknown)) or 'nothing'}")
    return names


def level_named(name: str) -> str:
    """One of ``levels.ORDER``, from any of its names. Raises ValueError."""
    level = level_of_name(name.strip())
    if level is None:
        raise ValueError(f"must be a level such as {', '.join(ORDER)}: {name.strip() or 'nothing'}")
    return level


def _levels(text: str) -> frozenset[str]:
    return frozenset(map(level_named, text.split(",")))


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return text.strip().lower()

    return parse


def _offsets(text: str) -> str:
    """A keyword, an offset, or its address."""
    value = text.strip()
    if value.lower() in (EARLIEST, LATEST):
        return value.lower()
    if not value.startswith(("{", "s3://", "file://")):
        raise ValueError("is neither earliest, latest, an offset as JSON, nor its s3:// or file:// address")
    return value


def _flag(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"


PARSERS: Mapping[str, Callable[[str], Any]] = {
    "bucket": _text,
    "prefix": _prefix,
    "region": _text,
    "endpoint": _endpoint,
    "accessKeyId": _text,
    "secretAccessKey": _text,
    "sessionToken": _text,
    "runsTable": _text,
    "segmentsTable": _text,
    "fqn": _names,
    "run": _names,
    "from": _text,
    "to": _text,
    "status": _status,
    "level": _levels,
    "zone": _zone,
    "logFormat": _format,
    "bytesPerPartition": _size,
    "timeSlack": _span,
    "mode": _one_of(PERMISSIVE, FAILFAST),
    "rows": _one_of(EVENTS, PROBLEMS),
    "pushdown": _flag,
    "startingOffsets": _offsets,
    "endingOffsets": _offsets,
    "maxBytesPerBatch": _size,
    "flushAfter": _span,
}
"""Every option with its parser. Spark passes names in any case."""
_SECRET = frozenset({"accessKeyId", "secretAccessKey", "sessionToken"})
_FIELDS = {"from": "from_us", "to": "to_us", "timeSlack": "time_slack_s", "flushAfter": "flush_after_s", "level": "levels"}


def options_of(settings: Settings) -> dict[str, str]:
    """Options for reading the logs of a stack with these settings: bucket, prefix, and the store's credentials, if there are any."""
    secret, token = settings.aws_secret_access_key, settings.aws_session_token
    options = {
        "bucket": settings.bucket_name,
        "prefix": settings.prefix,
        "region": settings.aws_region,
        "endpoint": settings.aws_endpoint_url,
        "accessKeyId": settings.aws_access_key_id,
        "secretAccessKey": secret.get_secret_value() if secret else None,
        "sessionToken": token.get_secret_value() if token else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def parse_options(options: Mapping[str, str]) -> Options:
    """Raises InvalidConfigurationError with the name of the wrong option and the reason."""
    by_lower = {name.lower(): name for name in PARSERS}
    values: dict[str, Any] = {}
    for name, text in options.items():
        option = by_lower.get(name.lower())
        if option is None:
            raise InvalidConfigurationError(_unknown(name))
        try:
            values[_FIELDS.get(option) or _snake(option)] = PARSERS[option](str(text))
        except ValueError as error:
            shown_value = "" if option in _SECRET else f" value={text!r}"
            raise InvalidConfigurationError(f"invalid option: it {error} option={option}{shown_value}") from None
    _check_together(values)
    zone = zone_of(values.get("zone", "UTC"))
    for name in ("from", "to"):
        if f"{name}_us" in values:
            values[f"{name}_us"] = _moment_us(name, values[f"{name}_us"], zone)
    if values.get("from_us") is not None and values.get("to_us") is not None and values["from_us"] >= values["to_us"]:
        raise InvalidConfigurationError("the option from must be before to")
    return Options(**values)


def _check_together(values: Mapping[str, Any]) -> None:
    if "bucket" not in values:
        raise InvalidConfigurationError("the option bucket is missing")
    if ("access_key_id" in values) != ("secret_access_key" in values):
        raise InvalidConfigurationError("the options accessKeyId and secretAccessKey go together")
    if values.get("ending_offsets") == EARLIEST:
        raise InvalidConfigurationError("a read cannot end before it begins option=endingOffsets value='earliest'")
    if "session_token" in values and "access_key_id" not in values:
        raise InvalidConfigurationError("the option sessionToken needs accessKeyId and secretAccessKey")


def _moment_us(name: str, text: str, zone: tzinfo) -> int:
    """An ISO 8601 date or time; in the option's zone if it has none."""
    try:
        moment = datetime.fromisoformat(text)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=zone)) - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise InvalidConfigurationError(
            f"invalid option: it is no time such as 2026-11-21 or 2026-11-21T03:00Z option={name} value={text!r}"
        ) from None


def _unknown(name: str) -> str:
    if name.lower() in ("path", "paths"):
        return "load() takes no path: use .option('bucket', …), and .option('prefix', …) if necessary"
    near = difflib.get_close_matches(name.lower(), [known.lower() for known in PARSERS], 1)
    hint = next((f": do you mean {known}?" for known in PARSERS if near and known.lower() == near[0]), "")
    return f"no such option{hint} option={name}"


def _snake(option: str) -> str:
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), option)
