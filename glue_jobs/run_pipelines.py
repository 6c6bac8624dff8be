"""Run log pipelines over months of ended runs: partitioned by run, with many runs in each Spark task.

The schedule does not process these pipelines meanwhile; running runs wait until the job is done. It can be killed at any point
and started again: committed events are not processed again. If another worker has a pipeline, the job waits for less than a
minute. --since: only runs that began then or later. Outputs of RUNLAKE_EVENTS are left to the schedule, which delivers old runs
too: only its role may reach their targets.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from chalicelib import composition
from chalicelib.catalog.timestamps import parse_time_ms
from chalicelib.composition import Services
from chalicelib.composition.pipelines import installed_pipelines, load_wheels
from chalicelib.errors import InvalidConfigurationError, InvalidTimeError
from chalicelib.pipelines.checkpoints import JobPart
from chalicelib.pipelines.config_loader import LoadedPipelines
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.output_pipelines import PREFIX
from chalicelib.pipelines.pipeline_state import PipelineStateStore
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.ports import Run
from glue_jobs.job_runtime.arguments import WRONG_ARGUMENTS, add_flag, job_parser, parse_arguments
from glue_jobs.job_runtime.environment import apply_environment, worker_environment
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.progress import task_progress
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.summary import finish
from glue_jobs.pipelines.pipeline_lease import PATIENCE_S, due, hold_pipeline
from glue_jobs.pipelines.task import TaskMetrics, work

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession

NAME = "run_pipelines"
BUFFER_BYTES = 64 * 1024 * 1024
"""For each task: several share a machine's memory."""
TASKS_A_CORE = 4
_OUTPUTS = "; outputs of RUNLAKE_EVENTS are delivered by the schedule, also those of old runs"
_RESULT = "task int, runs long, events long, dead long, errors long, problem string, metrics string"
_PLAN = "task int, fqn string, run_id string, bytes long, lines long, started_ms long"


