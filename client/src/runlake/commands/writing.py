"""Commands that write to the archive: exec, drain, close."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from runlake.browsing import checked_run
from runlake.commands.output import ago_of, is_terminal, report, report_error, show_json, show_rows, show_text, size_of, time_of
from runlake.commands.session import Session, fqn_argument, json_option, pass_session, run_argument
from runlake.commands.times import HeartbeatSeconds, Seconds
from runlake.draining import Drained, Waiting, discard, drain_folder, waiting_in
from runlake.errors import RunlakeError, SettingsError
from runlake.execution import execute
from runlake.handler import RunlogHandler, masked_command
from runlake.masking import Mask
from runlake.names import RunName, page_url, public_url
from runlake.outcomes import CANCELLED, FAILED
from runlake.settings import RUN_LOG
from runlake.spool import drain_command, folders_in
from runlake.starts import MAX_ATTEMPTS, StartedRun
from runlake.supervision import Supervisor
from runlake.zones import checked_zone

CANNOT_BEGIN = 125
"""The exit code of ``exec`` if it ran nothing, as env(1) and timeout(1) report their own errors."""


class _Exec(click.Command):
    """Options come before or after FQN; from the next word on, or after ``--``, all words belong to the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with_value = {
            name for option in self.params if isinstance(option, click.Option) and not option.is_flag for name in option.opts
        }
        options: list[str] = []
        fqn: list[str] = []
        words = list(args)
        while words and words[0] != "--":
            word = words[0]
            if word.startswith("-") and word != "-":
                size = 2 if word in with_value else 1
                options, words = options + words[:size], words[size:]
            elif not fqn:
                fqn, words = [word], words[1:]
            else:
                break
        if words[:1] == ["--"]:
            words = words[1:]
        return super().parse_args(ctx, [*options, "--", *fqn, *words])


@click.command("exec", cls=_Exec)
@click.option("--run-id", help="The run's id [default: generated].")
@click.option(
    "--attempt",
    type=click.IntRange(1, MAX_ATTEMPTS),
    metavar="N",
    help="The number of this attempt of the run [default: RUNLAKE_ATTEMPT, or the next free one].",
)
@click.option(
    "--patience",
    type=Seconds(),
    default=60.0,
    show_default=True,
    help="Seconds to block the command, or to wait at its end, without progress.",
)
@click.option(
    "--heartbeat",
    type=HeartbeatSeconds(),
    metavar="SECONDS",
    help="Seconds without output until a sign of life is sent, from 10; 0: none [default: the setting heartbeat_s].",
)
@click.option("--method", metavar="NAME", help="The logging method: where the lines are written [default: as the settings say].")
@click.option(
    "--zone",
    metavar="ZONE",
    help="The zone of times without one in the output: Europe/Berlin, +01:00, or local [default: none stated, they are in UTC].",
)
@click.option(
    "--on-term",
    type=click.Choice([FAILED, CANCELLED]),
    default=FAILED,
    show_default=True,
    help="The outcome of a command that fails after a signal to end it, other than a typed Ctrl-C.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print the run's name, its page and the `why` command.")
@click.option("--mask-env", multiple=True, metavar="NAME", help="Mask the value of this variable in the archive; may be repeated.")
@click.option(
    "--mask/--no-mask",
    default=None,
    help="Whether secrets are masked by their shape before lines are kept or sent; values of --mask-env always are [default: the setting mask].",
)
@fqn_argument()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@pass_session
def execute_command(
    session: Session,
    fqn: str,
    command: tuple[str, ...],
    run_id: str | None,
    attempt: int | None,
    patience: float,
    heartbeat: int | None,
    method: str | None,
    zone: str | None,
    on_term: str,
    quiet: bool,
    mask_env: tuple[str, ...],
    mask: bool | None,
) -> None:
    """Run COMMAND and archive its output as a run of pipeline FQN: runlake exec nightly.orders -- ./load.sh --all

    Both outputs, signals and the exit code are the command's (128 + N if signal N killed it). The run's last line states the result, and the
    run is then closed, within five seconds of a signal that ended the command. A run id that was used before gets its next attempt, with its
    own log: RUN~2, RUN~3, … The command has RUNLAKE_FQN, RUNLAKE_RUN_ID and RUNLAKE_START in its environment: lines that it logs by the
    library join this attempt.

    The exit code is the command's even if lines could not be stored: they wait on disk, and a message says where. 126 and 127: the command could
    not be started. 125: nothing was run, because options or settings are wrong.
    """
    started: list[StartedRun] = []
    with Supervisor() as supervisor:  # before the handler, whose run no signal leaves open
        try:
            settings = session.settings(heartbeat_s=heartbeat, method=method, mask=mask)
            masking = Mask(_values_of(mask_env), shapes=settings.mask)
            handler = RunlogHandler(
                fqn,
                run_id,
                close_run=True,
                settings=settings,
                secrets=masking,
                command=partial(_masked, command, masking),
                attempt=attempt,
                zone="" if zone is None else checked_zone(zone),
                on_started=None if quiet else partial(_report_start, settings.page_address(), started),
            )
        except RunlakeError as error:
            report_error(error)
            sys.exit(CANNOT_BEGIN)
        out, err = (getattr(stream, "buffer", None) for stream in (sys.stdout, sys.stderr))
        code, end = execute(command, handler, supervisor, out, err, patience, report=report, on_term=on_term)
        handler.finish(patience, while_moving=True, end=end, report_wait=True)
        if started and end.outcome == FAILED and handler.method == RUN_LOG:
            report(f"failed: `runlake why {started[-1].run.words}` shows the lines that explain it")
        sys.exit(code)


