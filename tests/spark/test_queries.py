"""The queries of docs/dataset.md, in DuckDB and in Spark, compared with plain Python over the lines."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from bench.spark_bucket import BucketServer
from bench.stored_runs import START_MS, Bucket
from chalicelib.explanation.explainer import Explainer
from chalicelib.ports import RunEnd
from glue_jobs.build_dataset import build
from glue_jobs.dataset.building import Builder, DatasetSpec
from glue_jobs.dataset.entries import Layout
from glue_jobs.dataset.files import LocalFiles
from glue_jobs.dataset.writing import SESSION
from glue_jobs.datasource.offsets import fingerprint
from glue_jobs.datasource.options import parse_options
from tests.spark.explained_runs import record_explanation, record_finalized
from tests.support.run_catalog import InMemoryRunCatalog

PAGE = Path(__file__).parents[2] / "docs" / "dataset.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SPARK, DUCKDB, ATHENA = "Spark", "DuckDB", "Athena"
Rows = list[tuple[Any, ...]]
Query = Callable[[str], Rows]


@dataclass(frozen=True)
class Line:
    """An event of the tests' runs."""

    fqn: str
    run: str
    at: datetime
    level: str
    logger: str
    message: str

    @property
    def what(self) -> str:
        return self.fqn.replace(".", "_")

    @property
    def raw(self) -> bytes:
        stamp = f"{self.at:%Y-%m-%d %H:%M:%S},{self.at.microsecond // 1000:03d}"
        return f"{stamp} - {self.logger} - {self.level} - {self.message}\n".encode()


def day(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=UTC)


def run_of(fqn: str, run: str, at: datetime, *told: tuple[str, str, str]) -> list[Line]:
    """Events at 1.5 s, 3 s, 4.5 s, …"""
    lines = []
    for number, (level, logger, message) in enumerate(told):
        at += timedelta(milliseconds=1500 * number)
        lines.append(Line(fqn, run, at, level, logger, message))
    return lines


GOOD = ("INFO", "svc.extract", "42 rows"), ("INFO", "svc.load", "42 rows loaded"), ("INFO", "svc.load", "end")
RUNS = [
    run_of("svc.orders", "run-0", day("15T03:00"), ("INFO", "svc.load", "begin"), ("ERROR", "svc.load", "table 7 is locked")),
    run_of("svc.orders", "run-1", day("20T23:59:58"), *GOOD, ("ERROR", "svc.load", "no disk\n  at block 12")),
    run_of("svc.orders", "run-2", day("21T03:30"), *GOOD, ("ERROR", "svc.load", "table 9 is locked"), ("CRITICAL", "svc", "gave up after 3")),
    run_of("svc.orders", "run-3", day("21T04:00"), *GOOD),
    run_of("svc.stock", "run-1", day("21T03:59:59"), *GOOD, ("ERROR", "svc.load", "table 9 is locked"), ("ERROR", "svc.load", "table 8 is locked")),
    run_of("svc.stock", "run-2", day("22T03:00"), *GOOD),
]  # fmt: skip
LINES = [line for run in RUNS for line in run]
TWO_DAYS = [line for line in LINES if line.at.day in (20, 21)]
ERRORS = [line for line in LINES if line.level in ("ERROR", "CRITICAL")]


def errors_per_pipeline_and_day() -> Rows:
    groups = defaultdict(list)
    for line in ERRORS:
        if line.at.day in (20, 21):
            groups[line.what, line.at.date()].append(line.run)
    rows = [(what, on, len(runs), len(set(runs))) for (what, on), runs in groups.items()]
    return sorted(rows, key=lambda row: (-row[2], row[0], row[1]))


def runs_that_failed() -> Rows:
    ended = [(run, [line for line in run if line in TWO_DAYS]) for run in RUNS if outcome_of_last(run[-1]) == "failed"]
    rows = [(run[0].what, run[0].run, "failed", len(lines), sum(line in ERRORS for line in lines)) for run, lines in ended if lines]
    return sorted(rows)


def outcome_of_last(line: Line) -> str:
    """The outcome of the tests' runs, from their last line."""
    return "failed" if line in ERRORS else "succeeded"


def why_runs_failed() -> Rows:
    """The lines that the explainer chooses, each of them an event, with its first line of text."""
    rows = []
    for run in RUNS:
        explainer = Explainer()
        explainer.feed(b"".join(line.raw for line in run))
        starts = dict(zip(accumulate((line.raw.count(b"\n") for line in run), initial=0), run, strict=False))
        for cause in explainer.candidates(RunEnd("failed"))[:1] if outcome_of_last(run[-1]) == "failed" else ():
            line = starts[cause.line]
            if line.at.day == 21:
                rows.append((line.what, line.run, cause.family or None, cause.score, line.message.split("\n")[0]))
    return sorted(rows)


def slowest_stage() -> Rows:
    seconds: Counter[tuple[str, str]] = Counter()
    runs = defaultdict(set)
    for run in RUNS:
        steps = [line for line in run if line in TWO_DAYS]
        for line, following in pairwise(steps):
            seconds[line.what, line.logger] += int((following.at - line.at) / timedelta(milliseconds=1))  # type: ignore[assignment]
            runs[line.what, line.logger].add(line.run)
    return sorted([(*key, len(runs[key]), ms / 1000) for key, ms in seconds.items()], key=lambda row: -row[3])


