"""Permissions that AWS requires for each call, grants of a deployed role, and the differences between them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.recording import recording

if TYPE_CHECKING:
    from tests.integration.stacks import Stack

_ON_OBJECTS = {
    "HeadObject": ["GetObject"],
    "CreateMultipartUpload": ["PutObject"],
    "UploadPart": ["PutObject"],
    "UploadPartCopy": ["PutObject"],
    "CopyObject": ["PutObject"],
    "CompleteMultipartUpload": ["PutObject"],
    "ListParts": ["ListMultipartUploadParts"],
}
"""Operations of S3 whose permission has another name."""
_IN_TRANSACTIONS = {"Put": "PutItem", "Delete": "DeleteItem", "Update": "UpdateItem", "ConditionCheck": "ConditionCheckItem"}
_ON_INDEXES = ("dynamodb:Query", "dynamodb:Scan")


@dataclass(frozen=True, slots=True, order=True)
class Need:
    """A permission that AWS checks. ``context``: the one condition key in the request, and its value."""

    action: str
    resource: str
    context: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One action on one resource of one statement, which may contain ``*``. ``condition``: a key, and the patterns of which its value
    matches one; ``operator``: how."""

    sid: str
    action: str
    resource: str
    condition: tuple[str, tuple[str, ...]] = ("", ())
    operator: str = ""

    def allows(self, need: Need) -> bool:
        """Whether the grant satisfies the need."""
        fits = self.action == need.action and fnmatchcase(need.resource, self.resource.replace("[", "[[]"))
        return fits and self._admits(*need.context)

    def _admits(self, key: str, value: str) -> bool:
        named, patterns = self.condition
        if key != named and named:
            return self.operator == "Null" or self.operator.endswith("IfExists")
        return not named or any(fnmatchcase(value, each) for each in patterns)

    @property
    def is_possible(self) -> bool:
        """Whether AWS defines the action for such a resource: an action of its service; indexes are only read by queries and scans."""
        if not self.resource:
            return False  # an empty list: the emulator creates policies whatever a condition with Join says
        service = self.resource.split(":")[2] if self.resource.startswith("arn:") else ""
        if {service, self.action.partition(":")[0]} == {"ssm", "secretsmanager"}:
            return False  # one list names parameters and secrets
        return "/index/" not in self.resource or self.action in _ON_INDEXES


class Calls:
    """Calls of AWS, from now on, by processes that were started with ``environment``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begin = path.stat().st_size if path.exists() else 0

    @property
    def environment(self) -> dict[str, str]:
        """Variables to add to a process's environment."""
        return recording(self._path)

    def needs(self, stack: Stack, by: str = "") -> set[Need]:
        """Permissions needed by the calls so far, of all processes or of one function."""
        lines = self._path.read_bytes()[self._begin :].splitlines() if self._path.exists() else []
        rows = [json.loads(line) for line in lines]
        return {need for row in rows if row["by"] == by for need in _needs(stack["region"], row)}


def _needs(region: str, row: dict[str, Any]) -> Iterator[Need]:
    operation, given = row["operation"], row["parameters"]
    match row["service"]:
        case "s3":
            yield from _of_s3(operation, given)
        case "dynamodb":
            for action, table in _of_dynamodb(operation, given):
                yield Need(f"dynamodb:{action}", f"arn:aws:dynamodb:{region}:000000000000:table/{table}")
        case "monitoring":
            yield Need(f"cloudwatch:{operation}", "*", ("cloudwatch:namespace", given["Namespace"]))
        case "sns":
            yield Need("sns:Publish", given["TopicArn"])  # also of a batch
        case "lambda":
            action = "InvokeFunction" if operation == "Invoke" else operation
            yield Need(f"lambda:{action}", f"arn:aws:lambda:{region}:000000000000:function:{given['FunctionName']}")
        case "cloudformation":
            yield Need(f"cloudformation:{operation}", f"arn:aws:cloudformation:{region}:000000000000:stack/{given['StackName']}/")
        case "ssm":
            yield Need(f"ssm:{operation}", f"arn:aws:ssm:{region}:000000000000:parameter{given['Name']}")
        case "secretsmanager":
            yield Need(f"secretsmanager:{operation}", f"arn:aws:secretsmanager:{region}:000000000000:secret:{given['SecretId']}")
        case other:
            raise AssertionError(f"nobody has said what it needs: {other} {operation}")


