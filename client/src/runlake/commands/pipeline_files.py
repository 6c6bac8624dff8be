"""Commands about the files that processing pipelines wrote: cat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

import click

from runlake.commands.events import checked_level
from runlake.commands.output import report, show_event, show_json
from runlake.commands.session import Session, json_option, pass_session
from runlake.commands.times import ms_of

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _application(command: _Command) -> _Command:
    """The arguments and options that choose files."""
    for option in (
        click.option("--to", "to_time", type=ms_of, metavar="TIME", help="Only before this time."),
        click.option(
            "--from",
            "from_time",
            type=ms_of,
            metavar="TIME",
            help="Only from this time on: 10m, 2h, 1d ago, ISO 8601, or ms since the epoch.",
        ),
        click.option("--base", help="The base of the handler that wrote the files [default: of the built-in pipeline]."),
        click.option("--program", help="Only of this program: the rest of the FQN, or 'run' if there is none."),
        click.argument("app"),
        click.argument("namespace"),
    ):
        command = option(command)
    return command


def _query(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@click.command("cat")
@_application
@click.option("--level", callback=checked_level, help="Only events of this level, such as ERROR; case-insensitive.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Maximum number of events [default: all].")
@json_option
@pass_session
def cat_files(
    session: Session, namespace: str, app: str, program: str | None, base: str | None, from_time: int | None, to_time: int | None,
    level: str | None, limit: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Print the events in the files of an application, merged by time: time, level, logger and message.

    NAMESPACE and APP are the first and the second part of the FQN. With --json all fields. Files of all formats that the server can read.
    """
    query = _query(namespace=namespace, app=app, program=program, base=base, **{"from": from_time, "to": to_time})
    unread = _Unread()
    with session.archive() as archive:
        for event in islice(_events(archive.pipeline_file_pages(**query), level, unread), limit):
            if as_json:
                show_json(event)
            else:
                show_event(
                    {"timestamp": event["time"], "level": event["level"], "step": event["logger"], "message": event["message"]}
                )
    unread.report()


class _Unread:
    """The most files that one page left out."""

    def __init__(self) -> None:
        self.damaged = self.unsupported = 0

    def add(self, page: dict[str, Any]) -> None:
        """Each page counts the files that it read, so pages are not summed."""
        self.damaged, self.unsupported = max(self.damaged, int(page["leftOut"])), max(self.unsupported, int(page["unsupported"]))

    def report(self) -> None:
        """Report them, if any."""
        if self.damaged:
            report(f"{self.damaged} missing or damaged files are left out")
        if self.unsupported:
            report(f"{self.unsupported} files have a format that the server cannot read (Parquet)")


def _events(pages: Iterator[dict[str, Any]], level: str | None, unread: _Unread) -> Iterator[dict[str, Any]]:
    for page in pages:
        unread.add(page)
        for event in page["events"]:
            if level is None or event["level"].upper() == level.upper():
                yield event
