"""Commands about the files that processing pipelines wrote: files, cat, download."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from runlake.archive import Archive
from runlake.commands.events import checked_level
from runlake.commands.output import first_rows, report, report_rest, show_event, show_json, show_table, show_text, size_of, time_of
from runlake.commands.session import Session, json_option, limit_option, pass_session
from runlake.commands.times import ms_of
from runlake.errors import UnavailableError
from runlake.names import file_name

_Command = TypeVar("_Command", bound=Callable[..., Any])
_ALL = 10**9
_MAX_NAME_CHARS = 200
_NO_EVENTS = "no events: `runlake pipelines files NAMESPACE APP` lists the files, and --base names another handler's"
_NO_FILES = "no files: NAMESPACE and APP are the first two parts of the FQN, and --base that of another handler"


def _application(command: _Command) -> _Command:
    """The arguments and options that choose files, named as in the query of the request: see ``_query``."""
    for option in (
        click.option("--to", type=ms_of, metavar="TIME", help="Only before this time."),
        click.option(
            "--from",
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


def _query(application: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in application.items() if value is not None}


@click.command("files")
@_application
@limit_option(100)
@json_option
@pass_session
def list_files(session: Session, /, limit: int, as_json: bool, **application: Any) -> None:
    """List the files of an application: key, format, size, events, times of the first and last event, state.

    NAMESPACE and APP are the first and the second part of the FQN. With --json also links, which are valid for an hour without a token.
    """
    with session.archive() as archive:
        files, is_all = first_rows(archive.pipeline_files(limit + 1, **_query(application)), limit)
    show_table(files, ("KEY", "FORMAT", "SIZE", "EVENTS", "FIRST EVENT", "LAST EVENT", "STATE"), _row, as_json=as_json)
    if not files:
        report(_NO_FILES)
    report_rest(is_all, limit)


@click.command("download")
@_application
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="The folder of the files.",
)
@pass_session
def download_files(session: Session, /, output: Path, **application: Any) -> None:
    """Download the files of an application, in any format, and print their paths; an existing file is replaced.

    A file is named by its key. It has the bytes that were committed when it was listed, and is stored under its name once it is complete.
    """
    output.mkdir(parents=True, exist_ok=True)
    is_empty = True
    with session.archive() as archive:
        for file in archive.pipeline_files(_ALL, **_query(application)):
            is_empty = False
            path = output / file_name(file["key"], _MAX_NAME_CHARS)
            _download(archive, file["url"], int(file["bytes"]), path)
            show_text(str(path))
    if is_empty:
        report(_NO_FILES)


def _download(archive: Archive, url: str, size: int, path: Path) -> None:
    """Store the first ``size`` bytes of an object: those after them were never committed. An error leaves no part of it."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as stored, archive.linked_bytes(url) as blocks:
            left = size
            for block in blocks:
                stored.write(block[:left])
                left -= min(left, len(block))
                if not left:
                    break
        if left:
            raise UnavailableError(f"the object has {left} bytes less than listed")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _row(file: dict[str, Any]) -> list[str]:
    times = (time_of(file["firstTime"]), time_of(file["lastTime"]))
    state = "complete" if file["complete"] else "open"
    return [file["key"], file["format"], size_of(file["bytes"]), str(file["events"]), *times, state]


@click.command("cat")
@_application
@click.option("--level", callback=checked_level, help="Only events of this level, in any spelling: warn is WARNING.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Maximum number of events [default: all].")
@json_option
@pass_session
def cat_files(session: Session, /, level: str | None, limit: int | None, as_json: bool, **application: Any) -> None:
    """Print the events in the files of an application, merged by time: time, level, logger and message.

    NAMESPACE and APP are the first and the second part of the FQN. With --json all fields. Files of all formats that the server can read.
    """
    unread, is_empty = _Unread(), True
    with session.archive() as archive:
        for event in islice(_events(archive.pipeline_file_pages(**_query(application | {"level": level})), unread), limit):
            is_empty = False
            if as_json:
                show_json(event)
            else:
                show_event(
                    {"timestamp": event["time"], "level": event["level"], "step": event["logger"], "message": event["message"]}
                )
    if is_empty:
        report(_NO_EVENTS)
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


def _events(pages: Iterator[dict[str, Any]], unread: _Unread) -> Iterator[dict[str, Any]]:
    for page in pages:
        unread.add(page)
        yield from page["events"]
