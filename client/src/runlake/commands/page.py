"""The command that opens the web page: ``open``."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Mapping
from contextlib import suppress

import click

from runlake.browsing import last_failed
from runlake.commands.output import report, show_text
from runlake.commands.session import Session, fqn_argument, pass_session, run_argument
from runlake.errors import AccessError, NotFoundError, SettingsError, UnavailableError
from runlake.names import RunName


@click.command("open")
@fqn_argument(required=False)
@run_argument()
@click.option(
    "--failed",
    is_flag=True,
    help="The run that failed or was lost last, at the line that explains it: of all pipelines, or of those that match FQN.",
)
@click.option("--line", type=click.IntRange(min=1), metavar="N", help="Go to this line of the run, counted from 1.")
@click.option("--print", "is_printed", is_flag=True, help="Print the address instead.")
@pass_session
def open_page(session: Session, fqn: str | None, run_id: str | None, failed: bool, line: int | None, is_printed: bool) -> None:
    """Open the web page: the pipelines, the runs of pipeline FQN, or the log of RUN.

    \b
    Examples:
      runlake open nightly.orders
      runlake open nightly.orders 2026-11-21 --line 120
      runlake open --failed 'shop.*'

    A name that does not exist is an error. Without a display, the address is printed. It does not contain the token: the page asks for one if it
    needs it.
    """
    if failed and run_id:
        raise click.UsageError("--failed chooses the run: leave RUN out")
    if line and not (failed or run_id):
        raise click.UsageError("--line needs a run: add RUN, or --failed")
    if failed:
        with session.archive() as archive:
            facts = last_failed(archive, fqn)
        if facts is None:
            of = f" fqn={fqn!r}" if fqn else ""
            raise NotFoundError(404, f"no run has failed{of}", next_step="`runlake runs` lists runs with their outcomes")
        fqn, run_id = str(facts["fqn"]), str(facts["runId"])
        explanation = facts["explanation"]
        line = line or (int(explanation["line"]) + 1 if explanation else None)
    elif fqn and "*" not in fqn:
        # Otherwise the page asks for a token, or says that the server is away.
        with session.archive() as archive, suppress(AccessError, UnavailableError):
            if run_id:
                archive.facts(RunName(fqn, run_id))
            else:
                archive.check_runs_of(fqn)
    page = session.page(fqn, run_id)
    if not page:
        raise SettingsError(
            "the page is not at this address, whose requests are signed",
            next_step="set page_url to the stack's output ApiUrl",
        )
    address = page + (f"#L{line}" if line else "")
    if is_printed or not has_display():
        show_text(address)
    elif webbrowser.open(address):
        report(f"opened {address}")
    else:
        report("there is no browser that opens it")
        show_text(address)


def has_display(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Whether a browser can open a window here, or BROWSER names one."""
    return platform in ("darwin", "win32", "cygwin") or any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
