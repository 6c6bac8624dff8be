"""``runlake``, or ``python -m runlake``."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from runlake import __version__
from runlake.commands import events, reading, setting, writing
from runlake.commands.session import Session
from runlake.errors import RunlakeError

_FAILED = 2
_INTERRUPTED = 130


class _Commands(click.Group):
    """Commands whose errors are told in two lines: what, and what to do next."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RunlakeError as error:
            click.echo(f"runlake: {error}", err=True)
            if error.next_step:
                click.echo(f"next: {error.next_step}", err=True)
            ctx.exit(_FAILED)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.option("--url", help="The stack's address, as https://logs.example.com/api")
@click.option("--token", help="A bearer token. Others on this machine can see it here: better a file, or RUNLAKE_TOKEN.")
@click.option("--token-file", help="A file that holds the token.")
@click.option("--token-command", help="A command that prints the token.")
@click.option("--timeout-s", type=float, help="Seconds for an answer to begin.")
@click.option("--spool-dir", help="Where lines wait on disk.")
@click.pass_context
def runlake(ctx: click.Context, /, **given: Any) -> None:
    """Archive the logs of pipeline runs, follow and fetch them.

    Settings: these options, then RUNLAKE_URL and the like, then ~/.config/runlake/config.toml; see `runlake config`.
    Without RUN commands are about the newest run of a pipeline.
    """
    ctx.obj = Session(given)


for _command in (
    reading.runs, reading.tail, reading.cat, reading.grep, reading.download, events.steps, events.events, setting.status,
    writing.execute_command, writing.drain, writing.close, setting.config, setting.completion,
):  # fmt: skip
    runlake.add_command(_command)


def main() -> None:
    """The program. A reader that goes away ends it without a word, as it does other filters."""
    try:
        runlake(prog_name="runlake")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_INTERRUPTED + 11)  # 128 + SIGPIPE


if __name__ == "__main__":
    main()
