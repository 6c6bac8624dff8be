"""Names as keys and rows have them: beside each other, with a letter between."""

from __future__ import annotations

from collections.abc import Iterator

_BETWEEN = "/|:#"
"""What stands between names in keys of S3 and DynamoDB. Files of pipelines have the parts of an FQN as folders."""


def joined_names(*names: str) -> Iterator[str]:
    """All that names can become when they are parts of one key, in this order."""
    for between in _BETWEEN:
        key = f"{between}{between.join(names)}{between}"
        yield key
        yield key.replace('"', "").replace(".", between)
