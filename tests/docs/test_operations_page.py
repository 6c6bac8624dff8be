"""docs/operations.md leaves nothing out: metrics, alarms, functions."""

from __future__ import annotations

import ast

from chalicelib import observability
from docs import generate
from tests.docs.pages import DOCS, PROJECT, headings, rows, section

PAGE = DOCS / "operations.md"


def test_every_metric_that_is_recorded_is_described() -> None:
    described = {row[0].strip("`") for row in rows(section(PAGE, "Metrics"))}
    recorded = {generate.metric_names()[name] for name in _names_used()}
    assert described == recorded


def _names_used() -> set[str]:
    """Constants of observability.py that are metrics, used anywhere but in its own tables of names and units."""
    names = set(generate.metric_names())
    used: set[str] = set()
    for path in (PROJECT / "chalicelib").rglob("*.py"):
        tree = ast.parse(path.read_text())
        own = path.name == "observability.py"
        places = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)] if own else [tree]
        for place in places:
            used |= {node.id for node in ast.walk(place) if isinstance(node, ast.Name) and node.id in names}
    return used


def test_metrics_are_named_as_they_were_in_openmetadata() -> None:
    assert all(name.startswith("om_streamable_logs_") for name in generate.metric_names().values())
    assert observability.NAMESPACE in section(PAGE, "Metrics")


def test_every_alarm_has_its_paragraph() -> None:
    for name in generate.alarms():
        text = section(PAGE, name).strip()
        assert 150 < len(text) < 900, name
    assert [heading for heading in headings(PAGE) if heading.endswith("Alarm")] == list(generate.alarms())
