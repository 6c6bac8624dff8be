"""The functions of CloudFormation's templates, evaluated with all conditions true, or all false."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NO_VALUE = {"Ref": "AWS::NoValue"}


@dataclass(frozen=True, slots=True)
class Intrinsics:
    """``value_of``: of a parameter, a resource (as Ref), or ``Resource.Attribute``. ``conditions``: what every condition is."""

    value_of: Callable[[str], Any]
    conditions: bool

    def of(self, value: Any) -> Any:
        """The value, without functions. Raises KeyError for an unknown function."""
        value = self._chosen(value)
        if isinstance(value, list):
            return [self.of(each) for each in value if self._chosen(each) != NO_VALUE]
        if not isinstance(value, dict):
            return value
        (first, *more) = [*value, ""]
        if more == [""] and (first == "Ref" or first.startswith("Fn::")):
            return self._call(first, value[first])
        return {name: self.of(each) for name, each in value.items() if self._chosen(each) != NO_VALUE}

    def _chosen(self, value: Any) -> Any:
        while isinstance(value, dict) and list(value) == ["Fn::If"]:
            value = value["Fn::If"][1 if self.conditions else 2]
        return value

    def _call(self, function: str, argument: Any) -> Any:
        match function:
            case "Ref":
                return self.value_of(argument)
            case "Fn::GetAtt":
                return self.value_of(argument if isinstance(argument, str) else ".".join(argument))
            case "Fn::Sub":
                text, own = (argument, {}) if isinstance(argument, str) else argument
                return re.sub(r"\$\{([^!}]+)\}", lambda found: self._text(found[1], own), text).replace("${!", "${")
            case "Fn::Join":
                return argument[0].join(map(str, self.of(argument[1])))
            case "Fn::Split":
                return self.of(argument[1]).split(argument[0])
            case "Fn::Select":
                return self.of(argument[1])[int(argument[0])]
        raise KeyError(function)

    def _text(self, name: str, own: dict[str, Any]) -> str:
        return str(self.of(own[name]) if name in own else self.value_of(name))
