"""Appending: one conditional PUT of the next segment, exactly once whatever is lost, repeated or raced.

What makes it exact (decision 0001): **a batch whose writer presented number b is written at number n only after every number in
[b, n) was seen to be held by something else.** A retry presents the same b, so it walks the same numbers and meets its own segment::

    writer A presents 7      PUT 7 -> taken by B     PUT 8 -> stored, the answer is lost
    writer A presents 7      PUT 7 -> taken: B's     PUT 8 -> taken: session, base and digest are mine: answered as before

The requests: a warm append 1 PUT; its retry 1 PUT + 1 HEAD; a cold one a query, a LIST, a HEAD and the PUT. A session that met another
writer looks (HEAD) before it leaps, so two writers on one run cost about two requests an append.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from chalicelib.errors import (
    InvalidBatchError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RunClosedError,
    StoreUnavailableError,
)
from chalicelib.ports import ABSENT, KEYED_SESSION, Clock, ObjectStore, PutOptions, Run, RunEnd, SegmentEntry, SegmentIndex
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.conflicts import put_retrying_conflicts, retry_on_change
from chalicelib.runlog.fingerprints import BatchFingerprints
from chalicelib.runlog.layout import MAX_SEQUENCE, Layout
from chalicelib.runlog.log_end import LogEnd, LogEndFinder
from chalicelib.runlog.position import Position, PositionSigner
from chalicelib.runlog.segment import ABANDONED, CLOSED, DATA, SEAL, errors_of, landmarks_of, metadata_of, times_of

MAX_IDEMPOTENCY_KEY_CHARS = 255
_STEPS_BEFORE_LISTING = 3  # numbers found taken, one by one, before a listing is cheaper
_MAX_STEPS = 200
_ROWS = 500


@dataclass(frozen=True, slots=True)
class Appended:
    """The answer to an append. ``entry`` is None when there was nothing to store; ``repeated``: it had been stored before."""

    entry: SegmentEntry | None
    position: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Whose batch it is, and since which number: what tells a retry from a new batch. ``base`` None: any number (an Idempotency-Key).
    ``is_digest``: whether a stored digest is the batch's; None: ``digest`` alone is."""

    session: str
    base: int | None
    digest: str
    is_digest: Callable[[str], bool] | None = None

    def wrote(self, entry: SegmentEntry) -> bool:
        """Whether this segment is this very batch. Raises InvalidBatchError when a key is used for two different batches."""
        if entry.session != self.session or entry.kind != DATA:
            return False
        same = entry.digest == self.digest or (self.is_digest is not None and self.is_digest(entry.digest))
        if self.base is None and not same:
            raise InvalidBatchError(f"idempotency key was used for another batch sequence={entry.sequence}")
        return same and (self.base is None or entry.base == self.base)


@dataclass(frozen=True, slots=True)
class AppendTarget:
    """What is known before the first write: where to try, and the batch's own segment if it was met."""

    tail: LogEnd
    stored: SegmentEntry | None = None


