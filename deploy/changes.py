"""Describes the changes of a change set.

CloudFormation cannot evaluate references before it executes a change set. It therefore lists every resource that refers to a
changed one, and reports ``Conditional`` ("may be replaced") wherever a referring property could replace its resource: a change of
one variable lists dozens. But a resource that is modified in place keeps its name and its ARN, so resources that only refer to it
do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

Change = Mapping[str, Any]
_WORDS = {"True": "  REPLACED", "Conditional": "  may be REPLACED"}


def lines(changes: Iterable[Change]) -> list[str]:
    """One line for each ``ResourceChange`` with an effect, sorted, and one line that counts resources that only refer to changed
    ones."""
    by_name = {str(change["LogicalResourceId"]): change for change in changes}
    steady = _in_place(by_name)
    acting = {name: change for name, change in by_name.items() if not _only_refers(change, steady)}
    written = sorted(_line(change, may_be_replaced=name not in steady) for name, change in acting.items())
    referring = len(by_name) - len(acting)
    return written + ([f"and {referring} unchanged that refer to these"] if referring else [])


def _in_place(by_name: Mapping[str, Change]) -> frozenset[str]:
    """Resources that are modified without replacement, as far as the change set states it: only certain replacements spread along
    references."""
    steady = frozenset(
        name for name, change in by_name.items() if change["Action"] == "Modify" and change.get("Replacement") != "True"
    )
    while True:
        remaining = frozenset(name for name in steady if not _may_be_replaced(by_name[name], steady))
        if remaining == steady:
            return steady
        steady = remaining


def _may_be_replaced(change: Change, steady: frozenset[str]) -> bool:
    if change.get("Replacement") in (None, "False"):
        return False
    details = change.get("Details", ())
    if not details:
        return True  # no details
    return any(
        any(detail["Target"].get("RequiresRecreation", "Never") != "Never" for detail in of_property)
        and not _refers_to_steady(of_property, steady)
        for of_property in _by_property(details)
    )


def _only_refers(change: Change, steady: frozenset[str]) -> bool:
    details = change.get("Details", ())
    return bool(details) and change["Action"] == "Modify" and all(_refers_to_steady(each, steady) for each in _by_property(details))


def _refers_to_steady(of_property: list[Change], steady: frozenset[str]) -> bool:
    """Whether a property is listed only because it refers to resources that keep their names."""
    causes = [str(detail.get("CausingEntity", "")) for detail in of_property if detail.get("CausingEntity")]
    return (
        bool(causes)
        and all(detail.get("Evaluation") == "Dynamic" for detail in of_property)
        and all(cause.partition(".")[0] in steady for cause in causes)
    )


def _by_property(details: Iterable[Change]) -> Iterable[list[Change]]:
    def target(detail: Change) -> tuple[str, str]:
        return str(detail["Target"].get("Attribute", "")), str(detail["Target"].get("Name", ""))

    return [list(group) for _, group in groupby(sorted(details, key=target), key=target)]


def _line(change: Change, *, may_be_replaced: bool) -> str:
    scope = ", ".join(change.get("Scope", ()))
    replaced = _WORDS.get(str(change.get("Replacement")), "") if may_be_replaced else ""
    return (
        f"{change['Action']:<8}{change['LogicalResourceId']:<28}{change['ResourceType']}{replaced}{f'  ({scope})' if scope else ''}"
    )
