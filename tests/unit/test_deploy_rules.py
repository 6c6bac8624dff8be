"""The template's rules, checked on this machine: every one that fails is said, with where to put it right."""

from __future__ import annotations

from typing import Any

import pytest

from deploy import rules
from deploy.errors import DeployError


def equals(name: str, value: str) -> dict[str, Any]:
    return {"Fn::Equals": [{"Ref": name}, value]}


TEMPLATE: dict[str, Any] = {
    "Parameters": {"Auth": {"Default": "jwt"}, "Issuer": {"Default": ""}, "Audience": {"Default": ""}, "Bucket": {}},
    "Rules": {
        "TokensNeedTheirIssuer": {
            "RuleCondition": equals("Auth", "jwt"),
            "Assertions": [
                {"Assert": {"Fn::Not": [equals(name, "")]}, "AssertDescription": f"Auth jwt needs {name}."} for name in ("Issuer", "Audience")
            ],
        },
        "Always": {"Assertions": [{"Assert": {"Fn::Not": [equals("Bucket", "taken")]}, "AssertDescription": "Another Bucket."}]},
    },
}  # fmt: skip


def refusal(**parameters: str) -> str:
    try:
        rules.check(TEMPLATE, parameters, "infra/stages/prod.json")
    except DeployError as error:
        return str(error)
    return ""


def test_every_failed_assertion_is_said_with_the_file() -> None:
    told = refusal(Bucket="taken", Audience="us")
    assert told.startswith("Auth jwt needs Issuer. Another Bucket.") and "infra/stages/prod.json" in told


def test_condition_decides_whether_a_rule_counts() -> None:
    assert refusal(Bucket="b", Auth="iam") == ""
    assert refusal(Bucket="b", Issuer="i", Audience="a") == ""


@pytest.mark.parametrize(("condition", "holds"), [("Fn::And", False), ("Fn::Or", True)])
def test_functions_of_conditions(condition: str, holds: bool) -> None:
    assertion = {"Assert": {condition: [equals("A", "1"), equals("A", "2")]}, "AssertDescription": "failed"}
    template = {"Parameters": {"A": {"Default": 1}}, "Rules": {"R": {"Assertions": [assertion]}}}
    if holds:
        rules.check(template, {}, "f")
    else:
        with pytest.raises(DeployError):
            rules.check(template, {}, "f")
