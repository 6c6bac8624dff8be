"""Change sets and the end of a stack, against a CloudFormation of a few lines: what is asked of it, and what is said of its answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from deploy.artifacts import Uploaded
from deploy.change_sets import ChangeSet, Stacks
from deploy.errors import DeployError
from deploy.stages import Stage
from deploy.teardown import Clients, destroy

STAGE = Stage(stack="s", parameters={"A": "1"}, tags={"x": "y"})
UPLOADED = Uploaded("https://bucket/template.yaml", frozenset({"A", "B", "Secret", "Version"}), {"Version": "2"})
THERE = {
    "StackId": "arn:s/2",
    "StackStatus": "UPDATE_COMPLETE",
    "Parameters": [{"ParameterKey": name} for name in ("A", "Secret", "Gone", "Version")],
    "Outputs": [],
}


def change(logical: str, replacement: str = "False") -> dict[str, Any]:
    about = {"Action": "Modify", "LogicalResourceId": logical, "ResourceType": "AWS::X::Y", "Replacement": replacement, "Scope": []}
    return {"ResourceChange": about}


def cloudformation(stack: dict[str, Any] | None, changes: list[dict[str, Any]], **described: Any) -> Mock:
    """A client whose stack and change set are these."""
    client = Mock()
    missing = ClientError({"Error": {"Code": "ValidationError", "Message": "does not exist"}}, "DescribeStacks")
    client.describe_stacks.side_effect = None if stack else missing
    client.describe_stacks.return_value = {"Stacks": [stack]}
    client.create_change_set.return_value = {"Id": "cs"}
    client.describe_change_set.return_value = {"Status": "CREATE_COMPLETE"} | described
    client.get_paginator.return_value.paginate.return_value = [{"Changes": changes[:1]}, {"Changes": changes[1:]}]
    return client


def show_stack(client: Mock, status: str) -> None:
    client.describe_stacks.side_effect = None
    client.describe_stacks.return_value = {"Stacks": [THERE | {"StackStatus": status}]}


def test_what_is_not_said_stays_as_it_is_and_what_the_template_has_no_more_is_not_sent() -> None:
    client = cloudformation(THERE, [change("Table", "True"), change("Bucket", "Conditional")])
    proposed = Stacks(client).propose(STAGE, UPLOADED, {"B": "2"})
    asked = client.create_change_set.call_args.kwargs
    assert (
        asked["ChangeSetType"] == "UPDATE"
        and asked["TemplateURL"] == UPLOADED.url
        and asked["Tags"] == [{"Key": "x", "Value": "y"}]
    )
    assert asked["Parameters"] == [
        {"ParameterKey": "A", "ParameterValue": "1"},
        {"ParameterKey": "B", "ParameterValue": "2"},
        {"ParameterKey": "Version", "ParameterValue": "2"},
        {"ParameterKey": "Secret", "UsePreviousValue": True},
    ]
    assert len(proposed.lines) == 2 and "may be REPLACED" in proposed.lines[0] and "  REPLACED" in proposed.lines[1]


def test_a_new_stack_is_made_and_a_proposal_for_it_thrown_away_leaves_no_shell() -> None:
    client = cloudformation(None, [change("Table")])
    proposed = Stacks(client).propose(STAGE, UPLOADED, {})
    request = client.create_change_set.call_args.kwargs
    assert proposed.is_new and request["ChangeSetType"] == "CREATE"
    show_stack(client, "REVIEW_IN_PROGRESS")
    Stacks(client).discard(proposed)
    client.delete_change_set.assert_called_once_with(ChangeSetName="cs", StackName="s")
    client.delete_stack.assert_called_once_with(StackName="s")


@pytest.mark.parametrize("status", ["CREATE_IN_PROGRESS", "CREATE_COMPLETE"])
def test_discarded_proposal_keeps_stack_that_another_deployer_made(status: str) -> None:
    client = cloudformation(None, [change("Table")])
    proposed = Stacks(client).propose(STAGE, UPLOADED, {})
    show_stack(client, status)
    Stacks(client).discard(proposed)
    client.delete_stack.assert_not_called()


def test_rejected_change_set_is_discarded() -> None:
    client = cloudformation(THERE | {"StackStatus": "REVIEW_IN_PROGRESS"}, [], Status="FAILED", StatusReason="Circular dependency")
    with pytest.raises(DeployError, match="Circular dependency"):
        Stacks(client).propose(STAGE, UPLOADED, {})
    client.delete_change_set.assert_called_once_with(ChangeSetName="cs", StackName="s")
    client.delete_stack.assert_called_once_with(StackName="s")


def test_stack_of_another_application_is_not_updated() -> None:
    client = cloudformation(THERE | {"Parameters": [{"ParameterKey": "A"}]}, [])
    with pytest.raises(DeployError, match="no stage of Runlake has deployed this stack"):
        Stacks(client).propose(STAGE, UPLOADED, {})
    client.create_change_set.assert_not_called()


def test_a_proposal_for_a_stack_that_is_there_is_thrown_away_and_the_stack_stays() -> None:
    client = cloudformation(THERE, [])
    Stacks(client).discard(ChangeSet("cs", "s", is_new=False))
    client.delete_stack.assert_not_called()


@pytest.mark.parametrize(
    "reason", ["The submitted information didn't contain changes. Submit different information", "No updates are to be performed."]
)
def test_nothing_to_do_is_no_failure(reason: str) -> None:
    client = cloudformation(THERE, [], Status="FAILED", StatusReason=reason)
    assert Stacks(client).propose(STAGE, UPLOADED, {}).lines == []


def test_what_cannot_be_done_is_said() -> None:
    client = cloudformation(THERE, [], Status="FAILED", StatusReason="Circular dependency")
    with pytest.raises(DeployError, match="Circular dependency"):
        Stacks(client).propose(STAGE, UPLOADED, {})
    with pytest.raises(DeployError, match="no such parameter: Wrong"):
        Stacks(cloudformation(THERE, [])).propose(STAGE, UPLOADED, {"Wrong": "1"})
    with pytest.raises(DeployError, match="run make destroy for it, then deploy again stack=s"):
        Stacks(cloudformation(THERE | {"StackStatus": "ROLLBACK_COMPLETE"}, [])).propose(STAGE, UPLOADED, {})
    with pytest.raises(DeployError, match="each deployment sets it itself: Version"):
        Stacks(cloudformation(THERE, [])).propose(STAGE, UPLOADED, {"Version": "1"})


def test_the_first_reason_is_told_not_what_followed_from_it() -> None:
    client = cloudformation(THERE | {"StackStatus": "UPDATE_ROLLBACK_COMPLETE"}, [])
    events = [
        ("UPDATE_ROLLBACK_COMPLETE", "s", ""),
        ("CREATE_FAILED", "B", "Resource creation cancelled"),
        ("CREATE_FAILED", "A", "no room"),
    ]
    client.describe_stack_events.return_value = {
        "StackEvents": [
            {"ResourceStatus": status, "LogicalResourceId": name, "ResourceStatusReason": reason} for status, name, reason in events
        ]
    }
    with pytest.raises(DeployError, match="UPDATE_ROLLBACK_COMPLETE: resource=A reason='no room'"):
        Stacks(client).execute(ChangeSet("cs", "s", is_new=False, lines=["x"]))


ACCOUNT = "111122223333"


def resource(kind: str, name: str, status: str = "CREATE_COMPLETE") -> dict[str, str]:
    return {"ResourceType": kind, "PhysicalResourceId": name, "ResourceStatus": status}


BUCKET, SKIPPED = "AWS::S3::Bucket", "DELETE_SKIPPED"
RESOURCES = [resource("AWS::DynamoDB::Table", "checkpoints"), resource("AWS::SNS::Topic", "topic"), resource(BUCKET, "logs")]
EVENTS = [resource(BUCKET, "replaced", SKIPPED), resource(BUCKET, "logs"), resource("AWS::DynamoDB::Table", "table", SKIPPED)]


def s3_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}}, "GetBucketTagging")


def clients(**tags: str | ClientError) -> Clients:
    """``tags``: by bucket, the id of the stack in its tags, or an error; a bucket without any has none."""
    dynamodb, s3 = Mock(), Mock()
    dynamodb.describe_table.return_value = {"Table": {}}

    def tagging(Bucket: str, **_: str) -> dict[str, Any]:
        found = tags.get(Bucket, s3_error("NoSuchTagSet"))
        if isinstance(found, ClientError):
            raise found
        return {"TagSet": [{"Key": "aws:cloudformation:stack-id", "Value": found}]}

    s3.get_bucket_tagging.side_effect = tagging
    s3.get_paginator.return_value.paginate.return_value = [
        {"Versions": [{"Key": "a", "VersionId": "1"}], "Uploads": [{"Key": "a", "UploadId": "u"}]}
    ]
    s3.delete_objects.return_value = {}
    return Clients(s3, dynamodb, ACCOUNT)


def stacks_to_destroy(*, deleted: bool = False) -> tuple[Mock, Stacks]:
    client = cloudformation(None if deleted else THERE, [])
    answers = {
        "list_stacks": {
            "StackSummaries": [{"StackName": name, "StackId": f"arn:{name}/1"} for name in ("other", "s")[: 1 + deleted]]
        },
        "list_stack_resources": {"StackResourceSummaries": [] if deleted else RESOURCES},
        "describe_stack_events": {"StackEvents": [resource(BUCKET, "logs", SKIPPED), *EVENTS] if deleted else EVENTS},
    }
    client.get_paginator.side_effect = lambda operation: Mock(**{"paginate.return_value": [answers[operation]]})

    def delete(StackName: str) -> None:
        client.describe_stacks.return_value = {"Stacks": [{"StackStatus": "DELETE_COMPLETE"}]}

    client.delete_stack.side_effect = delete
    return client, Stacks(client)


def test_nothing_is_deleted_unless_the_words_are_typed() -> None:
    client, stacks = stacks_to_destroy()
    for words in (["no"], ["s", "yes"]):
        answers = iter(words)
        with pytest.raises(DeployError, match="nothing was deleted"):
            destroy(stacks, clients(), "s", with_data=True, ask=lambda _, answers=answers: next(answers))
    client.delete_stack.assert_not_called()


def test_buckets_stay_and_are_told() -> None:
    client, stacks = stacks_to_destroy()
    used = clients()
    assert destroy(stacks, used, "s", with_data=False, ask=lambda _: "s\n") == ["logs", "replaced"]
    client.delete_stack.assert_called_once_with(StackName="arn:s/2")
    assert {call[0] for call in used.s3.mock_calls} == {"get_bucket_tagging"}


def test_destroy_turns_table_protection_off_before_deletion() -> None:
    client, stacks = stacks_to_destroy()
    used = clients()
    used.dynamodb.describe_table.return_value = {"Table": {"DeletionProtectionEnabled": True}}
    used.dynamodb.update_table.side_effect = lambda **_: client.delete_stack.assert_not_called()
    destroy(stacks, used, "s", with_data=False, ask=lambda _: "s\n")
    used.dynamodb.update_table.assert_called_once_with(TableName="checkpoints", DeletionProtectionEnabled=False)
    client.delete_stack.assert_called_once()


def test_destroy_refused_changes_no_table() -> None:
    client, stacks = stacks_to_destroy()
    used = clients()
    with pytest.raises(DeployError, match="nothing was deleted"):
        destroy(stacks, used, "s", with_data=False, ask=lambda _: "no")
    client.describe_stacks.return_value = {"Stacks": [THERE | {"EnableTerminationProtection": True}]}
    with pytest.raises(DeployError, match="the stack is protected"):
        destroy(stacks, used, "s", with_data=False, ask=lambda _: "s\n")
    assert used.dynamodb.mock_calls == [] and not used.s3.delete_bucket.called
    client.delete_stack.assert_not_called()


def test_destroy_with_data_names_the_owner_of_each_bucket() -> None:
    """A bucket that was deleted since may belong to anybody by now."""
    _, stacks = stacks_to_destroy()
    used = clients()
    typed = iter(["s", "delete the data of s"])
    assert destroy(stacks, used, "s", with_data=True, ask=lambda _: next(typed)) == []
    operations = [used.s3.abort_multipart_upload, used.s3.delete_objects, used.s3.delete_bucket, used.s3.get_bucket_tagging]
    operations.append(used.s3.get_paginator.return_value.paginate)
    for operation in operations:
        assert {asked.kwargs["ExpectedBucketOwner"] for asked in operation.call_args_list} == {ACCOUNT}
        assert {asked.kwargs["Bucket"] for asked in operation.call_args_list} == {"logs", "replaced"}


@pytest.mark.parametrize(
    ("tags", "left"),
    [
        ({}, ["logs", "replaced"]),
        ({"logs": "arn:s/1", "replaced": s3_error("NoSuchBucket")}, ["logs"]),
        ({"logs": "arn:other/7", "replaced": "arn:s/1"}, ["replaced"]),
    ],
)
def test_stopped_destroy_goes_on_with_the_buckets_that_are_left(tags: dict[str, str | ClientError], left: list[str]) -> None:
    client, stacks = stacks_to_destroy(deleted=True)
    used, ask = clients(**tags), Mock(return_value="delete the data of s")
    assert destroy(stacks, used, "s", with_data=False, ask=ask) == left
    ask.assert_not_called()
    assert destroy(stacks, used, "s", with_data=True, ask=ask) == []
    assert [f"in {', '.join(left)}." in call.args[0] for call in ask.call_args_list] == [True]
    assert [call.kwargs["Bucket"] for call in used.s3.delete_bucket.call_args_list] == left
    client.delete_stack.assert_not_called()


def test_object_that_cannot_be_deleted_is_named() -> None:
    _, stacks = stacks_to_destroy(deleted=True)
    used = clients()
    used.s3.delete_objects.return_value = {"Errors": [{"Key": "locked", "Code": "AccessDenied"}]}
    with pytest.raises(DeployError, match="bucket=logs key=locked error=AccessDenied"):
        destroy(stacks, used, "s", with_data=True, ask=lambda _: "delete the data of s")


def test_stack_that_nobody_knows_is_not_destroyed() -> None:
    _, stacks = stacks_to_destroy(deleted=True)
    with pytest.raises(DeployError, match="there is no such stack: stack=unknown"):
        destroy(stacks, clients(), "unknown", with_data=True, ask=lambda _: "")


def test_refused_look_is_not_taken_for_a_deletion() -> None:
    client, stacks = stacks_to_destroy()
    with pytest.raises(ClientError):
        destroy(stacks, clients(logs=s3_error("AccessDenied")), "s", with_data=False, ask=lambda _: "s\n")
    client.delete_stack.side_effect = None
    client.describe_stacks.side_effect = s3_error("ExpiredToken")
    with pytest.raises(ClientError):
        stacks.delete("arn:s/2")
