"""Pipelines: checkpoints, division, admission, replay, ordering, committing, feed, delivery."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

FENCING = "tests/unit/test_pl_fencing.py"
SHARDS = "tests/unit/test_pl_shards.py"
FEED = "tests/unit/test_pl_feed.py"
FORGET = "tests/faults/test_pipelines_forget_nothing.py"
ORDERING = "tests/unit/test_pl_ordering.py"
FAILURE = "tests/unit/test_pl_failure.py"
WORKER = "tests/unit/test_pl_worker.py"
CHECKPOINTS = "chalicelib.pipelines.checkpoints:Checkpoints"

MUTANTS = (
    Mutant(
        f"{CHECKPOINTS}._store",
        find="stored != head.attempt",
        replace="True",
        tests=FENCING,
        why="a commit that was applied, and repeated by the adapter, would count as another worker's",
    ),
    Mutant(
        f"{CHECKPOINTS}._store",
        find="stored != head.attempt",
        replace="False",
        tests=FENCING,
        why="another attempt with the same number would be taken for this one, and handlers' rows lost",
    ),
    Mutant(
        f"{CHECKPOINTS}._store",
        find="stored == self._head.attempt",
        replace="False",
        tests=FENCING,
        why="a refused row of a handler would count as a lost lease",
    ),
    Mutant(
        f"{CHECKPOINTS}.settle",
        find="self._transact(fence.writes(self._key, self._head))",
        replace="None",
        tests=FENCING,
        why="a commit that is under way could be applied after it was given up",
    ),
    Mutant(
        f"{CHECKPOINTS}.put_rows",
        find="Check(self._key, self._head.still())",
        replace="Check(self._key)",
        tests=FENCING,
        why="the row of a run that arrives late would overwrite a newer one",
    ),
    Mutant(
        f"{CHECKPOINTS}.release",
        find="self.put_rows(positions)",
        replace="None",
        tests=FENCING,
        why="the head would forget runs that have no row",
    ),
    Mutant(
        f"{CHECKPOINTS}._leading",
        find="is_divided and self._shard.is_fixed and replay is None",
        replace="is_divided and replay is None",
        tests=SHARDS,
        why="what the tasks of a killed job had committed would be processed again",
    ),
    Mutant(
        f"{CHECKPOINTS}.take_over",
        find="self._head, self._doubtful = head, []",
        replace="self._doubtful = []",
        tests=FENCING,
        why="a worker would go on with the epoch that it had before",
    ),
    Mutant(
        f"{CHECKPOINTS}._leading",
        find="old.next(epoch=old.epoch + 1, owner=owner)",
        replace="old.next(epoch=old.epoch, owner=owner)",
        tests="tests/functional/test_run_pipelines_job.py",
        why="the epoch has to grow: tasks of a job that was killed would still commit",
    ),
    Mutant(
        f"{CHECKPOINTS}._checks",
        find="[Check(self._lead, ((self._guard,),))] if self._guard else []",
        replace="[]",
        tests=SHARDS,
        why="a shard of an older division would still commit",
    ),
    Mutant(
        f"{CHECKPOINTS}._move",
        find="self.put_rows(self._head.positions, unfinished=True)",
        replace="self.put_rows(self._head.positions)",
        tests=SHARDS,
        why="runs of an undivided checkpoint that are in no index would be lost",
    ),
    Mutant(
        f"{CHECKPOINTS}._move_heads",
        find="self.put_rows(head.positions, unfinished=True)",
        replace="None",
        tests=SHARDS,
        why="runs of other shards would begin anew",
    ),
    Mutant(
        f"{CHECKPOINTS}._following",
        find='lead.get("moving")',
        replace="False",
        tests="tests/faults/test_pipelines_divide_every_call.py::test_shard_does_not_begin_while_runs_are_moved",
        why="a shard would begin before its runs were moved, and never see the others",
    ),
    Mutant(
        f"{CHECKPOINTS}._mark",
        find="row.position.is_replaying",
        replace="False",
        tests=FORGET + " " + SHARDS,
        why="a replay that was asked for again would leave out the runs that are being replayed",
    ),
    Mutant(
        "chalicelib.pipelines.heads:_texts",
        find='pages[each]["attempt"] != row["attempt"]',
        replace="False",
        tests=FENCING,
        why="pages of two different writes would be read as one head",
    ),
    Mutant(
        "chalicelib.pipelines.transactions:transacted",
        find="attempt == _TRIES - 1",
        replace="True",
        tests=FENCING,
        why="one conflicting transaction would count as an outage",
    ),
    Mutant(
        "chalicelib.pipelines.rows:Position.replayed",
        find="min([max(self.place.line, self.replay_line), *(place.line for place in self.held.values())])",
        replace="max(self.place.line, self.replay_line)",
        tests=WORKER,
        why="a handler that was behind would never get what it missed before the replay's time",
    ),
    Mutant(
        "chalicelib.pipelines.rows:Position.moved",
        find="{name: behind for name, behind in held.items() if behind.line < ahead.line}",
        replace="{}",
        tests=FAILURE,
        why="a handler that is switched off would lose its place",
    ),
    Mutant(
        "chalicelib.pipelines.in_hand:InHand.first_unprocessed",
        find="for pending in self.unprocessed.values(): ...",
        replace="pass",
        tests=FAILURE + " " + WORKER + " tests/faults/test_pipelines_every_call.py",
        why="a checkpoint would pass by events that are in the buffer",
    ),
    Mutant(
        "chalicelib.pipelines.in_hand:RunsInHand.has_room_for",
        find="self.head_bytes + A <= MAX_HEAD_BYTES",
        replace="True",
        tests=FENCING,
        why="a checkpoint would exceed what a transaction takes",
    ),
    Mutant(
        "chalicelib.pipelines.admission:Admission._list",
        find="self._list_again()",
        replace="None",
        tests=FORGET,
        why="a listing that failed once would never be ended",
    ),
    Mutant(
        "chalicelib.pipelines.admission:Admission._learn",
        find="self._shard.has(known.run.fqn)",
        replace="True",
        tests=SHARDS,
        why="every shard would work every run",
    ),
    Mutant(
        "chalicelib.pipelines.admission:Admission.found_until_ms",
        find="self.listed and not self.waiting",
        replace="True",
        tests=FORGET,
        why="runs that wait in memory would be forgotten by the next worker",
    ),
    Mutant(
        "chalicelib.pipelines.committing:Committer.commit",
        find="bool(self._admission.forced)",
        replace="False",
        tests=FORGET,
        why="a replay would be over before its runs are in hand",
    ),
    Mutant(
        "chalicelib.pipelines.committing:Committer.commit",
        find="self._fence()",
        replace="None",
        tests=FENCING,
        why="a worker that lost its lease would try to commit",
        nth=0,
    ),
    Mutant(
        "chalicelib.pipelines.committing:Committer.welcome_back",
        find="caught_up_of(rows.get(other, {}), layout).get(name) == since_ms",
        replace="True",
        tests=SHARDS,
        why="a handler's switch would be cleared before all shards gave it what it missed",
    ),
    Mutant(
        "chalicelib.pipelines.worker:Worker._checkpoint",
        find="if flushed: ...",
        replace="self.committer.commit()",
        tests=FAILURE,
        why="a checkpoint would pass by what a handler has not flushed",
    ),
    Mutant(
        "chalicelib.pipelines.ordering:OrderingBuffer.settle",
        find="waiting[0].order_ms <= until_ms",
        replace="True",
        tests=ORDERING,
        why="events of one run would go out before earlier ones of a later piece",
    ),
    Mutant(
        "chalicelib.pipelines.ordering:OrderingBuffer._due",
        find="held.order_ms > old_ms",
        replace="False",
        tests=ORDERING,
        why="nothing would be held for the delay",
    ),
    Mutant(
        "chalicelib.pipelines.feed:Feed.fetch",
        find="fetched.events or fetched.at_end",
        replace="fetched.events",
        tests=FEED,
        why="a batch that is being written would be read again and again without a pause",
    ),
    Mutant(
        "chalicelib.pipelines.feed:Feed.fetch",
        find="next_line is not None and fetched.events",
        replace="next_line is not None",
        tests=FEED,
        why="an overlong line that is held back would be skipped",
    ),
    Mutant(
        "chalicelib.pipelines.dead_letters:dead_key",
        find="len(readable) <= MAX_KEY_BYTES",
        replace="True",
        tests=FAILURE,
        why="a dead letter that S3 does not take stops the whole pipeline",
    ),
    Mutant(
        "chalicelib.pipelines.worker:_behind",
        find="line < position.line_of(name)",
        replace="False",
        tests=FAILURE,
        why="siblings of an enabled handler would get everything again",
    ),
)
