"""Limits and responses of the catalog API. Responses are typed dictionaries, because a row is served as it is stored, also if
another program damaged it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from chalicelib.catalog.recent import OUTCOMES
from chalicelib.explanation.explanation import MAX_CANDIDATES
from chalicelib.routes.schemas import Clock, Count, Cursor, one_of
from chalicelib.runlog.grep import MAX_MATCHES, MAX_SPANS, TEXT_CHARS

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
DEFAULT_MATCHES = 100
DEFAULT_BUCKETS, MAX_BUCKETS = 60, 500
MAX_LINE = 10**15
MAX_HISTORIES, HISTORY_RUNS = 20, 20
"""Pipelines of one request for histories, and runs of each."""
MAX_NAME_CHARS = 500
"""Of a part or a pattern of an FQN in a query."""


class ExplainingLine(TypedDict):
    """A line that may explain why the run failed."""

    line: Annotated[Count, Field(description="Line number, from 0.")]
    text: Annotated[str, Field(description="The line without control characters; the beginning of a long line.")]
    rule: Annotated[str, Field(description="Rule that chose the line.")]
    family: Annotated[str | None, Field(description="Known kind of failure, such as out of memory; null: none.")]
    score: Annotated[float, Field(ge=0, le=1, description="How certain the rule is.")]


class CandidateLine(ExplainingLine):
    """A line that may explain why the run failed, and its rule in words."""

    about: Annotated[str, Field(description="What the rule looks for, in words; its name if this release has no such rule.")]


class RunFacts(TypedDict):
    """A run's catalog row."""

    runId: str
    status: Annotated[
        str,
        one_of(["open", "sealed", "finalized"]),
        Field(description="open: accepts lines. sealed: ended. finalized: ended, and `logs.txt` contains the whole log."),
    ]
    end: Annotated[
        Annotated[str, one_of(["closed", "abandoned"])] | None,
        Field(description="closed: ended by its client; abandoned: ended by the sweep; null: running."),
    ]
    lines: Count
    bytes: Count
    startedMs: Annotated[Count, Field(description="Time of its start, or else of its first line, in milliseconds since the epoch.")]
    lastAppendMs: Annotated[
        Count,
        Field(
            description="Time of its end, if its client reports when that was; otherwise of its last line or its close; if the sweep ended "
            "it, of its last sign of life."
        ),
    ]
    lastHeartbeatMs: Annotated[Count | None, Field(description="Time of its last heartbeat; null: none.")]
    durationMs: Annotated[
        Count,
        Field(
            description="Time from `startedMs` to its end; of a running run until now, of a silent one until its last sign of life."
        ),
    ]
    complete: Annotated[bool, Field(description="Whether it is finalized: nothing changes anymore.")]
    pendingBytes: Annotated[Count, Field(description="Bytes that are not compacted yet.")]
    outcome: Annotated[
        str,
        one_of(OUTCOMES),
        Field(
            description="succeeded, failed, cancelled: as reported by its client with the close, or by a step or the log. silent: "
            "running, and overdue for a line or a heartbeat. lost: ended by the sweep. unknown: ended without a reported outcome."
        ),
    ]
    silentSinceMs: Annotated[Count | None, Field(description="Time of the last sign of life of a silent run; otherwise null.")]
    exitCode: Annotated[int | None, Field(description="Exit code of the command.")]
    signal: Annotated[str | None, Field(description="Signal that killed the command.")]
    exception: Annotated[str | None, Field(description="Exception that ended the run, with secrets masked.")]
    failedStep: Annotated[str | None, Field(description="Step in which the run failed.")]
    lostLines: Annotated[Count, Field(description="Number of lines that its client could not store.")]
    attempt: Annotated[int, Field(ge=1, description="Number of the attempt of `firstRunId`.")]
    firstRunId: Annotated[str, Field(description="Run id of attempt 1.")]
    host: Annotated[str | None, Field(description="Host on which it was started; null if its client does not report it.")]
    command: Annotated[str | None, Field(description="Command or function, with secrets masked.")]
    zone: Annotated[
        str | None, Field(description="Zone of times without one in its lines; null: none was stated, so they are in UTC.")
    ]
    explanation: Annotated[
        ExplainingLine | None,
        Field(
            description="Line that explains best why it failed; null: not failed, none found, or not searched yet, which happens within "
            "minutes of its end."
        ),
    ]


_CANDIDATES = Field(max_length=MAX_CANDIDATES, description="Lines that may explain why it failed, the best first.")


