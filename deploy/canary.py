"""Puts the API's function behind an alias that CodeDeploy shifts, in the packaged template.

Chalice lets the gateway call the function itself, so new code serves all requests at once. Here each deployment publishes a
version, the gateway calls the alias, and CodeDeploy shifts the alias gradually to the new version, and back if the API's alarm
fires. SAM requires literals here, not parameters, so the template itself is changed. SAM's role for CodeDeploy would have no
permissions boundary, so it gets one like those of the functions.
"""

from __future__ import annotations

from typing import Any

FUNCTION, ALIAS, ALARM, ROLE = "APIHandler", "live", "ApiErrorsAlarm", "ShiftRole"
_UNSHIFTED = "AllAtOnce"


def shift(template: dict[str, Any], how: str) -> None:
    """Shift the API to new versions by CodeDeploy's configuration ``how``. AllAtOnce leaves the template unchanged."""
    if how == _UNSHIFTED:
        return
    resources = template["Resources"]
    resources[FUNCTION]["Properties"] |= {
        "AutoPublishAlias": ALIAS,
        "AutoPublishAliasAllProperties": True,
        "DeploymentPreference": {"Type": how, "Alarms": [{"Ref": ALARM}], "Role": {"Fn::GetAtt": [ROLE, "Arn"]}},
    }
    like = resources["ApiRole"]["Properties"]
    resources[ROLE] = _role({name: like[name] for name in ("Path", "PermissionsBoundary")})
    api = resources["RestAPI"]["Properties"]
    api["DefinitionBody"] = _through_the_alias(api["DefinitionBody"])
    resources["APIHandlerInvokePermission"]["Properties"]["FunctionName"] = {"Ref": f"{FUNCTION}.Alias"}


def _role(properties: dict[str, Any]) -> dict[str, Any]:
    """CodeDeploy's role, with further properties."""
    function = {"Fn::GetAtt": [FUNCTION, "Arn"]}
    move = ["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"]
    statements = [
        {"Sid": "MoveAlias", "Effect": "Allow", "Action": move, "Resource": [function, {"Fn::Sub": f"${{{FUNCTION}.Arn}}:*"}]},
        {"Sid": "WatchAlarm", "Effect": "Allow", "Action": "cloudwatch:DescribeAlarms", "Resource": "*"},
    ]
    assumes = {"Effect": "Allow", "Principal": {"Service": "codedeploy.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return {
        "Type": "AWS::IAM::Role",
        "Properties": properties
        | {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [assumes]},
            "Policies": [{"PolicyName": "shift", "PolicyDocument": {"Version": "2012-10-17", "Statement": statements}}],
        },
    }


def _through_the_alias(value: Any) -> Any:
    """Replace references to the function's ARN in an API definition by references to its alias."""
    if isinstance(value, str):
        return value.replace(f"${{{FUNCTION}.Arn}}", f"${{{FUNCTION}.Alias}}")
    if isinstance(value, list):
        return [_through_the_alias(each) for each in value]
    if isinstance(value, dict):
        if value == {"Fn::GetAtt": [FUNCTION, "Arn"]}:
            return {"Ref": f"{FUNCTION}.Alias"}
        return {name: _through_the_alias(each) for name, each in value.items()}
    return value
