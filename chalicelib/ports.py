"""The interfaces between the core packages and storage. Adapters: ``chalicelib.aws`` (boto3); in-memory ones for tests
in ``tests.support``.

Every implementation raises ``StoreUnavailableError`` (nothing was done) and ``OutcomeUnknownError`` (a write whose response was lost);
each method documents its further errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol
from urllib.parse import quote

from chalicelib.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object's properties, as HEAD returns them. ``etag`` without quotes; ``last_modified_ms`` since the epoch, by the store's clock."""

    key: str
    size: int
    etag: str
    last_modified_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """The bytes of an object, or of a range. ``info.size`` is the size of the whole object."""

    info: ObjectInfo
    body: bytes


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One entry of a listing, without metadata, which requires a HEAD."""

    key: str
    size: int
    etag: str
    last_modified_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a listing in ascending order of key (UTF-8 bytes). ``truncated``: more keys follow the last one."""

    objects: Sequence[ListedObject]
    truncated: bool


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """A version of an object that is not its current one, or a delete marker."""

    key: str
    version_id: str


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """A multipart upload that is neither completed nor aborted."""

    key: str
    upload_id: str


@dataclass(frozen=True, slots=True)
class Folders:
    """One page of the common prefixes under a prefix: ``names`` without the prefix and the slash, unique, ascending. ``start_after``: the key
    after which the next page begins, None at the end."""

    names: Sequence[str]
    start_after: str | None


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How an object is stored. ``metadata`` is ASCII and at most 2 KB, keys lowercase. ``storage_class`` None: STANDARD. ``tags``: for
    rules of the bucket's lifecycle."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/plain; charset=utf-8"
    storage_class: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a write: no object under the key, or exactly this ETag. If it is false: ``PreconditionFailedError``."""

    if_none_match: bool = False
    if_match: str | None = None


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A PUT that needs no credentials: send the body to ``url`` with exactly these headers."""

    url: str
    headers: Mapping[str, str]


def after_folder(folder: str) -> str:
    """The least key after all keys of a folder (a prefix with its slash): the slash becomes the next character."""
    return folder.removesuffix("/") + chr(ord("/") + 1)


ANY = Condition()
ABSENT = Condition(if_none_match=True)


