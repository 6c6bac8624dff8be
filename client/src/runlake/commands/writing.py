"""Commands that write to the archive: exec, drain, close."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from runlake.archive import Archive
from runlake.commands.output import show_json
from runlake.commands.session import Session, json_option, pass_session
from runlake.draining import Drain
from runlake.errors import RunlakeError, SettingsError
from runlake.execution import execute
from runlake.handler import RunlogHandler
from runlake.leftovers import claimed, leftovers_in
from runlake.names import RunName
from runlake.settings import Settings

_CANNOT_BEGIN = 125  # as env(1), timeout(1) and the like tell their own faults


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--run-id", help="The run's id; made up unless it is given.")
@click.option(
    "--patience", default=60.0, show_default=True, help="Seconds to hold the command up, or wait at its end, while nothing moves."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not tell the run's name.")
@click.option("--mask-env", multiple=True, metavar="NAME", help="Mask the value of this variable in the archive; may be repeated.")
@click.argument("fqn")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@pass_session
def execute_command(
    session: Session,
    fqn: str,
    command: tuple[str, ...],
    run_id: str | None,
    patience: float,
    quiet: bool,
    mask_env: tuple[str, ...],
) -> None:
    """Run COMMAND and archive its output as a run of pipeline FQN: runlake exec nightly.orders -- ./load.sh --all

    Output, signals and the exit code are the command's own (128 + N when signal N killed it). The run's last line tells its
    end, and the run is closed. The command finds RUNLAKE_FQN and RUNLAKE_RUN_ID in its environment.
    """
    try:
        settings = session.settings()
        handler = RunlogHandler(fqn, run_id, close_run=True, settings=settings, secrets=_values_of(mask_env))
    except RunlakeError as error:
        click.echo(f"runlake: {error}\nnext: {error.next_step}", err=True)
        sys.exit(_CANNOT_BEGIN)
    if not quiet:
        click.echo(f"runlake: archived as {handler.run}", err=True)
    code = execute(command[1:] if command[0] == "--" else command, handler, sys.stdout.buffer, patience)
    handler.finish(patience, while_moving=True)
    sys.exit(code)


@click.command()
@click.option("--patience", default=30.0, show_default=True, help="Seconds to wait while nothing moves.")
@json_option
@pass_session
def drain(session: Session, patience: float, as_json: bool) -> None:
    """Ship the lines that programs had to leave on disk when they ended without the server."""
    settings = session.settings()
    drained = kept = failed = 0
    for folder in leftovers_in(settings.spool_root):
        try:
            stored, left = _drained(folder, settings, patience)
            drained, kept = drained + stored, kept + left
        except (RunlakeError, OSError) as error:
            failed += 1
            click.echo(f"runlake: {folder} stays as it is: {error}", err=True)
    if as_json:
        show_json({"stored": drained, "kept": kept, "failed": failed})
    else:
        click.echo(f"{drained} lines stored, {kept} wait on, {failed} folders could not be read or sent")
    sys.exit(1 if kept or failed else 0)


@click.command()
@click.argument("fqn")
@click.argument("run_id", metavar="RUN")
@json_option
@pass_session
def close(session: Session, fqn: str, run_id: str, as_json: bool) -> None:
    """End run RUN of pipeline FQN for good: no line can follow."""
    with session.archive() as archive:
        archive.close_run(RunName(fqn, run_id))
    if as_json:
        show_json({"fqn": fqn, "runId": run_id, "closed": True})
    else:
        click.echo(f"{fqn}/{run_id} is closed")


def _values_of(names: tuple[str, ...]) -> list[str]:
    """Raises SettingsError for a variable that is not there: a name with a mistake in it would mask nothing."""
    if missing := [name for name in names if name not in os.environ]:
        raise SettingsError(f"there is nothing to mask: the variable is not set name={', '.join(missing)}")
    return [os.environ[name] for name in names]


def _drained(folder: Path, settings: Settings, patience_s: float) -> tuple[int, int]:
    """Lines that were stored, and lines that wait on where they were."""
    with claimed(folder) as leftover:
        if leftover is None:
            return 0, 0
        with Archive(leftover.url, settings.bearer, settings.timeout_s) as archive:
            draining = Drain(folder, leftover, archive, patience_s)
            left = draining.run()
        if draining.refused:
            click.echo(f"runlake: {draining.refused} of {leftover.run} were refused: {draining.reason}", err=True)
        return draining.stored, left
