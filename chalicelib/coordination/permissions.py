"""What a role must be allowed, to make the table, enable its time to live and work with it."""

from __future__ import annotations

from typing import Any

from chalicelib.coordination.codec import INDEX

ACTIONS = (
    "dynamodb:DescribeTimeToLive",
    "dynamodb:UpdateTimeToLive",
    "dynamodb:DescribeTable",
    "dynamodb:CreateTable",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",  # ours: complete_and_delete() removes items
    "dynamodb:Query",
)
SETUP_ACTIONS = frozenset(ACTIONS[:4])
"""Needed only where the table is made by the coordinator, or ``ttl`` is set."""


def permissions(region: str, account: str, table: str, *, partition: str = "aws") -> dict[str, Any]:
    """The statement of a policy: Data Prepper's, and ``DeleteItem``."""
    arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
    return {
        "Sid": "ReadWriteSourceCoordinationDynamoStore",
        "Effect": "Allow",
        "Action": list(ACTIONS),
        "Resource": [arn, f"{arn}/index/{INDEX}"],
    }