@click.command()
@click.option("--patience", type=Seconds(), default=30.0, show_default=True, help="Seconds to wait without progress.")
@click.option("--list", "is_list", is_flag=True, help="Do not send: list what waits, with run, server, age and reason.")
@click.option("--next-attempt", is_flag=True, help="Store lines of runs that were closed meanwhile in their next attempts.")
@click.option(
    "--moved-from",
    default="",
    metavar="URL",
    help="This address was wrong, or has changed: send its lines to that of the settings.",
)
@click.option(
    "--discard",
    "discarded",
    multiple=True,
    metavar="FOLDER",
    help="Do not send: delete this folder of `--list` with its lines; may be repeated.",
)
@json_option
@pass_session
def drain(
    session: Session,
    patience: float,
    is_list: bool,
    next_attempt: bool,
    moved_from: str,
    discarded: tuple[str, ...],
    as_json: bool,
) -> None:
    """Ship the lines, and ends of runs, that programs left on disk because they were killed or the server was away.

    A run is ended only if the program had reported its end. Lines of a run that was closed meanwhile stay, unless --next-attempt is set. Programs
    that start on this machine drain in the background; this command says why something stays. Exit code 1: something was left or refused.
    """
    settings = session.settings()
    folders = folders_in(settings.spool_root)
    if is_list:
        _list(settings.spool_root, folders, as_json)
        return
    if discarded:
        _discard(settings.spool_root, folders, discarded, as_json)
        return
    drained = kept = failed = 0
    over_s = time.monotonic() + patience
    for folder in folders:
        try:
            left_s = max(over_s - time.monotonic(), 0)
            result = drain_folder(folder, settings, left_s, starts_again=next_attempt, moved_from=moved_from)
        except Exception as error:  # an error in one folder must not stop the drain
            failed += 1
            report(f"{folder} stays as it is: {_reason_of(error)}")
            continue
        if result is not None:
            drained, kept = drained + result.stored, kept + result.left + result.aside
            if result.bytes or result.is_done:
                over_s = time.monotonic() + patience
            failed += not result.is_done and not result.left
            _report_drained(folder, result)
    if as_json:
        show_json({"stored": drained, "kept": kept, "failed": failed})
    else:
        show_text(f"{drained} lines stored, {kept} still wait, {failed} folders could not be read or sent")
    sys.exit(1 if kept or failed else 0)


@click.command()
@fqn_argument()
@run_argument(required=True)
@json_option
@pass_session
def close(session: Session, fqn: str, run_id: str, as_json: bool) -> None:
    """End run RUN of pipeline FQN for good: no line can follow. Does not create a run that does not exist."""
    run = RunName(fqn, run_id)
    with session.archive() as archive:
        checked_run(archive, run, None)
        archive.close_run(run)
    if as_json:
        show_json({"fqn": fqn, "runId": run_id, "closed": True})
    else:
        show_text(f"{run} is closed")


def _report_start(page: str, runs: list[StartedRun], started: StartedRun) -> None:
    """Report a run that was started, and add it to ``runs``. ``page``: the address with the page; "" if it is unknown."""
    runs.append(started)
    report(f"archived as {started}")
    if " " in str(started.run):
        report(f"the names have blanks: quote them, as in `runlake status {started.run.words}`")
    if page:
        report(f"page: {page_url(page, started.run.fqn, started.run.run_id)}")


