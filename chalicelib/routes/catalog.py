"""The catalog over HTTP: pipelines, their runs with facts, one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

from chalice.app import NotFoundError, Response

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.access.patterns import ANY, matches
from chalicelib.access.principal import Principal
from chalicelib.catalog.recent import OUTCOMES, RecentQuery
from chalicelib.catalog.runs import MAX_MS, RunRow
from chalicelib.composition import Services
from chalicelib.errors import InvalidInputError, ObjectNotFoundError
from chalicelib.explanation.explanation import explanation_of
from chalicelib.ports import SUCCEEDED, Run, RunEnd
from chalicelib.routes import gate
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.catalog_models import (
    DEFAULT_BUCKETS,
    DEFAULT_LIMIT,
    DEFAULT_MATCHES,
    HISTORY_RUNS,
    MAX_BUCKETS,
    MAX_HISTORIES,
    MAX_LIMIT,
    MAX_LINE,
    MAX_NAME_CHARS,
    ExplainingLine,
    MatchingLines,
    PipelineEntry,
    PipelineEntryPage,
    PipelineHistories,
    PipelineHistory,
    RecentRun,
    RecentRunPage,
    RunDetails,
    RunExplanation,
    RunFacts,
    RunFactsPage,
    RunHistogram,
    RunResult,
)
from chalicelib.routes.cursors import decrypt_cursor, encrypt_cursor
from chalicelib.routes.parameters import boolean_parameter, integer_parameter
from chalicelib.routes.queries import moment_ms
from chalicelib.routes.responses import json_response
from chalicelib.routes.run_links import link_of
from chalicelib.runlog.artifact import find_artifact
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.choice import RUN_LOG
from chalicelib.runlog.grep import MAX_MATCHES, GrepRequest
from chalicelib.runlog.histogram import histogram
from chalicelib.runlog.layout import checked_fqn
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.missing_segments import lost_lines
from chalicelib.runlog.pipeline_listing import PipelineQuery

_THREADS = 8


def pipelines(request: ApiRequest) -> Response:
    """Matching pipelines that the principal may read, by name, each with its newest run. One to ``MAX_LISTS`` LIST requests, and a query per
    returned pipeline."""
    gate.require_any_scope("pipelines", Scope.LOGS_READ)
    services, who, query = composition.services(), gate.principal(), request.query
    prefix, contains = _part_of_name(query, "prefix"), _part_of_name(query, "contains")
    bound_to = ("pipelines", prefix, contains)
    after = decrypt_cursor(query.get("cursor") or "", (Scope.LOGS_READ,), *bound_to)
    page = services.pipelines.page(_pipeline_query(who, prefix, contains), _limit(query), after)
    with ThreadPoolExecutor(_THREADS) as threads:
        newest = threads.map(lambda fqn: services.runs.newest(fqn, 1, None).rows, page.names)
        now_ms = services.clock.now_ms()
        entries = [
            PipelineEntry(fqn=fqn, last=run_facts(rows[0], now_ms) if rows else None)
            for fqn, rows in zip(page.names, newest, strict=True)
        ]
    gate.record_names(each["fqn"] if each["last"] is None else _name(each["fqn"], each["last"]["runId"]) for each in entries)
    cursor = None if page.after is None else encrypt_cursor(page.after, (Scope.LOGS_READ,), *bound_to)
    return json_response(PipelineEntryPage(pipelines=entries, cursor=cursor))


def recent_runs(request: ApiRequest) -> Response:
    """Runs of all pipelines that the principal may read, by last activity, newest first. At most four rounds of one query per outcome (64 more
    if running runs are requested), and a read of rows."""
    gate.require_any_scope("runs", Scope.LOGS_READ)
    services, who, query = composition.services(), gate.principal(), request.query_joining("outcome")
    pattern, contains = _part_of_name(query, "fqn"), _part_of_name(query, "contains")
    outcomes, since_ms = _outcomes(query), _since_ms(query)
    bound_to = ("runs", pattern, ",".join(outcomes), query.get("since") or "", contains)
    after = decrypt_cursor(query.get("cursor") or "", (Scope.LOGS_READ,), *bound_to)

    def may_see(run: Run) -> bool:
        is_match = matches(pattern or ANY, run.fqn) and any(contains.lower() in each.lower() for each in (run.fqn, run.run_id))
        return is_match and who.may(Scope.LOGS_READ, run.fqn)

    now_ms = services.clock.now_ms()
    page = services.recent.page(RecentQuery(outcomes, since_ms, may_see), now_ms, _limit(query), after)
    cursor = None if page.after is None else encrypt_cursor(page.after, (Scope.LOGS_READ,), *bound_to)
    listed = [RecentRun(fqn=row.run.fqn, **run_facts(row, now_ms)) for row in page.rows]
    gate.record_names(_name(each["fqn"], each["runId"]) for each in listed)
    return json_response(RecentRunPage(runs=listed, cursor=cursor))


def histories(request: ApiRequest) -> Response:
    """The newest results of several pipelines. One query for each that the principal may read; others are returned as if they had no run."""
    gate.require_any_scope("runs", Scope.LOGS_READ)
    services, who = request.services, gate.principal()
    fqns = [checked_fqn(each) for each in dict.fromkeys(request.query_values.get("fqn", ()))]
    if not 1 <= len(fqns) <= MAX_HISTORIES:
        raise InvalidInputError(f"fqn must be given 1 to {MAX_HISTORIES} times count={len(fqns)}")
    now_ms = services.clock.now_ms()

    def history(fqn: str) -> PipelineHistory:
        rows = services.runs.newest(fqn, HISTORY_RUNS, None).rows if who.may(Scope.LOGS_READ, fqn) else ()
        return {"fqn": fqn, "runs": [_result(row, now_ms) for row in rows]}

    with ThreadPoolExecutor(_THREADS) as threads:
        listed = list(threads.map(history, fqns))
    gate.record_names(_name(each["fqn"], run["runId"]) for each in listed for run in each["runs"])
    return json_response(PipelineHistories(pipelines=listed))


def _name(fqn: str, run_id: str) -> str:
    return f"{fqn}/{run_id}"


def _result(row: RunRow, now_ms: int) -> RunResult:
    facts = run_facts(row, now_ms)
    return {
        "runId": facts["runId"],
        "outcome": facts["outcome"],
        "startedMs": facts["startedMs"],
        "durationMs": facts["durationMs"],
    }


def runs(request: ApiRequest) -> Response:
    """The runs of a pipeline, newest first."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    services, fqn = request.services, checked_fqn(request.names["fqn"])
    page = services.runs.newest(fqn, _limit(request.query), request.query.get("cursor") or None)
    gate.record_names(_name(fqn, row.run.run_id) for row in page.rows)
    now_ms = services.clock.now_ms()
    return json_response(RunFactsPage(runs=[run_facts(row, now_ms) for row in page.rows], cursor=page.cursor))


