"""Command-line arguments of a job, also in the form in which Glue passes them.

Glue adds its own arguments (``--JOB_NAME``, ``--TempDir``, …) to the job's, and passes each name with a value. So a flag can be
given as ``--dry-run`` or as ``--dry-run true``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

from glue_jobs.job_runtime.environment import use_stack

WRONG_ARGUMENTS = 2
"""Exit code, the same as argparse's."""
_FROM_GLUE = re.compile(
    r"--(JOB_NAME|JOB_ID|JOB_RUN_ID|SECURITY_CONFIGURATION|TempDir|RedshiftTempDir|encryption-type|scriptLocation|extra-py-files|"
    r"extra-jars|extra-files|user-jars-first|use-postgres-driver|additional-python-modules|python-modules-installer-option|no-index|"
    r"job-language|job-bookmark-[a-z]+|enable-[a-z-]+|conf|class|executor-cores|custom-logGroup-prefix|continuous-log-[A-Za-z-]+|"
    r"datalake-formats|spark-event-logs-path)"
)
"""Glue's documented job parameters, and the arguments that Glue adds to each run."""


def job_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the arguments that all jobs share. ``description``: the module's docstring, which ``--help`` prints
    unchanged."""
    parser = argparse.ArgumentParser(prog=name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack-name", help="take the settings of this CloudFormation stack; else RUNLAKE_… of the environment")
    parser.add_argument("--summary", metavar="URI", help="write the summary there too: a path, file://… or s3://…")
    return parser


def add_flag(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """Add a flag with an optional value, true or false."""
    parser.add_argument(name, nargs="?", const=True, default=False, type=_truth, metavar="true|false", help=help)


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the job's arguments and load the settings of ``--stack-name`` into the environment. Exits with 2 if they are wrong."""
    arguments = parser.parse_args(list(_own(sys.argv[1:] if argv is None else argv)))
    if arguments.stack_name:
        try:
            use_stack(arguments.stack_name)
        except Exception as error:  # any error of AWS: the stack's name, the credentials or the region are wrong
            parser.error(f"the stack's settings cannot be read: {error}")
    return arguments


def _own(argv: Sequence[str]) -> Iterator[str]:
    """The job's own arguments: without those of Glue and their values."""
    is_value_of_glue = False
    for argument in argv:
        is_name = argument.startswith("--")
        if is_name:
            is_value_of_glue = bool(_FROM_GLUE.fullmatch(argument.partition("=")[0]))
        if not is_value_of_glue:
            yield argument
        elif not is_name:
            is_value_of_glue = False


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"neither true nor false: {text}")
    return text.lower() == "true"