def _masked(command: tuple[str, ...], mask: Mask) -> str:
    """The command for the archive; empty if masking does not work, of which ``execute`` reports."""
    with suppress(ImportError):
        return masked_command(command, mask)
    return ""


def _values_of(names: tuple[str, ...]) -> list[str]:
    """Raises SettingsError for a variable that is not set: a misspelt name would mask nothing."""
    if missing := [name for name in names if name not in os.environ]:
        following = "set the variable, or correct the name after --mask-env"
        raise SettingsError(f"there is nothing to mask: the variable is not set name={', '.join(missing)}", next_step=following)
    return [os.environ[name] for name in names]


def _list(root: Path, folders: list[Path], as_json: bool) -> None:
    rows = list(filter(None, map(_waiting, folders)))
    if as_json:
        for row in rows:
            show_json(_waiting_document(row))
    elif rows and is_terminal():
        cells = [[row.folder.name, str(row.lines), size_of(row.bytes), ago_of(row.since_ms)] for row in rows]
        notes = [(f"{row.state.stored_as} for {public_url(row.state.url)}", _why_it_waits(row)) for row in rows]
        show_rows(("FOLDER", "LINES", "SIZE", "AGE"), cells, notes=notes)
    else:
        show_rows((), map(_waiting_row, rows))
    if not folders:
        report(f"nothing waits in {root}")


def _reason_of(error: Exception) -> str:
    if isinstance(error, RunlakeError) and error.next_step:
        return f"{error} ({error.next_step})"
    return str(error) if isinstance(error, (RunlakeError, OSError)) else f"{type(error).__name__}: {error}"


def _waiting(folder: Path) -> Waiting | None:
    """None if its writer lives or another drain works on it. Reports a folder that cannot be read."""
    try:
        return waiting_in(folder)
    except Exception as error:  # list the remaining folders
        report(f"{folder} cannot be read: {_reason_of(error)}")
        return None


def _why_it_waits(row: Waiting) -> str:
    return row.state.reason or ("" if row.state.is_ended else "the program was killed")


def _waiting_document(row: Waiting) -> dict[str, Any]:
    run = {"fqn": row.state.run.fqn, "runId": row.state.stored_as.run_id, "url": public_url(row.state.url)}
    return {
        "folder": row.folder.name,
        **run,
        "lines": row.lines,
        "bytes": row.bytes,
        "sinceMs": row.since_ms,
        "reason": _why_it_waits(row),
    }


def _waiting_row(row: Waiting) -> list[str]:
    where = [row.folder.name, str(row.state.stored_as), public_url(row.state.url)]
    return [*where, str(row.lines), size_of(row.bytes), time_of(row.since_ms), _why_it_waits(row)]


def _discard(root: Path, folders: list[Path], names: tuple[str, ...], as_json: bool) -> None:
    by_name = {name: folder for folder in folders for name in (folder.name, str(folder))}
    if unknown := [name for name in names if name not in by_name]:
        raise SettingsError(
            f"no such folder of unsent lines: {', '.join(unknown)}", next_step=f"`{drain_command(root)} --list` lists them"
        )
    deleted = [name for name in names if discard(by_name[name])]
    for name in deleted:
        if not as_json:
            show_text(f"{name} is deleted, and its lines are lost")
    if as_json:
        show_json({"discarded": deleted})
    if busy := [name for name in names if name not in deleted]:
        report(f"not deleted, its program runs or another drain works on it: {', '.join(busy)}")
        sys.exit(1)


def _report_drained(folder: Path, result: Drained) -> None:
    for notice in result.notices:
        report(notice)
    if result.stored_as != result.run:
        report(f"{result.run} was started or closed before: its lines are archived as {result.stored_as}")
    if not result.is_done:
        what = f"{result.left} {result.unit} of {result.run} wait" if result.left else f"the end of {result.run} waits"
        reason = result.reason or "the time was too short"
        is_reported = any(reason in notice for notice in result.notices)
        report(f"{what} for {public_url(result.url)} in {folder}" + ("" if is_reported else f": {reason}"))
    if result.aside:
        report(f"{result.aside} {result.unit} of {result.run} were refused: `{drain_command(folder.parent)} --list` shows them")