def run_facts(row: RunRow, now_ms: int) -> RunFacts:
    """A run in a response at ``now_ms``."""
    start, end = row.start, row.end
    return {
        "runId": row.run.run_id,
        "status": row.status,
        "end": row.seal or None,
        "lines": row.lines,
        "bytes": max(row.bytes, row.compacted_bytes),
        "startedMs": row.started_ms,
        "lastAppendMs": row.ended_ms,
        "lastHeartbeatMs": row.alive_ms or None,
        "durationMs": row.duration_ms(now_ms),
        "complete": row.status == "finalized",
        "pendingBytes": row.pending_bytes,
        "outcome": row.outcome_at(now_ms),
        "silentSinceMs": row.silent_since_ms(now_ms),
        "exitCode": end.exit_code if end else None,
        "signal": (end.signal if end else "") or None,
        "exception": (end.exception if end else "") or None,
        "failedStep": (end.step if end else "") or None,
        "lostLines": end.lost_lines if end else 0,
        "attempt": start.attempt if start else 1,
        "firstRunId": start.first_run_id if start else row.run.run_id,
        "host": (start.host if start else "") or None,
        "command": (start.command if start else "") or None,
        "zone": row.zone or None,
        "explanation": next(iter(_recorded_candidates(row)), None),
    }


