"""The small interfaces that the cores stand on. Adapters: ``chalicelib.aws`` (boto3) and ``chalicelib.memory``.

Errors that every implementation raises: ``StoreUnavailableError`` (nothing was done) and ``OutcomeUnknownError`` (a write whose
answer was lost); the others are named at the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from chalicelib.errors import UnavailableError


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What HEAD tells of an object. ``etag`` without quotes; ``last_modified_ms`` since the epoch, by the store's clock."""

    key: str
    size: int
    etag: str
    last_modified_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object, or a range of it, with its bytes. ``info.size`` is the size of the whole object."""

    info: ObjectInfo
    body: bytes


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One row of a listing: no metadata, that takes a HEAD."""

    key: str
    size: int
    etag: str
    last_modified_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a listing in ascending order of key (UTF-8 bytes). ``truncated``: there is more after the last key."""

    objects: Sequence[ListedObject]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Folders:
    """One page of what stands under a prefix, up to the next slash: ``names`` without the prefix and the slash, each once, ascending.
    ``start_after``: the key behind which the next page begins, None at the end."""

    names: Sequence[str]
    start_after: str | None


@dataclass(frozen=True, slots=True)
class PutOptions:
    """How an object is stored. ``metadata`` is ASCII and at most 2 KB, keys lowercase. ``storage_class`` None: STANDARD."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/plain; charset=utf-8"
    storage_class: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the key for a write to be applied: nothing there, or exactly this ETag. Else: ``PreconditionFailedError``."""

    if_none_match: bool = False
    if_match: str | None = None


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """A PUT that needs no credentials: send the body to ``url`` with exactly these headers."""

    url: str
    headers: Mapping[str, str]


def after_folder(folder: str) -> str:
    """The key that every key of a folder (with its slash) sorts before, and every later one behind: the letter after the slash."""
    return folder.removesuffix("/") + chr(ord("/") + 1)


ANY = Condition()
ABSENT = Condition(if_none_match=True)


class ObjectStore(Protocol):
    """One bucket of S3. Reads after writes are strongly consistent, listings too. Encryption is the adapter's, on every write."""

    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        """Store an object whole; the answer is its ETag. Raises PreconditionFailedError, WriteConflictError (repeat it)."""

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        """Read bytes [start, end) (``end`` past the object's end is cut), or all. Raises ObjectNotFoundError,
        RangeNotSatisfiableError (``start`` at or after the end), PreconditionFailedError."""

    def head(self, key: str) -> ObjectInfo:
        """Metadata without the bytes. Raises ObjectNotFoundError."""

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Listing:
        """Keys under ``prefix`` that sort after ``start_after``, at most ``limit`` (and 1,000)."""

    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Folders:
        """Which folders under ``prefix`` (it need not end in a slash) have a key after ``start_after``. One request, however many keys
        there are; objects beside the folders count among the ``limit`` (and 1,000), and are not answered."""

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """Remove a key; none there is a success, also with ``if_match`` (S3 answers 404 or 412 then: both mean gone or
        changed). Raises PreconditionFailedError when another version is there."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove up to 1,000 keys in one request."""

    def create_multipart(self, key: str, options: PutOptions) -> str:
        """Begin an upload in parts; the answer is its id."""

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """Send part ``number`` (1 to 10,000; 5 MiB to 5 GiB, the last may be smaller); the answer is its ETag.
        Raises ObjectNotFoundError when the upload is gone."""

    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        """Make part ``number`` of bytes [start, end) of ``source``, server-side. The source must be larger than 5 MiB.
        Raises PreconditionFailedError when the source's ETag differs, ObjectNotFoundError when it is gone."""

    def complete_multipart(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition = ANY) -> str:
        """Publish the parts as one object; the answer is its ETag. Raises PreconditionFailedError, WriteConflictError
        (start the upload over), ObjectNotFoundError (no such upload: aborted, or completed by a call whose answer was lost)."""

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """Give the parts up; an upload that is gone is a success."""

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        """A URL that anyone may GET for ``expires_s`` seconds; with ``filename`` it is answered as an attachment. No request."""

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        """What anyone may send once to store an object of exactly ``size`` bytes, if there is none yet. No request."""

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        """A URL that anyone may PUT part ``number`` to, of exactly ``size`` bytes. No request."""

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """A URL that anyone may POST the list of parts to (S3's XML). No request."""

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """A URL that anyone may send DELETE to, to give an upload up. No request."""


