"""Processing pipelines on one machine: ``runlake-pipelines run --config DIR``, ``validate``, and ``upload`` of wheels with handlers.

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
from chalicelib.composition.pipelines import installed_pipelines, load_wheels, pipeline_source, supervisor
from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidConfigurationError, RunlakeError
from chalicelib.pipelines.allowed_modules import VARIABLE, AllowedModules
from chalicelib.pipelines.config_loader import ConfigProblem, LocalFolder, load_pipelines
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.handler_metrics import MetricsReport
from chalicelib.pipelines.memory import memory_bytes, shortage, used_bytes
from chalicelib.pipelines.ordering import automatic_bytes
from chalicelib.pipelines.supervisor import PipelineOutcome, Supervisor
from chalicelib.pipelines.validation import check_pipeline
from chalicelib.pipelines.wheel_archive import read_wheel
from chalicelib.pipelines.wheels import VARIABLE as WHEELS_VARIABLE
from chalicelib.pipelines.wheels import (
    PinnedWheel,
    WheelProblem,
    check_together,
    list_key,
    list_of,
    parse_list,
    process_wheels,
    sha256_of,
)
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
    upload = commands.add_parser("upload", help="store wheels next to the files of pipelines, and print the setting that pins them")
    upload.add_argument(
        "wheels", nargs="+", type=Path, metavar="WHEEL", help="all wheels to use: those that are not named are no longer"
    )
    for command in (run, check, upload):
        command.add_argument(
            "--config", metavar="DIR", help="folder of *.yaml, or s3://bucket/prefix (default: RUNLAKE_PIPELINES_CONFIG)"
        )
        archive = command.add_mutually_exclusive_group()
        archive.add_argument("--port", type=int, help="use the local stack on this port")
        archive.add_argument("--stack-name", help="use this CloudFormation stack; default: the archive of the RUNLAKE_… variables")
    check.add_argument("--job", action="store_true", help="only the job run_pipelines runs them: Parquet is allowed")
    for command in (run, check):
        command.add_argument("--lib", metavar="DIR", type=Path, help="folder of further wheels with handlers, without a pin")
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
        return {"run": _run, "validate": _validate, "upload": _upload}[arguments.command](arguments)
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


def use_wheels(folder: Path | None) -> Sequence[WheelProblem]:
    """Make the wheels of a folder importable; called first, so that they take precedence over pinned ones. Returns those of this
    process that are not used. Raises InvalidConfigurationError if the folder has none."""
    wheels = [PinnedWheel(path.name, sha256_of(path.read_bytes())) for path in sorted(folder.glob("*.whl"))] if folder else []
    if folder and not wheels:
        raise InvalidConfigurationError(f"there are no wheels in the folder of --lib folder={folder}")
    return process_wheels().add(wheels, lambda key, _: Path(folder or "", Path(key).name).read_bytes())


def _validate(arguments: argparse.Namespace) -> int:
    """Needs no archive if the configuration is a folder."""
    unused = use_wheels(arguments.lib)
    if arguments.config and not arguments.config.startswith("s3://"):
        definitions = load_pipelines(LocalFolder(Path(arguments.config))(), modules=AllowedModules.read(os.environ.get(VARIABLE)))
    else:
        definitions = installed_pipelines(composition.services(), arguments.config)
        unused = load_wheels(composition.services(), arguments.config)
    problems = [*definitions.problems, *(ConfigProblem(wheel.wheel, wheel.reason) for wheel in unused)]
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
    for wheel in load_wheels(services, arguments.config):
        warn("ignored a wheel", wheel=wheel.wheel, reason=wheel.reason)
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


def _upload(arguments: argparse.Namespace) -> int:
    """Wheels first, their list last: an interrupted upload is repeated, and changes nothing that is pinned."""
    try:
        bodies = {path.name: path.read_bytes() for path in arguments.wheels}
    except OSError as error:
        raise InvalidConfigurationError(f"cannot read a wheel: {error}") from None
    archives = {name: read_wheel(name, body) for name, body in bodies.items()}
    check_together(archives.values())
    wheels = [PinnedWheel(name, sha256_of(body)) for name, body in bodies.items()]
    pinned = list_of(wheels)
    parse_list(pinned)
    source = pipeline_source(composition.services(), arguments.config)
    if source is None:
        raise InvalidConfigurationError(
            "wheels are next to the files of pipelines: add --config s3://BUCKET/PREFIX, or set the stack's PipelinesConfig"
            " (RUNLAKE_PIPELINES_CONFIG)"
        )
    for wheel in wheels:
        show(f"{source.write(wheel.key, bodies[wheel.name])}: {', '.join(sorted(archives[wheel.name].modules))}")
    source.write(list_key(sha256_of(pinned)), pinned)
    show(f"{WHEELS_VARIABLE}={sha256_of(pinned)}")
    return 0


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