def _recorded_candidates(row: RunRow) -> Sequence[ExplainingLine]:
    """Of a run that succeeded, none: one that was asked for explains no failure."""
    explanation = explanation_of(row.explanation) if row.is_explained and row.outcome_at(0) != SUCCEEDED else None
    return _candidates(explanation.candidates) if explanation else ()


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> list[ExplainingLine]:
    return [
        {
            "line": each["line"],
            "text": each["text"],
            "rule": each["rule"],
            "family": each["family"] or None,
            "score": each["score"],
        }
        for each in candidates
    ]


def run(request: ApiRequest) -> Response:
    """One run, by one read of its row. Reads S3 for a run without a row, for lost lines of a run that is not finalized, for a seal that
    the row lacks, and for its log browser while another one is configured. Raises NotFoundError."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    services, run = request.services, request.run
    row = services.runs.get(run) or _row_from_objects(services, run)
    if row is None:
        raise NotFoundError(f"there is no such run run={run.fqn}/{run.run_id}")
    if row.is_seal_unknown:
        row = _with_seal(services, row)
    lost = 0 if row.status == "finalized" else lost_lines(services.compactor, services.writer.tails, run)
    facts = run_facts(row, services.clock.now_ms())
    link = link_of(services.settings.run_links, run.fqn, facts["firstRunId"])
    choice = services.events.choice_of(run)
    return json_response(
        RunDetails(
            **facts,
            lost=lost,
            candidates=list(_recorded_candidates(row)),
            method=choice.method,
            browser=choice.browser,
            orchestratorUrl=link,
        )
    )


def explanation(request: ApiRequest) -> Response:
    """Lines that may explain why a run failed: recorded ones, or found now in the end of the log. Raises NotFoundError."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    run = request.run
    found = request.services.explainer.explain(run)
    if found is None:
        raise NotFoundError(f"there is no such run run={run.fqn}/{run.run_id}")
    from chalicelib.explanation.rules import about  # lists of runs do not need the rules, which are slow to import

    document: RunExplanation = {
        "candidates": [{**line, "about": about(line["rule"])} for line in _candidates(found.explanation.candidates)],
        "fromLine": found.explanation.from_line,
        "complete": found.is_complete,
        "streaming": found.is_open,
    }
    return json_response(document)


def _row_from_objects(services: Services, run: Run) -> RunRow | None:
    """The row of a run, derived from its objects: start and last segment. A GET, a query, a LIST, and a HEAD or another LIST; for an ended
    run one more HEAD."""
    start, tail = read_start(services.store, services.layout, run), services.writer.tails.find(run)
    if not tail.exists and start is None:
        return None
    appended_ms, end = tail.appended_ms or (start.registered_ms if start else 0), _end_of(services, run, tail)
    return RunRow(
        run,
        segments=tail.sequence,
        lines=tail.line,
        bytes=tail.byte,
        epoch=tail.epoch,
        seal=tail.seal,
        started_ms=start.started_ms if start else (end.ended_ms if end else 0) or appended_ms,
        last_append_ms=appended_ms,
        start=start,
        end=end,
        segment_zone=tail.zone,
    )


def _with_seal(services: Services, row: RunRow) -> RunRow:
    """The row completed from the log's seal. Clients stop polling once a run is finalized, so its outcome must be correct by then. One HEAD,
    two if the seal was deleted."""
    with suppress(ObjectNotFoundError):
        seal = services.writer.tails.segment(row.run, row.final_segments - 1)
        return replace(row, seal=seal.reason, end=seal.end, last_append_ms=max(row.last_append_ms, seal.appended_ms))
    logs = find_artifact(services.store, services.layout.logs(row.run))  # the seal expires first
    return replace(row, seal=logs.reason, end=logs.end) if logs else row


