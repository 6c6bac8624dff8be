"""The command that searches runs: ``grep``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import click

from runlake.archive import Archive, no_runs
from runlake.browsing import checked_run
from runlake.commands.output import ProgressLine, report, report_error, show_json, show_result, show_text
from runlake.commands.session import Session, fqn_and_run, json_option, pass_session, run_of
from runlake.errors import RefusedError, RunlakeError, UnavailableError
from runlake.names import RunName
from runlake.search import MAX_CONTEXT, ResultLine, Search

MAX_RUNS = 100
MAX_REQUESTS = 1000
"""Of a search in several runs."""
MAX_OUTAGES = 3
"""Runs in a row that fail because the server is away: the others are not tried."""
_NO_MATCH, _FAILED = 1, 2
_lines_around = click.IntRange(0, MAX_CONTEXT)


@click.command()
@click.argument("text")
@fqn_and_run
@click.option(
    "--runs",
    "run_count",
    type=click.IntRange(1, MAX_RUNS),
    metavar="N",
    help="Search the newest N runs of FQN, or of all that match it.",
)
@click.option("-E", "--regex", is_flag=True, help="TEXT is a regular expression.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case.")
@click.option("-v", "--invert-match", is_flag=True, help="Find the lines that do not match.")
@click.option("-n", "--line-number", is_flag=True, help="Put the number of each line before it, from 1.")
@click.option("-c", "--count", is_flag=True, help="Print only the number of matching lines.")
@click.option("-l", "--runs-with-matches", is_flag=True, help="Print only the names of runs with a match.")
@click.option("-m", "--max-count", type=click.IntRange(min=1), help="Stop after this many, in each run.")
@click.option("-A", "--after-context", type=_lines_around, metavar="N", help="Print N lines after each match too.")
@click.option("-B", "--before-context", type=_lines_around, metavar="N", help="Print N lines before each match too.")
@click.option("-C", "--context", type=_lines_around, metavar="N", help="Print N lines before and after each match too.")
@json_option
@pass_session
def grep(
    session: Session, text: str, fqn: str, run_id: str | None, run_count: int | None, regex: bool, ignore_case: bool,
    invert_match: bool, line_number: bool, count: bool, runs_with_matches: bool, max_count: int | None,
    after_context: int | None, before_context: int | None, context: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Find TEXT in a run, or in the newest runs, on the server.

    \b
    Examples:
      runlake grep -n ERROR nightly.orders
      runlake grep -i -C 3 timeout nightly.orders 2026-11-21
      runlake grep --runs 20 'no space left' 'shop.*'

    The output is that of grep. With --runs, FQN may be a pattern, the run is before each line, and the newest run comes first.
    The exit code is 1 when no line matches, and 2 after an error, with --runs also if a run could not be searched.
    """
    if run_count and run_id:
        raise click.UsageError("--runs searches the newest runs: leave RUN out")
    if "*" in fqn and not (run_count or run_id):
        raise click.UsageError(f"{fqn!r} is a pattern: add --runs N to search the newest N runs of the pipelines that match")
    has_context = not (count or runs_with_matches) and (after_context, before_context, context) != (None, None, None)
    query = {"q": text, "regex": str(regex).lower(), "ignoreCase": str(ignore_case).lower()} | (
        {"invert": "true"} if invert_match else {}
    )
    form = _Form(line_number, count, runs_with_matches, has_context, as_json, has_names=bool(run_count))
    with session.archive() as archive:
        search = Search(
            archive,
            query,
            before=(context or 0 if before_context is None else before_context) if has_context else 0,
            after=(context or 0 if after_context is None else after_context) if has_context else 0,
            max_count=1 if runs_with_matches else max_count,
        )
        if run_count:
            sys.exit(_SearchOfRuns(search, form, _newest(archive, fqn, run_count)).exit_code())
        run = run_of(archive, fqn, run_id)
        matches = form.show(run, search, lambda: None)
        if not matches:
            checked_run(archive, run, None)
    sys.exit(0 if matches else _NO_MATCH)


