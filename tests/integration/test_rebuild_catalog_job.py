"""The catalog from S3 alone, by the job in a separate process: all tables dropped during appends, and wrong rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.request import Request, urlopen

import pytest

from chalicelib.ports import Run
from tests.integration.job_process import run_alone
from tests.integration.rebuild_harness import (
    PATIENCE_S,
    QUIET_PARAMETERS,
    TABLES,
    damage_tables,
    differences,
    drop_tables,
    fill,
    job,
    snapshot,
    wait_until_quiet,
)
from tests.integration.roles import append_events, assert_job_fits, changes, lose_rows, output
from tests.integration.stacks import Stack, running_stack
from tests.permissions import Calls

LOGS = "/v1/services/ingestionPipelines/logs"
SEED = 5


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[Stack, list[Run]]]:
    """A separate stack, all of whose tables are lost."""
    print(f"seed: {SEED}")
    with running_stack(**QUIET_PARAMETERS) as stack:
        yield stack, fill(stack, SEED)


class Writers:
    """Append to old and new runs from before the block begins until it ends."""

    def __init__(self, stack: Stack, runs: list[Run]) -> None:
        self.appended = dict.fromkeys(runs, 0)
        self._stack, self._stop, self._begun = stack, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Writers:
        self._thread.start()
        assert self._begun.wait(PATIENCE_S), "no append came through"
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(0.5):
            for run in self.appended:
                url = f"{self._stack.api_url}{LOGS}/{run.fqn}/{run.run_id}"
                with urlopen(Request(url, b"meanwhile\n", {"Content-Type": "text/plain"}), timeout=PATIENCE_S) as answer:
                    assert answer.status == 200
                self.appended[run] += 1
            self._begun.set()


def segments_of(stack: Stack, run: Run) -> int:
    """The number of segment numbers that a run has used, from S3."""
    prefix = f"pipeline-logs/{run.fqn}/{run.run_id}/segments/"
    with closing(stack.client("s3")) as s3:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=stack["bucket"], Prefix=prefix)
        return max(int(each["Key"][len(prefix) :]) for page in pages for each in page.get("Contents", ())) + 1


@pytest.mark.behavior("All tables can be rebuilt from the bucket while appends continue.")
@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_every_table_dropped_and_rebuilt_during_appends_is_as_it_was(filled: tuple[Stack, list[Run]]) -> None:
    stack, runs = filled
    before = snapshot(stack)
    assert all(len(before[table]) >= 4 for table in TABLES)
    drop_tables(stack)
    busy = [runs[6], runs[7], Run(runs[0].fqn, "begun-meanwhile")]
    with Writers(stack, busy) as writers:
        told = job(stack)
    assert told["runs"]["failed"] == told["files"]["failed"] == told["segments_unknown"] == 0 and told["problems"] == []
    wait_until_quiet(stack)
    after = snapshot(stack)
    texts = [f"{run.fqn} {run.run_id}" for run in busy] + [f"{run.fqn}/{run.run_id} " for run in busy]
    assert [each for each in differences(before, after) if not any(text in each for text in texts)] == []
    for run in busy:
        row, numbers = after["runs_table"][f"{run.fqn} {run.run_id}"], segments_of(stack, run)
        of_run = [key for key in after["segments_table"] if key.startswith(f"{run.fqn}/{run.run_id} ") and "key#" not in key]
        assert writers.appended[run] > 0 and int(row["segments"]["N"]) == numbers == len(of_run)
    again = job(stack, "--dry-run")
    assert (again["rows"], again["runs"]["mended"], again["differences"]) == ({}, 0, [])


@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_damaged_rows_are_put_right_and_those_of_nothing_are_removed(filled: tuple[Stack, list[Run]]) -> None:
    stack, _ = filled
    right = snapshot(stack)
    damage_tables(stack, SEED, count=40)
    add_rows_of_nothing(stack)
    assert differences(right, snapshot(stack)) != []
    told = job(stack, "--prune", run=run_alone)
    assert (told["problems"], told["runs"]["failed"], told["runs"]["gone"]) == ([], 0, 1) and told["rows"]
    assert differences(right, snapshot(stack)) == []


@pytest.mark.sampled(default=1, group="roles of jobs")
def test_its_role_allows_what_it_does_and_nothing_else(filled: tuple[Stack, list[Run]], calls: Calls) -> None:
    """Also with rows in every table that are unreadable, or belong to no object."""
    stack, runs = filled
    summary = f"s3://{output(stack, 'JobsBucketName')}/summaries/rebuild_catalog.json"
    for _ in changes(stack, "0000", "of-roles"):
        job(stack, "--only", "files", "--summary", summary)
    add_rows_of_nothing(stack)
    add_unreadable_rows(stack)
    damage_row(stack, runs[1])
    lose_rows(stack, runs[0].fqn, runs[0].run_id, with_run=True)
    append_events(stack, "of-roles", "events")
    wait_until_quiet(stack)
    lose_rows(stack, "of-roles", "events")
    job(stack, "--dry-run", "--prune")
    job(stack, "--prune")
    assert_job_fits(stack, "rebuild_catalog", calls)


def damage_row(stack: Stack, run: Run) -> None:
    """Change one attribute of a run's row."""
    with closing(stack.client("dynamodb")) as dynamodb:
        dynamodb.update_item(
            TableName=stack["runs_table"],
            Key={"fqn": {"S": run.fqn}, "run_id": {"S": run.run_id}},
            UpdateExpression="SET compacted_bytes = :wrong",
            ExpressionAttributeValues={":wrong": {"N": "1"}},
        )


def add_unreadable_rows(stack: Stack) -> None:
    """Add rows that no release has written."""
    rows = {
        "objects_table": {"key": "file#damaged"},
        "latest_table": {"what_where_key": "damaged:row"},
        "listing_table": {"partition": "damaged", "at": "row#"},
    }
    with closing(stack.client("dynamodb")) as dynamodb:
        for table, row in rows.items():
            dynamodb.put_item(TableName=stack[table], Item={name: {"S": value} for name, value in row.items()})


def add_rows_of_nothing(stack: Stack) -> None:
    """Add rows of a run and files that S3 does not have."""
    old = {"N": "1790000000000"}
    with closing(stack.client("dynamodb")) as dynamodb:
        dynamodb.put_item(
            TableName=stack["runs_table"], Item={"fqn": {"S": "svc.none"}, "run_id": {"S": "r"}, "last_append_ms": old}
        )
        dynamodb.put_item(
            TableName=stack["segments_table"],
            Item={"run": {"S": "svc.none/r"}, "at": {"S": f"{0:016d}#{0:010d}"}, "appended_ms": old},
        )
        dynamodb.put_item(
            TableName=stack["files_table"],
            Item={"time_index_key": {"S": "20000:none"}, "range_key": {"S": f"w:{'0' * 32}"}, "url": {"S": "s3://none/none"}},
        )
        dynamodb.put_item(TableName=stack["latest_table"], Item={"what_where_key": {"S": "none:none"}, "document": {"S": "{}"}})
