"""Checkpoints: a pipeline's progress in each of its runs, committed in one transaction with the rows of its handlers.

All active runs share one checkpoint head (``heads``), so that one transaction advances them all. Runs that a worker releases have
rows of their own, which are written before the head drops them.

The fence is the head's epoch: a worker that starts takes the next one, and each of its writes is conditional on the head being as this
worker left it. Only the worker that took the epoch last can commit:

1. W1 has the lease and stalls. Its lease expires.  2. W2 gets the lease, takes epoch 8, and reads on from the last commit.
3. W1 resumes and commits with epoch 7: its condition is false, nothing of its transaction is applied, PartitionNotOwnedError.

A commit whose response was lost may still be in flight, and be applied at any later time. ``settle`` finds out: either the stored
head is that attempt, or the head is written once more, after which the condition of the lost commit can never be true again.
Decision 0027.

Shards and the tasks of a job have heads of their own, which the leading head guards too. The leading head is written first when
the runs are redistributed, and all active runs are moved to rows; then each shard takes the unfinished runs of its own. Decision
0034.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import uuid4

from chalicelib.errors import OutcomeUnknownError, PartitionNotOwnedError, PreconditionFailedError, StoreUnavailableError
from chalicelib.pipelines.heads import Head, read_head
from chalicelib.pipelines.rows import (
    HEAD,
    PIPELINES,
    RunCheckpoint,
    checkpoint_of,
    checkpoint_row,
    pipeline_key,
    run_key,
    runs_partition,
    stored_rows,
)
from chalicelib.pipelines.shards import ONLY, Shard
from chalicelib.pipelines.transactions import transact_with_retry
from chalicelib.ports import MAX_TRANSACTION_WRITES, Check, Clause, Clock, Database, Put, Row, Run, Write

MAX_RUNS = 4000
"""The maximum number of active runs, if their names are short enough for a head."""
_BATCH = MAX_TRANSACTION_WRITES - 2
_PAGE = 1000
_TRIES = 5


@dataclass(frozen=True, slots=True)
class JobPart:
    """One task's share of a pipeline in a job. The job's driver holds the pipeline's lease and has taken ``epoch``; each part has a head of its
    own, and commits only while the epoch is still the job's."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Restart runs that have events at or after ``from_ms``; ``done`` is written once all of them are marked."""

    from_ms: int
    done: Write


@dataclass(frozen=True, slots=True)
class ReleasedRun:
    """The row of a run that is not active. ``unfinished``: a worker has to make it active again."""

    run: Run
    checkpoint: RunCheckpoint
    unfinished: bool


class RowsRefusedError(PreconditionFailedError):
    """The condition of a handler's row is false: the checkpoint and the lease are valid, and nothing was committed."""


class LayoutChangedError(PartitionNotOwnedError):
    """The pipeline's runs are distributed differently from what this shard's worker assumes, or are being redistributed: start
    again later."""


