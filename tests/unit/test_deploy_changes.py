"""What a change set is said to do: certain changes, and not what merely refers to them."""

from __future__ import annotations

from typing import Any

from deploy.changes import lines


def change(name: str, replacement: str, *details: dict[str, Any], action: str = "Modify") -> dict[str, Any]:
    return {
        "Action": action, "LogicalResourceId": name, "ResourceType": "AWS::X::Y", "Replacement": replacement, "Scope": ["Properties"],
        "Details": list(details),
    }  # fmt: skip


def detail(prop: str, recreation: str, evaluation: str, source: str, cause: str = "") -> dict[str, Any]:
    about: dict[str, Any] = {"Target": {"Attribute": "Properties", "Name": prop, "RequiresRecreation": recreation}}
    about |= {"Evaluation": evaluation, "ChangeSource": source}
    return about | ({"CausingEntity": cause} if cause else {})


def refers(prop: str, recreation: str, cause: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """How CloudFormation lists a property that refers to an attribute of a changed resource."""
    return detail(prop, recreation, "Dynamic", "DirectModification"), detail(
        prop, recreation, "Dynamic", "ResourceAttribute", cause
    )


FUNCTION = change("Api", "False", detail("Environment", "Never", "Static", "ParameterReference", "LogLevel"))


def test_resources_that_only_refer_to_one_changed_in_place_are_counted() -> None:
    permission = change("Permission", "Conditional", *refers("FunctionName", "Always", "Api.Arn"))
    alarm = change("Alarm", "False", *refers("Dimensions", "Never", "Api.Arn"))
    chained = change("Chained", "Conditional", *refers("Of", "Always", "Permission.Id"))
    assert lines([permission, FUNCTION, alarm, chained]) == [
        "Modify  Api                         AWS::X::Y  (Properties)",
        "and 3 unchanged that refer to these",
    ]


def test_replacement_spreads_along_references() -> None:
    table = change("Table", "True", detail("KeySchema", "Always", "Static", "DirectModification"))
    policy = change("Policy", "Conditional", *refers("Name", "Always", "Table.Arn"))
    further = change("Further", "Conditional", *refers("Of", "Conditionally", "Policy"))
    told = lines([table, policy, further])
    assert [("REPLACED" in line, "may be" in line) for line in told] == [(True, True), (True, True), (True, False)]


def test_reference_to_a_new_resource_may_replace() -> None:
    alias = change("Alias", "Conditional", *refers("Version", "Always", "Version7.Version"))
    assert "may be REPLACED" in lines([alias, change("Version7", "", action="Add")])[1]


def test_own_modification_that_may_replace_is_said() -> None:
    bucket = change("Bucket", "Conditional", detail("Name", "Conditionally", "Static", "DirectModification"))
    unexplained = change("Queue", "Conditional")
    assert all("may be REPLACED" in line for line in lines([bucket, unexplained]))


def test_property_with_another_cause_is_a_change() -> None:
    """It refers to a steady resource, and is modified besides."""
    own = detail("FunctionName", "Always", "Static", "ParameterReference", "Name")
    permission = change("Permission", "True", *refers("FunctionName", "Always", "Api.Arn"), own)
    assert "  REPLACED" in lines([FUNCTION, permission])[1]
