"""Let old runs go: by age, number and size, by rules for pipelines. A dry run first: it writes a plan, and deletes nothing.

    retention --rules rules.json --plan plan.jsonl      # look; the summary has the plan's id and counts
    retention --apply plan.jsonl                        # delete what the plan names, if it is still as the plan saw it

Rules are JSON, as text or a file (a path, file://… or s3://…):

    {"rules": [{"fqn": "audit.*", "keep_all": true},
               {"fqn": "*.nightly", "keep_days": 90, "keep_runs": 30, "keep_bytes": 10000000000}],
     "default": {"keep_days": 14}, "grace_days": 1}

Stopped anywhere, apply the same plan again. A run that was abandoned is closed first, and goes when the plan is applied once more, 20
minutes later (exit code 1 until then).
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
from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.composition import Services
from chalicelib.errors import InvalidInputError, RunlakeError
from glue_jobs.expiring.expiry import Condemned, Expiry, Outcome
from glue_jobs.expiring.inventory import Inventory
from glue_jobs.expiring.plan import Plan, read_plan
from glue_jobs.expiring.rows import DynamoDbRows
from glue_jobs.shell.addresses import read_text, write_text
from glue_jobs.shell.arguments import WRONG_ARGUMENTS, job_parser, parsed
from glue_jobs.shell.environment import handed_over, take_over
from glue_jobs.shell.interruption import stoppable
from glue_jobs.shell.prices import dollars
from glue_jobs.shell.progress import watched
from glue_jobs.shell.request_counts import counted, snapshot
from glue_jobs.shell.session import spark_session
from glue_jobs.shell.summary import finish
from glue_jobs.transforms.retention import RUNS, expired
from glue_jobs.transforms.retention_rules import Rules, read_rules

NAME = "retention"
RUNS_A_TASK = 200
_PROBLEMS = 20
_FAILED = "failed"

Result = tuple[str, Condemned, str]
"""What became of a run: an outcome or failed, and why."""


class _Counts(AccumulatorParam[Counter[str]]):
    """Requests of all workers, those of tasks that were begun anew too."""

    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:
        value1.update(value2)
        return value1


def plan(session: SparkSession, services: Services, rules: Rules, requests: Accumulator[Counter[str]]) -> tuple[Plan, int]:
    """What is to go by the rules, and how many runs there are. Reads listings, nothing else."""
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
    found = Plan(header, [Condemned(**row.asDict()) for row in rows])
    return Plan(header | {"counts": found.counts()}, found.runs), total


def _runs(session: SparkSession, services: Services, requests: Accumulator[Counter[str]]) -> DataFrame:
    """All runs, schema ``transforms.retention.RUNS``."""
    folders = list(Inventory(services.store, services.layout).folders())
    slices = max(min(len(folders), 4 * session.sparkContext.defaultParallelism), 1)
    listed = session.sparkContext.parallelize(folders, slices).mapPartitions(partial(_listed, handed_over(), requests))
    return session.createDataFrame(listed, RUNS)


def _listed(
    environment: Mapping[str, str], requests: Accumulator[Counter[str]], folders: Iterable[str]
) -> Iterator[tuple[Any, ...]]:
    """In a worker: rows of whole pipelines."""
    services = _worker(environment)
    before = snapshot()
    inventory = Inventory(services.store, services.layout)
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
            f"the plan is of another bucket or prefix plan={there} here={(settings.bucket_name, settings.prefix)}"
        )
    slices = max(-(-len(made.runs) // RUNS_A_TASK), 1)
    work = partial(_expired, handed_over(), made.id, requests)
    return list(session.sparkContext.parallelize(made.runs, slices).mapPartitions(work).collect())


def _expired(
    environment: Mapping[str, str], plan_id: str, requests: Accumulator[Counter[str]], runs: Iterable[Condemned]
) -> Iterator[Result]:
    """In a worker. A run that fails does not keep another."""
    services = _worker(environment)
    before = snapshot()
    expiry = expiry_of(services, plan_id)
    for condemned in runs:
        try:
            yield expiry.expire(condemned).value, condemned, ""
        except RunlakeError as error:
            yield _FAILED, condemned, f"{type(error).__name__}: {error}"
    requests.add(snapshot() - before)


def expiry_of(services: Services, plan_id: str) -> Expiry:
    """Over the services of this process."""
    settings = services.settings
    client = make_client("dynamodb", region=None)
    rows = DynamoDbRows(Table(client, settings.runs_table), Table(client, settings.segments_table))
    return Expiry(services.store, rows, services.writer, services.layout, services.clock, plan_id)


def _worker(environment: Mapping[str, str]) -> Services:
    take_over(environment)
    counted()
    return composition.services()


def _summary(made: Plan, requests: Mapping[str, int]) -> dict[str, Any]:
    return {"plan": made.id, **made.counts(), "requests": dict(sorted(requests.items())), "dollars": round(dollars(requests), 6)}


def _told(results: Sequence[Result]) -> dict[str, Any]:
    """What was done. ``problems``: the first few runs that failed."""
    counts = Counter(outcome for outcome, _, _ in results)
    gone = [condemned for outcome, condemned, _ in results if outcome == Outcome.EXPIRED]
    return {
        "outcomes": {name: counts[name] for name in (*[each.value for each in Outcome], _FAILED)},
        "expired_objects": sum(run.objects for run in gone),
        "expired_bytes": sum(run.bytes for run in gone),
        "problems": [f"{run.fqn}/{run.run_id}: {why}" for outcome, run, why in results if outcome == _FAILED][:_PROBLEMS],
    }


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument("--rules", metavar="JSON|URI", help="what is kept; the default keeps everything")
    parser.add_argument(
        "--plan", metavar="URI", help="write the plan there; into a folder, where it ends with a slash, under its id"
    )
    parser.add_argument("--apply", metavar="URI", help="delete what this plan names; without it nothing is deleted")
    return parser


def _rules(given: str | None) -> Rules:
    if not given:
        return Rules()
    return read_rules(given if given.lstrip().startswith("{") else read_text(given))


def main(given: Sequence[str] | None = None) -> int:
    """Exit code 1 when runs failed, or are to go by the same plan again."""
    parser = _parser()
    arguments = parsed(parser, given)
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
    counted()
    services = composition.services()
    with spark_session(NAME) as session, watched(session, NAME):
        requests = session.sparkContext.accumulator(Counter[str](), _Counts())
        if made is None:
            made, total = plan(session, services, rules, requests)
            told: dict[str, Any] = {"dry_run": True, "runs_in_all": total}
        else:
            told = _told(apply(session, services, made, requests))
        spent = requests.value + snapshot()
    if arguments.plan:
        told["plan_uri"] = arguments.plan + (f"{made.id}.jsonl" if arguments.plan.endswith("/") else "")
        write_text(told["plan_uri"], made.text())
    finish(NAME, _summary(made, spent) | told, arguments.summary, dry_run="dry_run" in told)
    outcomes = told.get("outcomes", {})
    return 1 if outcomes.get(_FAILED) or outcomes.get(Outcome.CLOSING.value) else 0


if __name__ == "__main__":
    sys.exit(stoppable(NAME, main))
