"""Commands that write to the archive: drain, close."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from runlake.browsing import checked_run
from runlake.commands.output import ago_of, is_terminal, report, show_json, show_rows, show_text, size_of, time_of
from runlake.commands.session import Session, fqn_argument, json_option, pass_session, run_argument
from runlake.commands.times import Seconds
from runlake.draining import Drained, Waiting, discard, drain_folder, waiting_in
from runlake.errors import RunlakeError, SettingsError
from runlake.names import RunName, public_url
from runlake.spool import drain_command, folders_in


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