class RunDetails(RunFacts):
    """A run's catalog row; of a run that is not catalogued yet, the data of its start and its last segment."""

    lost: Annotated[Count, Field(description="Number of missing lines, whose segments were deleted too early.")]
    candidates: Annotated[list[ExplainingLine], _CANDIDATES]
    method: Annotated[str, Field(description="The logging method by which it is written; `runlog`: to this API.")]
    browser: Annotated[str, Field(description="The log browser that reads it; `runlog`: the log is here.")]
    orchestratorUrl: Annotated[
        str | None,
        Field(description="Address of the run in its orchestrator, by the setting `run_links`; null: no pattern matches."),
    ]


class RunFactsPage(TypedDict):
    """Runs of a pipeline, newest first."""

    runs: Annotated[list[RunFacts], Field(max_length=MAX_LIMIT)]
    cursor: Cursor


class _Named(TypedDict):
    fqn: Annotated[str, Field(description="FQN of the pipeline.")]


class RecentRun(_Named, RunFacts):
    """A run with its pipeline."""


class RecentRunPage(TypedDict):
    """Runs of all pipelines that the principal may read. A page may have fewer than `limit` entries, or none, and still have a cursor."""

    runs: Annotated[list[RecentRun], Field(max_length=MAX_LIMIT)]
    cursor: Cursor


class RunResult(TypedDict):
    """The result of a run: fields of `RunFacts`."""

    runId: str
    outcome: Annotated[str, one_of(OUTCOMES)]
    startedMs: Count
    durationMs: Count


class PipelineHistory(_Named):
    """The newest runs of a pipeline."""

    runs: Annotated[
        list[RunResult],
        Field(
            max_length=HISTORY_RUNS, description="Newest first; none if the pipeline is unknown or the principal may not read it."
        ),
    ]


class PipelineHistories(TypedDict):
    """The newest runs of each requested pipeline, in the order of the request."""

    pipelines: Annotated[list[PipelineHistory], Field(max_length=MAX_HISTORIES)]


class PipelineEntry(TypedDict):
    """A pipeline with its newest run."""

    fqn: str
    last: Annotated[RunFacts | None, Field(description="Its newest run; null if none is catalogued yet.")]


class PipelineEntryPage(TypedDict):
    """Pipelines that the principal may read, without duplicates across pages. A page may have fewer than `limit` entries, or none, and still
    have a cursor."""

    pipelines: Annotated[list[PipelineEntry], Field(max_length=MAX_LIMIT)]
    cursor: Cursor


class MatchingLine(TypedDict):
    """A matching line."""

    line: Annotated[Count, Field(description="Line number, from 0.")]
    text: Annotated[str, Field(max_length=TEXT_CHARS, description="The line; of a long line, the part around the first match.")]
    spans: Annotated[
        list[tuple[Count, Count]],
        Field(
            max_length=MAX_SPANS,
            description="Ranges of the matches in `text`: index of the first character, and of the one after the last.",
        ),
    ]


class MatchingLines(TypedDict):
    """Matching lines among those that the request searched."""

    matches: Annotated[list[MatchingLine], Field(max_length=MAX_MATCHES)]
    after: Annotated[str | None, Field(description="Line from which the next request continues; null at the end of the log.")]
    scannedLines: Count
    scannedBytes: Count
    total: Annotated[Count, Field(description="Number of lines in the log.")]
    invert: Annotated[bool, Field(description="`invert` of the request.")]


class RunExplanation(TypedDict):
    """Lines that may explain why a run failed."""

    candidates: Annotated[list[CandidateLine], _CANDIDATES]
    fromLine: Annotated[Count, Field(description="First line that was searched, from 0.")]
    complete: Annotated[bool, Field(description="Whether it is final: the run has ended, and all that is ever searched was.")]
    streaming: Annotated[bool, Field(description="Whether the run is running, so that lines may follow.")]


class HistogramBucket(TypedDict):
    """The lines of an interval."""

    fromMs: Count
    toMs: Annotated[Count, Field(description="End of the bucket, exclusive.")]
    line: Annotated[Count, Field(description="Number of its first line, from 0; if it has none, of the next line.")]
    lines: Count
    errors: Annotated[
        Count | None,
        Field(description="Number of records of level ERROR or CRITICAL, including stack traces; null: not counted."),
    ]


class RunHistogram(TypedDict):
    """Histogram of a run's lines over time."""

    fromMs: Count
    toMs: Count
    buckets: Annotated[list[HistogramBucket], Field(max_length=MAX_BUCKETS)]
    partial: Annotated[bool, Field(description="Whether lines are missing, or estimated from samples.")]
    clock: Clock
