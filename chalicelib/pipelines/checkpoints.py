"""Checkpoints: where a pipeline is in each of its runs, committed in one transaction with the rows of its handlers.

The runs in hand (at most a thousand) stand together in one row, the head, so that one transaction moves them all. Runs that a worker
lets go of stand in rows of their own, which are written before the head forgets them.

The fence: a worker that begins takes the head's next epoch, and each commit holds only while the epoch and the number of the last commit
are as this worker left them. Whoever took the epoch last commits, and nobody else can:

1. W1 has the lease and stands still. Its lease ends.  2. W2 gets the lease, takes epoch 8, reads on from the last commit.
3. W1 goes on and commits with epoch 7: its condition is false, nothing of its transaction is applied, PartitionNotOwnedError.

A commit whose answer was lost is found out by reading the head: its number says whether it was applied. Decision 0027.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from chalicelib.errors import OutcomeUnknownError, PartitionNotOwnedError, PreconditionFailedError, WriteConflictError
from chalicelib.pipelines.rows import (
    HEAD,
    PIPELINES,
    Position,
    packed_positions,
    pipeline_key,
    position_of,
    position_row,
    run_key,
    runs_partition,
    unpacked_positions,
)
from chalicelib.ports import (
    ABSENT_ROW,
    MAX_TRANSACTION_WRITES,
    Check,
    Clause,
    Clock,
    Database,
    Delete,
    Key,
    Put,
    Row,
    Run,
    When,
    Write,
)

MAX_RUNS = 1000
"""In hand at once."""
_BATCH = MAX_TRANSACTION_WRITES - 2
_PAGE = 1000
_TRIES = 5


@dataclass(slots=True)
class _Head:
    epoch: int
    owner: str
    commit: int
    positions: dict[Run, Position]

    def row(self, key: Key) -> Row:
        told = {"epoch": self.epoch, "owner": self.owner, "commit": self.commit, "runs": packed_positions(self.positions)}
        return {"key": key.partition, "at": key.sort, **told}


@dataclass(frozen=True, slots=True)
class Part:
    """Of a job that works a pipeline with many workers: its driver holds the pipeline and has taken ``epoch``; each part has a head of
    its own, beside it, and commits only while the epoch is still the job's."""

    name: str
    epoch: int


class RowsRefusedError(PreconditionFailedError):
    """The condition of a handler's row is false: the checkpoint and the lease are well, and nothing was committed."""


