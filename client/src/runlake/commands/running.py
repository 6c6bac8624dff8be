"""The command that runs another one: exec. It imports little before that one begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from runlake.commands.output import report, report_error
from runlake.commands.session import Session, fqn_argument, pass_session
from runlake.commands.times import HeartbeatSeconds, Seconds
from runlake.errors import RunlakeError, SettingsError
from runlake.execution import execute
from runlake.masking import Mask
from runlake.names import page_url
from runlake.outcomes import CANCELLED, FAILED
from runlake.plans import RunPlan
from runlake.settings import RUN_LOG
from runlake.starts import MAX_ATTEMPTS, StartedRun
from runlake.supervision import Supervisor
from runlake.zones import checked_zone

if TYPE_CHECKING:
    from runlake.handler import RunlogHandler

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
    with Supervisor() as supervisor:  # before the run, which no signal leaves open
        try:
            settings = session.settings(heartbeat_s=heartbeat, method=method, mask=mask)
            masking = Mask(_values_of(mask_env), shapes=settings.mask)
            plan = RunPlan(
                settings, fqn, run_id, closes_run=True, command=cache(partial(_masked, command, masking)), attempt=attempt,
                zone="" if zone is None else checked_zone(zone),
            )  # fmt: skip
            on_started = None if quiet else partial(_report_start, settings.page_address(), started)
        except RunlakeError as error:
            report_error(error)
            sys.exit(CANNOT_BEGIN)
        out, err = (getattr(stream, "buffer", None) for stream in (sys.stdout, sys.stderr))
        environment, connect = plan.environment(plan.zone), partial(_handler, plan, masking, on_started)
        code, end = execute(command, environment, connect, supervisor, out, err, patience, report=report, on_term=on_term)
        if started and end.outcome == FAILED and plan.method.name == RUN_LOG:
            report(f"failed: `runlake why {started[-1].run.words}` shows the lines that explain it")
        sys.exit(code)


def _handler(plan: RunPlan, mask: Mask, on_started: Callable[[StartedRun], None] | None) -> RunlogHandler:
    from runlake.handler import RunlogHandler

    return RunlogHandler.of(plan, mask, on_started)


def _report_start(page: str, runs: list[StartedRun], started: StartedRun) -> None:
    """Report a run that was started, and add it to ``runs``. ``page``: the address with the page; "" if it is unknown."""
    runs.append(started)
    report(f"archived as {started}")
    if " " in str(started.run):
        report(f"the names have blanks: quote them, as in `runlake status {started.run.words}`")
    if page:
        report(f"page: {page_url(page, started.run.fqn, started.run.run_id)}")


def _masked(command: tuple[str, ...], mask: Mask) -> str:
    from runlake.handler import masked_command

    return masked_command(command, mask)


def _values_of(names: tuple[str, ...]) -> list[str]:
    """Raises SettingsError for a variable that is not set: a misspelt name would mask nothing."""
    if missing := [name for name in names if name not in os.environ]:
        following = "set the variable, or correct the name after --mask-env"
        raise SettingsError(f"there is nothing to mask: the variable is not set name={', '.join(missing)}", next_step=following)
    return [os.environ[name] for name in names]
