"""Processing pipelines on one machine: ``runlake-pipelines run --config DIR``, and ``validate``.

The archive is a local stack (--port), a deployed one (--stack-name), or what RUNLAKE_… name (docs/configuration.md). Any number of
machines and the schedule may be at work at once: a pipeline is one worker's at a time.
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
from chalicelib.pipelines.context import validate_logging
from chalicelib.pipelines.memory import memory_bytes, shortage, used_bytes
from chalicelib.pipelines.ordering import automatic_bytes
from chalicelib.pipelines.supervisor import PipelineOutcome, Supervisor
from glue_jobs.job_runtime.environment import use_stack
from local.jobs import described_stack, environment_of
from local.state import LocalError
from local.terminal import show

NAME = "runlake-pipelines"
BAD_CONFIGURATION = 2
_WELL = (PipelineOutcome.STOPPED, PipelineOutcome.BUSY, PipelineOutcome.DISABLED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="work the pipelines until they are stopped (SIGINT, SIGTERM)")
    check = commands.add_parser("validate", help="check the files, and that what they name can be found; nothing is run or opened")
    for command in (run, check):
        command.add_argument(
            "--config", metavar="DIR", help="folder of *.yaml, or s3://bucket/prefix (default: RUNLAKE_PIPELINES_CONFIG)"
        )
        archive = command.add_mutually_exclusive_group()
        archive.add_argument("--port", type=int, help="the archive is the local stack of this port")
        archive.add_argument("--stack-name", help="the archive is this CloudFormation stack; else the one that RUNLAKE_… name")
        command.add_argument("--lib", metavar="DIR", type=Path, help="folder of wheels with handlers: those of pure Python")
    run.add_argument("--only", metavar="NAME", action="append", default=[], help="this pipeline; may be given again (default: all)")
    run.add_argument("--once", action="store_true", help="end when all that there is was processed")
    run.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 when a pipeline failed or blocked, 2 when the configuration is bad."""
    arguments = _parser().parse_args(argv)
    use_wheels(arguments.lib)
    try:
        use_archive(arguments)
        return _validate(arguments) if arguments.command == "validate" else _run(arguments)
    except (RunlakeError, LocalError) as error:
        show(f"{NAME}: {error}", file=sys.stderr)
        return BAD_CONFIGURATION


def use_archive(arguments: argparse.Namespace) -> None:
    """Take over the settings of the stack that is named, if one is. Raises InvalidConfigurationError, LocalError."""
    name = arguments.stack_name
    if arguments.port is not None:
        stack = described_stack(arguments.port)
        environment = environment_of(stack)
        os.environ.clear()
        os.environ.update(environment)
        name = stack["stack_name"]
    if not name:
        return
    try:
        use_stack(name)
    except Exception as error:  # whatever AWS answers: the stack's name, the credentials or the region are wrong
        raise InvalidConfigurationError(f"the stack's settings cannot be read: {error}") from error


def use_wheels(folder: Path | None) -> None:
    """Let handlers be found in the wheels of a folder: a wheel of pure Python can be imported as it is."""
    for wheel in sorted(folder.glob("*.whl")) if folder else ():
        if str(wheel) not in sys.path:
            sys.path.append(str(wheel))


def _validate(arguments: argparse.Namespace) -> int:
    """A folder needs no archive."""
    if arguments.config and not arguments.config.startswith("s3://"):
        definitions = load_pipelines(config_files(arguments.config, {}), modules=AllowedModules.read(os.environ.get(VARIABLE)))
    else:
        definitions = installed_pipelines(composition.services(), arguments.config)
    problems = list(definitions.problems)
    for file in definitions.pipelines:
        try:
            validate_logging(file.logging)
        except RunlakeError as error:
            problems.append(ConfigProblem(file.name, str(error)))
    for problem in problems:
        show(f"{problem.location}: {problem.reason}", file=sys.stderr)
    show(f"{len(definitions.pipelines)} pipelines: {', '.join(file.name for file in definitions.pipelines)}")
    return BAD_CONFIGURATION if problems else 0


def _run(arguments: argparse.Namespace) -> int:
    services = composition.services()
    found = installed_pipelines(services, arguments.config)
    for problem in found.problems:
        warn("a pipeline's file is left out", file=problem.location, reason=problem.reason)
    files = found.chosen(arguments.only)
    watching = supervisor(
        services,
        automatic_bytes(memory_bytes(), services.settings.pipeline_fetch_bytes, sum(file.shards for file in files), used_bytes()),
        warn,
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
    """Stopped by a signal, all end in good order."""
    before = {number: signal.signal(number, lambda *_: watching.stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return watching.run(files, deadline)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin_anew() -> None:
    """A fresh process with the same arguments: all was checkpointed, and whatever leaked is gone."""
    os.execv(sys.executable, [sys.executable, "-m", "local.run_pipelines", *sys.argv[1:]])


def warn(message: str, **facts: Any) -> None:
    """A warning, as a line of JSON."""
    show(json.dumps({"at": round(time.time(), 3), "warning": message, **facts}, default=str), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
