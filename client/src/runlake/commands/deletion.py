"""The command that deletes a run, or a pipeline with its runs: delete."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from runlake.archive import Archive
from runlake.commands.output import report, show_json, show_text
from runlake.commands.session import Session, fqn_argument, json_option, pass_session, run_argument
from runlake.errors import RunlakeError, SettingsError
from runlake.names import RunName

_MAX_CALLS = 1000
"""A call removes at least a thousand objects, so more than this is an error of the server."""
_DELETED = "deleted"


@click.command()
@fqn_argument()
@run_argument()
@click.option("--reason", default="", metavar="TEXT", help="Why, for the audit and the mark that stays; at most 500 characters.")
@click.option("--yes", is_flag=True, help="Do not ask for the name.")
@json_option
@pass_session
def delete(session: Session, fqn: str, run_id: str | None, reason: str, yes: bool, as_json: bool) -> None:
    """Delete run RUN of pipeline FQN, or without RUN the pipeline with all of its runs, for good.

    Its lines, events, steps, files of pipelines and all facts about it are removed; only a mark stays with who deleted it, when, and why. Lines
    of a deleted run that wait on a disk are dropped, too. Requires the scope logs:delete. A repeated or interrupted deletion is continued.
    """
    if run_id == "":  # as of a variable that is not set
        raise SettingsError("RUN is empty: nothing is deleted", next_step="name the run, or leave RUN out to delete all of them")
    what = str(RunName(fqn, run_id)) if run_id else f"pipeline {fqn} with all of its runs"
    if not yes:
        _confirm(what, run_id or fqn)
    with session.archive() as archive:
        answer = _deleted(archive, fqn, run_id, reason)
    if as_json:
        show_json({"fqn": fqn, "runId": run_id, **answer})
    else:
        _show(what, answer)


def _confirm(what: str, name: str) -> None:
    if not is_a_person_there():
        raise SettingsError(f"{what} is not deleted: nobody can be asked", next_step="add --yes to delete it without a question")
    typed = click.prompt(f"This deletes {what} for good. Type {name} to confirm", err=True, default="", show_default=False)
    if typed.strip() != name:
        raise SettingsError(
            f"{what} is not deleted: the name differs", next_step="run the command again, and type the name as shown"
        )


def is_a_person_there() -> bool:
    """Whether a question can be answered."""
    return sys.stdin.isatty()


def _deleted(archive: Archive, fqn: str, run_id: str | None, reason: str) -> dict[str, Any]:
    """The answer of the last call, with the counts of all: each continues the one before. An answer for a pipeline counts its own call."""
    counts = Counter[str]()
    for _ in range(_MAX_CALLS):
        answer = archive.delete(fqn, run_id, reason)
        counts = Counter(answer["counts"]) + (Counter() if run_id else counts)
        if answer["state"] == _DELETED:
            return answer | {"counts": dict(counts)}
        report(f"deleting: {_counted(counts)} so far")
    raise RunlakeError("the deletion does not end", next_step="the server continues it by itself; run the command again later")


def _show(what: str, answer: dict[str, Any]) -> None:
    show_text(f"{what} is deleted: {_counted(answer['counts'])}")
    for each in answer["outstanding"]:
        report(f"outstanding: {each['what']}, until {each['until']}")
    for text in answer["outside"]:
        report(f"not reached: {text}")


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(_named(name, count) for name, count in counts.items() if count) or "nothing was stored"


def _named(name: str, count: int) -> str:
    """A count with the name of its field in words: ``deadLetters`` are dead letters."""
    words = re.sub("[A-Z]", lambda letter: f" {letter[0].lower()}", name)
    return f"{count} {words.removesuffix('s') if count == 1 else words}"
