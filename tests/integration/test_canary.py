"""A stage whose API shifts: the template after SAM's transform, which AWS runs."""

from __future__ import annotations

import copy
import json
from typing import Any
from unittest.mock import patch

import pytest
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from deploy.canary import shift

HOW = "Canary10Percent5Minutes"


def translated(template: dict[str, Any]) -> dict[str, Any]:
    """The template as CloudFormation transforms it. Managed policies that it may look up are empty here."""
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = "s3://bucket/code.zip"
    with patch.dict("os.environ", {"AWS_DEFAULT_REGION": "us-east-1"}):
        made: dict[str, Any] = Translator({}, Parser()).translate(template, {})
    return made["Resources"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def shifted(template: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(template)
    shift(changed, HOW)
    return translated(changed)


def test_codedeploy_shifts_the_alias_and_goes_back_when_the_alarm_rings(shifted: dict[str, Any]) -> None:
    (alias,) = [each for each in shifted.values() if each["Type"] == "AWS::Lambda::Alias"]
    (group,) = [each for each in shifted.values() if each["Type"] == "AWS::CodeDeploy::DeploymentGroup"]
    assert alias["Properties"]["Name"] == "live" and "CodeDeployLambdaAliasUpdate" in alias["UpdatePolicy"]
    assert HOW in json.dumps(group["Properties"]["DeploymentConfigName"])
    assert group["Properties"]["AlarmConfiguration"]["Alarms"] == [{"Name": {"Ref": "ApiErrorsAlarm"}}]


def test_the_gateway_calls_nothing_but_the_alias(shifted: dict[str, Any]) -> None:
    body = json.dumps(shifted["RestAPI"]["Properties"]["Body"])
    assert "${APIHandlerAliaslive}" in body and "APIHandler.Arn" not in body
    assert shifted["APIHandlerInvokePermission"]["Properties"]["FunctionName"] == {"Ref": "APIHandlerAliaslive"}


def test_a_stage_that_does_not_shift_is_left_as_it_is(template: dict[str, Any]) -> None:
    changed = copy.deepcopy(template)
    shift(changed, "AllAtOnce")
    assert changed == template
    assert "AWS::Lambda::Alias" not in {each["Type"] for each in translated(changed).values()}