class Checkpoints:
    """One worker's. ``keep_s``: how long the row of a run is kept after it was let go. Not for several threads."""

    def __init__(self, database: Database, name: str, clock: Clock, keep_s: int, part: Part | None = None) -> None:
        self._database, self._name, self._clock, self._keep_s, self._part = database, name, clock, keep_s, part
        self._key = pipeline_key(name, f"{HEAD}#{part.name}" if part else HEAD)
        self._head = _Head(0, "", 0, {})
        self._doubtful: _Head | None = None

    def take_over(self, owner: str) -> None:
        """Take the next epoch: from now on nobody else commits. Raises UnavailableError; then try again, from the start."""
        for _ in range(_TRIES):
            row = self._database.get_many([self._key]).get(self._key)
            old = _head_of(row) if row else _Head(0, "", 0, {})
            head = _Head(old.epoch + 1, owner, old.commit, old.positions)
            when = _still(old) if row else ABSENT_ROW
            try:
                self._database.transact([Put(self._key, head.row(self._key), when), *self._guard()])
            except (PreconditionFailedError, WriteConflictError):
                continue  # another, or this very call, whose answer was lost
            self._head, self._doubtful = head, None
            if self._part is None:
                self._absorb()
            return
        raise PartitionNotOwnedError(f"others keep taking the pipeline over pipeline={self._name} tries={_TRIES}")

    @property
    def epoch(self) -> int:
        """Of this worker."""
        return self._head.epoch

    def _guard(self) -> list[Write]:
        """What each transaction of a part's asks besides."""
        if self._part is None:
            return []
        return [Check(pipeline_key(self._name, HEAD), ((Clause(("epoch",), "=", self._part.epoch),),))]

    def _absorb(self) -> None:
        """What parts of a job that was killed had in hand: rows of its runs, then the parts' heads are gone."""
        while True:
            first, last = f"{HEAD}#", f"{HEAD}$"
            rows, _ = self._database.query(PIPELINES, self._key.partition, first, last, limit=1)
            if not rows:
                return
            self.put_rows(unpacked_positions(rows[0]["runs"]))
            self._drop_head(pipeline_key(self._name, rows[0]["at"]))

    def finish_part(self) -> None:
        """A part is done: its runs have rows, its head is gone."""
        self.release(list(self._head.positions))
        self._drop_head(self._key)

    def _drop_head(self, key: Key) -> None:
        check = Clause(("epoch",), "=", self._part.epoch if self._part else self._head.epoch)
        try:
            self._database.transact([Check(pipeline_key(self._name, HEAD), ((check,),)), Delete(key)])
        except PreconditionFailedError as error:
            raise self._overtaken() from error

    @property
    def in_doubt(self) -> bool:
        """Whether nobody knows if the last commit was applied: ``settle`` finds out."""
        return self._doubtful is not None

    def in_hand(self) -> Mapping[Run, Position]:
        """Where the runs in hand are, as it was committed last."""
        return self._head.positions

    def find(self, runs: Sequence[Run]) -> dict[Run, Position]:
        """Where runs are, those in hand and those that were let go. A request for 100; none for those in hand."""
        found = {run: self._head.positions[run] for run in runs if run in self._head.positions}
        missing = {run_key(self._name, run): run for run in runs if run not in found}
        rows = self._database.get_many(list(missing)) if missing else {}
        return found | {missing[key]: position_of(row) for key, row in rows.items()}

    def let_go(self) -> Iterator[tuple[Run, Position]]:
        """All runs that are not in hand. A request for each MB of them."""
        first: str | None = None
        while True:
            rows, more = self._database.query(PIPELINES, runs_partition(self._name), first, None, limit=_PAGE)
            for row in rows:
                fqn, _, run_id = row["at"].rpartition("/")
                yield Run(fqn, run_id), position_of(row)
            if not more or not rows:
                return
            first = f"{rows[-1]['at']}\0"

    def commit(self, moved: Mapping[Run, Position], writes: Sequence[Write] = ()) -> None:
        """Store where runs are now, and the handlers' rows with it: one transaction. The same again is fine.

        Raises PartitionNotOwnedError (another took over: stop), RowsRefusedError, UnavailableError: nothing is lost, commit again; of
        OutcomeUnknownError nobody knows: ``settle`` first."""
        head = _Head(self._head.epoch, self._head.owner, self._head.commit + 1, {**self._head.positions, **moved})
        try:
            self._database.transact([Put(self._key, head.row(self._key), _still(self._head)), *self._guard(), *writes])
        except OutcomeUnknownError:
            self._doubtful = head
            raise
        except PreconditionFailedError as error:
            if self._stored().commit == head.commit:
                pass  # a repeat of the adapter's met the first
            else:
                raise RowsRefusedError(f"a handler's row was refused pipeline={self._name}: {error}") from error
        self._head = head

    def settle(self) -> bool:
        """Find out what became of a commit whose answer was lost. Whether it was applied. Raises PartitionNotOwnedError,
        UnavailableError: then it is still not known."""
        assert self._doubtful
        applied = self._stored().commit == self._doubtful.commit
        if applied:
            self._head = self._doubtful
        self._doubtful = None
        return applied

    def release(self, runs: Sequence[Run]) -> None:
        """Let runs go: rows of their own, then the head without them. A request for 99, and one. Raises as ``commit`` does; what was
        not done is done by the same call again."""
        expires_s = self._clock.now_ms() // 1000 + self._keep_s
        positions = {run: self._head.positions[run] for run in runs if run in self._head.positions}
        self.put_rows(positions, expires_s)
        kept = {run: position for run, position in self._head.positions.items() if run not in positions}
        head = _Head(self._head.epoch, self._head.owner, self._head.commit + 1, kept)
        try:
            self._database.transact([Put(self._key, head.row(self._key), _still(self._head)), *self._guard()])
        except OutcomeUnknownError:
            self._doubtful = head
            raise
        except PreconditionFailedError:
            if self._stored().commit != head.commit:
                raise
        self._head = head

    def put_rows(self, positions: Mapping[Run, Position], expires_s: int | None = None) -> None:
        """Rows of runs that are not in hand, fenced. A request for 99."""
        until_s = expires_s if expires_s is not None else self._clock.now_ms() // 1000 + self._keep_s
        waiting = iter(positions.items())
        checks = [Check(self._key, ((Clause(("epoch",), "=", self._head.epoch),),)), *self._guard()]
        while batch := list(islice(waiting, _BATCH)):
            keys = [(run_key(self._name, run), position) for run, position in batch]
            try:
                self._database.transact([*checks, *(Put(key, position_row(key, position, until_s)) for key, position in keys)])
            except PreconditionFailedError as error:
                raise self._overtaken() from error

    def check(self) -> None:
        """Ask the store whether this worker is still the one. Raises PartitionNotOwnedError. One request."""
        self._stored()

    def _stored(self) -> _Head:
        """The head as it is stored, which is this worker's, or its error."""
        keys = [self._key, *(write.key for write in self._guard())]
        rows = self._database.get_many(keys)
        row = rows.get(self._key)
        if row is None or (self._part is not None and rows.get(keys[1], {}).get("epoch") != self._part.epoch):
            raise self._overtaken()
        head = _head_of(row)
        if (head.epoch, head.owner) != (self._head.epoch, self._head.owner):
            raise self._overtaken()
        return head

    def _overtaken(self) -> PartitionNotOwnedError:
        return PartitionNotOwnedError(f"another worker has taken the pipeline over pipeline={self._name} epoch={self._head.epoch}")


def _still(head: _Head) -> When:
    """As this worker left it."""
    return (
        (
            Clause(("epoch",), "=", head.epoch),
            Clause(("owner",), "=", head.owner),
            Clause(("commit",), "=", head.commit),
        ),
    )


def _head_of(row: Row) -> _Head:
    return _Head(int(row["epoch"]), str(row["owner"]), int(row["commit"]), unpacked_positions(row["runs"]))
