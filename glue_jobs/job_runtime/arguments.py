"""The arguments of a job: argparse's, which also takes them as Glue gives them.

Glue hands a job its own arguments beside the job's (``--JOB_NAME``, ``--TempDir``, …), and a value with each name; so a flag may be said
as ``--dry-run`` and as ``--dry-run true``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence

from glue_jobs.job_runtime.environment import use_stack

WRONG_ARGUMENTS = 2
"""Exit code, as argparse has it."""
_FROM_GLUE = re.compile(
    r"--(JOB_NAME|JOB_ID|JOB_RUN_ID|SECURITY_CONFIGURATION|TempDir|RedshiftTempDir|encryption-type|scriptLocation|extra-py-files|"
    r"extra-jars|extra-files|user-jars-first|use-postgres-driver|additional-python-modules|python-modules-installer-option|no-index|"
    r"job-language|job-bookmark-[a-z]+|enable-[a-z-]+|conf|class|executor-cores|custom-logGroup-prefix|continuous-log-[A-Za-z-]+|"
    r"datalake-formats|spark-event-logs-path)"
)
"""Names of Glue's documented job parameters, and what it adds to each run itself."""


def job_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with what all jobs have. ``description``: the module's docstring, shown by ``--help`` as it is."""
    parser = argparse.ArgumentParser(prog=name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stack-name", help="take the settings of this CloudFormation stack; else RUNLAKE_… of the environment")
    parser.add_argument("--summary", metavar="URI", help="write the summary there too: a path, file://… or s3://…")
    return parser


def add_flag(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    """A flag that may have a value, true or false."""
    parser.add_argument(name, nargs="?", const=True, default=False, type=_truth, metavar="true|false", help=help)


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The job's own arguments; the stack's settings are in the environment then. Ends the process with 2 where they are wrong."""
    arguments = parser.parse_args(list(_own(sys.argv[1:] if argv is None else argv)))
    if arguments.stack_name:
        try:
            use_stack(arguments.stack_name)
        except Exception as error:  # whatever AWS answers: the stack's name, the credentials or the region are wrong
            parser.error(f"the stack's settings cannot be read: {error}")
    return arguments


def _own(argv: Sequence[str]) -> Iterator[str]:
    """Without Glue's own, and the value behind each of them."""
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