def _of_s3(operation: str, given: dict[str, Any]) -> Iterator[Need]:
    bucket = f"arn:aws:s3:::{given['Bucket']}"
    if operation == "ListObjectsV2":
        yield Need("s3:ListBucket", bucket, ("s3:prefix", given.get("Prefix", "")))
        return
    if operation in ("ListObjectVersions", "ListMultipartUploads"):
        yield Need("s3:ListBucketVersions" if "Versions" in operation else "s3:ListBucketMultipartUploads", bucket)
        return
    if operation == "DeleteObjects":
        for each in given["Delete"]["Objects"]:
            yield Need("s3:DeleteObjectVersion" if "VersionId" in each else "s3:DeleteObject", f"{bucket}/{each['Key']}")
        return
    yield from (Need(f"s3:{action}", f"{bucket}/{given['Key']}") for action in _ON_OBJECTS.get(operation, [operation]))
    if "Tagging" in given:
        yield Need("s3:PutObjectTagging", f"{bucket}/{given['Key']}")
    if "IfMatch" in given:
        yield Need("s3:GetObject", f"{bucket}/{given['Key']}")
    if source := given.get("CopySource"):
        yield Need("s3:GetObject", f"arn:aws:s3:::{source['Bucket']}/{source['Key']}")


def _of_dynamodb(operation: str, given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if operation == "TransactWriteItems":
        for each in given["TransactItems"]:
            for kind, write in each.items():
                yield _IN_TRANSACTIONS[kind], write["TableName"]
    elif "RequestItems" in given:
        yield from ((operation, table) for table in given["RequestItems"])
    else:
        index = f"/index/{given['IndexName']}" if "IndexName" in given else ""
        yield operation, given["TableName"] + index


def grants(stack: Stack, role_arn: str) -> set[Grant]:
    """All grants of a role of the stack, from IAM."""
    with closing(stack.client("iam")) as iam:
        found = {grant for document in _documents(iam, role_arn.rpartition("/")[2]) for grant in grants_of(document)}
    return {grant for grant in found if grant.is_possible}


def _documents(iam: Any, role: str) -> Iterator[dict[str, Any]]:
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        yield iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        version = iam.get_policy(PolicyArn=attached["PolicyArn"])["Policy"]["DefaultVersionId"]
        yield iam.get_policy_version(PolicyArn=attached["PolicyArn"], VersionId=version)["PolicyVersion"]["Document"]


def grants_of(document: dict[str, Any]) -> Iterator[Grant]:
    """All grants of a policy's document."""
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow" and not {"NotAction", "NotResource"} & set(statement)
        ((operator, conditions),) = statement.get("Condition", {"StringEquals": {"": ""}}).items()
        ((key, value),) = conditions.items()
        condition = (key, tuple(listed(value)) if key else ())
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                named = re.sub(r"(:stack/[^/]+/).+", r"\1", resource)  # callers know only the name of a stack
                yield Grant(statement["Sid"], action, named, condition, operator)


def refused(needs: Iterable[Need], allowed: Iterable[Grant]) -> list[Need]:
    """Needs that a role does not grant."""
    held = list(allowed)
    return sorted(need for need in needs if not any(grant.allows(need) for grant in held))


def unused(needs: Iterable[Need], allowed: Iterable[Grant]) -> list[Grant]:
    """Grants that a role does not need."""
    found = list(needs)
    return sorted(grant for grant in allowed if not any(grant.allows(need) for need in found))


def listed(value: Any) -> list[Any]:
    """The values of a policy's field, which may be one or a list."""
    return value if isinstance(value, list) else [value]