class ObjectStore(Protocol):
    """One bucket of S3. Reads after writes are strongly consistent, listings too. Encryption is the adapter's, on every write."""

    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        """Store an object in one request. Returns its ETag. Raises PreconditionFailedError, WriteConflictError (repeat it)."""

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        """Read bytes [start, end) (``end`` past the object's end is cut), or all. Raises ObjectNotFoundError,
        RangeNotSatisfiableError (``start`` at or after the end), PreconditionFailedError."""

    def head(self, key: str) -> ObjectInfo:
        """Metadata without the bytes. Raises ObjectNotFoundError."""

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Listing:
        """Keys under ``prefix`` that sort after ``start_after``, at most ``limit`` (and 1,000)."""

    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Folders:
        """Folders under ``prefix`` (which need not end in a slash) with a key after ``start_after``. One request for any number of
        keys; objects directly under the prefix count towards ``limit`` (and 1,000) and are not returned."""

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Delete a key; a missing object is a success, also with ``if_match`` (S3 returns 404 or 412 then: both mean deleted or changed).
        Raises PreconditionFailedError if the object has another version."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete up to 1,000 keys in one request."""

    def old_versions(self, prefix: str, limit: int = 1000) -> Sequence[ObjectVersion]:
        """Up to ``limit`` old versions and delete markers of keys under ``prefix``; none in a bucket without versions. A marker comes after all
        old versions of its key, because S3 makes the last one current again once its marker is deleted. A request for each 1,000 versions,
        current ones too."""

    def delete_versions(self, versions: Sequence[ObjectVersion]) -> None:
        """Delete up to 1,000 versions for good, in one request."""

    def open_uploads(self, prefix: str) -> Sequence[OpenUpload]:
        """The open uploads of keys under ``prefix``. A request for each 1,000."""

    def create_multipart(self, key: str, options: PutOptions) -> str:
        """Begin a multipart upload. Returns its id."""

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """Upload part ``number`` (1 to 10,000; 5 MiB to 5 GiB, the last may be smaller). Returns its ETag. Raises ObjectNotFoundError if the
        upload does not exist."""

    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        """Copy bytes [start, end) of ``source`` to part ``number``, server-side. The source must be larger than 5 MiB. Raises
        PreconditionFailedError if the source's ETag differs, ObjectNotFoundError if it does not exist."""

    def complete_multipart(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition = ANY) -> str:
        """Publish the parts as one object. Returns its ETag. Raises PreconditionFailedError, WriteConflictError
        (start the upload over), ObjectNotFoundError (no such upload: aborted, or completed by a call whose response was lost)."""

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Delete the parts; an upload that does not exist is a success."""

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        """A URL that anyone may GET for ``expires_s`` seconds; with ``filename`` S3 returns an attachment. Makes no request."""

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        """A PUT that anyone may send to store an object of exactly ``size`` bytes if none exists. Makes no request."""

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        """A URL to which anyone may PUT part ``number``, of exactly ``size`` bytes. Makes no request."""

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """A URL to which anyone may POST the list of parts (S3's XML). Makes no request."""

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """A URL to which anyone may send DELETE to abort an upload. Makes no request."""


@dataclass(frozen=True, slots=True)
class Run:
    """The identity of a log: the pipeline's fully qualified name and the run's id, as the connector sent them."""

    fqn: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunStart:
    """The start of a run. ``start_id``: identifies the process that started the run. ``first_run_id``: the run id of attempt 1.
    ``started_ms``: when the command began; ``registered_ms``: when the start was stored; both by the function's clock. ``heartbeat_s``: the
    longest time after its last batch until the client sends a heartbeat; 0: no heartbeats. ``zone``: of times without one in its lines, as
    the client states it; empty: not stated (decision 0057)."""

    start_id: str
    first_run_id: str
    attempt: int
    host: str
    command: str
    started_ms: int
    registered_ms: int
    heartbeat_s: int = 0
    zone: str = ""


SUCCEEDED, FAILED, CANCELLED, LOST, UNKNOWN = "succeeded", "failed", "cancelled", "lost", "unknown"
STATED_OUTCOMES = (SUCCEEDED, FAILED, CANCELLED)
"""Outcomes that a client or a record may report."""
MAX_AGE_MS = 10 * 366 * 86_400_000
"""The longest time since a run's start or end that a client may report."""
EXIT_CODES = range(-(2**31), 2**32)
"""Exit codes of any operating system."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run, as its client reports it with the close. ``outcome``: "succeeded", "failed" or "cancelled"; if the sweep ended the
    run also "lost", or "unknown" if no client was expected to close it. Causes of a failure, empty or None if not applicable: ``exit_code``,
    ``signal`` (a name such as SIGKILL), ``exception`` (a line), ``step`` (its id). ``lost_lines``: lines that the client could not store.
    ``ended_ms``: when it ended, by the function's clock: the client reports how long ago that was; if the sweep ended the run, time of the
    last line, heartbeat or start; 0: when it was closed."""

    outcome: str
    exit_code: int | None = None
    signal: str = ""
    exception: str = ""
    step: str = ""
    lost_lines: int = 0
    ended_ms: int = 0


SEQUENCE_DIGITS = 10
MAX_SEQUENCE = 10**SEQUENCE_DIGITS - 1
"""The greatest number of a segment; that of no segment of a run that is not deleted."""
DELETED = "deleted"
"""The reason of the seal of a deleted run, and of its mark in the index of segments."""
KEYED_SESSION = "k-"
"""Prefix of the session of a batch with an Idempotency-Key."""
LINES, ARRIVAL = "lines", "arrival"
"""Clocks: the timestamps in lines, and the time of storage."""
EVENT_ROWS = "event#"
"""Prefix of rows of events, in the same partition as the rows of a run's segments."""


def run_key(run: Run) -> str:
    """The partition key of a run's rows of segments and of events: percent-encoded, so that it is unambiguous."""
    return f"{quote(run.fqn, safe='')}/{quote(run.run_id, safe='')}"


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment's place in its run's log. Stored as user metadata of the segment, indexed in the catalog.

    ``line`` and ``byte`` are the log's totals before this segment; ``lines`` and ``bytes`` its own size. ``session``, ``base`` (the
    sequence number in the writer's position) and ``digest`` distinguish a retry from a new batch. ``landmarks`` are (line, byte) pairs
    inside a large segment, relative to its start; they bound the bytes that a page reads. ``errors``: number of its lines that report an
    error, None for a seal, or if its entry was lost. ``events``: number of its events, 0: plain text; a segment of events has a sidecar
    (decision 0022). ``end``: on a seal whose close reported an outcome; rows of the index omit it. ``first_ms`` and ``last_ms``: the first
    and last timestamp in its lines, None if no line has one (decision 0043); for display only. ``zone``: the run's, for times without one;
    empty: UTC, none was stated (decision 0057).
    Times in ms since the epoch; ``appended_ms`` is by the writer's clock.
    """

    sequence: int
    kind: str  # "data" | "seal"
    epoch: int
    line: int
    byte: int
    lines: int
    bytes: int
    session: str
    base: int
    digest: str
    appended_ms: int
    connector: str = ""
    reason: str = ""  # of a seal: "closed" | "abandoned"
    landmarks: tuple[tuple[int, int], ...] = ()
    errors: int | None = None
    events: int = 0
    end: RunEnd | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    zone: str = ""

    @property
    def clock(self) -> str:
        """``LINES`` if its lines have timestamps, else ``ARRIVAL``."""
        return ARRIVAL if self.last_ms is None else LINES

    @property
    def time_range_ms(self) -> tuple[int, int]:
        """The first and last time of its lines, by ``clock``."""
        if self.first_ms is None or self.last_ms is None:
            return self.appended_ms, self.appended_ms
        return self.first_ms, self.last_ms

    @property
    def is_keyed(self) -> bool:
        """Whether its writer sent an Idempotency-Key, from which its session is derived."""
        return self.session.startswith(KEYED_SESSION)

    @property
    def end_line(self) -> int:
        """Lines of the log up to and including this segment."""
        return self.line + self.lines

    @property
    def end_byte(self) -> int:
        """Bytes of the log up to and including this segment."""
        return self.byte + self.bytes


@dataclass(frozen=True, slots=True)
class KeyClaim:
    """The number at which a batch with an Idempotency-Key is stored, unless another writer takes it first (decision 0061). ``session``: derived
    from the key; ``digest``: of the batch; see ``SegmentEntry``."""

    session: str
    sequence: int
    digest: str
    claimed_ms: int


class SegmentIndex(Protocol):
    """The catalog's rows of a run's segments, in log order. It may lag behind S3 or be lost; it is never ahead.

    Compaction writes the rows of the segments that it compacts before it commits, so no row of a segment in ``partial.txt`` is missing.
    The last row of a deleted run is its mark (``runlog.deletion_marks``): reads that return it raise RunDeletedError instead.
    """

    def put(self, run: Run, entries: Sequence[SegmentEntry]) -> None:
        """Write rows. Idempotent."""

    def last(self, run: Run) -> SegmentEntry | None:
        """The row with the highest number. One request."""

    def at_line(self, run: Run, line: int) -> SegmentEntry | None:
        """The last row whose segment begins at or before ``line``. One request."""

    def rows_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[SegmentEntry]:
        """Up to ``limit`` rows in log order, from (``line``, ``sequence``) inclusive."""

    def positions_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[tuple[int, int]]:
        """As ``rows_from``, but only (first line, sequence) of each: the same number of requests, a fraction of the bytes."""

    def claim(self, run: Run, claim: KeyClaim, instead_of: int | None = None) -> KeyClaim | SegmentEntry:
        """Write the row of an Idempotency-Key, if it has none; or if it has the claim of number ``instead_of``. Returns what the row is then: this
        claim or an earlier one, or the entry of the stored batch, with which ``put`` replaces the claim. One request."""

    def forget(self, run: Run) -> int:
        """Delete the rows of a run, also those of its events, except its mark. Returns their number. A query for each MB of rows, a request for
        25 rows."""


class EventIndexer(Protocol):
    """Writes the events of a run to their index."""

    def index_from(self, run: Run, first: int) -> None:
        """Index the events of all segments from number ``first`` on, if they are not indexed yet. Idempotent. Raises UnavailableError."""


class Clock(Protocol):
    """Time, injected so that tests control it."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_s(self) -> float:
        """Seconds of a monotonic clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message for subscribers: at most 256 KiB, with attributes for filters."""

    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Publisher(Protocol):
    """A topic with subscribers."""

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """Send messages. Returns each one's error or None. One request per ten messages that fit into 256 KiB together."""


class Workers(Protocol):
    """Further invocations of the calling function."""

    def start(self, number: int) -> None:
        """Start another invocation asynchronously, with its number. Raises UnavailableError."""


Row = Mapping[str, Any]
"""A row of a table, including its key attributes. Values: texts, integers, decimals, booleans, None, and lists and maps of these."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a row: the table's logical name, the partition key, and the sort key (empty if the table has none)."""

    table: str
    partition: str
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Clause:
    """A condition on one attribute, whose path may lead through maps. ``absent`` takes no value; any other condition is false if the
    attribute is absent."""

    path: tuple[str, ...]
    operator: Literal["absent", "=", "!=", "<", ">"]
    value: Any = None


RowCondition = tuple[tuple[Clause, ...], ...]
"""A condition: true if all clauses of at least one of these sets are true. Empty: always true."""
ABSENT_ROW: RowCondition = ((Clause(("key",), "absent"),),)
"""The row does not exist; for a table whose partition key is named ``key``."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write a complete row."""

    key: Key
    row: Row
    when: RowCondition = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a row; a missing row is a success if the condition allows it."""

    key: Key
    when: RowCondition = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, and fail the transaction if the condition is false."""

    key: Key
    when: RowCondition


Write = Put | Delete | Check
MAX_TRANSACTION_WRITES = 100
MAX_PARTITION_KEY_BYTES = 2048
MAX_SORT_KEY_BYTES = 1024


def is_sort_key(text: object) -> bool:
    """Whether a table accepts this value as a sort key; it rejects a request with any other value."""
    return isinstance(text, str) and 0 < len(text.encode(errors="replace")) <= MAX_SORT_KEY_BYTES and _is_utf8(text)


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Database(Protocol):
    """Tables of rows, by key. Reads are strongly consistent."""

    def get_many(self, keys: Sequence[Key]) -> Mapping[Key, Row]:
        """The rows that exist. One request per 100 keys."""

    def query(
        self,
        table: str,
        partition: str,
        first: str | None,
        last: str | None,
        *,
        limit: int,
        newest_first: bool = False,
        only: str | None = None,
    ) -> tuple[Sequence[Row], bool]:
        """Rows of a partition with ``first`` <= sort key <= ``last`` (None: no bound), in ascending or descending order; and whether there
        may be more. ``only``: the single attribute to return of each row. One request, which reads no row that it does not return."""

    def put_many(self, rows: Sequence[Put]) -> None:
        """Write rows independently and without conditions. One request per 25 rows."""

    def transact(self, writes: Sequence[Write]) -> None:
        """Apply all writes or none; at most 100, no two of the same row. Raises PreconditionFailedError if a condition is false,
        WriteConflictError if another transaction writes one of the rows (read again, then repeat)."""