@dataclass(frozen=True, slots=True)
class Run:
    """Which log: the pipeline's fully qualified name and the run's id, as the connector gave them."""

    fqn: str
    run_id: str


@dataclass(frozen=True, slots=True)
class RunStart:
    """The start of a run. ``start_id``: of the process that started it. ``first_run_id``: the run id that it was started under, that is
    attempt 1. ``started_ms``: when the command began; ``registered_ms``: when the start was stored. Both by the function's clock.
    ``heartbeat_s``: the client promises a heartbeat so long after its last batch; 0: none."""

    start_id: str
    first_run_id: str
    attempt: int
    host: str
    command: str
    started_ms: int
    registered_ms: int
    heartbeat_s: int = 0


SUCCEEDED, FAILED, CANCELLED, LOST, UNKNOWN = "succeeded", "failed", "cancelled", "lost", "unknown"
STATED_OUTCOMES = (SUCCEEDED, FAILED, CANCELLED)
"""What a client or a record may say of the end of a run."""
EXIT_CODES = range(-(2**31), 2**32)
"""Of any operating system."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended, as its client reports it with the close. ``outcome``: "succeeded", "failed" or "cancelled"; of a run that the sweep
    ended also "lost", and "unknown" if nobody was to close it. Why it failed, each empty or
    None where it does not apply: ``exit_code``, ``signal`` (a name, as SIGKILL), ``exception`` (a line), ``step`` (its id). ``lost_lines``:
    lines that the client could not store. ``last_sign_ms``: of a run that the sweep ended, its last line, heartbeat or start; 0: not known."""

    outcome: str
    exit_code: int | None = None
    signal: str = ""
    exception: str = ""
    step: str = ""
    lost_lines: int = 0
    last_sign_ms: int = 0


KEYED_SESSION = "k-"
"""How the session of a batch with an Idempotency-Key begins."""
LINES, ARRIVAL = "lines", "arrival"
"""Clocks: what lines state themselves, and when they were stored."""
EVENT_ROWS = "event#"
"""How rows of events begin, which stand beside those of a run's segments."""


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """Where a segment stands in its run's log. Written on the segment as user metadata, indexed in the catalog.

    ``line`` and ``byte`` are the log's totals before this segment; ``lines`` and ``bytes`` its own size. ``session``, ``base`` (the
    number its writer presented) and ``digest`` tell a retry from a new batch. ``landmarks`` are (line, byte) pairs inside a large
    segment, relative to its start, so that a page never reads far. ``errors``: its lines that tell of errors, None where nobody counted
    (versions before did not). ``events``: how many events it is made of, 0: plain text; a segment of events has a companion (decision
    0022). ``end``: of the seal of a close that reports an outcome; rows of the index leave it out. ``first_ms`` and ``last_ms``: the times
    of its first and last line that state one themselves, None where none does, or a version before wrote it (decision 0043); shown, and
    used for nothing else. Times in ms since the epoch, the others by the writer's clock.
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

    @property
    def clock(self) -> str:
        """``LINES`` where its lines state their times, else ``ARRIVAL``."""
        return ARRIVAL if self.last_ms is None else LINES

    @property
    def time_range_ms(self) -> tuple[int, int]:
        """The times of its first and last line, by ``clock``."""
        if self.first_ms is None or self.last_ms is None:
            return self.appended_ms, self.appended_ms
        return self.first_ms, self.last_ms

    @property
    def is_keyed(self) -> bool:
        """Whether its writer sent an Idempotency-Key: its session is made from the key."""
        return self.session.startswith(KEYED_SESSION)

    @property
    def end_line(self) -> int:
        """The log's lines up to and with this segment."""
        return self.line + self.lines

    @property
    def end_byte(self) -> int:
        """The log's bytes up to and with this segment."""
        return self.byte + self.bytes


