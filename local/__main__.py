"""``python -m local``: manage the local stack."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from local.state import DEFAULT_PORT, INTERRUPTED, PROJECT, LocalError, StackFolder, running_stacks
from local.terminal import show, show_error

MAX_PORT = 65_535


def _up(arguments: argparse.Namespace) -> None:
    from local.control import up

    description = up(arguments.port, dict(arguments.parameter), private=arguments.private)
    where = StackFolder(arguments.port).description.relative_to(PROJECT)
    show(f"runlake: up at {description['api_url']}, AWS at {description['aws_endpoint_url']}, described in {where}")
    if "job_url" in description:
        show(f"runlake: for jobs that sign (SigV4, service lambda, region {description['region']}): {description['job_url']}")
    show(f"runlake: logs in a browser: {description['api_url']}/v1/ui/")


def _down(arguments: argparse.Namespace) -> None:
    from local.control import down

    show(
        f"runlake: stopped on port {arguments.port}" if down(arguments.port) else f"runlake: nothing runs on port {arguments.port}"
    )


def _status(_: argparse.Namespace) -> None:
    show(json.dumps([folder.read() for folder in running_stacks()], indent=2))


def _logs(arguments: argparse.Namespace) -> None:
    folder = StackFolder(arguments.port)
    for path in (folder.log, folder.emulator_log):
        if path.exists():
            lines = path.read_text(errors="replace").splitlines(keepends=True)
            show("".join(lines[-arguments.lines :]), end="")


def _package(arguments: argparse.Namespace) -> None:
    from local import glue, package, sbom

    package.ensure_packaged(arguments.architecture)
    glue.ensure_packaged()
    packages = sbom.write(package.BILL, package.ZIP, glue.WHEELS)
    show(f"runlake: {package.summary()}\nrunlake: {glue.summary()}")
    show(f"runlake: {package.BILL.relative_to(PROJECT)}, the {packages} packages in them")


def _serve(arguments: argparse.Namespace) -> None:
    from local.serve import serve

    serve(arguments.port, dict(arguments.parameter), private=arguments.private)


def _job(arguments: argparse.Namespace) -> None:
    from local.jobs import run_job

    sys.exit(run_job(arguments.name, arguments.port, arguments.arguments))


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"not NAME=VALUE: {text}")
    return name, value


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"a port must be a number from 1 to {MAX_PORT}: {text}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    for run, name, text in (
        (_up, "up", "start a stack and wait until it answers"),
        (_down, "down", "stop it"),
        (_status, "status", "describe the running stacks, as JSON"),
        (_logs, "logs", "print the end of a stack's logs, including the functions' output"),
        (_package, "package", "build build/ if it is out of date"),
        (_job, "job", "run a job of glue_jobs/ against a stack"),
        (_serve, "serve", "run a stack in the foreground"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        if name not in ("status", "package"):
            command.add_argument("--port", type=_port, default=DEFAULT_PORT, help=f"port of the stack (default {DEFAULT_PORT})")
        if name in ("up", "serve"):
            _add_stack_options(command)
        if name == "job":
            command.add_argument("name", help="name of the job's module, for example backfill")
            command.add_argument("arguments", nargs=argparse.REMAINDER, help="the job's own arguments; see the job's --help")
        if name == "package":
            command.add_argument(
                "--architecture",
                choices=("x86_64", "arm64"),
                default="x86_64",
                help="architecture of the functions (default x86_64)",
            )
        if name == "logs":
            command.add_argument("--lines", type=int, default=100, help="lines of each log (default 100)")
    return parser


def _add_stack_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--parameter", type=_assignment, action="append", default=[], metavar="NAME=VALUE", help="parameter of the template"
    )
    command.add_argument("--private", action="store_true", help="do not become the default stack of .local/stack.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if sys.version_info[:2] != (3, 11):
        show_error(f"Python 3.11 is needed, the version that Lambda runs: version={sys.version.split()[0]}")
        return 1
    parsed = _parser().parse_args(arguments)
    try:
        parsed.run(parsed)
    except LocalError as error:
        show_error(str(error))
        return 1
    except KeyboardInterrupt:
        show_error("stopped")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