def new_error_messages_since_yesterday() -> Rows:
    said = [(line.what, line.at.day, re.sub(r"\d+", "#", line.message.split("\n")[0])) for line in ERRORS]
    known = {(what, message) for what, on, message in said if 14 <= on < 21}
    new = Counter((what, message) for what, on, message in said if on == 21 and (what, message) not in known)
    return sorted([(*key, times) for key, times in new.items()], key=lambda row: (-row[2], row[0], row[1]))


def one_pipeline_one_hour() -> Rows:
    found = [(line.at, line.run, index, line) for run in RUNS for index, line in enumerate(run) if line.fqn == "svc.orders"]
    return [
        (run, number, line.level, line.message)
        for at, run, number, line in sorted(found, key=lambda each: each[:3])
        if day("21T03:00") <= at < day("21T04:00")
    ]


def the_bucket_of_a_pipeline() -> Rows:
    return [(int(hashlib.md5(b"svc_orders").hexdigest()[:4], 16) % 16,)]


def the_log_of_a_run() -> Rows:
    return [(line.raw,) for line in RUNS[1]]


def how_much_each_pipeline_logs() -> Rows:
    groups = defaultdict(list)
    for line in TWO_DAYS:
        groups[line.what, line.at.date()].append(len(line.raw))
    rows = [(*key, len(sizes), sum(sizes)) for key, sizes in groups.items()]
    return sorted(rows, key=lambda row: (-row[3], row[0], row[1]))


EXPECTED = {
    "Errors per pipeline and day": errors_per_pipeline_and_day,
    "Runs that failed": runs_that_failed,
    "Why runs failed": why_runs_failed,
    "Slowest stage": slowest_stage,
    "New error messages since yesterday": new_error_messages_since_yesterday,
    "One pipeline, one hour": one_pipeline_one_hour,
    "The bucket of a pipeline": the_bucket_of_a_pipeline,
    "The log of a run": the_log_of_a_run,
    "How much each pipeline logs": how_much_each_pipeline_logs,
}


def queries() -> dict[str, dict[str, str]]:
    """Heading to engine to statement."""
    found: dict[str, dict[str, str]] = {}
    for part in PAGE.read_text().split("\n### ")[1:]:
        heading, _, text = part.partition("\n")
        for language, statement in _FENCE.findall(text.split("\n## ")[0]):
            assert language == "sql"
            said = re.match(r"-- ([A-Za-z, ]+)\n", statement)
            for engine in said[1].split(", ") if said else (SPARK, DUCKDB, ATHENA):
                found.setdefault(heading, {})[engine] = statement
    return found


@pytest.fixture(scope="module")
def dataset(spark: SparkSession, server: BucketServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs, each of them ended, and failed ones explained."""
    server.empty()
    folder, runs = tmp_path_factory.mktemp("dataset"), InMemoryRunCatalog()
    for lines in RUNS:
        run = Bucket(server).run(lines[0].fqn, lines[0].run, START_MS).append(b"".join(line.raw for line in lines))
        record_finalized(runs, run.seal(end=RunEnd(outcome_of_last(lines[-1]))))
        record_explanation(runs, run)
    for name, value in SESSION.items():
        spark.conf.set(name, value)
    options = parse_options(server.options)
    wanted = DatasetSpec(options, Layout(16, "UTC", fingerprint(options)))
    build(Builder(spark, LocalFiles(folder), wanted, lambda: START_MS / 1000, runs))
    return folder


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The definitions of the page's programs."""
    defined: dict[str, Any] = {}
    for language, text in _FENCE.findall(PAGE.read_text()):
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), defined)
    return defined


@pytest.fixture(params=[SPARK, DUCKDB])
def engine(request: pytest.FixtureRequest, dataset: Path, page: dict[str, Any]) -> Iterator[tuple[str, Query]]:
    if request.param == SPARK:
        session: SparkSession = request.getfixturevalue("spark")
        page["of_spark"](session, str(dataset))
        yield SPARK, lambda statement: [tuple(row) for row in session.sql(statement).collect()]
    else:
        with duckdb.connect() as connection:
            page["of_duckdb"](connection, str(dataset))
            yield DUCKDB, lambda statement: connection.execute(statement).fetchall()


def test_every_query_is_there_for_every_engine() -> None:
    assert {heading: set(found) for heading, found in queries().items()} == {
        heading: {SPARK, DUCKDB, ATHENA} for heading in EXPECTED
    }


@pytest.mark.behavior("The documented queries of the dataset run on Spark and DuckDB.")
@pytest.mark.sampled(default=1)
def test_queries_as_they_stand_on_the_page(engine: tuple[str, Query]) -> None:
    name, run = engine
    for heading, expected in EXPECTED.items():
        rows = [tuple(_plain(value) for value in row) for row in run(queries()[heading][name])]
        assert rows == expected() != [], heading


def test_one_commit(spark: SparkSession, dataset: Path, page: dict[str, Any]) -> None:
    assert page["of_one_commit"](spark, str(dataset)).count() == len(LINES)


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return float(value) if type(value).__name__ == "Decimal" else value
