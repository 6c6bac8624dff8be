"""Incremental reads for a job that stores its progress: each reads the data between two offsets.

::

    start = offset_of(ledger_text, options) if ledger_text else first(options)
    end = latest(options, start)                       # lists the bucket once, on the driver
    if end != start:
        frame = spark.read.format("runlake").options(**options, startingOffsets=start.text, endingOffsets=end.text).load()

Such a read always has the same rows, also after changes to the runs' objects (decision 0014). Its columns ``segment``,
``connector_id`` and ``epoch`` come from the catalog at the time of the read, and are null without ``segmentsTable``.

An offset can be large, about 50 bytes for each run that is running or was abandoned. Do not pass one over 1 MB in options, which are
sent to each task: write it to a file and pass its ``s3://…`` or ``file://…`` address.
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
    """The offset before all data."""
    return Offset.initial(parse_options(options))


def offset_of(text: str, options: Mapping[str, str]) -> Offset:
    """The offset of an ``Offset.text``. Raises InvalidConfigurationError if it is invalid or of a read of other runs."""
    return Offset.parsed(text, parse_options(options))


def latest(
    options: Mapping[str, str],
    previous: Offset | None = None,
    *,
    ended_only: bool = False,
    now_s: Callable[[], float] = time.time,
) -> Offset:
    """The offset after all current data in the bucket, for a driver. Equal to ``previous`` if nothing is new.

    ``options``: those of the read; ``maxBytesPerBatch`` limits the step, so repeat the call until nothing is new. ``previous``:
    the end of the last read (None: there was none), at which the next one starts. ``ended_only``: lines of running runs wait until
    these are closed or abandoned; an abandoned run may be reopened, and is then read from its former end once it ends again. A
    run's state is ``end.runs[name_of(base)].state``: OPEN, ABANDONED or CLOSED of ``glue_jobs.datasource.offsets``, with ``base``
    its key prefix. A closed run leaves the offset when it is old enough.

    The last event of a running run is held back while it may grow (``flushAfter``): it is after the offset, and part of the next
    read.

    Requests: a LIST for each 1,000 objects, a HEAD for each run with new data, a GET of 32 KiB for each new running run. Memory: 12
    bytes a segment, 1 KB a run. Writes nothing. Raises StoreUnavailableError, and DamagedLogError (``mode=failfast``).
    """
    parsed = parse_options(options)
    start = previous or Offset.initial(parsed)
    problems = Problems(parsed.is_strict)
    try:
        return follower(parsed, problems, now_s).latest(start, start, ended_only=ended_only)
    finally:
        problems.end()


def follower(options: Options, problems: Problems, now_s: Callable[[], float] = time.time) -> Follower:
    """The follower of a read's runs."""
    bucket, catalog = clients_of(options)
    locator = RunLocator(bucket, bucket.store, options, problems)
    return Follower(locator, bucket.store, options, problems, now_s, catalog.segments)


def starting(options: Options) -> Offset:
    """The offset of ``startingOffsets``. ``latest`` is an offset that skips all data of the first listing."""
    if options.starting_offsets == LATEST:
        return Offset.initial(options).skipping
    return Offset.initial(options) if options.starting_offsets == EARLIEST else _offset_from(options.starting_offsets, options)


def ending(options: Options, start: Offset, following: Follower) -> Offset:
    """The offset of ``endingOffsets``."""
    return following.latest(start, start) if options.ending_offsets == LATEST else _offset_from(options.ending_offsets, options)


def _offset_from(text: str, options: Options) -> Offset:
    return Offset.parsed(text if text.startswith("{") else _fetched(text, options), options)


def _fetched(address: str, options: Options) -> str:
    """A small text from S3, with the credentials of the read, or from a local file."""
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
