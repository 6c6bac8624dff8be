"""Names joined to keys, as in S3 and DynamoDB."""

from __future__ import annotations

from collections.abc import Iterator

_BETWEEN = "/|:#"
"""Separators of names in S3 and DynamoDB keys. Files of pipelines use the parts of an FQN as folders."""


def joined_names(*names: str) -> Iterator[str]:
    """All texts that the names can form as consecutive parts of one key."""
    for between in _BETWEEN:
        key = f"{between}{between.join(names)}{between}"
        yield key
        yield key.replace('"', "").replace(".", between)
