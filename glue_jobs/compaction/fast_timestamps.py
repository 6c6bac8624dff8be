"""Times of answers, read by their form. botocore's own parser takes any text for a time, and with it a tenth of a small request."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from typing import Any

import boto3
import botocore.session
from botocore.utils import parse_timestamp


@cache
def use_fast_timestamp_parser() -> None:
    """For clients of boto3's default session that are made from now on, in this process. Once is enough."""
    session = botocore.session.get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_response_time)
    boto3.setup_default_session(botocore_session=session)


def parse_response_time(value: Any) -> datetime:
    """As S3's headers (RFC 9110) and listings (ISO 8601) have it; anything else is left to botocore."""
    return _moment(value) if isinstance(value, str) else _any(value)


@lru_cache(maxsize=10_000)
def _moment(text: str) -> datetime:
    try:
        return parsedate_to_datetime(text) if text.endswith(" GMT") else datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return _any(text)


def _any(value: Any) -> datetime:
    parsed: datetime = parse_timestamp(value)
    return parsed