def worker(
    name: str, config: str | None, job: str, epoch: int, environment: Mapping[str, str]
) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """The function for Spark's Python workers: runs in, one row for each task out."""

    def run(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        import pyarrow as pa

        by_task: dict[int, list[KnownRun]] = {}
        for row in (row for batch in batches for row in batch.to_pylist()):
            by_task.setdefault(row["task"], []).append(_known(row))
        if not by_task:
            return
        apply_environment({**environment, "POWERTOOLS_METRICS_DISABLED": "true"})
        services = composition.services()
        load_wheels(services, config)  # the driver reports those that are not used
        file = installed_pipelines(services, config).named(name)
        assert file is not None
        for task, runs in by_task.items():
            done = work(services, file, JobPart(f"{job}.{task}", epoch), runs, BUFFER_BYTES, _warn)
            yield pa.RecordBatch.from_pylist([{"task": task, **asdict(done)}], schema=_schema())

    return run


def _schema() -> Any:
    import pyarrow as pa

    numbers = [(name, pa.int64()) for name in ("runs", "events", "dead", "errors")]
    return pa.schema([("task", pa.int32()), *numbers, ("problem", pa.string()), ("metrics", pa.string())])


def _known(row: Mapping[str, Any]) -> KnownRun:
    return KnownRun(Run(row["fqn"], row["run_id"]), row["bytes"], row["lines"], True, row["started_ms"])


def planned(runs: Sequence[KnownRun], tasks: int) -> list[tuple[int, str, str, int, int, int]]:
    """Assigns runs to tasks: the largest run to each, the next ones in reverse order, and so on."""
    ordered = sorted(runs, key=lambda known: (-known.bytes, known.run.fqn, known.run.run_id))
    rounds = [(at // tasks % 2, at % tasks) for at in range(len(ordered))]
    return [
        (tasks - 1 - at if back else at, known.run.fqn, known.run.run_id, known.bytes, known.lines, known.started_ms)
        for known, (back, at) in zip(ordered, rounds, strict=True)
    ]


def run_pipeline(
    session: SparkSession, services: Services, file: PipelineFile, runs: Sequence[KnownRun], config: str | None
) -> list[dict[str, Any]] | None:
    """Process a pipeline's runs; one row for each task. None if another worker has the pipeline."""
    with hold_pipeline(services, file, PATIENCE_S) as epoch:
        if epoch is None:
            return None
        tasks = max(1, min(len(runs), session.sparkContext.defaultParallelism * TASKS_A_CORE))
        plan = session.createDataFrame(planned(runs, tasks), _PLAN).repartitionByRange(tasks, "task")
        with task_progress(session, NAME):
            made = plan.mapInArrow(worker(file.name, config, uuid4().hex[:12], epoch, worker_environment()), _RESULT)
            return [row.asDict() for row in made.collect()]


def _warn(message: str, **facts: object) -> None:
    print(f"{message}: {facts}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument("--config", help="s3://bucket/prefix of the pipelines' files; default: RUNLAKE_PIPELINES_CONFIG")
    parser.add_argument("--only", default="", metavar="NAMES", help="these pipelines, separated by commas; default: all")
    parser.add_argument("--since", type=_moment, default=0, help="only runs that began then or later (ISO 8601)")
    add_flag(parser, "--dry-run", "report the runs that would be processed: take no pipeline over")
    return parser


def _moment(text: str) -> int:
    try:
        return parse_time_ms(text, int(time.time() * 1000))
    except InvalidTimeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if another worker has a pipeline or work was left undone: the summary says which; 2 if --only names an unknown
    pipeline, or --config no place of pipelines."""
    arguments = parse_arguments(_parser(), argv)
    services, started_s = composition.services(), time.monotonic()
    only = [name for name in arguments.only.split(",") if name]
    try:
        installed = _without_outputs(services, installed_pipelines(services, arguments.config))
        problems = [{"file": problem.location, "reason": problem.reason} for problem in installed.problems]
        problems += [asdict(problem) for problem in load_wheels(services, arguments.config)]
        for problem in problems:
            _warn("a file or wheel is not used", **problem)
        files = installed.chosen(only)
    except InvalidConfigurationError as error:
        is_output = any(name.startswith(PREFIX) for name in only)
        print(f"{NAME}: {error}{_OUTPUTS if is_output else ''}", file=sys.stderr)
        return WRONG_ARGUMENTS
    due_of = {file.name: list(due(services, file, arguments.since)) for file in files}
    results: dict[str, Any] = {name: {"due": len(runs)} for name, runs in due_of.items()}
    waiting = [file for file in files if due_of[file.name] and not arguments.dry_run]
    if waiting:
        with spark_session(NAME) as session:  # one for all: Glue allows no second session
            for file in waiting:
                results[file.name] |= _worked(session, services, file, due_of.pop(file.name), arguments.config)
    seconds = round(time.monotonic() - started_s, 3)
    summary = {"dry_run": arguments.dry_run, "pipelines": results, "problems": problems, "seconds": seconds}
    finish(NAME, summary, arguments.summary, dry_run=arguments.dry_run)
    return 1 if any(each.get("busy") or each.get("problems") for each in results.values()) else 0


def _without_outputs(services: Services, installed: LoadedPipelines) -> LoadedPipelines:
    outputs = {f"{PREFIX}{name}" for name, _ in services.events.configuration.named_outputs}
    return replace(installed, pipelines=[file for file in installed.pipelines if file.name not in outputs])


def _worked(
    session: SparkSession, services: Services, file: PipelineFile, runs: Sequence[KnownRun], config: str | None
) -> dict[str, Any]:
    """A pipeline's part of the summary."""
    if not PipelineStateStore(services.database, services.clock).is_enabled(file):
        return {"disabled": True}
    started_s = time.monotonic()
    rows = run_pipeline(session, services, file, runs, config)
    return {"busy": True} if rows is None else _summed(rows) | {"working_seconds": round(time.monotonic() - started_s, 3)}


def _summed(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(row[name] for row in rows) for name in ("runs", "events", "dead", "errors")}
    metrics = TaskMetrics()
    for row in rows:
        metrics.add_text(row["metrics"])
    problems = [row["problem"] for row in rows if row["problem"]][:20]
    return {**sums, "tasks": len(rows), "problems": problems, "metrics": metrics.document()}


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))
