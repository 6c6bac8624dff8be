"""``python -m docs.generate``: write the documents' tables that follow from the code; ``--check`` (in ``make check``) compares them.

A table is between ``<!-- generated: NAME -->`` and ``<!-- generated: end -->``. Descriptions that the code does not have, such as those of metrics,
are in this module; a missing description is an error, so additions to the code need one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args

import yaml
from annotated_types import Ge
from chalice.app import ChaliceViewError, MethodNotAllowedError
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import app
from bench import figures
from chalicelib import observability, ports, response_size, routes
from chalicelib.archive import contents, uploads
from chalicelib.catalog import file_ids, file_state, metadata, search
from chalicelib.coordination import partition, worker_pool
from chalicelib.coordination import settings as coordination
from chalicelib.coordination.metrics import Metric
from chalicelib.events import sidecar_bundle, step_log
from chalicelib.events import text as event_text
from chalicelib.events.codecs import parts
from chalicelib.explanation import explanation, families, ranking, run_explainer
from chalicelib.ingestion import run_files
from chalicelib.lines import field_names, formats
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.masking import token_formats
from chalicelib.routes import (
    archive_queries,
    budgets,
    chalice_adapter,
    logs,
    openapi,
    openapi_archive,
    operations,
    responses,
)
from chalicelib.runlog import compaction, finalization, layout, page, position, reader
from chalicelib.settings import Settings
from docs import costs, http_api

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
_VALUE = re.compile(r"(<!-- value: ([a-z-]+) -->)([^<]*)(<!-- value: end -->)")
_size = http_api.size
UNREAD_FORMATS = {
    "CEF": "CEF:0|Example|Orders|1.0|100|Load failed|8|src=192.0.2.7",
    "IIS (W3C extended)": "2026-11-21 03:12:45 192.0.2.7 GET /orders - 443 - 198.51.100.4 curl/8.5.0 - 500 0 0 15",
    "PostgreSQL's csvlog": '2026-11-21 03:12:45.123 UTC,"etl","orders",1234,"[local]",6920,1,"SELECT",,3/7,0,ERROR,42P01,"no such table"',
    "Db2's db2diag.log": "2026-11-21-03.12.45.123456+060 E1234A500 LEVEL: Error",
    "Oracle's alert log": "ORA-00600: internal error code, arguments: [x]",
    "load balancers of AWS": 'https 2026-11-21T03:12:45.123456Z app/orders/1 192.0.2.7:4711 10.0.0.1:80 0.000 0.001 0.000 502 502 34 366 "GET https://x:443/ HTTP/1.1"',
    "Windows events in XML": '<Event xmlns="x"><System><Level>2</Level><TimeCreated SystemTime="2026-11-21T03:12:45Z"/></System></Event>',
    "Go's goroutine dumps": "goroutine 1 [running]:",
}  # fmt: skip
_EXAMPLES_US = 1_795_230_765_000_000
"""The time of the examples of log formats: 2026-11-21 03:12:45 UTC."""
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n)(.*?)(<!-- generated: end -->)", re.DOTALL)

STATUSES = {
    400: ("the request is invalid: no JSON, broken gzip, a name that cannot be stored, an invalid cursor, key or file metadata",
          "fix the request"),
    401: ("missing or invalid credentials: expired, of another issuer or audience, signed with an unknown key", "get a token, send it as `Authorization: Bearer`"),
    403: ("the caller has no permission for this name, or a firewall rejects the request", "ask the operator for the scope that `message` names"),
    404: ("there is no such path, file or partition of work; a download of a run without lines", "check the path"),
    405: ("there is no such method on this path", "see the header `Allow`"),
    409: ("an append to a closed run, a change of a file that is a run's log; nothing was stored", "start another run; a run's log cannot be changed"),
    410: ("a download of a run that has expired; the message has the reason", "use a copy; to keep such runs longer, see the rules of retention"),
    413: ("the body is too large, or expands too far; a file is too large for an upload", "send smaller batches, or push the file to S3"),
    415: ("the body's type is not one of logs, or its encoding is not gzip", "send JSON, text or gzip"),
    500: ("an unexpected error, or an invalid setting; the function's log has details", "ask the operator"),
    503: ("a store is unavailable or throttles, its response was lost, or the issuer's keys cannot be read; a page or a download kept changing while it was read, a partition of work while it was written",
          "repeat the request after `Retry-After` seconds, with the same cookie or key"),
}  # fmt: skip
ARCHIVE_CODES = {
    "NoArgs": ("there are no parameters", "pass `what`, and `work_id` or `start` and `end`"),
    "NoWhat": ("`what` is missing", "pass one, several separated by commas, or a wildcard"),
    "NoWorkInterval": ("`work_id`, `start` and `end` are all missing", "pass `work_id`, or `start` and `end`"),
    "InvalidWorkInterval": ("`work_id` with a time, `start` without `end`, `end` without `start`, or `start` after `end`", "pass `start` and `end`, in order; with `work_id`, also `combine=true`"),
    "InvalidTime": ("a time is empty, has an unknown form, or is not in the years 1 to 9999", "pass ISO 8601 or a number"),
    "InvalidCursor": ("the cursor is not one of this server, or is one of another query", "omit it to read from the start; use `next` unchanged"),
    "TooManyNames": ("the names match too many sources", "request fewer at once"),
    "InvalidOrder": ("`order` is neither `oldest` nor `newest`", "pass one of them"),
    "InvalidMetadata": ("a field is missing or wrong, the file spans too many days, or the document is too large", "see `message`, which names the field"),
    "InvalidLookback": ("`lookback` is not a whole number of days", "pass one"),
    "NoSuchFile": ("there is no such file, no latest file within `lookback`, or an upload that is not checked yet or was rejected", "see `detail`, if there is one"),
    "NotChangeable": ("the file is the log of a run", "none: the log expires with its run"),
    "TooLarge": ("the file is larger than an upload may be", "push it with the datalake client"),
    "Unavailable": ("a store is unavailable or throttles, or the file kept changing", "repeat the request after `Retry-After` seconds"),
}  # fmt: skip
METRICS = {
    "LOG_SHIPMENT_MS": "time from receiving an append to answering it, for appends that stored something",
    "LOGS_SENT": "appends that stored something, repeats included",
    "LOGS_FAILED": "appends answered with an error, of the client or of the server",
    "BATCH_SIZE_LINES": "lines in each batch",
    "S3_READ_LATENCY_MS": "time of each GET, HEAD and LIST; the sample count is the number of requests",
    "S3_WRITE_LATENCY_MS": "time of each PUT, DELETE and step of a multipart upload",
    "S3_ERRORS": "S3 calls that failed or whose response was lost; a false condition is not an error",
    "PENDING_FLUSH_BYTES": "bytes of a run that are only in segments: before the schedule processes the run, and 0 after success",
    "PENDING_FLUSH_SEGMENTS": "the same, in segments",
    "CONSECUTIVE_FLUSH_FAILURES": "consecutive failures of the work on one run, recorded at each failure",
    "FLUSH_ALERTS": "failures of runs that have failed at least `pendingFlushAlertAfterFailures` times in a row",
    "FLUSH_UPLOADED_BYTES": "bytes that a compaction or finalization uploaded to S3",
    "FLUSH_COPIED_BYTES": "bytes that S3 copied server-side for a compaction or finalization",
    "RUNS_FINALIZED": "runs whose `logs.txt` a schedule wrote or saw for the first time",
    "RUNS_EXPLAINED": "failed and lost runs whose log the schedule searched for the cause",
    "SIDECARS_BUNDLED": "sidecars of ended runs that the schedule moved to bundles",
    "FLUSH_MS": "time to compact and finalize one run",
    "CATALOG_REQUESTS": "requests to DynamoDB, retries included",
    "MASKED_SECRETS": "masked secrets; each shape also has a metric of its own, for example `…_masked_secrets_jwt` ([masking](masking.md))",
    "REPORTS_PUBLISHED": "requests to SNS, retries included",
    "ACCESS_REFUSED": "refused requests: no identity (401) or no permission (403); the audit line says which",
}
COORDINATION_METRICS = {
    Metric.CREATED: "partitions created for due runs; a run that already has one is not counted",
    Metric.COMPLETED: "completed partitions, and partitions that were set aside",
    Metric.CLOSED: "partitions whose work failed and will be retried",
    Metric.ACQUIRED: "leases taken",
    Metric.NONE_ACQUIRED: "attempts without a partition to acquire, including the last attempt of each thread",
    Metric.RELEASED: "leases returned because their work was not started or not finished in time",
    Metric.SUPPLIER_INVOCATIONS: "lookups of due runs in the catalog: one per tick",
    Metric.STATES_SAVED: "states saved: here one per failure, with its error",
    Metric.NOT_FOUND: "writes to partitions that no longer existed",
    Metric.NOT_OWNED: "writes to a partition that another worker owns: lost leases",
    Metric.SAVE_STATE_ERRORS: "states that the table rejected although the lease was valid",
    Metric.CLOSE_ERRORS: "the same for closing",
    Metric.COMPLETE_ERRORS: "the same for completing",
}
_TYPES = {str: "text", int: "whole number", bool: "`true` or `false`", timedelta: "ISO-8601 duration"}
FUNCTIONS = {
    "api_handler": "API Gateway, every path",
    "authorize": "API Gateway if `Auth` is `jwt`, for a token that it has not seen for 5 min",
    "ingest": "the queue of S3 notifications, up to 10 messages at once",
    "compact": "EventBridge, every `partialFlushIntervalMinutes`",
    "sweep": "EventBridge, every `cleanupIntervalMinutes`",
    "pipelines": "EventBridge, every `PipelinesIntervalMinutes`",
}


class _CloudFormation(yaml.SafeLoader):
    """Reads ``!Ref X`` as ``{"Ref": "X"}`` and ``!Sub x`` as ``{"Sub": "x"}``."""


def _function(loader: _CloudFormation, name: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    assert isinstance(node, yaml.SequenceNode)
    return {name: loader.construct_sequence(node, deep=True)}


_CloudFormation.add_multi_constructor("!", _function)


@cache
def template() -> dict[str, Any]:
    """``infra/template.yaml``."""
    loaded: dict[str, Any] = yaml.load((PROJECT / "infra" / "template.yaml").read_text(), _CloudFormation)
    return loaded


@cache
def statuses() -> set[int]:
    """Every error status that a client can receive: of the table of answers, of Chalice's errors that routes raise, and of the gateway."""
    found = {status for _, status in responses._STATUS} | {500, MethodNotAllowedError.STATUS_CODE}
    for module in pkgutil.iter_modules(routes.__path__, routes.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, ChaliceViewError) and value is not ChaliceViewError:
                found.add(value.STATUS_CODE)
    gateway = template()["Resources"]["RestAPI"]["Properties"]["GatewayResponses"].values()
    return found | {response["StatusCode"] for response in gateway}