class Checkpoints:
    """The checkpoints of one worker. ``keep_s``: how long the row of a released run is kept. Not thread-safe."""

    def __init__(
        self, database: Database, name: str, clock: Clock, keep_s: int, part: JobPart | None = None, shard: Shard = ONLY
    ) -> None:
        self._database, self._name, self._clock, self._keep_s, self._shard = database, name, clock, keep_s, shard
        sort = f"{HEAD}#{part.name}" if part else HEAD if shard.leads else f"{HEAD}#{_shard_part(shard.number)}"
        self._lead = pipeline_key(name, HEAD)
        self._key = pipeline_key(name, sort)
        self._leads = self._key == self._lead
        self._guard = Clause(("epoch",), "=", part.epoch) if part else None  # a shard knows it once it takes over
        self._head = Head()
        self._doubtful: list[Head] = []

    def take_over(self, owner: str, replay: Replay | None = None) -> None:
        """Take the next epoch: from now on no other worker commits. The leading head redistributes the runs if that is due, and
        marks the runs of a replay: in both cases all runs that were active then have rows, marked as unfinished. Two requests
        if neither is due.

        Raises UnavailableError: call it again; steps that were begun are repeated, and nothing is lost. LayoutChangedError, for a
        shard that does not lead. PartitionNotOwnedError."""
        for _ in range(_TRIES):
            before = read_head(self._database, self._key)
            head = self._leading(before, owner, replay) if self._leads else self._following(before, owner)
            try:
                self._transact(head.writes(self._key, before))
            except PreconditionFailedError:
                continue  # another worker, or this very call, whose response was lost
            self._head, self._doubtful = head, []
            if head.is_moving:
                self._move(before, replay)
            return
        raise PartitionNotOwnedError(f"other workers keep taking the pipeline over pipeline={self._name} tries={_TRIES}")

    def _leading(self, before: Head | None, owner: str, replay: Replay | None) -> Head:
        old = before or Head()
        is_divided = old.layout and old.shards == self._shard.count  # a division that broke off goes on under its layout
        if is_divided and self._shard.is_fixed and replay is None:
            return old.next(epoch=old.epoch + 1, owner=owner)
        moving = before is not None or replay is not None  # else the pipeline is new
        return old.next(epoch=old.epoch + 1, owner=owner, layout=uuid4().hex, shards=self._shard.count, is_moving=moving)

    def _following(self, before: Head | None, owner: str) -> Head:
        """The next head of a shard that does not lead, or of a part, which has its guard already."""
        old = before or Head()
        if not self._shard.leads:
            lead = self._database.get_many([self._lead]).get(self._lead, {})
            if lead.get("shards") != self._shard.count or lead.get("moving"):
                raise LayoutChangedError(
                    f"the runs are distributed over another number of shards pipeline={self._name} shards={self._shard.count}"
                )
            self._guard = Clause(("layout",), "=", lead["layout"])
            old = before or Head(looked_ms=int(lead["since_ms"]), has_backlog=True)
        return old.next(epoch=old.epoch + 1, owner=owner)

    @property
    def epoch(self) -> int:
        """The epoch of this worker."""
        return self._head.epoch

    @property
    def layout(self) -> str:
        """The current distribution of the runs, as this worker knows it."""
        return str(self._guard.value) if self._guard and not self._shard.leads else self._head.layout

    @property
    def looked_ms(self) -> int:
        """Every run that was known at this time is active, has a row, or needs no processing."""
        return self._head.looked_ms

    @property
    def has_backlog(self) -> bool:
        """Whether rows of runs may be marked as unfinished."""
        return self._head.has_backlog

    def _checks(self) -> list[Write]:
        """The condition of each transaction on the leading head, if that is another head."""
        return [Check(self._lead, ((self._guard,),))] if self._guard else []

    def _transact(self, writes: Sequence[Write]) -> None:
        transact_with_retry(self._database, self._clock, [*writes, *self._checks()])

    def _move(self, before: Head | None, replay: Replay | None) -> None:
        """Give every run of any head a row of its own, remove the other heads, and mark the runs of a replay; then the runs are
        redistributed. Until then no other head can be taken, so all steps can be repeated."""
        self.put_rows(self._head.checkpoints, unfinished=True)
        looked_ms = self._move_heads(before)
        if replay is not None:
            self._mark(replay.from_ms)
        head = self._head.next(checkpoints={}, is_moving=False, has_backlog=True, looked_ms=looked_ms, since_ms=looked_ms)
        try:
            self._store(head, [replay.done] if replay else [])
        except RowsRefusedError as error:
            raise StoreUnavailableError(f"another replay was requested meanwhile pipeline={self._name}") from error

    def _move_heads(self, before: Head | None) -> int:
        """Move the active runs of other heads to rows. Returns the time from which runs have to be discovered: the earliest of
        all heads."""
        old = before or Head()
        looked_ms = {0: old.looked_ms}
        while True:
            rows, _ = self._database.query(PIPELINES, self._key.partition, f"{HEAD}#", f"{HEAD}$", limit=1, only="at")
            if not rows:
                break
            key = pipeline_key(self._name, rows[0]["at"])
            head = read_head(self._database, key)
            if head is not None:
                self.put_rows(head.checkpoints, unfinished=True)
                self._fenced([*head.deletes(key)])
                looked_ms |= {n: head.looked_ms for n in range(1, old.shards) if key.sort == f"{HEAD}#{_shard_part(n)}"}
        if old.is_moving:
            return old.since_ms  # some heads may have been moved before
        return min(looked_ms.get(number, old.since_ms) for number in range(max(1, old.shards)))

    def _mark(self, from_ms: int) -> None:
        late = (
            (row.run, row.checkpoint.replayed(from_ms))
            for row in self.released()
            if row.checkpoint.position.time_ms >= from_ms or row.checkpoint.is_replaying
        )
        while batch := dict(islice(late, _PAGE)):
            self.put_rows(batch, unfinished=True)

    def finish_part(self, *, unfinished: bool = False, skipped: Collection[Run] = ()) -> None:
        """Finish a part: write rows for its runs and remove its head. ``unfinished``: mark all of them as unfinished; ``skipped``
        ones are marked in any case."""
        if self.in_doubt:
            self.settle()
        left = {run: checkpoint for run, checkpoint in self._head.checkpoints.items() if unfinished or run in skipped}
        self.put_rows({run: checkpoint for run, checkpoint in self._head.checkpoints.items() if run not in left})
        self.put_rows(left, unfinished=True)
        self._fenced(self._head.deletes(self._key))

    def _fenced(self, writes: Sequence[Write]) -> None:
        """Apply writes on condition that the leading head is as this worker knows it."""
        check = self._checks() or [Check(self._lead, self._head.unchanged_condition())]
        try:
            transact_with_retry(self._database, self._clock, [*check, *writes])
        except PreconditionFailedError as error:
            self._stored()
            raise self._overtaken() from error

    @property
    def in_doubt(self) -> bool:
        """Whether the outcome of the last commit is unknown: ``settle`` resolves it."""
        return bool(self._doubtful)

    def active(self) -> Mapping[Run, RunCheckpoint]:
        """The last committed checkpoints of the active runs."""
        return self._head.checkpoints

    def find(self, runs: Sequence[Run]) -> dict[Run, RunCheckpoint]:
        """The checkpoints of runs, active or released. One request for 100; none for active ones."""
        found = {run: self._head.checkpoints[run] for run in runs if run in self._head.checkpoints}
        missing = {run_key(self._name, run): run for run in runs if run not in found}
        rows = self._database.get_many(list(missing)) if missing else {}
        return found | {missing[key]: checkpoint_of(row) for key, row in rows.items()}

    def released(self) -> Iterator[ReleasedRun]:
        """All runs that have rows, of all shards; the row of an active run is older than the head. One request for each MB of
        them."""
        for row in stored_rows(self._database, runs_partition(self._name)):
            fqn, _, run_id = row["at"].rpartition("/")
            yield ReleasedRun(Run(fqn, run_id), checkpoint_of(row), bool(row.get("unfinished")))

    def commit(
        self,
        moved: Mapping[Run, RunCheckpoint],
        writes: Sequence[Write] = (),
        *,
        looked_ms: int | None = None,
        has_backlog: bool | None = None,
    ) -> None:
        """Store the new checkpoints of runs together with the handlers' rows: one transaction. Idempotent.

        Raises PartitionNotOwnedError (another worker took over: stop), RowsRefusedError, UnavailableError: nothing is lost,
        commit again; after OutcomeUnknownError call ``settle`` first."""
        head = self._head
        self._store(
            head.next(
                checkpoints={**head.checkpoints, **moved},
                looked_ms=head.looked_ms if looked_ms is None else looked_ms,
                has_backlog=head.has_backlog if has_backlog is None else has_backlog,
            ),
            writes,
        )

    def _store(self, head: Head, writes: Sequence[Write] = ()) -> None:
        """Replace the current head."""
        try:
            self._transact([*head.writes(self._key, self._head), *writes])
        except OutcomeUnknownError:
            self._doubtful.append(head)
            raise
        except PreconditionFailedError as error:
            stored = self._stored()
            if stored == self._head.attempt:
                raise RowsRefusedError(f"a handler's row was refused pipeline={self._name}: {error}") from error
            if stored != head.attempt:
                raise self._overtaken() from error
            # A retry of the adapter met its first attempt, which was applied.
        self._head = head

    def settle(self) -> bool:
        """Resolve a commit whose response was lost. Returns whether it was applied; if not, it never will be. At most two
        requests. Raises PartitionNotOwnedError, UnavailableError: the outcome is still unknown."""
        first, known = self._doubtful[0], {head.attempt: head for head in self._doubtful}
        stored = self._stored()
        if stored == self._head.attempt:
            # The commit may still be in flight: the head is written once more, so that its condition is never true again.
            fence = self._head.next()
            known[fence.attempt] = fence
            try:
                self._transact(fence.writes(self._key, self._head))
                stored = fence.attempt
            except OutcomeUnknownError:
                self._doubtful.append(fence)
                raise
            except PreconditionFailedError:
                stored = self._stored()  # one of them was applied just now
        if stored not in known:
            raise self._overtaken()
        self._head, self._doubtful = known[stored], []
        return stored == first.attempt

    def release(self, runs: Sequence[Run]) -> None:
        """Release runs: write rows of their own, then the head without them. One request for 98 runs, and one for the head.
        Raises like ``commit``; the same call completes a release that failed."""
        if self.in_doubt:
            self.settle()
        checkpoints = {run: self._head.checkpoints[run] for run in runs if run in self._head.checkpoints}
        self.put_rows(checkpoints)
        left = {run: checkpoint for run, checkpoint in self._head.checkpoints.items() if run not in checkpoints}
        self._store(self._head.next(checkpoints=left))

    def put_rows(self, checkpoints: Mapping[Run, RunCheckpoint], *, unfinished: bool = False) -> None:
        """Write rows of runs that are not active, or no longer. Conditional on the head being as this worker left it, so a
        delayed write overwrites nothing newer. One request for 98. Raises PartitionNotOwnedError, UnavailableError."""
        until_s = self._clock.now_ms() // 1000 + self._keep_s
        waiting = iter(checkpoints.items())
        while batch := list(islice(waiting, _BATCH)):
            keys = [(run_key(self._name, run), checkpoint) for run, checkpoint in batch]
            rows = [Put(key, checkpoint_row(key, checkpoint, until_s, unfinished=unfinished)) for key, checkpoint in keys]
            try:
                self._transact([Check(self._key, self._head.unchanged_condition()), *rows])
            except PreconditionFailedError as error:
                self._stored()
                raise self._overtaken() from error

    def check(self) -> None:
        """Check in the store that this worker still owns the head. Raises PartitionNotOwnedError. One request."""
        self._stored()

    def _stored(self) -> str:
        """The attempt of the stored head. Raises unless the head is this worker's."""
        keys = list(dict.fromkeys([self._key, self._lead]))
        rows = self._database.get_many(keys)
        if self._guard and rows.get(self._lead, {}).get(self._guard.path[0]) != self._guard.value:
            raise (
                self._overtaken()
                if self._shard.leads
                else LayoutChangedError(f"the runs are being redistributed pipeline={self._name}")
            )
        row: Row = rows.get(self._key, {})
        if (row.get("epoch"), row.get("owner")) != (self._head.epoch, self._head.owner):
            raise self._overtaken()
        return str(row["attempt"])

    def _overtaken(self) -> PartitionNotOwnedError:
        return PartitionNotOwnedError(f"another worker has taken the pipeline over pipeline={self._name} epoch={self._head.epoch}")


def _shard_part(number: int) -> str:
    return f"shard.{number}"
