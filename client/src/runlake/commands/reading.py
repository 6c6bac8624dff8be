"""Commands that read logs: runs, pipelines, tail, cat, download."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from runlake.archive import Archive
from runlake.browsing import FAILURES, checked_run, step_log, step_of
from runlake.commands.output import (
    ProgressLine,
    ago_of,
    duration_of,
    first_rows,
    is_terminal,
    report,
    report_rest,
    show_json,
    show_line,
    show_log,
    show_rows,
    show_table,
    show_text,
    size_of,
    time_of,
)
from runlake.commands.session import Commands, Session, fqn_and_run, fqn_argument, json_option, limit_option, pass_session, run_of
from runlake.commands.states import OUTCOMES, outcome_of, reason_of, state_of
from runlake.commands.times import ms_of, since_of
from runlake.fetching import Download, DownloadResult
from runlake.following import IDLE, Follower, Piece, pages
from runlake.names import RunName, file_name

_UNKNOWN_TIMES = "times are those of arrival, because those of the lines are unknown"
_CLOCKS = {
    (None, "lines"): "times are those of the lines ({zone} where they name no zone), or of arrival where that is later",
    (None, "arrival"): _UNKNOWN_TIMES,
    ("lines", "lines"): "times are those of the lines ({zone} where they name no zone)",
    ("lines", "arrival"): _UNKNOWN_TIMES,
}
"""The notice for a page since a time, by the requested clock and the one that was used."""
_HEADS = ("PIPELINE", "RUN")
_FACTS = ("OUTCOME", "STATUS", "LINES", "SIZE", "LAST ACTIVE", "DURATION", "ATTEMPT", "REASON")
_SUMMARY = ("OUTCOME", "ACTIVE", "DURATION")
"""Columns of a list of runs: the names, the facts, and those of them that fit a narrow terminal."""


@click.command()
@fqn_argument(required=False)
@click.option("--failed", is_flag=True, help="Only runs that failed or were lost: --outcome failed --outcome lost.")
@click.option(
    "--outcome", "outcomes", type=click.Choice(OUTCOMES), multiple=True, help="Only runs with this outcome; may be repeated."
)
@click.option(
    "--since", type=ms_of, metavar="TIME", help="Only runs that were active since: 10m, 2h, 1d, ISO 8601, or ms since the epoch."
)
@click.option("--wide", is_flag=True, help="Show all columns on a terminal too, as in a pipe.")
@limit_option(20)
@json_option
@pass_session
def runs(
    session: Session,
    fqn: str | None,
    failed: bool,
    outcomes: tuple[str, ...],
    since: int | None,
    wide: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List runs, the last to be active first: of all pipelines, or of those that match FQN, as 'shop.*'.

    Of one pipeline the newest runs are listed, attempts of a run together. The last column, on a terminal the line below a run, is the line that
    explains a failure, otherwise what the run's client reported. Lists lag by seconds, that line by up to two minutes.
    """
    wanted = {*outcomes, *(FAILURES if failed else ())}
    pipeline = None if fqn is None or "*" in fqn else fqn
    with session.archive() as archive:
        if pipeline and not wanted and since is None:
            newest, is_all = first_rows(_runs_of(archive, pipeline, limit + 1), limit)
            listed = list(_by_run(newest))
        else:
            query = {"fqn": fqn, "outcome": ",".join(sorted(wanted)), "since": since}
            found = archive.recent_runs(
                limit + 1, **{name: value for name, value in query.items() if value is not None and value != ""}
            )
            listed, is_all = first_rows(found, limit)
        if not listed and fqn is not None:
            archive.check_runs_of(fqn)  # a misspelled pipeline must not look like one without failures
        names = ("runId",) if pipeline else ("fqn", "runId")
        if wide or as_json or not is_terminal():
            show_table(listed, (*_HEADS[-len(names) :], *_FACTS), lambda facts: _run_row(facts, names), as_json=as_json)
        else:
            rows = [[*(facts[name] for name in names), *_summary(facts)] for facts in listed]
            show_rows((*_HEADS[-len(names) :], *_SUMMARY), rows, optional=2, notes=[[_why(facts)] for facts in listed])
        report_rest(is_all, limit)
        if not listed:
            named = shlex.join([pipeline]) if pipeline else "FQN"
            report(f"no run matches; lists lag by seconds: `runlake status {named}` shows the newest run of a pipeline")
        if is_terminal() and not as_json and (page := session.page(pipeline)):
            show_text(f"page: {page}")


_LEFT = {
    "dead": "dead_letters.dead",
    "files": "pipeline_files.list_files",
    "cat": "pipeline_files.cat_files",
    "download": "pipeline_files.download_files",
}


@click.group(invoke_without_command=True, commands=Commands(_LEFT))
@click.option("--prefix", default="", help="Only pipelines whose names begin with this.")
@limit_option(20)
@json_option
@pass_session
@click.pass_context
def pipelines(context: click.Context, session: Session, prefix: str, limit: int, as_json: bool) -> None:
    """List the pipelines by name, each with its newest run; or what processing pipelines left."""
    if context.invoked_subcommand is not None:
        return
    with session.archive() as archive:
        listed, is_all = first_rows(archive.pipelines(prefix, limit + 1), limit)
        show_table(listed, ("PIPELINE", "LAST RUN", "STATUS", "LINES", "STARTED", "OUTCOME"), _pipeline_row, as_json=as_json)
        report_rest(is_all, limit)
        if is_terminal() and not as_json and (page := session.page()):
            show_text(f"page: {page}")


