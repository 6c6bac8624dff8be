"""Delete old runs by age, number and size, with rules for pipelines. A dry run writes a plan and deletes nothing; a second job
applies it.

    retention --rules rules.json --plan plan.jsonl      # dry run; the summary has the plan's id and counts
    retention --apply plan.jsonl                        # delete the runs of the plan that are still as planned

Rules are JSON, as text or a file (a path, file://… or s3://…):

    {"rules": [{"fqn": "audit.*", "keep_all": true},
               {"fqn": "*.nightly", "keep_days": 90, "keep_runs": 30, "keep_bytes": 10000000000}],
     "default": {"keep_days": 14}, "grace_days": 1}

If the job is interrupted, apply the same plan again. An abandoned run is closed first, and deleted when the plan is applied again
20 minutes later (exit code 1 until then).
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark import AccumulatorParam
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from chalicelib import composition
from chalicelib.composition import Services
from chalicelib.errors import InvalidInputError, RunlakeError
from glue_jobs.expiration.expiry import ExpiringRun, Expiry, Outcome
from glue_jobs.expiration.inventory import BucketInventory
from glue_jobs.expiration.plan import Plan, read_plan
from glue_jobs.job_runtime.arguments import WRONG_ARGUMENTS, job_parser, parse_arguments
from glue_jobs.job_runtime.environment import apply_environment, worker_environment
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.prices import dollars
from glue_jobs.job_runtime.progress import task_progress
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.summary import finish
from glue_jobs.job_runtime.uri_files import read_text, write_text
from glue_jobs.transforms.retention import RUNS, expired
from glue_jobs.transforms.retention_rules import Rules, read_rules

NAME = "retention"
RUNS_A_TASK = 200
_PROBLEMS = 20
_FAILED = "failed"

Result = tuple[str, ExpiringRun, str]
"""A run's result: an outcome or ``failed``, and the error."""


class _Counts(AccumulatorParam[Counter[str]]):
    """Requests of all workers, including those of repeated tasks."""

    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:
        value1.update(value2)
        return value1


def plan(session: SparkSession, services: Services, rules: Rules, requests: Accumulator[Counter[str]]) -> tuple[Plan, int]:
    """The runs that the rules expire, and the number of all runs. Reads listings only."""
    now_ms = services.clock.now_ms()
    runs = _runs(session, services, requests).cache()
    rows = expired(runs, rules, now_ms).orderBy("fqn", "run_id").collect()
    total = runs.count()
    runs.unpersist()
    settings = services.settings
    header = {
        "bucket": settings.bucket_name,
        "prefix": settings.prefix,
        "made_ms": now_ms,
        "rules": rules.model_dump(mode="json", exclude_none=True, exclude_defaults=True) | {"grace_days": rules.grace_days},
    }
    unsized = Plan(header, [ExpiringRun(**row.asDict()) for row in rows])
    return Plan(header | {"counts": unsized.counts()}, unsized.runs), total


def _runs(session: SparkSession, services: Services, requests: Accumulator[Counter[str]]) -> DataFrame:
    """All runs, schema ``transforms.retention.RUNS``."""
    folders = list(BucketInventory(services.store, services.layout).folders())
    slices = max(min(len(folders), 4 * session.sparkContext.defaultParallelism), 1)
    listed = session.sparkContext.parallelize(folders, slices).mapPartitions(partial(_listed, worker_environment(), requests))
    return session.createDataFrame(listed, RUNS)


def _listed(
    environment: Mapping[str, str], requests: Accumulator[Counter[str]], folders: Iterable[str]
) -> Iterator[tuple[Any, ...]]:
    """In a worker: the rows of whole pipelines."""
    services = _worker(environment)
    before = snapshot()
    inventory = BucketInventory(services.store, services.layout)
    for folder in folders:
        for run, *row in inventory.runs(folder):
            yield run.fqn, run.run_id, *row
    requests.add(snapshot() - before)