class Writer:
    """Appends batches to runs and seals them. Holds no state: any number of them may work on one run."""

    def __init__(
        self,
        store: ObjectStore,
        index: SegmentIndex,
        layout: Layout,
        signer: PositionSigner,
        clock: Clock,
        fingerprints: BatchFingerprints | None = None,
    ) -> None:
        self.tails = LogEndFinder(store, index, layout)
        self._fingerprints = fingerprints or BatchFingerprints()
        self._store, self._index, self._layout, self._signer, self._clock = store, index, layout, signer, clock

    def append(self, run: Run, batch: Batch, *, position: str | None = None, idempotency_key: str | None = None) -> Appended:
        """Store a batch as the run's next segment; once it returns, the batch is durable and its place is final.

        A repeat with the same ``position`` (or key) and content is stored once. Raises RunClosedError (nothing stored), InvalidBatchError
        (a key used twice), InvalidNameError (a new run with unprintable names), UnavailableError (stored or not: repeat it).
        """
        presented = self._signer.loads(run, position)
        if not batch.lines:
            return self._open(run, presented, position)
        identity, target = self._identity(run, batch, presented, idempotency_key)
        if target.stored:
            return self._answer(run, identity, target.stored, repeated=True)
        return self._write(run, batch, identity, target.tail)

    def seal(self, run: Run, reason: str, tail: LogEnd, end: RunEnd | None = None) -> LogEnd | None:
        """Take the number at ``tail`` for a seal; the tail behind it, or None when another write has taken the number."""
        entry = replace(self._entry(tail, SEAL, WriterIdentity(_new_session(), tail.sequence, ""), b"", reason=reason), end=end)
        try:
            self._put(run, entry, b"")
        except PreconditionFailedError:
            return None
        return LogEnd.after(entry)

    def presented_tail(self, run: Run, position: str | None) -> LogEnd:
        """Where a close may try first: the presented position while it is young, else the tail as it is."""
        presented = self._signer.loads(run, position)
        if presented and presented.is_young(self._clock.now_ms()):
            return LogEnd.at(presented)
        return self.tails.find(run)

    def position_at(self, run: Run, tail: LogEnd) -> str:
        """The position of a new session whose first batch goes to ``tail``. No request."""
        # Behind a seal nobody writes without looking: such a position is old from the start.
        return self._token(run, _new_session(), tail, 0 if tail.seal else self._clock.now_ms())

    def _open(self, run: Run, presented: Position | None, token: str | None) -> Appended:
        """An init or a keep-alive. A session keeps its token as it is: only a look at the log may renew its time."""
        if presented and token:
            return Appended(None, token)
        tail = self.tails.find(run)
        if tail.sequence == 0:
            self._layout.check_new(run)
        return Appended(None, self.position_at(run, tail))

    def _identity(self, run: Run, batch: Batch, presented: Position | None, key: str | None) -> tuple[WriterIdentity, AppendTarget]:
        digest, is_digest = self._fingerprints.digest(batch), partial(self._fingerprints.matches, batch)
        if key is not None:
            identity = WriterIdentity(session_of_key(key), None, digest, is_digest)
            return identity, self._look_from(run, batch, identity, LogEnd())
        if presented is None:
            tail = self.tails.find(run)
            return WriterIdentity(_new_session(), tail.sequence, digest, is_digest), AppendTarget(tail)
        identity = WriterIdentity(presented.session, presented.sequence, digest, is_digest)
        if not presented.is_young(self._clock.now_ms()):
            return identity, self._look_from(run, batch, identity, LogEnd.at(presented))
        if presented.contended:
            return identity, self._peek(run, identity, LogEnd.at(presented))
        return identity, AppendTarget(LogEnd.at(presented))

    def _write(self, run: Run, batch: Batch, identity: WriterIdentity, tail: LogEnd) -> Appended:
        for step in range(1, _MAX_STEPS):
            entry = self._data_entry(tail, identity, batch)
            try:
                self._put(run, entry, batch.body)
                return self._answer(run, identity, entry)
            except PreconditionFailedError:
                listing_pays = step % _STEPS_BEFORE_LISTING == 0
                target = self._look_from(run, batch, identity, tail) if listing_pays else self._peek(run, identity, tail)
            if target.stored:
                return self._answer(run, identity, target.stored, repeated=True)
            tail = target.tail
        raise StoreUnavailableError(f"too many writers took the next number first run={run.fqn}/{run.run_id} steps={_MAX_STEPS}")

    def _peek(self, run: Run, identity: WriterIdentity, tail: LogEnd) -> AppendTarget:
        """Look at one number: free, mine, or somebody else's (then the one behind it is next)."""
        try:
            taken = self.tails.segment(run, tail.sequence)
        except ObjectNotFoundError:
            return AppendTarget(tail)
        return AppendTarget(tail, taken) if identity.wrote(taken) else AppendTarget(LogEnd.after(taken))

    def _look_from(self, run: Run, batch: Batch, identity: WriterIdentity, lower: LogEnd) -> AppendTarget:
        """Everything from a lower bound on: one LIST, a HEAD of the last, a HEAD of each segment that has a size of the batch's. All of it
        again when a concurrent compaction retires one of them meanwhile. Raises UnavailableError, DamagedLogError."""
        return retry_on_change(lambda: self._look_once(run, batch, identity, lower))

    def _look_once(self, run: Run, batch: Batch, identity: WriterIdentity, lower: LogEnd) -> AppendTarget:
        listed = list(self.tails.list_segments(run, max(lower.sequence - 1, 0)))
        numbers = [self._layout.sequence_of(run, found.key) for found in listed]
        sizes = {n: found.size for n, found in zip(numbers, listed, strict=True) if n >= lower.sequence}
        same_size = self._of_a_size(batch, identity, sizes)
        # What is retired is asked for after the listing: a row is always there before its segment goes.
        own = next((entry for entry in map(partial(self.tails.listed_segment, run), same_size) if identity.wrote(entry)), None)
        own = own or self._own_retired(run, identity, lower, numbers[0] if numbers else MAX_SEQUENCE)
        if own:
            return AppendTarget(lower, own)
        return AppendTarget(self.tails.after_listing(run, listed) if listed else self.tails.find(run))

    def _of_a_size(self, batch: Batch, identity: WriterIdentity, sizes: Mapping[int, int]) -> list[int]:
        """The numbers that an earlier try of the batch may have: of its size now, of its size as it came; or, where other rules of
        masking would have made other sizes, all. A key may stand anywhere, so all would be too many: the catalog finds it by its key."""
        own = {len(batch.body), len(batch.body if batch.sent is None else batch.sent)}
        same = [number for number, size in sizes.items() if size in own]
        if identity.base is None or len(same) == len(sizes) or not self._fingerprints.may_differ_in_size(batch):
            return same
        return list(sizes)

    def _own_retired(self, run: Run, identity: WriterIdentity, lower: LogEnd, end: int) -> SegmentEntry | None:
        """Among retired numbers [lower, end): their rows stay in the catalog while the run is open. One query, if there are any."""
        if identity.base is None:
            row = self._index.keyed(run, identity.session)
            return row if row and identity.wrote(row) else None
        line, sequence = lower.line, lower.sequence
        while sequence < end and (rows := self._index.rows_from(run, line, sequence, _ROWS)):
            own = next((row for row in rows if row.sequence < end and identity.wrote(row)), None)
            if own:
                return own
            line, sequence = rows[-1].end_line, rows[-1].sequence + 1
        return None

    def _data_entry(self, tail: LogEnd, identity: WriterIdentity, batch: Batch) -> SegmentEntry:
        if tail.seal == CLOSED:
            raise RunClosedError(f"the run is closed: its log takes no more lines sequence={tail.sequence}")
        epoch = tail.epoch + 1 if tail.seal == ABANDONED else tail.epoch
        entry = self._entry(replace(tail, epoch=epoch), DATA, identity, batch.body)
        body = batch.body
        told = replace(entry, lines=batch.lines, connector=batch.connector, events=batch.events)
        errors = errors_of(body) if batch.errors is None else batch.errors
        first_ms, last_ms = times_of(batch, entry.appended_ms) or (None, None)
        return replace(told, landmarks=landmarks_of(body), errors=errors, first_ms=first_ms, last_ms=last_ms)

    def _entry(self, tail: LogEnd, kind: str, identity: WriterIdentity, body: bytes, reason: str = "") -> SegmentEntry:
        if tail.sequence > MAX_SEQUENCE:
            raise RunClosedError(f"the run has no numbers left sequence={tail.sequence}")
        return SegmentEntry(
            sequence=tail.sequence,
            kind=kind,
            epoch=tail.epoch,
            line=tail.line,
            byte=tail.byte,
            lines=0,
            bytes=len(body),
            session=identity.session,
            base=tail.sequence if identity.base is None else identity.base,
            digest=identity.digest,
            appended_ms=self._clock.now_ms(),
            reason=reason,
        )

    def _put(self, run: Run, entry: SegmentEntry, body: bytes) -> None:
        if entry.sequence == 0:
            self._layout.check_new(run)  # runs that began before this check go on
        key, options = self._layout.segment(run, entry.sequence), PutOptions(metadata_of(entry))
        put_retrying_conflicts(self._store, key, body, options, ABSENT)

    def _answer(self, run: Run, identity: WriterIdentity, entry: SegmentEntry, *, repeated: bool = False) -> Appended:
        # A repeat's own segment may be long ago: its position is as old as the segment, so that it is not used without looking.
        issued_ms = entry.appended_ms if repeated else self._clock.now_ms()
        contended = identity.base is not None and entry.sequence > identity.base  # it met another writer: it looks first next time
        # A key's session is for this one batch: what follows in the same cookie jar is a session of its own.
        session = _new_session() if identity.base is None else identity.session
        return Appended(entry, self._token(run, session, LogEnd.after(entry), issued_ms, contended=contended), repeated)

    def _token(self, run: Run, session: str, tail: LogEnd, issued_ms: int, *, contended: bool = False) -> str:
        position = Position(session, tail.epoch, tail.sequence, tail.line, tail.byte, contended, issued_ms)
        return self._signer.dumps(run, position)


def session_of_key(key: str) -> str:
    """The session that an Idempotency-Key stands for. Raises InvalidBatchError."""
    if not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARS or not key.isprintable():
        raise InvalidBatchError(f"an idempotency key is 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable characters length={len(key)}")
    return KEYED_SESSION + blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()


def _new_session() -> str:
    return secrets.token_hex(8)
