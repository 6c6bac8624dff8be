"""Change sets of CloudFormation: create, describe, execute, discard."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from deploy import changes
from deploy.artifacts import Uploaded
from deploy.errors import DeployError
from deploy.stages import Stage

_CAPABILITIES = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GIVE_UP_S = 0.2, 5.0, 3600.0
_EMPTY = ("didn't contain changes", "No updates are to be performed")
_UNMADE = ("REVIEW_IN_PROGRESS",)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Proposed changes of a stack. ``lines``: descriptions, empty if nothing changes. ``is_new``: the stack will be created."""

    id: str
    stack: str
    is_new: bool
    lines: list[str] = field(default_factory=list)


class Stacks:
    """``client``: a boto3 client of CloudFormation."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def find(self, name: str) -> dict[str, Any] | None:
        """Description of a stack, or None if it does not exist."""
        stack = self._described(name)
        return None if stack is None or stack["StackStatus"] in (*_UNMADE, "DELETE_COMPLETE") else stack

    def deleted(self, name: str) -> list[str]:
        """Ids of the stacks of this name that were deleted within 90 days, which CloudFormation remembers."""
        pages = self._client.get_paginator("list_stacks").paginate(StackStatusFilter=["DELETE_COMPLETE"])
        return [row["StackId"] for page in pages for row in page.get("StackSummaries", ()) if row["StackName"] == name]

    def parameters(self, name: str) -> dict[str, str]:
        """Deployed parameters of a stack, secret ones as stars; empty if the stack does not exist."""
        described = self.find(name) or {}
        return {row["ParameterKey"]: row.get("ParameterValue", "") for row in described.get("Parameters", ())}

    def tables(self, name: str) -> list[str]:
        """Names of the stack's DynamoDB tables."""
        return [row["PhysicalResourceId"] for row in self._resources(name) if row["ResourceType"] == "AWS::DynamoDB::Table"]

    def buckets(self, stack_id: str) -> list[str]:
        """Names of all buckets that a stack made, also of those that it left to themselves: all of a deleted one."""
        pages = self._client.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        events = (row for page in pages for row in page.get("StackEvents", ()))
        left = [row for row in events if row["ResourceStatus"] == "DELETE_SKIPPED"]
        rows = [row for row in (*self._resources(stack_id), *left) if row["ResourceType"] == "AWS::S3::Bucket"]
        return sorted({row["PhysicalResourceId"] for row in rows if row.get("PhysicalResourceId")})

    def _resources(self, stack: str) -> list[dict[str, Any]]:
        pages = self._client.get_paginator("list_stack_resources").paginate(StackName=stack)
        return [row for page in pages for row in page.get("StackResourceSummaries", ())]

    def outputs(self, name: str) -> dict[str, str]:
        """Outputs of an existing stack."""
        described = self.find(name)
        return {row["OutputKey"]: row["OutputValue"] for row in (described or {}).get("Outputs", ())}

    def propose(self, stage: Stage, uploaded: Uploaded, overrides: Mapping[str, str]) -> ChangeSet:
        """Create a change set for a stage. Raises DeployError, and leaves no change set then; also for a stack that no stage has deployed."""
        there = self.find(stage.stack)
        if there and not set(uploaded.values) <= _names_of_parameters(there):  # the change set would delete all that it has
            raise DeployError(
                f"no stage of Runlake has deployed this stack; choose another name in the stage file stack={stage.stack}"
            )
        if there and there["StackStatus"] == "ROLLBACK_COMPLETE":
            raise DeployError(
                f"its first deployment was rolled back: run make destroy for it, then deploy again stack={stage.stack}"
            )
        chosen = {**stage.parameters, **overrides}
        if unknown := sorted(set(chosen) - uploaded.parameters):
            raise DeployError(f"the template has no such parameter: {', '.join(unknown)}")
        if set_here := sorted(set(chosen) & set(uploaded.values)):
            raise DeployError(f"leave it out, each deployment sets it itself: {', '.join(set_here)}")
        values = {**chosen, **uploaded.values}
        id_ = self._create(stage, uploaded, _parameters(values, there, uploaded.parameters), is_new=there is None)
        proposed = ChangeSet(id_, stage.stack, there is None)
        try:
            return replace(proposed, lines=self._wait_until_made(id_, stage.stack))
        except BaseException:
            self.discard(proposed)
            raise

    def discard(self, proposed: ChangeSet) -> None:
        """Delete a change set, and the stack that CloudFormation created for it, unless another deployment has filled it meanwhile."""
        with suppress(ClientError):  # an empty change set may be deleted already
            self._client.delete_change_set(ChangeSetName=proposed.id, StackName=proposed.stack)
        if proposed.is_new and self._state(proposed.stack) in _UNMADE:
            self._client.delete_stack(StackName=proposed.stack)

    def execute(self, proposed: ChangeSet) -> None:
        """Execute it and wait for the end. Raises DeployError with the first reason if CloudFormation has rolled back."""
        self._client.execute_change_set(ChangeSetName=proposed.id, StackName=proposed.stack)
        self.wait(proposed.stack, "CREATE_COMPLETE" if proposed.is_new else "UPDATE_COMPLETE")

    def wait(self, stack: str, status: str) -> None:
        """Wait until the stack reaches a final status. Raises DeployError if it differs from ``status``."""
        for _ in _pauses():
            current = self._state(stack)
            if current == status:
                return
            if not current.endswith("IN_PROGRESS"):
                raise DeployError(f"the stack is {current}: {self._first_failure(stack)}")
        raise DeployError(f"the stack takes too long, CloudFormation continues: stack={stack}")

    def delete(self, stack: str) -> None:
        """Delete a stack, by its name or id, and wait for the end. Resources that its template retains remain."""
        self._client.delete_stack(StackName=stack)
        self.wait(stack, "DELETE_COMPLETE")

    def protect(self, stack: str, *, protected: bool) -> None:
        """Set whether CloudFormation refuses to delete the stack."""
        self._client.update_termination_protection(StackName=stack, EnableTerminationProtection=protected)

    def _state(self, stack: str) -> str:
        return str((self._described(stack) or {"StackStatus": "DELETE_COMPLETE"})["StackStatus"])

    def _described(self, stack: str) -> dict[str, Any] | None:
        try:
            return dict(self._client.describe_stacks(StackName=stack)["Stacks"][0])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ValidationError":  # an unknown name
                return None
            raise

    def _create(self, stage: Stage, uploaded: Uploaded, parameters: list[dict[str, Any]], *, is_new: bool) -> str:
        try:
            answer = self._client.create_change_set(
                StackName=stage.stack,
                ChangeSetName=f"runlake-{time.time_ns()}",
                ChangeSetType="CREATE" if is_new else "UPDATE",
                TemplateURL=uploaded.url,
                Parameters=parameters,
                Capabilities=_CAPABILITIES,
                Tags=[{"Key": name, "Value": value} for name, value in stage.tags.items()],
            )
        except ClientError as error:
            raise DeployError(f"CloudFormation rejected the request: {error.response['Error']['Message'][:500]}") from error
        return str(answer["Id"])

    def _wait_until_made(self, id_: str, stack: str) -> list[str]:
        for _ in _pauses():
            told = self._client.describe_change_set(ChangeSetName=id_, StackName=stack)
            if told["Status"] == "CREATE_COMPLETE":
                return changes.lines(row["ResourceChange"] for page in self._pages(id_, stack) for row in page.get("Changes", ()))
            if told["Status"] == "FAILED":
                reason = str(told.get("StatusReason", ""))
                if any(words in reason for words in _EMPTY):
                    return []
                raise DeployError(f"the change set failed: {reason[:500]}")
        raise DeployError(f"the change set takes too long: stack={stack}")

    def _pages(self, id_: str, stack: str) -> Iterator[dict[str, Any]]:
        return iter(self._client.get_paginator("describe_change_set").paginate(ChangeSetName=id_, StackName=stack))

    def _first_failure(self, stack: str) -> str:
        events = self._client.describe_stack_events(StackName=stack)["StackEvents"]
        for event in reversed(events):
            if event["ResourceStatus"].endswith("FAILED") and "cancelled" not in event.get("ResourceStatusReason", ""):
                return f"resource={event['LogicalResourceId']} reason={event.get('ResourceStatusReason', '')!r}"
        return "no reason in its events"


def _parameters(values: Mapping[str, str], there: Mapping[str, Any] | None, known: frozenset[str]) -> list[dict[str, Any]]:
    had = _names_of_parameters(there) if there else frozenset()
    unchanged = sorted((had & known) - set(values))
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in sorted(values.items())] + [
        {"ParameterKey": name, "UsePreviousValue": True} for name in unchanged
    ]


def _names_of_parameters(stack: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(row["ParameterKey"] for row in stack.get("Parameters", ()))


def _pauses() -> Iterator[None]:
    pause_s, give_up = _FIRST_PAUSE_S, time.monotonic() + _GIVE_UP_S
    while time.monotonic() < give_up:
        yield
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