@dataclass
class _Form:
    """How matches are printed. ``has_names``: each with its run."""

    has_numbers: bool
    is_count: bool
    is_list: bool
    has_context: bool
    as_json: bool
    has_names: bool
    _is_begun: bool = False

    def show(self, run: RunName, search: Search, before_output: Callable[[], None]) -> int:
        """Search a run and print what is found, as it is found. Returns the number of matches."""
        matches = 0
        for line in search.lines(run):
            matches += line.spans is not None
            if not (self.is_count or self.is_list):
                before_output()
                self._show_line(run, line)
        if self.is_count and not self.is_list:
            before_output()
            self._show_count(run, matches)
        elif self.is_list and matches:
            before_output()
            show_json(_names(run)) if self.as_json else show_text(str(run))
        return matches

    def _show_line(self, run: RunName, line: ResultLine) -> None:
        names = _names(run) if self.has_names else {}
        if self.as_json:
            kind = {"context": True} if line.spans is None else {"spans": line.spans}
            show_json({**names, "line": line.number, "text": line.text, **kind})
            return
        if self.has_context and self._is_begun and line.begins_group:
            show_text("--")
        self._is_begun = True
        show_result(str(run) if names else None, line.number + 1 if self.has_numbers else None, line.text, line.spans)

    def _show_count(self, run: RunName, matches: int) -> None:
        if self.as_json and self.has_names:
            show_json({**_names(run), "count": matches})
        else:
            show_text(f"{run}:{matches}" if self.has_names else str(matches))


@dataclass
class _SearchOfRuns:
    """A search in several runs. What fails in one is reported at the end, and the others are searched."""

    search: Search
    form: _Form
    runs: list[RunName]
    progress: ProgressLine = field(default_factory=lambda: ProgressLine("searching"))
    _requests: int = 0
    _done: int = 0
    _with_matches: int = 0
    _outages: int = 0
    _failures: list[tuple[RunName, RunlakeError]] = field(default_factory=list)

    def exit_code(self) -> int:
        """Search, and report on stderr how many runs were searched. Raises RefusedError if the first run shows that the query is invalid."""
        try:
            with self.progress:
                reason = self._search_all()
        except KeyboardInterrupt:
            report(f"interrupted: {self._summary()}")
            raise
        for run, error in self._failures:
            report(f"{run}: {error}")
        report(self._summary())
        if reason or self._failures:
            next_step = self._failures[0][1].next_step if self._failures else "search fewer runs (--runs), or fewer lines (-m)"
            report_error(RunlakeError(reason or "not all runs could be searched", next_step=next_step))
            return _FAILED
        return 0 if self._with_matches else _NO_MATCH

    def _search_all(self) -> str:
        """Returns why it ended before the last run; "" if it did not."""
        search = replace(self.search, on_request=self._count)
        for run in self.runs:
            try:
                self._with_matches += bool(self.form.show(run, search, self.progress.erase))
                self._done, self._outages = self._done + 1, 0
            except _RequestLimitError:
                return f"stopped after {MAX_REQUESTS} requests, in {run}"
            except RunlakeError as error:
                if isinstance(error, RefusedError) and not self._done:
                    raise
                self._failures.append((run, error))
                self._outages = self._outages + 1 if isinstance(error, UnavailableError) else 0
            if self._outages >= MAX_OUTAGES:
                return f"stopped after {MAX_OUTAGES} runs without a response"
        return ""

    def _count(self) -> None:
        if self._requests >= MAX_REQUESTS:
            raise _RequestLimitError
        self._requests += 1
        self.progress.show(f"  run {self._done + len(self._failures) + 1} of {len(self.runs)}, {self._with_matches} with matches")

    def _summary(self) -> str:
        return f"{self._done} of {len(self.runs)} runs searched, {self._with_matches} with matches"


class _RequestLimitError(Exception):
    """The search has taken all of its requests."""


def _newest(archive: Archive, fqn: str, count: int) -> list[RunName]:
    """The newest first. Raises NotFoundError if there are none."""
    if "*" in fqn:
        runs = [RunName(str(each["fqn"]), str(each["runId"])) for each in archive.recent_runs(count, fqn=fqn)]
    else:
        runs = [RunName(fqn, str(each["runId"])) for each in archive.runs(fqn, count)]
    if not runs:
        raise no_runs(fqn)
    return runs


def _names(run: RunName) -> dict[str, Any]:
    return {"fqn": run.fqn, "runId": run.run_id}
