"""Commands about events: ``steps`` and ``events``."""

from __future__ import annotations

from typing import Any

import click

from runlake.browsing import as_tree, checked_run, events_of
from runlake.commands.output import report, short_duration_of, show_event, show_json, show_rows
from runlake.commands.session import Session, fqn_and_run, json_option, pass_session, run_of
from runlake.commands.times import ms_of
from runlake.levels import LEVELS, is_level

_NO_STEPS = "the run has no steps: a program writes them with `runlake.run(…, events=True) as run` and `run.step(name)`"
_SIGNS = {"succeeded": "ok", "failed": "FAILED", "running": "running", None: "-"}


def checked_level(context: click.Context, parameter: click.Parameter, level: str | None) -> str | None:
    """A callback of an option: raises click.BadParameter for a text that is no level."""
    if level is not None and not is_level(level):
        raise click.BadParameter(f"{level[:40]!a} is not a level: use one of {', '.join(LEVELS)}.")
    return level


@click.command()
@fqn_and_run
@json_option
@pass_session
def steps(session: Session, fqn: str, run_id: str | None, as_json: bool) -> None:
    """Show the steps of a run as a tree: status, duration, lines, errors, and whether their events are complete."""
    with session.archive() as archive:
        run = run_of(archive, fqn, run_id)
        listed = archive.steps(run) or checked_run(archive, run, [])
    if as_json:
        for step in listed:
            show_json(step)
    elif not listed:
        report(_NO_STEPS)
    else:
        show_rows(("STEP", "STATUS", "TOOK", "LINES", "ERRORS", "LOG", "ID"), map(_row, as_tree(listed)))


@click.command()
@fqn_and_run
@click.option("--level", callback=checked_level, help="Only events of this level, such as ERROR; case-insensitive.")
@click.option("--step", help="Only events of the step with this id.")
@click.option("--text", help="Only events that contain this text.")
@click.option(
    "--from",
    "from_time",
    type=ms_of,
    metavar="TIME",
    help="Only from this time on: 10m, 2h, 1d ago, ISO 8601, or ms since the epoch. An event without a time counts with the one before it.",
)
@click.option("--to", "to_time", type=ms_of, metavar="TIME", help="Only before this time.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Maximum number of events [default: all].")
@json_option
@pass_session
def events(
    session: Session, fqn: str, run_id: str | None, level: str | None, step: str | None, text: str | None,
    from_time: int | None, to_time: int | None, limit: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Show the events of a run, filtered by the server: time, level, step and message of each; with --json all fields."""
    query = {"level": level, "step": step, "text": text, "from": from_time, "to": to_time}
    filters = {name: value for name, value in query.items() if value is not None}
    with session.archive() as archive:
        run, is_empty = run_of(archive, fqn, run_id), True
        for event in events_of(archive, run, limit, **filters):
            is_empty = False
            if as_json:
                show_json(event)
            else:
                show_event(event)
        if is_empty:
            checked_run(archive, run, None)


def _row(node: tuple[int, dict[str, Any]]) -> list[str]:
    depth, step = node
    name = "  " * depth + step["name"]
    lasted = "-" if step["durationMs"] is None else short_duration_of(step["durationMs"])
    state = "complete" if step["complete"] else "incomplete"
    return [name, _SIGNS.get(step["status"], "-"), lasted, str(step["lines"]), str(step["errors"]), state, step["step"]]
