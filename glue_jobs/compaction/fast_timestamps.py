"""A fast parser for timestamps in responses. botocore's parser accepts any format, which costs a tenth of the CPU time of a small
request."""

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
    """Install the parser for clients of boto3's default session that this process creates from now on. Call it once."""
    session = botocore.session.get_session()
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse_response_time)
    boto3.setup_default_session(botocore_session=session)


def parse_response_time(value: Any) -> datetime:
    """Parse the formats of S3's headers (RFC 9110) and listings (ISO 8601); other values go to botocore's parser."""
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
