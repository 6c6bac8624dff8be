"""Puts the API's function behind an alias that CodeDeploy shifts, in the packaged template.

Chalice lets the gateway call the function itself, so new code serves all requests at once. Here each deployment publishes a
version, the gateway calls the alias, and CodeDeploy shifts the alias gradually to the new version, and back if the API's alarm
fires. SAM requires literals here, not parameters, so the template itself is changed.
"""

from __future__ import annotations

from typing import Any

FUNCTION, ALIAS, ALARM = "APIHandler", "live", "ApiErrorsAlarm"
_UNSHIFTED = "AllAtOnce"


def shift(template: dict[str, Any], how: str) -> None:
    """Shift the API to new versions by CodeDeploy's configuration ``how``. AllAtOnce leaves the template unchanged."""
    if how == _UNSHIFTED:
        return
    resources = template["Resources"]
    resources[FUNCTION]["Properties"] |= {
        "AutoPublishAlias": ALIAS,
        "AutoPublishAliasAllProperties": True,
        "DeploymentPreference": {"Type": how, "Alarms": [{"Ref": ALARM}]},
    }
    api = resources["RestAPI"]["Properties"]
    api["DefinitionBody"] = _through_the_alias(api["DefinitionBody"])
    resources["APIHandlerInvokePermission"]["Properties"]["FunctionName"] = {"Ref": f"{FUNCTION}.Alias"}


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
