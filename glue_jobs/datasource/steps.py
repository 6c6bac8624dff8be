"""Reading step by step, as a job does that remembers how far it came: what is new is what stands between two offsets.

::

    start = offset_of(ledger_text, options) if ledger_text else first(options)
    end = latest(options, start)                       # asks the bucket once, on the driver
    if end != start:
        frame = spark.read.format("runlake").options(**options, startingOffsets=start.text, endingOffsets=end.text).load()

Such a read has the same rows however often it is done, whatever became of the runs meanwhile (decision 0014). Its columns ``segment``,
``connector_id`` and ``epoch`` are what the catalog says at that time, and nothing without ``segmentsTable``.

An offset may be large, about 50 bytes for each run that is open or was abandoned. The texts of large ones (over 1 MB) don't belong into
options, for each task gets those: write the text to a file and give its ``s3://…`` or ``file://…`` address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import InvalidConfigurationError
from glue_jobs.datasource.clients import clients_of, make_client
from glue_jobs.datasource.following import Follower
from glue_jobs.datasource.offsets import Offset
from glue_jobs.datasource.options import EARLIEST, LATEST, Options, parse_options
from glue_jobs.datasource.planner import RunLocator
from glue_jobs.datasource.problems import Problems


def first(options: Mapping[str, str]) -> Offset:
    """The offset before everything."""
    return Offset.initial(parse_options(options))


def offset_of(text: str, options: Mapping[str, str]) -> Offset:
    """The offset that ``Offset.text`` told. Raises InvalidConfigurationError when it is none, or of a read of other runs."""
    return Offset.parsed(text, parse_options(options))


def latest(
    options: Mapping[str, str],
    previous: Offset | None = None,
    *,
    ended_only: bool = False,
    now_s: Callable[[], float] = time.time,
) -> Offset:
    """The offset behind all that is in the bucket now, for a driver. Equal to ``previous`` when nothing is new.

    ``options``: those of the read; with ``maxBytesPerBatch`` it is at most about so much further, so ask again until nothing is new.
    ``previous``: the offset that was read to last (None: nothing was), from which the next read will start.
    ``ended_only``: lines of runs that are still open wait until those are closed or abandoned; an abandoned one may be reopened, and is
    then read from where it ended, once it ends again. A run's state is ``end.runs[name_of(base)].state``: OPEN, ABANDONED or CLOSED of
    ``glue_jobs.datasource.offsets``, with ``base`` what its keys begin with. A closed run leaves the offset when it is old enough.

    Of an open run the last event is kept back while it may go on (``flushAfter``): it is behind the offset, and comes with the next.

    Requests: a LIST for each 1,000 objects, a HEAD for each run that has something new, a GET of 32 KiB for each open one that is new.
    Memory: 12 bytes a segment, 1 KB a run. Nothing is written. Raises StoreUnavailableError, and DamagedLogError (``mode=failfast``).
    """
    parsed = parse_options(options)
    start = previous or Offset.initial(parsed)
    problems = Problems(parsed.is_strict)
    try:
        return follower(parsed, problems, now_s).latest(start, start, ended_only=ended_only)
    finally:
        problems.end()


def follower(options: Options, problems: Problems, now_s: Callable[[], float] = time.time) -> Follower:
    """What follows the runs of a read."""
    bucket, catalog = clients_of(options)
    locator = RunLocator(bucket, bucket.store, options, problems)
    return Follower(locator, bucket.store, options, problems, now_s, catalog.segments)


def starting(options: Options) -> Offset:
    """Where ``startingOffsets`` is. ``latest`` stands for an offset that skips all that is there at the first look."""
    if options.starting_offsets == LATEST:
        return Offset.initial(options).skipping
    return Offset.initial(options) if options.starting_offsets == EARLIEST else _offset_from(options.starting_offsets, options)


def ending(options: Options, start: Offset, following: Follower) -> Offset:
    """Where ``endingOffsets`` is."""
    return following.latest(start, start) if options.ending_offsets == LATEST else _offset_from(options.ending_offsets, options)


def _offset_from(text: str, options: Options) -> Offset:
    return Offset.parsed(text if text.startswith("{") else _fetched(text, options), options)


def _fetched(address: str, options: Options) -> str:
    """A small text from S3, with the credentials of the read, or from a file of this machine."""
    url = urlsplit(address)
    if url.scheme == "file":
        try:
            with open(unquote(url.path), encoding="utf-8") as file:
                return file.read()
        except (OSError, ValueError) as error:
            raise InvalidConfigurationError(f"an offset cannot be read: {error} address={address}") from error
    with translate_errors("get", address, write=False):
        answer = make_client("s3", options).get_object(Bucket=url.netloc, Key=unquote(url.path.lstrip("/")))
        return str(answer["Body"].read().decode())
