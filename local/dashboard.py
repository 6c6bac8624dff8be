"""The stack's CloudWatch dashboard, added to the packaged template: its alarms, the main figures, and a widget for each metric of
coordination and source of work. Metric names come from the modules that record them, so that none is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chalicelib import observability as figures
from chalicelib.composition import SOURCES
from chalicelib.coordination.metrics import METRIC_NAMES, metric_name

RESOURCE = "Dashboard"
Widget = dict[str, Any]
Metric = list[Any]
"""CloudWatch's array: namespace, name, dimension, dimension value, options."""
Row = tuple[int, Sequence[Widget]]
"""Height and widgets of a section; widgets wrap into further rows."""
_COLUMNS = 24
_FUNCTIONS = ("APIHandler", "Authorize", "Ingest", "Compact", "Sweep", "Pipelines")


def add_to(template: dict[str, Any]) -> None:
    """Add the dashboard to a template. Its name contains stack and region, because dashboards of an account share one namespace. Its list
    of alarms has no alarm that depends on a condition, which it could not refer to."""
    resources = template["Resources"]
    alarms = [name for name, each in resources.items() if each["Type"] == "AWS::CloudWatch::Alarm" and "Condition" not in each]
    resources[RESOURCE] = {
        "Type": "AWS::CloudWatch::Dashboard",
        "Properties": {
            "DashboardName": {"Fn::Sub": "${AWS::StackName}-${AWS::Region}"},
            "DashboardBody": {"Fn::Sub": json.dumps(body(alarms))},
        },
    }


def body(alarms: Sequence[str]) -> dict[str, Any]:
    """The dashboard's body; ``${…}`` are CloudFormation substitutions. ``alarms``: their logical names."""
    rows: list[Row] = [(3, [_alarms(alarms)]), *_section("Logs", 6, _logs()), *_section("Background work", 6, _work())]
    rows += _section("Processing pipelines", 6, _pipelines())
    rows += _section("Notifications and functions", 6, _behind())
    for source in SOURCES:
        rows += _section(
            f"Coordination: {source}", 4, [_graph(name, "Sum", _ours(metric_name(source, name))) for name in METRIC_NAMES]
        )
    return {"widgets": list(_placed(rows))}


def _section(title: str, height: int, widgets: Sequence[Widget]) -> list[Row]:
    return [(1, [{"type": "text", "properties": {"markdown": f"## {title}"}}]), (height, widgets)]


def _placed(rows: Iterable[Row]) -> Iterator[Widget]:
    """Four widgets in a row; a single one gets the full width."""
    y = 0
    for height, widgets in rows:
        width = _COLUMNS if len(widgets) == 1 else _COLUMNS // 4
        for number, widget in enumerate(widgets):
            line, x = divmod(number * width, _COLUMNS)
            yield {"x": x, "y": y + line * height, "width": width, "height": height} | widget
        y += -(-len(widgets) * width // _COLUMNS) * height


def _logs() -> list[Widget]:
    read, write = _ours(figures.S3_READ_LATENCY_MS, "read"), _ours(figures.S3_WRITE_LATENCY_MS, "write")
    return [
        _graph("Appends", "Sum", _ours(figures.LOGS_SENT, "stored"), _ours(figures.LOGS_FAILED, "not stored")),
        _graph("Append, ms", "p99", _ours(figures.LOG_SHIPMENT_MS)),
        _graph("S3, ms", "p99", read, write),
        _graph("S3, errors", "Sum", _ours(figures.S3_ERRORS)),
    ]


def _work() -> list[Widget]:
    return [
        _graph("Pending bytes of one run", "Maximum", _ours(figures.PENDING_FLUSH_BYTES)),
        _graph("Consecutive failures of one run", "Maximum", _ours(figures.CONSECUTIVE_FLUSH_FAILURES)),
        _graph("Failures above the limit", "Sum", _ours(figures.FLUSH_ALERTS)),
        _graph("Work on one run, ms", "p99", _ours(figures.FLUSH_MS)),
    ]


def _pipelines() -> list[Widget]:
    failed, off = _ours(figures.PIPELINES_FAILED, "pipelines failed"), _ours(figures.PIPELINE_HANDLERS_OFF, "handlers get nothing")
    errors, dead = _ours(figures.PIPELINE_ERRORS, "errors"), _ours(figures.PIPELINE_DEAD_LETTERS, "dead letters")
    return [
        _graph("Lag, ms", "Maximum", _ours(figures.PIPELINE_LAG_MS)),
        _graph("Lag, events", "Maximum", _ours(figures.PIPELINE_LAG_EVENTS)),
        _graph("Events", "Sum", _ours(figures.PIPELINE_EVENTS), errors, dead),
        _graph("What stands still", "Maximum", failed, off, _ours(figures.PIPELINE_PROBLEMS, "files and wheels not used")),
    ]


def _behind() -> list[Widget]:
    visible, oldest = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"
    return [
        _graph("Oldest notification, s", "Maximum", _of_queue(oldest, "IngestQueue")),
        _graph("Notifications", "Maximum", _of_queue(visible, "IngestQueue"), _of_queue(visible, "DeadLetterQueue")),
        _graph("Functions that failed", "Sum", *(_of_function("Errors", name) for name in _FUNCTIONS)),
        _graph("Throttled functions", "Sum", *(_of_function("Throttles", name) for name in _FUNCTIONS)),
        _graph("Functions, ms", "Maximum", *(_of_function("Duration", name) for name in _FUNCTIONS)),
        _graph("Refused requests", "Sum", _ours(figures.ACCESS_REFUSED)),
    ]


def _ours(name: str, label: str | None = None) -> Metric:
    return [figures.NAMESPACE, name, "service", "${AWS::StackName}", {"label": label or name}]


def _of_queue(name: str, queue: str) -> Metric:
    return ["AWS/SQS", name, "QueueName", f"${{{queue}.QueueName}}", {"label": queue}]


def _of_function(name: str, function: str) -> Metric:
    return ["AWS/Lambda", name, "FunctionName", f"${{{function}}}", {"label": function}]


def _alarms(names: Sequence[str]) -> Widget:
    return {"type": "alarm", "properties": {"title": "Alarms", "alarms": [f"${{{name}.Arn}}" for name in names]}}


def _graph(title: str, statistic: str, *metrics: Metric) -> Widget:
    shown = {"title": title, "metrics": list(metrics), "stat": statistic, "period": 300, "region": "${AWS::Region}"}
    return {"type": "metric", "properties": shown | {"view": "timeSeries", "yAxis": {"left": {"min": 0}}}}
