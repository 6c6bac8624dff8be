"""The command line: ``runlake``, or ``python -m runlake``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import click

from runlake import __version__
from runlake.commands.candidates import profile_candidates
from runlake.commands.output import report_error
from runlake.commands.session import Commands, Group, Session
from runlake.commands.times import Seconds
from runlake.errors import AccessError, ApiError, NotFoundError, RunlakeError, SettingsError, UnavailableError
from runlake_signals import run_process

_FAILED = 2
_INTERRUPTED = 130


class _CommandLine(Group):
    """A command group that reports each error in two lines, the problem and the next step, without a traceback unless RUNLAKE_DEBUG=1."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **more: Any) -> Any:  # type: ignore[override]
        if "_RUNLAKE_COMPLETE" in os.environ:
            from runlake.commands import completion  # noqa: F401 it registers the shells
        if not more.pop("standalone_mode", True):
            return super().main(args, prog_name, standalone_mode=False, **more)
        sys.exit(self._exit_code(args, prog_name, **more))

    def _exit_code(self, args: Sequence[str] | None, prog_name: str | None, **more: Any) -> int:
        try:
            code = super().main(args, prog_name, standalone_mode=False, **more)
            return code if isinstance(code, int) else 0
        except click.ClickException as error:
            from runlake.commands.running import CANNOT_BEGIN

            report_error(_usage(error, self._path_of(args)))
            return CANNOT_BEGIN if self._is_of_exec(error, args) else error.exit_code
        except click.Abort as error:
            if notes := _notes(error.__cause__):
                report_error(RunlakeError("interrupted", next_step=notes))
            return _INTERRUPTED
        except BrokenPipeError:
            raise
        except Exception as error:
            if os.environ.get("RUNLAKE_DEBUG"):
                raise
            report_error(_translated(error))
            return _FAILED

    def _path_of(self, args: Sequence[str] | None) -> str:
        """The words of the command that was typed, for an error without a context."""
        words = ["runlake"]
        command: click.Command = self
        for word in takewhile(lambda word: word != "--", sys.argv[1:] if args is None else args):
            found = command.commands.get(word) if isinstance(command, click.Group) else None
            if found is not None:
                words, command = [*words, word], found
        return " ".join(words)

    def _is_of_exec(self, error: click.ClickException, args: Sequence[str] | None) -> bool:
        """Whether a usage error is one of ``exec``: in its own options, or in the program's options before it."""
        command = error.ctx.command if isinstance(error, click.UsageError) and error.ctx else self
        if command is self:
            typed = takewhile(lambda word: word != "--", sys.argv[1:] if args is None else args)
            command = next((self.commands[word] for word in typed if word in self.commands), self)
        return command is self.commands["exec"]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from runlake.commands.suggestions import suggested_command

            raise _UnknownCommandError(args[0], suggested_command(args[0], self.commands), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (AccessError, NotFoundError) as error:
            report_error(_located(ctx.obj, error))
        except RunlakeError as error:
            report_error(error)
        ctx.exit(_FAILED)


class _UnknownCommandError(click.UsageError):
    """``suggested``: the command to suggest, if any."""

    def __init__(self, typed: str, suggested: str | None, ctx: click.Context) -> None:
        super().__init__(f"no such command {typed!r}", ctx)
        self.suggested = suggested


class _UsageError(RunlakeError):
    """The command line is not valid."""


def _usage(error: click.ClickException, typed: str) -> RunlakeError:
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else typed
    suggested = _moved_option(error)
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        from runlake.commands.suggestions import suggested_options

        error.possibilities[:] = [] if suggested else suggested_options(error.possibilities)
    message = " ".join(error.format_message().split())
    translated = _UsageError(message[:1].lower() + message[1:].removesuffix("."))
    if isinstance(error, _UnknownCommandError) and error.suggested:
        suggested = f"{command} {error.suggested}"
    translated.next_step = (f"try `{suggested}`, or " if suggested else "") + f"see `{command} --help`"
    return translated


def _moved_option(error: click.ClickException) -> str | None:
    """The beginning of the command with a general option, which was typed after the command's name, in its place; None for other errors."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent is None:
        return None
    is_general = any(error.option_name in option.opts for option in runlake.params)
    return f"{runlake.name} {error.option_name} … {error.ctx.command_path.partition(' ')[2]}" if is_general else None


def _translated(error: Exception) -> RunlakeError:
    if isinstance(error, OSError):
        translated: RunlakeError = SettingsError(": ".join(filter(None, [error.strerror or str(error), str(error.filename or "")])))
        translated.next_step = "; ".join(filter(None, ["check the path, its permissions and the space on its disk", _notes(error)]))
        return translated
    # Responses have no schema check: a missing field, or one of another type, raises where it is read. It is not Runlake's API.
    translated = UnavailableError(f"invalid response: {type(error).__name__}: {error}")
    translated.next_step = "is the address right, and the server of this version? RUNLAKE_DEBUG=1 shows a traceback"
    return translated


def _notes(error: BaseException | None) -> str:
    """The next steps that an error of Python has."""
    return "; ".join(getattr(error, "__notes__", ()))


def _located(session: Session, error: ApiError) -> ApiError:
    """The error, or an AddressError if the server at the address is not Runlake."""
    with suppress(RunlakeError), session.archive() as archive:
        return archive.located(error)
    return error


_PLACES = (
    "reading.runs", "reading.pipelines", "reading.tail", "reading.cat", "search.grep", "reading.download", "explanations.why",
    "events.steps", "events.events", "forward.forward", "setting.status", "login.login", "login.logout", "login.whoami",
    "writing.drain", "writing.close", "deletion.delete", "files.files", "setting.config", "setting.profiles", "completion.completion",
)  # fmt: skip
_COMMANDS = {place.partition(".")[2]: place for place in _PLACES} | {"exec": "running.execute_command", "open": "page.open_page"}


@click.group(cls=_CommandLine, commands=Commands(_COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
@click.option(
    "--profile", shell_complete=profile_candidates, help="The profile of the settings file; `runlake profiles` lists them."
)
@click.option("--url", help="The stack's address, as https://logs.example.com/api")
@click.option("--auth", type=click.Choice(["iam", "token"]), help="Sign requests with AWS credentials (iam), or send a token.")
@click.option("--token", help="A bearer token. Other users of this machine can see it here: prefer a file, or RUNLAKE_TOKEN.")
@click.option("--token-file", help="A file that contains the token.")
@click.option("--token-command", help="A command that prints the token.")
@click.option("--timeout-s", type=Seconds(min=0.001), help="Seconds until the first byte of a response.")
@click.option("--spool-dir", help="Folder of unsent lines and unfinished uploads.")
@click.pass_context
def runlake(ctx: click.Context, /, **options: Any) -> None:
    """Archive the logs of pipeline runs, follow and fetch them.

    Settings: these options, then RUNLAKE_URL and so on, then the profile and the other settings of ~/.config/runlake/config.toml; see
    `runlake config`. Without RUN, commands use the newest run of the pipeline.
    """
    ctx.obj = Session(options)


def main() -> None:
    """The command line. If the reader of stdout closes the pipe, it exits silently with 128 + SIGPIPE, as other filters do."""
    try:
        runlake(prog_name="runlake")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_INTERRUPTED + 11)  # 128 + SIGPIPE


if __name__ == "__main__":
    run_process(main)
