"""Permissions of other accounts for the function URL, added to the template: a pair for each account that ``JobAccounts`` may name, because
CloudFormation makes no resource for each item of a list."""

from __future__ import annotations

from typing import Any

MOST_ACCOUNTS = 5
"""As the parameter's pattern allows."""
_ACTIONS: dict[str, dict[str, Any]] = {
    "CallsUrl": {"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "AWS_IAM"},
    "InvokesByUrl": {"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True},
}


def add_to(template: dict[str, Any]) -> None:
    """Add permissions and their conditions."""
    for number in range(1, MOST_ACCOUNTS + 1):
        account, condition = _account(number), f"AdmitsAccount{number}"
        is_named = {"Fn::Not": [{"Fn::Equals": [account, ""]}]}
        template["Conditions"][condition] = {"Fn::And": [{"Condition": "HasJobUrl"}, is_named]}
        for name, action in _ACTIONS.items():
            template["Resources"][f"Account{number}{name}"] = {
                "Type": "AWS::Lambda::Permission",
                "Condition": condition,
                "Properties": {"FunctionName": {"Fn::GetAtt": ["JobApi", "Arn"]}, "Principal": account, **action},
            }


def _account(number: int) -> dict[str, Any]:
    """The account of a number, from 1; empty beyond the list, which is padded for that."""
    padded = {"Fn::Join": [",", [{"Ref": "JobAccounts"}, *[""] * MOST_ACCOUNTS]]}
    return {"Fn::Select": [number - 1, {"Fn::Split": [",", padded]}]}