class SegmentIndex(Protocol):
    """The catalog's rows of a run's segments, in log order. An index: it may lag behind S3 or be lost; it never runs ahead.

    Compaction writes the rows of what it compacts before it commits, so below ``partial.txt`` none is missing.
    """

    def put(self, run: Run, entries: Sequence[SegmentEntry]) -> None:
        """Write rows; the same row again is a no-op."""

    def last(self, run: Run) -> SegmentEntry | None:
        """The row with the highest number. One request."""

    def at_line(self, run: Run, line: int) -> SegmentEntry | None:
        """The last row that begins at or before ``line``. One request."""

    def rows_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[SegmentEntry]:
        """Up to ``limit`` rows in log order from (``line``, ``sequence``) on, that one included."""

    def positions_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[tuple[int, int]]:
        """``rows_from`` of which nothing but (first line, number) is needed: as many requests, a fraction of the bytes."""

    def keyed(self, run: Run, session: str) -> SegmentEntry | None:
        """The row of a batch that was sent with an Idempotency-Key: its session is made from the key. One request."""


class Clock(Protocol):
    """Time, injected so that tests own it."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""

    def monotonic_s(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True, slots=True)
class Message:
    """What subscribers get: at most 256 KiB, with attributes to filter by."""

    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)


class Publisher(Protocol):
    """A topic that others subscribe to."""

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        """Send messages, and tell of each what went wrong. One request for ten, as far as they fit into 256 KiB together."""


class Workers(Protocol):
    """More of the function that asks, beside it."""

    def start(self, number: int) -> None:
        """Start another one, which is told its number; it works by itself. Raises UnavailableError."""


Row = Mapping[str, Any]
"""A row of a table: texts, whole numbers, decimals, booleans, None, lists and maps of these. Its key attributes are among them."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which row: the table's logical name, the partition, and the sort key (empty where the table has none)."""

    table: str
    partition: str
    sort: str = ""


@dataclass(frozen=True, slots=True)
class Clause:
    """What must hold of one attribute, reached through maps by its path. ``absent`` takes no value; any other is false of an
    attribute that is not there."""

    path: tuple[str, ...]
    is_: Literal["absent", "=", "!=", "<", ">"]
    value: Any = None


When = tuple[tuple[Clause, ...], ...]
"""A condition: any of these sets of clauses holds whole. Empty: always."""
ABSENT_ROW: When = ((Clause(("key",), "absent"),),)
"""No such row, in a table whose partition key is named ``key``."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write a row whole."""

    key: Key
    row: Row
    when: When = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a row; none there is a success where the condition allows it."""

    key: Key
    when: When = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, and hold the others back unless the condition holds."""

    key: Key
    when: When


Write = Put | Delete | Check
MAX_TRANSACTION_WRITES = 100
MAX_PARTITION_KEY_BYTES = 2048
MAX_SORT_KEY_BYTES = 1024


def is_sort_key(text: object) -> bool:
    """Whether a table could hold this value as a sort key: it refuses a request with any other, so no key of a row is one."""
    return isinstance(text, str) and 0 < len(text.encode(errors="replace")) <= MAX_SORT_KEY_BYTES and _is_utf8(text)


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


class Database(Protocol):
    """Tables of rows, by key. Reads see every write that was answered before them."""

    def get_many(self, keys: Sequence[Key]) -> Mapping[Key, Row]:
        """The rows that are there. One request for 100 keys."""

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
        """Rows of a partition with ``first`` <= sort key <= ``last`` (None: no bound), in order of it, or against it; and whether there
        may be more. ``only``: the one attribute that is wanted of each. One request, which reads no row that it does not answer."""

    def put_many(self, rows: Sequence[Put]) -> None:
        """Write rows, each by itself and without conditions. One request for 25."""

    def transact(self, writes: Sequence[Write]) -> None:
        """All writes or none, at most 100, no two of the same row. Raises PreconditionFailedError when a condition is false,
        WriteConflictError when another transaction is at one of the rows (read again, then repeat)."""