def metric_names() -> dict[str, str]:
    """Metric names in observability.py, by the name of their constant."""
    return {
        name: value
        for name, value in vars(observability).items()
        if isinstance(value, str) and not name.startswith("_") and value.startswith(observability._PREFIX)
    }


def alarms() -> dict[str, dict[str, Any]]:
    """The template's alarms by logical name."""
    resources = template()["Resources"].items()
    return {name: resource["Properties"] for name, resource in resources if resource.get("Type") == "AWS::CloudWatch::Alarm"}


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _counted(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return f"{_table(head, rows)}\n\n{costs.counted_at()}"


def _errors() -> str:
    return http_api.table(("status", "when", "what to do"), ((str(status), *STATUSES[status]) for status in sorted(statuses())))


def _archive_errors() -> str:
    rows = ((f"`{code}`", str(status), *ARCHIVE_CODES[code]) for code, (status, _, _) in openapi_archive.ERRORS.items())
    return http_api.table(("code", "status", "when", "what to do"), rows)


def _operations(document: str) -> str:
    return http_api.sections()[document]


def _metrics() -> str:
    named = metric_names().items()
    rows = ((f"`{name}`", getattr(observability._UNITS.get(name), "value", "Count"), METRICS[constant]) for constant, name in named)
    return _table(("metric", "unit", "meaning"), rows)


def _coordination_metrics() -> str:
    return _table(("name", "count of"), ((f"`{metric}`", COORDINATION_METRICS[metric]) for metric in Metric))


def _coordination_settings() -> str:
    return _table(("setting", "type", "default", "meaning"), _rows_of(coordination.CoordinationSettings, ""))


def _rows_of(model: type[BaseModel], above: str) -> Iterator[tuple[str, str, str, str]]:
    """A row for each field; the fields of a group follow it."""
    for name, field in model.model_fields.items():
        (kind,) = {each for each in get_args(field.annotation) or (field.annotation,) if each is not type(None)}
        if issubclass(kind, BaseModel):
            yield f"`{above}{name}`", "group", "", field.description or ""
            yield from _rows_of(kind, f"{above}{name}.")
        else:
            yield f"`{above}{name}`", _type_of(kind, field), _default_of(field), field.description or ""


def _type_of(kind: type, field: FieldInfo) -> str:
    return ", ".join([_TYPES[kind], *(f"at least {bound.ge}" for bound in field.metadata if isinstance(bound, Ge))])


def _default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    return "" if field.default in (None, "") else f"`{json.dumps(field.default)}`"


def _coordination_permissions() -> str:
    document = {"Version": "2012-10-17", "Statement": [partition.permissions("REGION", "ACCOUNT", "TABLE")]}
    return f"```json\n{json.dumps(document, indent=2)}\n```"


def _functions() -> str:
    registered = {
        "api_handler",
        *(door.name for door in app.app.builtin_auth_handlers),
        *(event.name for event in app.app.event_sources),
    }
    assert set(FUNCTIONS) == registered, "a function without a description"
    told = template()
    rows = []
    for name, called_by in FUNCTIONS.items():
        each = told["Resources"]["APIHandler" if name == "api_handler" else name.capitalize()]["Properties"]
        rows.append((f"`{name}`", called_by, f"{each['Timeout']} s", _memory(each["MemorySize"], told["Parameters"])))
    return _table(("function", "called by", "timeout", "memory"), rows)


def _memory(size: int | dict[str, str], parameters: dict[str, Any]) -> str:
    if isinstance(size, int):
        return f"{size} MB"
    return f"`{size['Ref']}`, {parameters[size['Ref']]['Default']} MB"


def _log_formats() -> str:
    clock = TimestampParser(reference_us=_EXAMPLES_US)
    rows = []
    for each in formats.FORMATS:
        parsed = each.bind(clock)(each.example)
        assert parsed is not None, each.name
        rows.append((f"`{each.name}`", _code(each.example), parsed.level or "", _code(parsed.logger or ""), _code(parsed.message)))
    return _table(("format", "an example", "level", "logger", "message"), rows)


def _json_producers() -> str:
    def row(name: str, each: field_names.Producer) -> tuple[str, ...]:
        signature = " ".join(f"`{name}`" for name in sorted(each.has))
        others = ", one of " + " ".join(f"`{name}`" for name in sorted(each.any_of)) if each.any_of else ""
        numbers = ", ".join(f"`{name}`" for name, _ in each.numbers)
        return name, signature + others, "data, no log lines" if each.is_data else numbers

    rows = (row(name, each) for name, each in field_names.PRODUCERS.items())
    return _table(("records of", "which have", "whose numbers are levels"), rows)


def _unread_formats() -> str:
    read = formats.ANY.reader()
    rows = []
    for name, example in UNREAD_FORMATS.items():
        parsed = read(example)
        rows.append((name, _code(example), "the time" if parsed is not None and parsed.timestamp is not None else "nothing"))
    return _table(("format", "an example", "what is read"), rows)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|").replace("\t", "⇥") + "`" if text else ""


def _figures(table_: str) -> str:
    return figures.markdown(figures.load()[table_])


def _alarms() -> str:
    rows = []
    for name, alarm in alarms().items():
        limit = alarm["Threshold"]
        more = "≥" if "OrEqual" in alarm["ComparisonOperator"] else ">"
        minutes = alarm["Period"] * alarm["EvaluationPeriods"] // 60
        threshold = f"`{limit['Ref']}`" if isinstance(limit, dict) else limit
        rows.append(
            (f"[{name}](#{name.lower()})", f"`{alarm['MetricName']}`", f"{alarm['Statistic']} {more} {threshold}", f"{minutes} min")
        )
    return _table(("alarm", "metric", "when", "for"), rows)


def _parameters() -> str:
    """Parameters that are no settings: those are in docs/configuration.md."""
    settings = {"".join(word.capitalize() for word in field.split("_")) for field in Settings.model_fields}
    rows = []
    for name, parameter in template()["Parameters"].items():
        if name in settings:
            continue
        default = parameter.get("Default")
        shown = "(required)" if default is None else f"`{default}`" if default != "" else ""
        rows.append((f"`{name}`", shown, parameter["Description"]))
    return _table(("parameter", "default", "meaning"), rows)


def _limits() -> str:
    room = layout.MAX_KEY_BYTES - layout._LONGEST_SUFFIX
    rows: list[tuple[str, object]] = [
        ("request body", "10 MB at API Gateway, 6 MB in the Lambda event (4.5 MB of a body passed as base64)"),
        ("FQN and run id together, percent-encoded, with the prefix", f"{room} bytes (an S3 key has at most {layout.MAX_KEY_BYTES})"),
        ("segments of a run", f"{ports.MAX_SEQUENCE + 1:,}"),
        ("bytes of a page", f"{_size(page.RAW_BYTES)} of log, {_size(response_size.RESPONSE_BYTES)} of response; "
                            "a longer line is truncated in the page, not in the log"),
        ("inline download", f"up to {_size(reader.INLINE_BYTES)} of UTF-8, if it fits the response once escaped"),
        ("link of a download", f"valid for {logs._LINK_AGE_S // 60} min"),
        ("position accepted without a look at S3", f"younger than {position.YOUNG_MS // 1000} s"),
        ("cookie", f"kept by clients for {logs.COOKIE_AGE_S // 3600} h"),
        ("deletion of a compacted segment", f"at least {compaction.RETIRE_AFTER_MS // 60_000} min after it was written"),
        ("work done by a close request", f"up to {_size(finalization.INLINE_UPLOADED_BYTES)} uploaded, {_size(finalization.INLINE_COPIED_BYTES)} copied, "
                                     f"{finalization.INLINE_SEGMENTS:,} segments; the schedule does the rest"),
        ("log searched for what explains a failure", f"its last {_size(explanation.REQUEST_BYTES)} by a request, {_size(run_explainer.MAX_LOG_BYTES)} by the schedule"),
        ("response of a step's log", f"{_size(event_text.ANSWER_BYTES)} of text; up to {_size(step_log.MAX_READ_BYTES)} in {step_log.MAX_READS} ranges are read for it, so a step whose lines are scattered gets less text"),
        ("objects with event data of an ended run", f"bundles of up to {_size(sidecar_bundle.BUNDLE_BYTES)} and {sidecar_bundle.MAX_SIDECARS:,} batches; not batches with more than {_size(compaction.BUNDLED_BYTES)}, compressed, and not of runs with fewer than {compaction.BUNDLE_FROM} batches"),
        ("binary body types", ", ".join(f"`{each}`" for each in chalice_adapter.BINARY_TYPES)),
        ("files of a page", search.MAX_PAGE),
        ("rows read for a page without a match", f"{search.MAX_ROWS:,}; then the page ends early, with `next`"),
        ("sources (`what` and `where`) searched by one request of the archive", f"{search.MAX_INDEXES}, after wildcards are expanded"),
        ("`lookback`", f"{archive_queries.MAX_LOOKBACK_DAYS:,} days at most"),
        ("calendar days that a file spans", metadata.MAX_DAYS),
        ("metadata document of a file", f"{metadata.MAX_DOCUMENT_BYTES:,} bytes of JSON (S3 allows 2 KB, names included); `what` and `where` 256 characters each"),
        ("id of a file", f"{file_ids.MAX_ID_BYTES} bytes of UTF-8 without control characters; in URLs percent-encoded, a slash too"),
        ("inline contents of a file", f"up to {contents.MAX_INLINE_BYTES:,} bytes of UTF-8 once escaped; otherwise a link, valid for "
                                       f"{contents._LINK_AGE_S // 60} min"),
        ("upload without credentials", f"up to {_size(uploads.MAX_BYTES)}, in parts of {_size(uploads.PART_BYTES)} if it is larger than one; its links are valid for "
                                       f"{uploads.EXPIRES_S // 60} min"),
        ("run log hashed when it becomes a file", f"up to {_size(run_files.MAX_HASHED_BYTES)}"),
        ("record of a deleted file", f"kept for {file_state.FileState.DELETED_TTL_S // 86_400} days"),
        ("path segments", f"{operations._MAX_GATEWAY_SEGMENTS}, slashes of the FQN counted; API Gateway accepts more in the last one"),
    ]  # fmt: skip
    return _table(("limit", "value"), rows)


def _budgets() -> str:
    """Operations with equal limits share a row; those without a body come last, without their names."""
    same: dict[budgets.Budget, list[str]] = {}
    for each in operations.OPERATIONS:
        same.setdefault(each.budget, []).append(f"`{each.method} {each.path}`")
    without_body = budgets.Budget()
    same[without_body] = [f"all others, {len(same.pop(without_body))} of them"]
    rows = (
        (", ".join(names), budget.form, _size(budget.body_bytes), _growth(budget.expanded_bytes, _size),
         _values(budget), _growth(budget.items, "{:,}".format), _growth(budget.shared_bytes, _size),
         budget.streams or "-", budget.depth or "-", _size(budget.response_bytes))
        for budget, names in same.items()
    )  # fmt: skip
    return _table(("operations", "body is", "body", "unpacked", "values", "items", "shared", "appends", "depth", "response"), rows)


def _values(budget: budgets.Budget) -> str:
    values, fields = (_growth(each, "{:,}".format) for each in (budget.values, budget.fields))
    return f"{values}; protobuf: {fields}" if budget.fields.limit else values


def _names() -> str:
    rows = ((f"`{{{name}}}`", f"{limit:,}") for name, limit in budgets.NAME_CHARS.items())
    return _table(("name in a path", "characters"), rows)


def _growth(growth: budgets.Growth, text: Callable[[int], str]) -> str:
    if not growth.limit:
        return "-"
    if growth.floor == growth.limit:
        return text(growth.limit)
    return f"{text(growth.floor)}, {growth.per_byte:g} × body, {text(growth.limit)}"


def _explanation_places() -> str:
    rows = ((f"`{name}`", f"{score:g}", about) for name, (score, about) in ranking.STRUCTURE.items())
    return _table(("rule", "score", "what it names"), rows)


def _explanation_families() -> str:
    rows = ((f"`{rule.name}`", rule.family, f"{rule.score:g}", rule.about) for rule in families.RULES)
    return _table(("rule", "family", "score", "of a line that says"), rows)


def _token_formats() -> str:
    """A row for each vendor; the literal of a webhook is an address, that of other tokens a part of the secret."""
    by_vendor: dict[str, list[token_formats.TokenFormat]] = {}
    for each in token_formats.FORMATS:
        by_vendor.setdefault(each.name, []).append(each)
    rows = (
        (
            f"`{name}`",
            ", ".join(f"`{each.literal}`" for each in some),
            ", ".join(sorted({each.checksum for each in some if each.checksum})) or "-",
        )
        for name, some in sorted(by_vendor.items())
    )
    return _table(("name", "literals", "checksum"), rows)


TABLES: dict[str, Callable[[], str]] = {
    **{f"operations-{name.replace('_', '-')}": partial(_operations, name) for name in openapi.RESOURCES},
    "log-formats": _log_formats,
    "json-producers": _json_producers,
    "unread-formats": _unread_formats,
    "errors": _errors,
    "archive-errors": _archive_errors,
    "metrics": _metrics,
    "functions": _functions,
    "alarms": _alarms,
    "costs-of-a-gigabyte": lambda: _counted(*costs.of_a_gigabyte()),
    "costs-of-a-million-appends": lambda: _counted(*costs.of_a_million_appends()),
    "costs-of-a-month": lambda: _counted(*costs.of_a_month()),
    "costs-of-heartbeats": lambda: _counted(*costs.of_heartbeats()),
    "costs-of-storage": lambda: _table(*costs.of_storage()),
    **{
        f"figures-{name}": partial(_figures, name)
        for name in ("functions", "events", "pipelines", "spark", "large-run", "live", "soak")
    },
    "parameters": _parameters,
    "limits": _limits,
    "budgets": _budgets,
    "names": _names,
    "coordination-metrics": _coordination_metrics,
    "coordination-settings": _coordination_settings,
    "coordination-permissions": _coordination_permissions,
    "explanation-places": _explanation_places,
    "explanation-families": _explanation_families,
    "token-formats": _token_formats,
}


def _unfinished_uploads() -> str:
    buckets = [template()["Resources"][name]["Properties"] for name in ("Bucket", "ArchiveBucket")]
    rules = [rule for bucket in buckets for rule in bucket["LifecycleConfiguration"]["Rules"]]
    (days,) = {
        rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] for rule in rules if "AbortIncompleteMultipartUpload" in rule
    }
    return f"{days} day{'s' * (days > 1)}"


def _minutes_until_failure(number: int) -> str:
    """Time from the first failure to this one: the sum of the pauses between them."""
    pauses = (worker_pool.Backoff(number).delay(failures) for failures in range(1, number))
    return f"{sum(pauses, timedelta()) / timedelta(minutes=1):g} minutes"


VALUES: dict[str, Callable[[], str]] = {
    "unfinished-uploads": _unfinished_uploads,
    "five-failures": lambda: _minutes_until_failure(5),
    "ten-failures": lambda: _minutes_until_failure(10),
    "joined-parts": lambda: _size(parts.MAX_JOINED_BYTES),
}
"""Numbers in prose, between ``<!-- value: NAME -->`` and ``<!-- value: end -->``."""


def regenerated(text: str, page: Path) -> str:
    """The document with its tables and values generated again. Raises ValueError for a name that is not defined here."""

    def made(kind: str, known: dict[str, Callable[[], str]], name: str) -> str:
        if name not in known:
            raise ValueError(f"{page}: there is no {kind} {name}")
        return known[name]()

    text = _VALUE.sub(lambda value: f"{value[1]}{made('value', VALUES, value[2])}{value[4]}", text)
    return _BLOCK.sub(lambda block: f"{block[1]}{made('table', TABLES, block[2])}\n{block[4]}", text)


def client_masking() -> dict[Path, str]:
    """The modules with which the client masks, copies of the server's: the client is a package of its own. By path, with what they import."""
    waiting, copies = [*_MASKING_OF_THE_CLIENT], dict[Path, str]()
    while waiting:
        name = waiting.pop()
        source = (PROJECT / _MASKING / f"{name}.py").read_text()
        imported = [each for names in _IMPORTED.findall(source) for each in (names[0] or names[1]).split(", ")]
        waiting += [each for each in imported if PROJECT / _COPIES / f"{each}.py" not in copies]
        renamed = source.replace("chalicelib.masking", "runlake._redaction").replace("from ahocorasick_rs", "from runlake._words")
        copies[PROJECT / _COPIES / f"{name}.py"] = f"# Copied from {_MASKING}/{name}.py by docs.generate.\n{renamed}"
    return copies


_MASKING, _COPIES = "chalicelib/masking", "client/src/runlake/_redaction"
_MASKING_OF_THE_CLIENT = ("__init__", "fields", "mask", "shapes")
_IMPORTED = re.compile(r"from chalicelib\.masking(?:\.(\w+) import| import ([\w, ]+))")


def main() -> int:
    """Rewrite the documents and copies that differ; with ``--check`` print their names and return 1."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a document is out of date")
    is_check, changed = parser.parse_args().check, 0
    documents = {path: regenerated(path.read_text(), path) for path in sorted(DOCS.rglob("*.md"))}
    for path, new in (documents | client_masking()).items():
        if path.is_file() and path.read_text() == new:
            continue
        changed += 1
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new)
        print(f"{path.relative_to(PROJECT)}{': out of date; run python -m docs.generate' if is_check else ''}")
    return 1 if is_check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
