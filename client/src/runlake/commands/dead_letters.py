"""Commands about dead letters, events that a handler of a processing pipeline failed to process: list, show, resend, drop."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from runlake.commands.output import first_rows, report, report_rest, show_json, show_line, show_rows, show_table, size_of, time_of
from runlake.commands.session import Group, Session, fqn_argument, json_option, limit_option, pass_session, run_argument
from runlake.names import DeadLetterName, RunName

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _letter(command: _Command) -> _Command:
    """The arguments that name a dead letter, in the order of the columns of the list."""
    for argument in (
        click.argument("line", type=click.IntRange(min=0)),
        run_argument(required=True),
        fqn_argument(),
        click.argument("handler"),
        click.argument("pipeline"),
    ):
        command = argument(command)
    return command


@click.group(cls=Group)
def dead() -> None:
    """List, inspect, re-send and drop dead letters: events that a handler failed to process.

    PIPELINE is the processing pipeline, FQN and RUN the run that logged the event, LINE its first line, from 0.
    """


@dead.command("list")
@fqn_argument(required=False)
@run_argument()
@click.option("--pipeline", help="Only of this processing pipeline.")
@click.option("--handler", help="Only of this handler.")
@limit_option(100)
@json_option
@pass_session
def list_command(
    session: Session, fqn: str | None, run_id: str | None, pipeline: str | None, handler: str | None, limit: int, as_json: bool
) -> None:
    """List dead letters: all, of the runs of FQN, or of one run. The first five columns are the arguments of the other commands."""
    names = {"fqn": fqn, "runId": run_id, "pipeline": pipeline, "handler": handler}
    query = {name: value for name, value in names.items() if value is not None}
    with session.archive() as archive:
        letters, is_all = first_rows(archive.dead_letters(limit + 1, **query), limit)
    show_table(letters, ("PIPELINE", "HANDLER", "FQN", "RUN", "LINE", "SIZE", "LAST ATTEMPT"), _row, as_json=as_json)
    if not letters:
        report("no dead letters")
    report_rest(is_all, limit)


@dead.command()
@_letter
@json_option
@pass_session
def show(session: Session, pipeline: str, handler: str, fqn: str, run_id: str, line: int, as_json: bool) -> None:
    """Show the reason of a dead letter and its event; the traceback requires the scope admin of pipelines/PIPELINE."""
    with session.archive() as archive:
        letter = archive.dead_letter(DeadLetterName(pipeline, handler, RunName(fqn, run_id), line))
    if as_json:
        show_json(letter)
        return
    event = letter["event"]
    show_rows(
        ("", ""),
        [
            ("reason", letter["reason"]),
            ("attempts", str(letter["attempts"])),
            ("last attempt", letter["failedAt"]),
            ("re-send requested", letter["resendRequestedAt"] or "-"),
            ("time", time_of(event["time"])),
            ("level", event["level"]),
            ("logger", event["logger"]),
            ("step", event["step"] or "-"),
            ("data", json.dumps(event["data"], ensure_ascii=False) if event["data"] else "-"),
        ],
    )
    for text in (event["message"], letter["trace"] or ""):
        if text:
            show_line("")
            for each in str(text).rstrip("\n").split("\n"):
                show_line(each)
    if letter["truncated"]:
        report("the event is too large for a response: its message is cut, or its data are missing")


@dead.command()
@_letter
@json_option
@pass_session
def resend(session: Session, pipeline: str, handler: str, fqn: str, run_id: str, line: int, as_json: bool) -> None:
    """Request that a dead letter is sent again to its handler, at least once, at a next checkpoint of the pipeline.

    It is deleted once the handler has accepted it. Requires the scope admin of pipelines/PIPELINE.
    """
    with session.archive() as archive:
        request = archive.resend_dead_letter(DeadLetterName(pipeline, handler, RunName(fqn, run_id), line))
    if as_json:
        show_json(request)
    else:
        report("requested: `runlake pipelines dead list` shows it until the handler has accepted it")


@dead.command()
@_letter
@pass_session
def drop(session: Session, pipeline: str, handler: str, fqn: str, run_id: str, line: int) -> None:
    """Delete a dead letter for good. Requires the scope admin of pipelines/PIPELINE."""
    with session.archive() as archive:
        archive.drop_dead_letter(DeadLetterName(pipeline, handler, RunName(fqn, run_id), line))
    report("dropped")


def _row(letter: dict[str, Any]) -> list[str]:
    names = [letter["pipeline"], letter["handler"], letter["fqn"], letter["runId"], str(letter["line"])]
    return [*names, size_of(letter["bytes"]), letter["storedAt"]]