def _end_of(services: Services, run: Run, tail: LogEnd) -> RunEnd | None:
    """The end in the seal, if the seal exists."""
    if not tail.seal or not tail.sequence:
        return None
    with suppress(ObjectNotFoundError):
        return services.writer.tails.segment(run, tail.sequence - 1).end
    return None


def grep(request: ApiRequest) -> Response:
    """Matching lines, from a line on."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    choice = request.services.events.choice_of(request.run)
    if choice.method != RUN_LOG:
        raise InvalidInputError(f"this log is in another store, which is not searched here browser={choice.browser}")
    query = request.query
    wanted = GrepRequest(
        query=query.get("q") or "",
        is_pattern=boolean_parameter(query, "regex"),
        ignore_case=boolean_parameter(query, "ignoreCase"),
        invert=boolean_parameter(query, "invert"),
        after=integer_parameter(query, "after", 0, 0, MAX_LINE),
        limit=integer_parameter(query, "limit", DEFAULT_MATCHES, 1, MAX_MATCHES),
    )
    result = request.services.grep.find(request.run, wanted)
    lines: MatchingLines = {
        "matches": [{"line": each.line, "text": each.text, "spans": each.spans} for each in result.matches],
        "after": None if result.after is None else str(result.after),
        "scannedLines": result.scanned_lines,
        "scannedBytes": result.scanned_bytes,
        "total": result.total,
        "invert": wanted.invert,
    }
    return json_response(lines)


def run_histogram(request: ApiRequest) -> Response:
    """Number of lines over time."""
    gate.require_run_scope(Scope.LOGS_READ, request)
    count = integer_parameter(request.query, "buckets", DEFAULT_BUCKETS, 1, MAX_BUCKETS)
    result = histogram(request.services.index, request.run, count)
    buckets = result.buckets
    counts: RunHistogram = {
        "fromMs": buckets[0].from_ms if buckets else 0,
        "toMs": buckets[-1].to_ms if buckets else 0,
        "buckets": [
            {"fromMs": each.from_ms, "toMs": each.to_ms, "line": each.line, "lines": each.lines, "errors": each.errors}
            for each in buckets
        ],
        "partial": result.is_partial,
        "clock": result.clock,
    }
    return json_response(counts)


def _pipeline_query(who: Principal, prefix: str, contains: str) -> PipelineQuery:
    """The query of the pipelines that a principal may see. Lists only the literal prefixes of its patterns."""
    beginnings = [pattern.partition("*")[0] for pattern in who.grants[Scope.LOGS_READ].patterns]
    return PipelineQuery(prefix, contains, lambda fqn: who.may(Scope.LOGS_READ, fqn), beginnings)


def _part_of_name(query: Mapping[str, str], parameter: str) -> str:
    text = query.get(parameter) or ""
    if len(text) > MAX_NAME_CHARS or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidInputError(f"{parameter} must be a string of at most {MAX_NAME_CHARS} characters length={len(text)}")
    return text


def _outcomes(query: Mapping[str, str]) -> Sequence[str]:
    """Raises InvalidInputError."""
    requested = (query.get("outcome") or ",".join(OUTCOMES)).split(",")
    if not set(requested) <= set(OUTCOMES):
        raise InvalidInputError(
            f"outcome must be one of {', '.join(OUTCOMES)}, or several with commas outcome={query['outcome'][:100]!r}"
        )
    return tuple(each for each in OUTCOMES if each in requested)


def _since_ms(query: Mapping[str, str]) -> int:
    """Raises InvalidInputError."""
    since_ms = moment_ms(query.get("since") or "0")
    if since_ms is None or not 0 <= since_ms <= MAX_MS:
        raise InvalidInputError(f"since must be milliseconds since the epoch or ISO 8601 since={query['since'][:40]!r}")
    return since_ms


def _limit(query: Mapping[str, str]) -> int:
    return integer_parameter(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
