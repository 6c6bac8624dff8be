"""The API behind an alias that CodeDeploy shifts, laid over the packaged template.

Chalice lets the gateway call the function itself, so its newest code is everybody's at once. Here each deployment publishes a version,
the gateway calls the alias, and the alias moves to the new version bit by bit; it moves back when the API's alarm rings meanwhile. SAM wants
these words as literals, no parameters; that is why it is done to the template.
"""

from __future__ import annotations

from typing import Any

FUNCTION, ALIAS, ALARM = "APIHandler", "live", "ApiErrorsAlarm"
_UNSHIFTED = "AllAtOnce"


def shift(template: dict[str, Any], how: str) -> None:
    """Let a new version of the API's function take over as CodeDeploy's configuration ``how`` says. AllAtOnce changes nothing."""
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
    """References of the function's ARN in an API's definition, as references of its alias."""
    if isinstance(value, str):
        return value.replace(f"${{{FUNCTION}.Arn}}", f"${{{FUNCTION}.Alias}}")
    if isinstance(value, list):
        return [_through_the_alias(each) for each in value]
    if isinstance(value, dict):
        if value == {"Fn::GetAtt": [FUNCTION, "Arn"]}:
            return {"Ref": f"{FUNCTION}.Alias"}
        return {name: _through_the_alias(each) for name, each in value.items()}
    return value
