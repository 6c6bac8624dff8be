"""Checkpoints: where a pipeline is in each of its runs, committed in one transaction with the rows of its handlers.

The runs in hand stand together in a head (``heads``), so that one transaction moves them all. Runs that a worker lets go of stand in rows of
their own, which are written before the head forgets them.

The fence: a worker that begins takes the head's next epoch, and each write holds only while the head is as this worker left it. Whoever
took the epoch last commits, and nobody else can:

1. W1 has the lease and stands still. Its lease ends.  2. W2 gets the lease, takes epoch 8, reads on from the last commit.
3. W1 goes on and commits with epoch 7: its condition is false, nothing of its transaction is applied, PartitionNotOwnedError.

A commit whose answer was lost may still be under way, and be applied at any later time. ``settle`` finds out: either the stored head is that
attempt, or the head is written once more, and then the condition of the lost commit can never hold again. Decision 0027.

Several heads: a shard's, and a task's of a job, are guarded by the leading head besides. That is written first when the runs are divided
anew, with all that is in hand moved to rows; then every shard takes the unfinished ones of its own. Decision 0034.
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
    STATUS,
    RunCheckpoint,
    checkpoint_of,
    checkpoint_row,
    pipeline_key,
    run_key,
    runs_partition,
)
from chalicelib.pipelines.shards import ONLY, Shard
from chalicelib.pipelines.transactions import transact_with_retry
from chalicelib.ports import MAX_TRANSACTION_WRITES, Check, Clause, Clock, Database, Put, Row, Run, Write

MAX_RUNS = 4000
"""In hand at once, where their names are short enough for a head."""
_BATCH = MAX_TRANSACTION_WRITES - 2
_PAGE = 1000
_TRIES = 5


@dataclass(frozen=True, slots=True)
class JobPart:
    """Of a job that works a pipeline with many workers: its driver holds the pipeline and has taken ``epoch``; each part has a head of
    its own, beside it, and commits only while the epoch is still the job's."""

    name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Runs that have something at or after ``from_ms`` begin anew; ``done`` is written when all of them are marked."""

    from_ms: int
    done: Write


@dataclass(frozen=True, slots=True)
class ReleasedRun:
    """A run that is not in hand, by its row. ``unfinished``: it has to be taken in hand."""

    run: Run
    checkpoint: RunCheckpoint
    unfinished: bool


class RowsRefusedError(PreconditionFailedError):
    """The condition of a handler's row is false: the checkpoint and the lease are well, and nothing was committed."""


class LayoutChangedError(PartitionNotOwnedError):
    """The pipeline's runs are divided otherwise than this shard's worker assumes, or are just being divided: begin again later."""