@click.command()
@fqn_and_run
@click.option("-f", "--follow", is_flag=True, help="Continue until the run has ended.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the last lines to begin with."
)
@click.option(
    "--since",
    type=since_of,
    metavar="TIME",
    help="Begin with lines since: 10m, 2h, 1d, ISO 8601 (UTC without a zone), or ms since the epoch. Lines that arrived since, and lines with "
    "such a time.",
)
@click.option(
    "--clock",
    type=click.Choice(["lines", "arrival"]),
    help="With --since: compare only the times in the lines, or only those of arrival.",
)
@json_option
@pass_session
def tail(
    session: Session, fqn: str, run_id: str | None, follow: bool, lines: int, since: str | None, clock: str | None, as_json: bool
) -> None:
    """Show the last lines of a run (by default the newest), and with -f new ones."""
    if clock and not since:
        raise click.UsageError("--clock needs --since")
    with session.archive() as archive:
        run = run_of(archive, fqn, run_id)
        begin: dict[str, Any] = ({"since": since} | ({"clock": clock} if clock else {})) if since else {"tail": lines}
        after: int | None = None
        if run_id:
            checked_run(archive, run, None)
        if since or not follow or lines == 0:
            for piece in pages(archive, run, **begin):
                if clock_notice := _CLOCKS.get((clock, piece.clock)):
                    report(clock_notice.format(zone=piece.zone or "UTC"))
                after = piece.first + len(piece.lines)
                _show(piece, as_json)
        if follow:
            _follow(Follower(archive, run, next_line=after, tail=lines, notice=report), as_json)


@click.command()
@fqn_and_run
@click.option("--step", help="Only the log of this step: its id, or its name if no other step has it.")
@click.option("--raw", is_flag=True, help="Unchanged bytes, to a terminal too.")
@pass_session
def cat(session: Session, fqn: str, run_id: str | None, step: str | None, raw: bool) -> None:
    """Write a complete log, byte for byte; to a terminal without its control characters."""
    with session.archive() as archive:
        run = run_of(archive, fqn, run_id)
        if step is not None:
            show_log(step_log(archive, run, step_of(archive, run, step)), raw=raw)
            return
        with archive.download(run) as (_, pieces):
            show_log(pieces, raw=raw)


@click.command()
@fqn_and_run
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file, or its folder [default: FQN-RUN.log].")
@json_option
@pass_session
def download(session: Session, fqn: str, run_id: str | None, output: Path | None, as_json: bool) -> None:
    """Download a log to a file, resume an interrupted download, and compare the file with the archive's counts."""
    with session.archive() as archive:
        run = run_of(archive, fqn, run_id)
        with ProgressLine(str(run)) as progress:
            fetched = Download(archive, run, _path_for(run, output), progress.update, notice=progress.report).fetch()
    _show_fetched(fetched, as_json)


def _runs_of(archive: Archive, fqn: str, limit: int) -> Iterator[dict[str, Any]]:
    """The newest first, with their pipeline."""
    return ({"fqn": fqn, **each} for each in archive.runs(fqn, limit))


def _by_run(runs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The last active first; attempts of a run together, the newest first, at the place of the last active one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for facts in sorted(runs, key=lambda facts: -int(facts["lastAppendMs"])):
        groups.setdefault(facts["firstRunId"], []).append(facts)
    for attempts in groups.values():
        yield from sorted(attempts, key=lambda facts: -int(facts["attempt"]))


def _follow(follower: Follower, as_json: bool) -> None:
    for piece in follower.pieces():
        _show(piece, as_json)
        if piece.end not in (None, "runFinished"):
            reason = f"the run is {outcome_of(follower.archive.facts(follower.run))}" if piece.end == IDLE else piece.end
            report(f"the stream ended: {reason}")


def _show(piece: Piece, as_json: bool) -> None:
    for number, line in enumerate(piece.lines, piece.first):
        if as_json:
            show_json({"line": number, "text": line})
        else:
            show_line(line)


def _path_for(run: RunName, output: Path | None) -> Path:
    """The path of ``--output``; if that is a folder, a file in it that is named after the run."""
    if output is not None and not output.is_dir():
        return output
    return (output or Path()) / (file_name(f"{run.fqn}-{run.run_id}", 150) + ".log")


def _show_fetched(fetched: DownloadResult, as_json: bool) -> None:
    if as_json:
        fields = {"path": str(fetched.path), "bytes": fetched.bytes, "lines": fetched.lines}
        show_json(fields | {"resumedAt": fetched.resumed_at, "verified": fetched.verified})
        return
    state = "verified" if fetched.verified else "not verified: the run is not finalized yet, or its log is in another store"
    show_text(f"{fetched.path}: {fetched.lines} lines, {size_of(fetched.bytes)}, {state}")


def _pipeline_row(pipeline: dict[str, Any]) -> list[str]:
    last = pipeline["last"]
    if last is None:
        return [pipeline["fqn"], "-", "-", "-", "-", "-"]
    return [pipeline["fqn"], last["runId"], state_of(last), str(last["lines"]), time_of(last["startedMs"]), outcome_of(last)]


def _run_row(facts: dict[str, Any], names: Iterable[str]) -> list[str]:
    size = size_of(facts["bytes"]) if is_terminal() else str(facts["bytes"])
    active, lasted = time_of(facts["lastAppendMs"]), duration_of(facts["durationMs"])
    return [
        *(facts[name] for name in names),
        outcome_of(facts),
        state_of(facts),
        str(facts["lines"]),
        size,
        active,
        lasted,
        str(facts["attempt"]),
        _why(facts),
    ]


def _summary(facts: dict[str, Any]) -> list[str]:
    return [facts["outcome"], ago_of(facts["lastAppendMs"]), duration_of(facts["durationMs"])]


def _why(facts: dict[str, Any]) -> str:
    return str((facts["explanation"] or {}).get("text") or reason_of(facts))
