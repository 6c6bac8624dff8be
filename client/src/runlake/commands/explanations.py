"""The command that explains a failure: why."""

from __future__ import annotations

import sys
from typing import Any

import click

from runlake.archive import Archive
from runlake.browsing import last_failed
from runlake.commands.output import report, show_json, show_numbered, show_text
from runlake.commands.session import Session, fqn_argument, json_option, pass_session, run_argument
from runlake.commands.states import outcome_with_reason
from runlake.errors import RunlakeError
from runlake.names import RunName
from runlake.settings import RUN_LOG

_CONTEXT_LINES = 2
"""Lines before and after the first line."""
_NO_SIGN = 0.3
"""The score up to which a line has no sign of a failure (docs/explanation.md): next to a better line it says nothing."""
_NONE = 1


@click.command()
@fqn_argument(required=False)
@run_argument()
@json_option
@pass_session
def why(session: Session, fqn: str | None, run_id: str | None, as_json: bool) -> None:
    """Show up to three lines that explain why a run failed.

    Without RUN: of the run that failed or was lost last, of all pipelines or of those that match FQN, as 'shop.*'. The exit code is 1 when there
    is no such run or line.
    """
    with session.archive() as archive:
        facts = archive.facts(RunName(fqn, run_id)) if fqn and run_id else last_failed(archive, fqn)
        if facts is None:
            report(f"no run of {fqn} has failed" if fqn else "no run has failed")
            sys.exit(_NONE)
        run = RunName(str(facts.get("fqn", fqn)), str(facts["runId"]))
        explanation = archive.explanation(run)
        candidates = explanation["candidates"]
        if as_json:
            show_json({"fqn": run.fqn, "runId": run.run_id, "outcome": facts["outcome"], **explanation})
        else:
            _show(archive, run, facts, candidates, session.page(run.fqn, run.run_id))
        _report_limits(explanation)
        place = {} if candidates else archive.facts(run)
    if place and place["method"] != RUN_LOG:
        raise RunlakeError(
            f"the log of {run} is in another store: Runlake explains only its own browser={place['browser']}",
            next_step=f"read it: `runlake cat {run.words}`",
        )
    if not candidates:
        report("no line explains it")
        sys.exit(_NONE)


def _show(archive: Archive, run: RunName, facts: dict[str, Any], candidates: list[dict[str, Any]], page: str) -> None:
    show_text(f"{run}: {outcome_with_reason(facts)}")
    for each in (*candidates[:1], *(other for other in candidates[1:] if float(other["score"]) > _NO_SIGN)):
        show_text(f"line {int(each['line']) + 1}, {each['about']}: {each['text']}")
        if each is candidates[0]:
            _show_context(archive, run, int(each["line"]))
    if candidates and page:
        show_text(f"page: {page}#L{int(candidates[0]['line']) + 1}")


def _show_context(archive: Archive, run: RunName, line: int) -> None:
    first = max(0, line - _CONTEXT_LINES)
    page = archive.page(run, after=first, limit=line - first + 1 + _CONTEXT_LINES)
    for number, text in enumerate(page.lines, first):
        show_numbered(number + 1, text, is_marked=number == line)


def _report_limits(explanation: dict[str, Any]) -> None:
    if explanation["streaming"]:
        report("the run is running: this is preliminary")
    if int(explanation["fromLine"]):
        report(f"searched from line {int(explanation['fromLine']) + 1} on")
