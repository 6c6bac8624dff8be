"""The bucket of a handler's files: by its name, and for one in another account by the role that is assumed for it, and its owner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from chalicelib.errors import InvalidConfigurationError

_ROLE = re.compile(r"arn:aws[a-z-]*:iam::([0-9]{12}):role/[A-Za-z0-9+=.@_/-]{1,576}")
_OWNER = re.compile(r"[0-9]{12}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class BucketLocation(NamedTuple):
    """``bucket`` "": the bucket of logs. ``role``: the ARN of the role that is assumed for each call; "": the process's own.
    ``owner``: the account that owns the bucket, which S3 checks for each call; "": any."""

    bucket: str = ""
    role: str = ""
    owner: str = ""


HOME = BucketLocation()


def bucket_location(options: Mapping[str, Any]) -> BucketLocation:
    """Of a handler's options ``bucket``, ``role`` and ``bucket_owner``, by default the account of the role. Raises
    InvalidConfigurationError."""
    bucket, role, owner = (str(options.get(name) or "") for name in ("bucket", "role", "bucket_owner"))
    if (role or owner) and not _BUCKET.fullmatch(bucket):
        raise InvalidConfigurationError(f"role and bucket_owner need the name of a bucket bucket={bucket[:100]!r}")
    matched = _ROLE.fullmatch(role)
    if role and not matched:
        raise InvalidConfigurationError(f"role must be the ARN of a role role={role[:100]!r}")
    if owner and not _OWNER.fullmatch(owner):
        raise InvalidConfigurationError(f"bucket_owner must be the 12 digits of an account, in quotes bucket_owner={owner[:100]!r}")
    return BucketLocation(bucket, role, owner or (matched[1] if matched else ""))
