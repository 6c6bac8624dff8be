"""Appends: one conditional PUT of the next segment, exactly once despite lost responses, retries and races.

The invariant (decision 0001): **a batch whose writer presented number b is written at number n only after every number in [b, n) was
read and belongs to another batch or seal.** A retry presents the same b, so it visits the same numbers and finds its own segment::

    writer A presents 7      PUT 7 -> taken by B     PUT 8 -> stored, the response is lost
    writer A presents 7      PUT 7 -> taken by B     PUT 8 -> taken, same session, base and digest: same response as before

A batch with an Idempotency-Key is searched by its key instead (decision 0061): **it is written only at the number that the row of the key
claims, and the claim moves on only after the segment of that number was read and belongs to another batch or seal**::

    first request          claim 7      PUT 7 -> stored, the response is lost
    second request         claim: 7     HEAD 7 -> same session and digest: same response

Requests: a warm append 1 PUT; its retry 1 PUT + 1 HEAD; a cold append a query, a LIST, a HEAD and the PUT; each with a key the claim in
addition. A session whose last append met another writer sends a HEAD before the PUT, so two writers on one run cost about two requests per
append.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Protocol

from chalicelib.errors import (
    InvalidBatchError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RunClosedError,
    StoreUnavailableError,
)
from chalicelib.ports import (
    ABSENT,
    KEYED_SESSION,
    MAX_SEQUENCE,
    Clock,
    KeyClaim,
    ObjectStore,
    PutOptions,
    Run,
    RunEnd,
    SegmentEntry,
    SegmentIndex,
)
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.conflicts import put_retrying_conflicts, retry_on_change
from chalicelib.runlog.fingerprints import BatchFingerprints
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import ListedEnd, LogEnd, LogEndFinder
from chalicelib.runlog.position import Position, PositionSigner
from chalicelib.runlog.segment import ABANDONED, CLOSED, DATA, SEAL, errors_of, landmarks_of, metadata_of, times_of
from chalicelib.runlog.zone import settled_zone

MAX_IDEMPOTENCY_KEY_CHARS = 255
_STEPS_BEFORE_LISTING = 3  # taken numbers, checked one by one, before a LIST is cheaper
_MAX_STEPS = 200
_ROWS = 500


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of an append. ``entry``: the stored segment, None for an empty batch; ``repeated``: the batch had been stored before."""

    entry: SegmentEntry | None
    position: str
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Identity of a batch: its session, and the number that its writer presented; distinguishes a retry from a new batch. ``is_keyed``: the
    session is that of an Idempotency-Key, whose batch may have any number. ``is_digest``: whether a stored digest belongs to the batch; None:
    only ``digest`` does."""

    session: str
    base: int
    digest: str
    is_digest: Callable[[str], bool] | None = None
    is_keyed: bool = False

    def wrote(self, entry: SegmentEntry) -> bool:
        """Whether a segment contains this batch. Raises InvalidBatchError if a key is used for two different batches."""
        if entry.session != self.session or entry.kind != DATA:
            return False
        if self.is_keyed:
            self.check_claim(entry)
            return True
        return self._has(entry.digest) and entry.base == self.base

    def check_claim(self, claim: KeyClaim | SegmentEntry) -> None:
        """Raises InvalidBatchError if the key of the batch is used for another one."""
        if not self._has(claim.digest):
            raise InvalidBatchError(f"idempotency key was used for another batch sequence={claim.sequence}")

    def _has(self, digest: str) -> bool:
        return digest == self.digest or (self.is_digest is not None and self.is_digest(digest))


@dataclass(frozen=True, slots=True)
class AppendTarget:
    """The number to write next, and the segment of the batch if an earlier attempt stored it."""

    tail: LogEnd
    stored: SegmentEntry | None = None


class AppendPolicy(Protocol):
    """Where runs are written and browsed, see ``runlog.choice``. Most runs need no request."""

    def check_first_segment(self, run: Run) -> None:
        """Raises OtherMethodError for a run without lines whose log is stored elsewhere."""

    def segment_metadata(self, run: Run) -> Mapping[str, str]:
        """User metadata for the first segment of a run. No request."""


class Writer:
    """Appends batches to runs and seals them. Holds no state: any number of them may work on one run. ``policy`` None: every run may be
    appended to."""

    def __init__(
        self,
        store: ObjectStore,
        index: SegmentIndex,
        layout: Layout,
        signer: PositionSigner,
        clock: Clock,
        fingerprints: BatchFingerprints | None = None,
        policy: AppendPolicy | None = None,
    ) -> None:
        self.tails = LogEndFinder(store, index, layout)
        self._policy = policy
        self._fingerprints = fingerprints or BatchFingerprints()
        self._store, self._index, self._layout, self._signer, self._clock = store, index, layout, signer, clock

    def append(self, run: Run, batch: Batch, *, position: str | None = None, idempotency_key: str | None = None) -> Appended:
        """Store a batch as the run's next segment; once it returns, the batch is durable and its place is final.

        A repeat with the same ``position`` (or key) and content is stored once. Raises RunClosedError (nothing stored; RunDeletedError if the run
        was deleted since, which costs a query), InvalidBatchError (a key used twice), InvalidNameError (a new run with unprintable names),
        OtherMethodError and OtherZoneError (nothing stored), UnavailableError (stored or not: repeat it).
        """
        presented = self._signer.loads(run, position)
        if not batch.lines:
            return self._open(run, presented, position, batch.zone)
        if idempotency_key is not None:
            return self._append_with_key(run, batch, presented, session_of_key(idempotency_key))
        identity, target = self._identity(run, batch, presented)
        if target.stored:
            return self._answer(run, identity, target.stored, repeated=True)
        return self._write(run, batch, identity, target.tail)

    def seal(self, run: Run, reason: str, tail: LogEnd, end: RunEnd | None = None) -> LogEnd | None:
        """Write a seal at ``tail``; returns the log end after it, or None if another write has taken the number."""
        entry = replace(self._entry(tail, SEAL, WriterIdentity(_new_session(), tail.sequence, ""), b"", reason=reason), end=end)
        try:
            self._put(run, entry, b"")
        except PreconditionFailedError:
            return None
        return LogEnd.after(entry)

    def presented_tail(self, run: Run, position: str | None) -> LogEnd:
        """The log end that a close tries first: the presented position while it is young, else the current log end."""
        presented = self._signer.loads(run, position)
        if presented and presented.is_young(self._clock.now_ms()):
            return LogEnd.at(presented)
        return self.tails.find(run)

    def position_at(self, run: Run, tail: LogEnd) -> str:
        """The position of a new session whose first batch goes to ``tail``. No request."""
        # After a seal no batch may be written without a read: such a position is old from the start.
        return self._token(run, _new_session(), tail, 0 if tail.seal else self._clock.now_ms())

    def _open(self, run: Run, presented: Position | None, token: str | None, zone: str) -> Appended:
        """An init or a keep-alive. The token of a session is returned unchanged: only a read of the log may renew its time."""
        if presented and token:
            return Appended(None, token)
        tail = self.tails.find(run)
        if tail.sequence == 0:
            self._layout.check_new(run)
        return Appended(None, self.position_at(run, replace(tail, zone=settled_zone(zone, tail.zone, is_settled=tail.exists))))

    def _identity(self, run: Run, batch: Batch, presented: Position | None) -> tuple[WriterIdentity, AppendTarget]:
        digest, is_digest = self._fingerprints.digest(batch), partial(self._fingerprints.matches, batch)
        if presented is None:
            tail = self.tails.find(run)
            return WriterIdentity(_new_session(), tail.sequence, digest, is_digest), AppendTarget(tail)
        identity = WriterIdentity(presented.session, presented.sequence, digest, is_digest)
        if not presented.is_young(self._clock.now_ms()):
            return identity, self._look_from(run, batch, identity, LogEnd.at(presented))
        if presented.contended:
            return identity, self._peek(run, identity, LogEnd.at(presented))
        return identity, AppendTarget(LogEnd.at(presented))

    def _append_with_key(self, run: Run, batch: Batch, presented: Position | None, session: str) -> Appended:
        end = self._end_for_key(run, presented)
        if end.sequence == 0:
            self._layout.check_new(run)
        digest, is_digest = self._fingerprints.digest(batch), partial(self._fingerprints.matches, batch)
        base = presented.sequence if presented else end.sequence
        identity = WriterIdentity(session, base, digest, is_digest, is_keyed=True)
        instead_of = None
        for step in range(1, _MAX_STEPS):
            claim = self._index.claim(run, KeyClaim(session, end.sequence, digest, self._clock.now_ms()), instead_of)
            identity.check_claim(claim)
            if isinstance(claim, SegmentEntry):
                return self._answer(run, identity, claim, repeated=True)
            if claim.sequence > end.sequence:  # of a request that has listed later
                end = self.tails.list_end(run)
            if isinstance(end, ListedEnd) and claim.sequence == end.sequence:
                end = self.tails.find(run, end)
            tail = end if isinstance(end, LogEnd) and claim.sequence == end.sequence else None
            if tail and (entry := self._put_batch(run, batch, identity, tail)):
                return self._answer(run, identity, entry)
            # Its number is taken: the segment is there, or was retired, and then the row of the key is an entry if it was the batch's.
            taken = self._segment(run, claim.sequence)
            if taken and identity.wrote(taken):
                return self._answer(run, identity, taken, repeated=True)
            if tail:
                end = LogEnd.after(taken) if taken and step % _STEPS_BEFORE_LISTING else self.tails.list_end(run)
            instead_of = claim.sequence
        raise _too_many_writers(run)

    def _end_for_key(self, run: Run, presented: Position | None) -> LogEnd | ListedEnd:
        """The end at which a batch with a key is tried first."""
        if presented is None or not presented.is_young(self._clock.now_ms()):
            return self.tails.list_end(run)
        end = LogEnd.at(presented)
        taken = self._segment(run, end.sequence) if presented.contended else None
        return LogEnd.after(taken) if taken else end

    def _segment(self, run: Run, sequence: int) -> SegmentEntry | None:
        """The segment of a number, None: free or retired. One HEAD."""
        try:
            return self.tails.segment(run, sequence)
        except ObjectNotFoundError:
            return None

    def _write(self, run: Run, batch: Batch, identity: WriterIdentity, tail: LogEnd) -> Appended:
        for step in range(1, _MAX_STEPS):
            if entry := self._put_batch(run, batch, identity, tail):
                return self._answer(run, identity, entry)
            listing_pays = step % _STEPS_BEFORE_LISTING == 0
            target = self._look_from(run, batch, identity, tail) if listing_pays else self._peek(run, identity, tail)
            if target.stored:
                return self._answer(run, identity, target.stored, repeated=True)
            tail = target.tail
        raise _too_many_writers(run)

    def _put_batch(self, run: Run, batch: Batch, identity: WriterIdentity, tail: LogEnd) -> SegmentEntry | None:
        """Store a batch at a log end; None if the number is taken."""
        if self._policy and tail.line == 0:
            self._policy.check_first_segment(run)
        entry = self._data_entry(run, tail, identity, batch)
        try:
            self._put(run, entry, batch.body)
        except PreconditionFailedError:
            return None
        return entry

    def _peek(self, run: Run, identity: WriterIdentity, tail: LogEnd) -> AppendTarget:
        """Check one number: free, this batch, or another write (then the next number is the target)."""
        taken = self._segment(run, tail.sequence)
        if taken is None:
            return AppendTarget(tail)
        return AppendTarget(tail, taken) if identity.wrote(taken) else AppendTarget(LogEnd.after(taken))

    def _look_from(self, run: Run, batch: Batch, identity: WriterIdentity, lower: LogEnd) -> AppendTarget:
        """Check all numbers from a lower bound on: one LIST, a HEAD of the last segment, a HEAD of each segment with a possible size of the batch.
        Repeated if a concurrent compaction retires one of them. Raises UnavailableError, DamagedLogError."""
        return retry_on_change(lambda: self._look_once(run, batch, identity, lower))

    def _look_once(self, run: Run, batch: Batch, identity: WriterIdentity, lower: LogEnd) -> AppendTarget:
        listed = list(self.tails.list_segments(run, max(lower.sequence - 1, 0)))
        numbers = [self._layout.sequence_of(run, found.key) for found in listed]
        sizes = {n: found.size for n, found in zip(numbers, listed, strict=True) if n >= lower.sequence}
        same_size = self._of_a_size(batch, sizes)
        # Retired segments are queried after the LIST: a row always exists before its segment is deleted.
        own = next((entry for entry in map(partial(self.tails.listed_segment, run), same_size) if identity.wrote(entry)), None)
        own = own or self._own_retired(run, identity, lower, numbers[0] if numbers else MAX_SEQUENCE)
        if own:
            return AppendTarget(lower, own)
        tail = self.tails.after_listing(run, listed) if listed else self.tails.find(run)
        return AppendTarget(tail if tail.exists else replace(tail, zone=tail.zone or lower.zone))

    def _of_a_size(self, batch: Batch, sizes: Mapping[int, int]) -> list[int]:
        """Numbers that an earlier attempt of the batch may have: those with its stored or its sent size; all, if other masking rules would have
        made other sizes."""
        own = {len(batch.body), len(batch.body if batch.sent is None else batch.sent)}
        same = [number for number, size in sizes.items() if size in own]
        if len(same) == len(sizes) or not self._fingerprints.may_differ_in_size(batch):
            return same
        return list(sizes)

    def _own_retired(self, run: Run, identity: WriterIdentity, lower: LogEnd, end: int) -> SegmentEntry | None:
        """The batch among retired numbers [lower, end): the catalog keeps their rows while the run is running. One query, if there are any."""
        line, sequence = lower.line, lower.sequence
        while sequence < end and (rows := self._index.rows_from(run, line, sequence, _ROWS)):
            own = next((row for row in rows if row.sequence < end and identity.wrote(row)), None)
            if own:
                return own
            line, sequence = rows[-1].end_line, rows[-1].sequence + 1
        return None

    def _data_entry(self, run: Run, tail: LogEnd, identity: WriterIdentity, batch: Batch) -> SegmentEntry:
        if tail.seal == CLOSED:
            self.tails.check_deleted(run)
            raise RunClosedError(f"the run is closed: its log takes no more lines sequence={tail.sequence}")
        epoch = tail.epoch + 1 if tail.seal == ABANDONED else tail.epoch
        tail = replace(tail, epoch=epoch, zone=settled_zone(batch.zone, tail.zone, is_settled=tail.exists))
        entry = self._entry(tail, DATA, identity, batch.body)
        body = batch.body
        entry = replace(entry, lines=batch.lines, connector=batch.connector, events=batch.events)
        errors = errors_of(body) if batch.errors is None else batch.errors
        first_ms, last_ms = times_of(batch, entry.appended_ms, entry.zone) or (None, None)
        return replace(entry, landmarks=landmarks_of(body), errors=errors, first_ms=first_ms, last_ms=last_ms)

    def _entry(self, tail: LogEnd, kind: str, identity: WriterIdentity, body: bytes, reason: str = "") -> SegmentEntry:
        if tail.sequence > MAX_SEQUENCE:
            raise RunClosedError(f"the run has no segment numbers left sequence={tail.sequence}")
        return SegmentEntry(
            sequence=tail.sequence,
            kind=kind,
            epoch=tail.epoch,
            line=tail.line,
            byte=tail.byte,
            lines=0,
            bytes=len(body),
            session=identity.session,
            base=identity.base,
            digest=identity.digest,
            appended_ms=self._clock.now_ms(),
            reason=reason,
            zone=tail.zone,
        )

    def _put(self, run: Run, entry: SegmentEntry, body: bytes) -> None:
        if entry.sequence == 0:
            self._layout.check_new(run)
        chosen = self._policy.segment_metadata(run) if self._policy and entry.sequence == 0 else {}
        key, options = self._layout.segment(run, entry.sequence), PutOptions({**metadata_of(entry), **chosen})
        put_retrying_conflicts(self._store, key, body, options, ABSENT)

    def _answer(self, run: Run, identity: WriterIdentity, entry: SegmentEntry, *, repeated: bool = False) -> Appended:
        # The segment of a repeated batch may be old: its position is as old, so that it is not used without a read.
        issued_ms = entry.appended_ms if repeated else self._clock.now_ms()
        contended = entry.sequence > identity.base  # it met another writer: HEAD before the next PUT
        # The session of a key is for this batch only: the next batch with the same cookie gets a new session.
        session = _new_session() if identity.is_keyed else identity.session
        return Appended(entry, self._token(run, session, LogEnd.after(entry), issued_ms, contended=contended), repeated)

    def _token(self, run: Run, session: str, tail: LogEnd, issued_ms: int, *, contended: bool = False) -> str:
        position = Position(session, tail.epoch, tail.sequence, tail.line, tail.byte, contended, issued_ms, tail.zone)
        return self._signer.dumps(run, position)


def session_of_key(key: str) -> str:
    """The session of an Idempotency-Key. Raises InvalidBatchError."""
    if not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARS or not key.isprintable():
        raise InvalidBatchError(
            f"an idempotency key must be 1 to {MAX_IDEMPOTENCY_KEY_CHARS} printable characters length={len(key)}"
        )
    return KEYED_SESSION + blake2b(key.encode(errors="replace"), digest_size=16).hexdigest()


def _too_many_writers(run: Run) -> StoreUnavailableError:
    return StoreUnavailableError(f"too many concurrent writers run={run.fqn}/{run.run_id} steps={_MAX_STEPS}")


def _new_session() -> str:
    return secrets.token_hex(8)