class Checkpoints:
    """One worker's. ``keep_s``: how long the row of a run is kept after it was let go. Not for several threads."""

    def __init__(
        self, database: Database, name: str, clock: Clock, keep_s: int, part: JobPart | None = None, shard: Shard = ONLY
    ) -> None:
        self._database, self._name, self._clock, self._keep_s, self._shard = database, name, clock, keep_s, shard
        sort = f"{HEAD}#{part.name}" if part else HEAD if shard.leads else f"{HEAD}#{_shard_part(shard.number)}"
        self._lead = pipeline_key(name, HEAD)
        self._key = pipeline_key(name, sort)
        self._leads = self._key == self._lead
        self._guard = Clause(("epoch",), "=", part.epoch) if part else None  # of a shard: known when it takes over
        self._head = Head()
        self._doubtful: list[Head] = []

    def take_over(self, owner: str, replay: Replay | None = None) -> None:
        """Take the next epoch: from now on nobody else commits. The leading head divides the runs anew where that is due, and marks those
        that are to be replayed: in both cases all that was in hand has rows then, marked as unfinished. Two requests where nothing is due.

        Raises UnavailableError: then try again, from the start; what was begun is done again, and nothing is lost. LayoutChangedError, of
        a shard that does not lead. PartitionNotOwnedError."""
        for _ in range(_TRIES):
            before = read_head(self._database, self._key)
            head = self._leading(before, owner, replay) if self._leads else self._following(before, owner)
            try:
                self._transact(head.writes(self._key, before))
            except PreconditionFailedError:
                continue  # another, or this very call, whose answer was lost
            self._head, self._doubtful = head, []
            if head.is_moving:
                self._move(before, replay)
            return
        raise PartitionNotOwnedError(f"others keep taking the pipeline over pipeline={self._name} tries={_TRIES}")

    def _leading(self, before: Head | None, owner: str, replay: Replay | None) -> Head:
        old = before or Head()
        is_divided = old.layout and old.shards == self._shard.count and not old.is_moving
        if is_divided and self._shard.is_fixed and replay is None:
            return old.next(epoch=old.epoch + 1, owner=owner)
        moving = before is not None or replay is not None  # else the pipeline is new
        return old.next(epoch=old.epoch + 1, owner=owner, layout=uuid4().hex, shards=self._shard.count, is_moving=moving)

    def _following(self, before: Head | None, owner: str) -> Head:
        """A shard's, or a part's, which has its guard already."""
        old = before or Head()
        if not self._shard.leads:
            lead = self._database.get_many([self._lead]).get(self._lead, {})
            if lead.get("shards") != self._shard.count or lead.get("moving"):
                raise LayoutChangedError(f"the runs are not divided so pipeline={self._name} shards={self._shard.count}")
            self._guard = Clause(("layout",), "=", lead["layout"])
            old = before or Head(looked_ms=int(lead["since_ms"]), has_backlog=True)
        return old.next(epoch=old.epoch + 1, owner=owner)

    @property
    def epoch(self) -> int:
        """Of this worker."""
        return self._head.epoch

    @property
    def layout(self) -> str:
        """The present division of the runs, as this worker knows it."""
        return str(self._guard.value) if self._guard and not self._shard.leads else self._head.layout

    @property
    def looked_ms(self) -> int:
        """Every run that was known then is in hand, has a row, or needs nothing."""
        return self._head.looked_ms

    @property
    def has_backlog(self) -> bool:
        """Whether rows of runs may say that they are unfinished."""
        return self._head.has_backlog

    def _checks(self) -> list[Write]:
        """What each transaction asks of the leading head, where this is another."""
        return [Check(self._lead, ((self._guard,),))] if self._guard else []

    def _transact(self, writes: Sequence[Write]) -> None:
        transact_with_retry(self._database, self._clock, [*writes, *self._checks()])

    def _move(self, before: Head | None, replay: Replay | None) -> None:
        """Give every run that any head has a row of its own, remove the other heads, and mark what is to be replayed; then the runs are
        divided. Until then no other head can be taken, so all of it may be done again."""
        self.put_rows(self._head.checkpoints, unfinished=True)
        looked_ms = self._move_heads(before)
        if replay is not None:
            self._mark(replay.from_ms)
        head = self._head.next(checkpoints={}, is_moving=False, has_backlog=True, looked_ms=looked_ms, since_ms=looked_ms)
        try:
            self._store(head, [replay.done] if replay else [])
        except RowsRefusedError as error:
            raise StoreUnavailableError(f"another replay was asked for meanwhile pipeline={self._name}") from error

    def _move_heads(self, before: Head | None) -> int:
        """Move what the other heads have in hand. Since when runs have to be looked for: the earliest of what the heads say."""
        old = before or Head()
        looked_ms = {0: old.looked_ms if old.layout else self._looked_before_layouts()}
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

    def _looked_before_layouts(self) -> int:
        """As releases without layouts stored it."""
        key = pipeline_key(self._name, STATUS)
        return int(self._database.get_many([key]).get(key, {}).get("looked_ms", 0))

    def _mark(self, from_ms: int) -> None:
        late = (
            (row.run, row.checkpoint.replayed(from_ms))
            for row in self.released()
            if row.checkpoint.position.time_ms >= from_ms or row.checkpoint.is_replaying
        )
        while batch := dict(islice(late, _PAGE)):
            self.put_rows(batch, unfinished=True)

    def finish_part(self, *, unfinished: bool = False, skipped: Collection[Run] = ()) -> None:
        """A part is done: its runs have rows, its head is gone. ``unfinished``: something of them is left; of ``skipped`` ones in any case."""
        if self.in_doubt:
            self.settle()
        left = {run: checkpoint for run, checkpoint in self._head.checkpoints.items() if unfinished or run in skipped}
        self.put_rows({run: checkpoint for run, checkpoint in self._head.checkpoints.items() if run not in left})
        self.put_rows(left, unfinished=True)
        self._fenced(self._head.deletes(self._key))

    def _fenced(self, writes: Sequence[Write]) -> None:
        """Writes that hold while the leading head is as this worker knows it."""
        check = self._checks() or [Check(self._lead, self._head.still())]
        try:
            transact_with_retry(self._database, self._clock, [*check, *writes])
        except PreconditionFailedError as error:
            self._stored()
            raise self._overtaken() from error

    @property
    def in_doubt(self) -> bool:
        """Whether nobody knows if the last commit was applied: ``settle`` finds out."""
        return bool(self._doubtful)

    def active(self) -> Mapping[Run, RunCheckpoint]:
        """Where the runs in hand are, as it was committed last."""
        return self._head.checkpoints

    def find(self, runs: Sequence[Run]) -> dict[Run, RunCheckpoint]:
        """Where runs are, those in hand and those that were let go. A request for 100; none for those in hand."""
        found = {run: self._head.checkpoints[run] for run in runs if run in self._head.checkpoints}
        missing = {run_key(self._name, run): run for run in runs if run not in found}
        rows = self._database.get_many(list(missing)) if missing else {}
        return found | {missing[key]: checkpoint_of(row) for key, row in rows.items()}

    def released(self) -> Iterator[ReleasedRun]:
        """All runs that have rows, of all shards; the row of one that is in hand is older than the head. A request for each MB of them."""
        first: str | None = None
        while True:
            rows, more = self._database.query(PIPELINES, runs_partition(self._name), first, None, limit=_PAGE)
            for row in rows:
                fqn, _, run_id = row["at"].rpartition("/")
                yield ReleasedRun(Run(fqn, run_id), checkpoint_of(row), bool(row.get("unfinished")))
            if not more or not rows:
                return
            first = f"{rows[-1]['at']}\0"

    def commit(
        self,
        moved: Mapping[Run, RunCheckpoint],
        writes: Sequence[Write] = (),
        *,
        looked_ms: int | None = None,
        has_backlog: bool | None = None,
    ) -> None:
        """Store where runs are now, and the handlers' rows with it: one transaction. The same again is fine.

        Raises PartitionNotOwnedError (another took over: stop), RowsRefusedError, UnavailableError: nothing is lost, commit again; of
        OutcomeUnknownError nobody knows: ``settle`` first."""
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
        """Put a head in the place of the present one."""
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
            # A repeat of the adapter's met the first, which was applied.
        self._head = head

    def settle(self) -> bool:
        """Find out what became of a commit whose answer was lost: whether it was applied. If not, it never will be. Two requests at most.
        Raises PartitionNotOwnedError, UnavailableError: then it is still not known."""
        first, known = self._doubtful[0], {head.attempt: head for head in self._doubtful}
        stored = self._stored()
        if stored == self._head.attempt:
            # The commit may still be under way: the head is written once more, so that its condition never holds again.
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
        """Let runs go: rows of their own, then the head without them. A request for 98, and one. Raises as ``commit`` does; what was
        not done is done by the same call again."""
        if self.in_doubt:
            self.settle()
        checkpoints = {run: self._head.checkpoints[run] for run in runs if run in self._head.checkpoints}
        self.put_rows(checkpoints)
        left = {run: checkpoint for run, checkpoint in self._head.checkpoints.items() if run not in checkpoints}
        self._store(self._head.next(checkpoints=left))

    def put_rows(self, checkpoints: Mapping[Run, RunCheckpoint], *, unfinished: bool = False) -> None:
        """Rows of runs that are not in hand, or no longer. They hold while the head is as this worker left it, so one that is applied late
        overwrites nothing newer. A request for 98. Raises PartitionNotOwnedError, UnavailableError."""
        until_s = self._clock.now_ms() // 1000 + self._keep_s
        waiting = iter(checkpoints.items())
        while batch := list(islice(waiting, _BATCH)):
            keys = [(run_key(self._name, run), checkpoint) for run, checkpoint in batch]
            rows = [Put(key, checkpoint_row(key, checkpoint, until_s, unfinished=unfinished)) for key, checkpoint in keys]
            try:
                self._transact([Check(self._key, self._head.still()), *rows])
            except PreconditionFailedError as error:
                self._stored()
                raise self._overtaken() from error

    def check(self) -> None:
        """Ask the store whether this worker is still the one. Raises PartitionNotOwnedError. One request."""
        self._stored()

    def _stored(self) -> str:
        """The attempt that is stored, of a head which is this worker's, or its error."""
        keys = list(dict.fromkeys([self._key, self._lead]))
        rows = self._database.get_many(keys)
        if self._guard and rows.get(self._lead, {}).get(self._guard.path[0]) != self._guard.value:
            raise self._overtaken() if self._shard.leads else LayoutChangedError(f"the runs are divided anew pipeline={self._name}")
        row: Row = rows.get(self._key, {})
        if (row.get("epoch"), row.get("owner")) != (self._head.epoch, self._head.owner):
            raise self._overtaken()
        return str(row.get("attempt", ""))

    def _overtaken(self) -> PartitionNotOwnedError:
        return PartitionNotOwnedError(f"another worker has taken the pipeline over pipeline={self._name} epoch={self._head.epoch}")


def _shard_part(number: int) -> str:
    return f"shard.{number}"
