"""Commands about files of the archive: ``files push``, ``list``, ``fetch``, ``latest`` and ``cat``, with the options of the datalake's client."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from runlake.archive import Archive
from runlake.commands.output import (
    ProgressLine,
    is_terminal,
    report,
    report_error,
    report_rest,
    show_json,
    show_log,
    show_rows,
    show_text,
    size_of,
    time_of,
)
from runlake.commands.session import Group, Session, json_option, pass_session
from runlake.commands.times import Seconds, since_of
from runlake.errors import NoAddressError, NotFoundError, RefusedError, RunlakeError
from runlake.files import (
    DEFAULT_TEMPLATE,
    MAX_SLUG_CHARS,
    NOT_CHECKED,
    PATIENCE_S,
    SLUG,
    FetchedFile,
    Files,
    PushedFile,
    fields_of,
    unzipped,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FAILED = 2
_FORMATS = ("table", "json", "http", "s3")
_TIME_OPTIONS = ("--start", "--end")
_WEEKDAY = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?")
_PARTS_OF_A_DATE = tuple(map(re.compile, (r"[12]\d{3}", r"\d{1,2}:\d{2}(:\d{2})?", r"UTC|GMT|Z|\+0000")))
"""A date is complete once it has a year, a time and a zone."""
_HOW_TO_NAME = (
    "name files by ids, URLs or lines of `runlake files list` on stdin, or choose them by --what with --work-id or --start"
)
_HOW_TO_FIND = "`runlake files list --what WHAT --start 30d` lists files with their ids"
_HOW_TO_CORRECT = "correct what the message names; a time is 2026-11-21, 2026-11-21T10:00:00Z, 10m (ago) or now"
_HOW_TO_WAIT = "try again in a few seconds: an upload is a file once the archive has compared its hash"
_HOW_TO_WIDEN = "check --what, --where and --work-id, `*` matches any characters; an earlier --start finds more"


class _WithDates(click.Command):
    """A command whose times may be an unquoted `date -u`, several words that begin with a weekday: they end with its year, time and
    zone, or at the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See the class."""
        return super().parse_args(ctx, _joined_dates(args))


def _joined_dates(args: Sequence[str]) -> list[str]:
    joined: list[str] = []
    is_date = False
    for word in args:
        is_date = is_date and not word.startswith("-") and not _is_complete(joined[-1])
        if is_date:
            joined[-1] += f" {word}"
        else:
            is_date = bool(joined) and joined[-1] in _TIME_OPTIONS and _WEEKDAY.fullmatch(word) is not None
            joined.append(word)
    return joined


def _is_complete(date: str) -> bool:
    return all(any(part.fullmatch(word) for word in date.split()) for part in _PARTS_OF_A_DATE)


def _time(text: str) -> str:
    """A time for the server, which reads most forms; ``10m``, ``2h`` and so on mean that long ago."""
    try:
        return since_of(text)
    except click.BadParameter:
        return text


def _slug(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(value) > MAX_SLUG_CHARS:
        raise click.BadParameter(f"{value[:20]!r}… has {len(value)} characters, more than {MAX_SLUG_CHARS}")
    if value is not None and not SLUG.fullmatch(value):
        raise click.BadParameter(f"{value[:100]!r} has other characters than lower-case letters, digits, _ and -")
    return value


def _query(command: _Command) -> _Command:
    """The options that choose files."""
    for option in (
        click.option("--end", type=_time, metavar="TIME", help="Only files that begin at this time or earlier [default: now]."),
        click.option(
            "--start", type=_time, metavar="TIME", help="Only files that end at this time or later: 2h, 1d ago, ISO 8601, now."
        ),
        click.option("--work-id", help="Only files with this work id."),
        click.option("--where", help="Only files of this place; `*` matches any characters."),
        click.option("--what", help="Only files of this program; several by commas, `*` matches any characters."),
    ):
        command = option(command)
    return command


def _sources(command: _Command) -> _Command:
    return click.argument("named", nargs=-1, metavar="[FILE]...")(command)


_format_option = click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="table",
    show_default=True,
    help="A row of each file, its record as JSON, or its address over HTTP or on S3.",
)


@click.group(cls=Group)
def files() -> None:
    """Push, find and fetch files of the archive, with the token alone: no AWS credentials."""


@files.command(cls=_WithDates)
@click.argument("source", required=False, metavar="[FILE]")
@click.option("--what", required=True, callback=_slug, help="The program that made the file, as 'balyhoo-source-audit'.")
@click.option("--where", required=True, callback=_slug, help="The place or server that made the file, as 'whirlyweb02-prod'.")
@click.option("--start", required=True, type=_time, metavar="TIME", help="Time of its first event: 2h, 1d ago, ISO 8601, now.")
@click.option("--end", type=_time, metavar="TIME", help="Time of its last event [default: only --start is relevant].")
@click.option("--work-id", callback=_slug, help="An id to find the file by, unique in the archive.")
@click.option(
    "--patience",
    type=Seconds(),
    default=PATIENCE_S,
    show_default=True,
    help="Seconds to wait until the archive has verified the file.",
)
@json_option
@pass_session
def push(
    session: Session, source: str | None, what: str, where: str, start: str, end: str | None, work_id: str | None,
    patience: float, as_json: bool,
) -> None:  # fmt: skip
    """Store FILE, or stdin, in the archive. A repeat with the same contents and options stores nothing.

    After a failure, the repeat of a file over 100 MiB continues it within an hour.
    """
    is_stdin = source in (None, "-")
    if source == "" or (is_stdin and sys.stdin.isatty()):
        raise click.UsageError("missing argument 'FILE': a path, or a pipe to stdin")
    name = "stdin" if is_stdin else str(source)
    contents: Path | IO[bytes] = sys.stdin.buffer if is_stdin else Path(name)
    settings = session.settings()
    with Archive.of(settings) as archive, ProgressLine(name) as progress, _advised(_HOW_TO_CORRECT):
        files = Files(archive, uploads=settings.uploads_folder, notice=progress.report)
        pushed = files.push(
            contents, what=what, where=where, start=start, end=end, work_id=work_id, progress=progress.update, patience_s=patience
        )  # fmt: skip
    for warning in pushed.warnings:
        report(f"warning: {warning}")
    _show_pushed(name, pushed, as_json)


@files.command("list", cls=_WithDates)
@click.argument("what_argument", required=False, metavar="[WHAT]")
@_query
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Maximum number of files [default: all].")
@_format_option
@json_option
@pass_session
def list_(
    session: Session, what_argument: str | None, what: str | None, where: str | None, work_id: str | None, start: str | None,
    end: str | None, limit: int | None, form: str, as_json: bool,
) -> None:  # fmt: skip
    """List files, the oldest first: id, start, size, what and where."""
    chosen = _chosen(_one("WHAT", what_argument, what), where, work_id, start, end)
    shown = 0
    with session.archive() as archive, _advised(_HOW_TO_CORRECT):
        records = Files(archive).find(**chosen)

        def counted() -> Iterator[dict[str, Any]]:
            nonlocal shown
            for record in islice(records, limit):
                shown += 1
                yield record

        _show_records(counted(), "json" if as_json else form)
        if not shown:
            _report_none()
        elif limit is not None:
            report_rest(next(records, None) is None, limit)


@files.command()
@click.argument("what_argument", required=False, metavar="[WHAT]")
@click.argument("where_argument", required=False, metavar="[WHERE]")
@click.option("--what", help="The program, one name.")
@click.option("--where", help="The place, one name.")
@click.option("--lookback", type=click.IntRange(min=0), help="Only files of the last days, this many [default: 14].")
@_format_option
@json_option
@pass_session
def latest(
    session: Session, what_argument: str | None, where_argument: str | None, what: str | None, where: str | None,
    lookback: int | None, form: str, as_json: bool,
) -> None:  # fmt: skip
    """Show the file with the latest start of WHAT at WHERE."""
    names = {"--what": _one("WHAT", what_argument, what), "--where": _one("WHERE", where_argument, where)}
    for option, name in names.items():
        if not name:
            raise click.UsageError(f"missing option '{option}'")
    with session.archive() as archive, _advised("a larger --lookback looks further back; `runlake files list` finds what there is"):
        record = Files(archive).latest(str(names["--what"]), str(names["--where"]), lookback)
    _show_records([record], "json" if as_json else form)


@files.command(cls=_WithDates)
@_sources
@_query
@click.option(
    "--filename-template",
    default=DEFAULT_TEMPLATE,
    show_default=True,
    help="The path of each file, as {what}-{where}-{start_iso}.log",
)
@click.option("--overwrite", is_flag=True, help="Replace other files that have these names.")
@json_option
@pass_session
def fetch(
    session: Session, named: tuple[str, ...], what: str | None, where: str | None, work_id: str | None, start: str | None,
    end: str | None, filename_template: str, overwrite: bool, as_json: bool,
) -> None:  # fmt: skip
    """Store files, and print their paths. FILE is an id or a URL; without any, files are chosen by the options, or are lines on stdin."""
    fields_of(filename_template)
    with session.archive() as archive, _advised(_HOW_TO_FIND):

        def store(file_id: str) -> None:
            with ProgressLine(file_id) as progress:
                files = Files(archive, notice=progress.report)
                fetched = files.fetch(file_id, filename_template, overwrite=overwrite, progress=progress.update)
            _show_fetched(fetched, as_json)

        _for_each(Files(archive), named, (what, where, work_id, start, end), store)


@files.command(cls=_WithDates)
@_sources
@_query
@click.option("--raw", is_flag=True, help="Unchanged bytes: a gzip file as it is, and to a terminal with control characters.")
@pass_session
def cat(
    session: Session, named: tuple[str, ...], what: str | None, where: str | None, work_id: str | None, start: str | None,
    end: str | None, raw: bool,
) -> None:  # fmt: skip
    """Write files one after the other, gzip files decompressed. They are named or chosen as for `fetch`."""
    with session.archive() as archive, _advised(_HOW_TO_FIND):
        files = Files(archive, notice=report)

        def show(file_id: str) -> None:
            show_log(files.read(file_id) if raw else unzipped(files.read(file_id)), raw=raw)

        _for_each(files, named, (what, where, work_id, start, end), show)


@contextmanager
def _advised(next_step: str) -> Iterator[None]:
    """Errors of names and values have this next step: the usual ones are about runs."""
    try:
        yield
    except (NotFoundError, RefusedError) as error:
        if "next_step" not in vars(error):
            error.next_step = _HOW_TO_WAIT if NOT_CHECKED in str(error) else next_step
        raise


def _one(name: str, argument: str | None, option: str | None) -> str | None:
    """A name that is an argument or an option. Raises click.UsageError for both."""
    if argument is not None and option is not None:
        raise click.UsageError(f"give {name} or --{name.lower()}, not both")
    return option if argument is None else argument


def _chosen(what: str | None, where: str | None, work_id: str | None, start: str | None, end: str | None) -> dict[str, Any]:
    """The query of these options. Raises click.UsageError."""
    if not what:
        raise click.UsageError("missing option '--what'")
    if not (start or work_id):
        raise click.UsageError("missing option '--start' or '--work-id'")
    if end and not start:
        raise click.UsageError("--end needs --start")
    return {"what": what, "where": where, "work_id": work_id, "start": start, "end": end}


def _for_each(files: Files, named: Sequence[str], options: Sequence[str | None], transfer: Callable[[str], None]) -> None:
    """Transfer the named files, or those of a query, or of lines on stdin, by their ids. Names without an address are reported, and make the
    exit code 2 after the others. Raises RunlakeError if there are none, and the first other error."""
    is_query = any(options)
    if named and is_query:
        raise click.UsageError("name files, or choose them by options, not both")
    is_empty, is_failed = True, False
    for name in _queried_ids(files, options) if is_query else named or _lines():
        is_empty = False
        try:
            transfer(name if is_query else files.id_of(name))
        except NoAddressError as error:
            report_error(error)
            is_failed = True
    if is_empty:
        raise RunlakeError(
            "no file matches" if is_query else "no file is named", next_step=_HOW_TO_WIDEN if is_query else _HOW_TO_NAME
        )
    if is_failed:
        click.get_current_context().exit(_FAILED)


def _queried_ids(files: Files, options: Sequence[str | None]) -> Iterator[str]:
    for record in files.find(**_chosen(*options)):
        yield str(record["metadata"]["id"])


def _lines() -> Iterator[str]:
    """Lines of stdin that are not empty; none of a terminal."""
    if not sys.stdin.isatty():
        yield from filter(None, (line.decode("utf-8", "replace").rstrip("\r\n") for line in sys.stdin.buffer))


def _report_none() -> None:
    report("no file matches")
    report(_HOW_TO_WIDEN)


def _show_records(records: Iterable[dict[str, Any]], form: str) -> None:
    if form == "table":
        show_rows(("ID", "START", "SIZE", "WHAT", "WHERE"), map(_row, records))
        return
    for record in records:
        if form == "json":
            show_json(record)
        else:
            show_text(str(record["http_url"] if form == "http" else record.get("s3_url", record["url"])))


def _row(record: dict[str, Any]) -> list[str]:
    """At most 80 columns with names of 20 characters together: a terminal gets the minute and a short size."""
    metadata = record["metadata"]
    started, size = time_of(int(metadata["start"])), int(record["size"])
    short = (started[:16] + "Z", size_of(size)) if is_terminal() else (started, str(size))
    return [str(metadata["id"]), *short, str(metadata["what"]), str(metadata["where"])]


def _show_pushed(name: str, pushed: PushedFile, as_json: bool) -> None:
    file_id = str(pushed.record["id"])
    if as_json:
        facts = {"size": pushed.size, "resumedAt": pushed.resumed_at, "existed": pushed.existed, "verified": pushed.verified}
        show_json(pushed.record | facts | {"warnings": list(pushed.warnings)})
        return
    state = "the archive has it already" if pushed.existed else "verified" if pushed.verified else "not verified yet"
    show_text(f"{name}: {file_id}, {size_of(pushed.size)}, {state}")
    if not pushed.verified:
        report(f"the archive lists the file once it is verified: `runlake files cat {file_id}` tells whether it is")


def _show_fetched(fetched: FetchedFile, as_json: bool) -> None:
    path = os.fspath(fetched.path)
    if as_json:
        facts = {"bytes": fetched.size, "resumedAt": fetched.resumed_at, "existed": fetched.existed, "verified": fetched.verified}
        show_json({"id": fetched.id, "path": path} | facts)
        return
    show_text(path)
    if fetched.existed:
        report(f"it was there already path={path}")
    if fetched.verified is None:
        report(f"not verified: the archive has no hash of its bytes path={path}")
