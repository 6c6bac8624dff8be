"""Checks the template's rules for parameters before anything is sent: CloudFormation reports only the first failed rule, and not
where to correct the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from chalicelib.events.options import problems_of_document
from chalicelib.settings import Login
from deploy.errors import DeployError


def check(template: Mapping[str, Any], parameters: Mapping[str, str], stage_file: str, region: str = "") -> None:
    """Raises DeployError with every failed assertion. ``template``: the packaged one; ``parameters``: those of the deployment, the
    rest have their defaults."""
    defaults = {name: str(each.get("Default", "")) for name, each in template["Parameters"].items()}
    values = defaults | dict(parameters) | {"AWS::Region": region}
    failed = [
        assertion["AssertDescription"]
        for rule in template.get("Rules", {}).values()
        if _holds(rule.get("RuleCondition", True), values)
        for assertion in rule["Assertions"]
        if not _holds(assertion["Assert"], values)
    ]
    if failed:
        raise DeployError(f'{" ".join(failed)} Add them to "parameters" of {stage_file}, or to PARAMS="Name=Value ..."')


def check_events(parameters: Mapping[str, str]) -> None:
    """Check ``Events`` with ``LogBrowser`` as the functions do, except whether plugins are installed. Without
    ``Events`` nothing: a stack keeps its value, which cannot be read. Raises DeployError without values."""
    if "Events" not in parameters:
        return
    if problems := list(problems_of_document(parameters["Events"], parameters.get("LogBrowser", ""))):
        raise DeployError("invalid parameter Events: " + "; ".join(problems))


def login(parameters: Mapping[str, str]) -> Login | None:
    """The parameter ``Login`` as the functions read it; None if it is empty. Raises DeployError."""
    if not (text := parameters.get("Login")):
        return None
    try:
        return Login.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise DeployError(f"invalid parameter Login: {first['msg']} field={'.'.join(map(str, first['loc']))}") from None


def _holds(condition: Any, values: Mapping[str, str]) -> bool:
    """Evaluates the condition functions that the template's rules use. Raises KeyError for any other function."""
    if isinstance(condition, bool):
        return condition
    ((function, arguments),) = condition.items()
    if function == "Fn::Equals":
        one, other = (_value(argument, values) for argument in arguments)
        return one == other
    if function == "Fn::Contains":
        texts, text = arguments
        return _value(text, values) in texts
    evaluated = [_holds(argument, values) for argument in arguments]
    return {"Fn::Not": lambda: not evaluated[0], "Fn::And": lambda: all(evaluated), "Fn::Or": lambda: any(evaluated)}[function]()


def _value(argument: Any, values: Mapping[str, str]) -> str:
    return values[argument["Ref"]] if isinstance(argument, dict) else str(argument)