def apply(session: SparkSession, services: Services, made: Plan, requests: Accumulator[Counter[str]]) -> list[Result]:
    """Expire the runs of a plan. Idempotent. Raises InvalidInputError for a plan of another bucket."""
    settings = services.settings
    there = (made.header.get("bucket"), made.header.get("prefix"))
    if there != (settings.bucket_name, settings.prefix):
        raise InvalidInputError(
            f"the plan was made for another bucket or prefix plan={there} here={(settings.bucket_name, settings.prefix)}"
        )
    slices = max(-(-len(made.runs) // RUNS_A_TASK), 1)
    work = partial(_expired, worker_environment(), made.id, requests)
    return list(session.sparkContext.parallelize(made.runs, slices).mapPartitions(work).collect())


def _expired(
    environment: Mapping[str, str], plan_id: str, requests: Accumulator[Counter[str]], runs: Iterable[ExpiringRun]
) -> Iterator[Result]:
    """In a worker. A failed run does not stop other runs."""
    services = _worker(environment)
    before = snapshot()
    expiry = expiry_of(services, plan_id)
    for expiring in runs:
        try:
            yield expiry.expire(expiring).value, expiring, ""
        except RunlakeError as error:
            yield _FAILED, expiring, f"{type(error).__name__}: {error}"
    requests.add(snapshot() - before)


def expiry_of(services: Services, plan_id: str) -> Expiry:
    """An ``Expiry`` with the services of this process."""
    return Expiry(services.store, services.removal, services.writer, services.layout, services.clock, plan_id)


def _worker(environment: Mapping[str, str]) -> Services:
    apply_environment(environment)
    request_counter()
    return composition.services()


def _summary(made: Plan, requests: Mapping[str, int]) -> dict[str, Any]:
    return {"plan": made.id, **made.counts(), "requests": dict(sorted(requests.items())), "dollars": round(dollars(requests), 6)}


def _outcomes(results: Sequence[Result]) -> dict[str, Any]:
    """Counts by outcome. ``problems``: the first failed runs."""
    counts = Counter(outcome for outcome, _, _ in results)
    gone = [expiring for outcome, expiring, _ in results if outcome == Outcome.EXPIRED]
    return {
        "outcomes": {name: counts[name] for name in (*[each.value for each in Outcome], _FAILED)},
        "expired_objects": sum(run.objects for run in gone),
        "expired_bytes": sum(run.bytes for run in gone),
        "problems": [f"{run.fqn}/{run.run_id}: {why}" for outcome, run, why in results if outcome == _FAILED][:_PROBLEMS],
    }


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument("--rules", metavar="JSON|URI", help="runs to keep; the default keeps everything")
    parser.add_argument(
        "--plan",
        metavar="URI",
        help="write the plan there; a URI that ends with a slash is a folder, and the file is named by the plan's id",
    )
    parser.add_argument("--apply", metavar="URI", help="delete the runs of this plan; without it nothing is deleted")
    return parser


def _rules(text: str | None) -> Rules:
    if not text:
        return Rules()
    return read_rules(text if text.lstrip().startswith("{") else read_text(text))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if runs failed, or if the same plan must be applied again."""
    parser = _parser()
    arguments = parse_arguments(parser, argv)
    if arguments.apply and (arguments.rules or arguments.plan):
        parser.error("--apply deletes by the plan's own rules: leave --rules and --plan out")
    try:
        rules = _rules(arguments.rules)
        made = read_plan(read_text(arguments.apply)) if arguments.apply else None
        return _run(arguments, rules, made)
    except InvalidInputError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return WRONG_ARGUMENTS


def _run(arguments: argparse.Namespace, rules: Rules, made: Plan | None) -> int:
    request_counter()
    services = composition.services()
    with spark_session(NAME) as session, task_progress(session, NAME):
        requests = session.sparkContext.accumulator(Counter[str](), _Counts())
        if made is None:
            made, total = plan(session, services, rules, requests)
            result: dict[str, Any] = {"dry_run": True, "runs_in_all": total}
        else:
            result = _outcomes(apply(session, services, made, requests))
        spent = requests.value + snapshot()
    if arguments.plan:
        result["plan_uri"] = arguments.plan + (f"{made.id}.jsonl" if arguments.plan.endswith("/") else "")
        write_text(result["plan_uri"], made.text())
    finish(NAME, _summary(made, spent) | result, arguments.summary, dry_run="dry_run" in result)
    outcomes = result.get("outcomes", {})
    return 1 if outcomes.get(_FAILED) or outcomes.get(Outcome.CLOSING.value) else 0


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))
