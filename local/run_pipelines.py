"""Processing pipelines on one machine: ``runlake-pipelines run --config DIR``, and ``validate``.

The archive is a local stack (--port), a deployed one (--stack-name), or the one that RUNLAKE_… variables name
(docs/configuration.md). Any number of machines and the schedule may run at the same time: each pipeline has one worker at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chalicelib import composition
from chalicelib.composition.pipelines import installed_pipelines, supervisor
from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidConfigurationError, RunlakeError
from chalicelib.pipelines.allowed_modules import VARIABLE, AllowedModules
from chalicelib.pipelines.config_loader import ConfigProblem, config_files, load_pipelines
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.handler_metrics import MetricsReport
from chalicelib.pipelines.memory import memory_bytes, shortage, used_bytes
from chalicelib.pipelines.ordering import automatic_bytes
from chalicelib.pipelines.supervisor import PipelineOutcome, Supervisor
from chalicelib.pipelines.validation import check_pipeline
from glue_jobs.job_runtime.environment import use_stack
from local.jobs import environment_of, read_stack_description
from local.state import LocalError
from local.terminal import show

NAME = "runlake-pipelines"
BAD_CONFIGURATION = 2
_WELL = (PipelineOutcome.STOPPED, PipelineOutcome.BUSY, PipelineOutcome.DISABLED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the pipelines until stopped (SIGINT, SIGTERM)")
    check = commands.add_parser("validate", help="check the files; runs, imports and opens nothing that they name")
    for command in (run, check):
        command.add_argument(
            "--config", metavar="DIR", help="folder of *.yaml, or s3://bucket/prefix (default: RUNLAKE_PIPELINES_CONFIG)"
        )
        archive = command.add_mutually_exclusive_group()
        archive.add_argument("--port", type=int, help="use the local stack on this port")
        archive.add_argument("--stack-name", help="use this CloudFormation stack; default: the archive of the RUNLAKE_… variables")
    check.add_argument("--job", action="store_true", help="only the job run_pipelines runs them: Parquet is allowed")
    run.add_argument("--lib", metavar="DIR", type=Path, help="folder of pure Python wheels with handlers")
    run.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="run only this pipeline; repeatable (default: all)"
    )
    run.add_argument("--once", action="store_true", help="end when all existing events are processed")
    run.add_argument("--seconds", type=float, default=float("inf"), help="end after this time")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if a pipeline failed or is blocked, 2 if the configuration is invalid."""
    arguments = _parser().parse_args(argv)
    try:
        use_archive(arguments)
        return _validate(arguments) if arguments.command == "validate" else _run(arguments)
    except (RunlakeError, LocalError) as error:
        show(f"{NAME}: {error}", file=sys.stderr)
        return BAD_CONFIGURATION


def use_archive(arguments: argparse.Namespace) -> None:
    """Apply the settings of the named stack, if any. Raises InvalidConfigurationError, LocalError."""
    name = arguments.stack_name
    if arguments.port is not None:
        stack = read_stack_description(arguments.port)
        environment = environment_of(stack)
        os.environ.clear()
        os.environ.update(environment)
        name = stack["stack_name"]
    if not name:
        return
    try:
        use_stack(name)
    except Exception as error:  # any AWS error: wrong stack name, credentials or region
        raise InvalidConfigurationError(f"cannot read the stack's settings: {error}") from error


def use_wheels(folder: Path | None) -> None:
    """Make the wheels of a folder importable; only wheels of pure Python can be imported without installation."""
    for wheel in sorted(folder.glob("*.whl")) if folder else ():
        if str(wheel) not in sys.path:
            sys.path.append(str(wheel))


def _validate(arguments: argparse.Namespace) -> int:
    """Needs no archive if the configuration is a folder."""
    if arguments.config and not arguments.config.startswith("s3://"):
        definitions = load_pipelines(config_files(arguments.config, {}), modules=AllowedModules.read(os.environ.get(VARIABLE)))
    else:
        definitions = installed_pipelines(composition.services(), arguments.config)
    problems = list(definitions.problems)
    for file in definitions.pipelines:
        problems += [ConfigProblem(file.name, reason) for reason in check_pipeline(file, in_job=arguments.job)]
    for problem in problems:
        show(f"{problem.location}: {problem.reason}", file=sys.stderr)
    show(f"{len(definitions.pipelines)} pipelines: {', '.join(file.name for file in definitions.pipelines)}")
    return BAD_CONFIGURATION if problems else 0


def _run(arguments: argparse.Namespace) -> int:
    use_wheels(arguments.lib)
    services = composition.services()
    found = installed_pipelines(services, arguments.config)
    for problem in found.problems:
        warn("ignored the file of a pipeline", file=problem.location, reason=problem.reason)
    files = found.chosen(arguments.only)
    watching = supervisor(
        services,
        automatic_bytes(memory_bytes(), services.settings.pipeline_fetch_bytes, sum(file.shards for file in files), used_bytes()),
        warn,
        show_metrics,
        until_idle=arguments.once,
        forever=not arguments.once,
        is_short=shortage(memory_bytes()),
    )
    outcomes = _worked(watching, files, Deadline(services.clock, arguments.seconds))
    if watching.was_short:
        _begin_anew()
    for name, outcome in outcomes.items():
        show(f"{name}: {outcome.value}")
    return 0 if all(outcome in _WELL for outcome in outcomes.values()) else 1


def _worked(watching: Supervisor, files: Sequence[PipelineFile], deadline: Deadline) -> dict[str, PipelineOutcome]:
    """Work the pipelines; a signal stops all of them at a checkpoint."""
    before = {number: signal.signal(number, lambda *_: watching.stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return watching.run(files, deadline)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin_anew() -> None:
    """Replace this process by a fresh one with the same arguments; everything is checkpointed, and leaked resources are freed."""
    os.execv(sys.executable, [sys.executable, "-m", "local.run_pipelines", *sys.argv[1:]])


def warn(message: str, **facts: Any) -> None:
    """Print a warning as a line of JSON."""
    show(json.dumps({"at": round(time.time(), 3), "warning": message, **facts}, default=str), file=sys.stderr)


def show_metrics(report: MetricsReport) -> None:
    """Print a handler's metrics as a line of JSON."""
    values = {name: each.document() for name, each in report.metrics.items()}
    show(json.dumps({"at": round(time.time(), 3), "pipeline": report.pipeline, "handler": report.handler, "metrics": values}))


if __name__ == "__main__":
    sys.exit(main())
