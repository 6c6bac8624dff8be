"""Any interleaving, call by call, of three ingesters with clients that put, rewrite, copy and delete a few objects, against the
objects themselves.

Messages come in any order, several at once, and again; processes wait at a call while others go on, fail at it, or die. At every
moment a file's rows are complete or absent. Whenever no message is left the catalog has the state of each object, without any
further request for these files, and each was reported. A failure prints its number and its history; ``RUNLAKE_SEED`` and
``RUNLAKE_FIRST`` reproduce it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from chalicelib.catalog.timestamps import DAY_MS
from tests.faults.files_model import HOUR_MS, NOON_MS, POOLS, Archived, InThread, canonical, document, key_of
from tests.faults.interception import AFTER, BEFORE, Crash
from tests.faults.stepping import Actor
from tests.ingestion_harness import ARCHIVE, message, s3_record
from tests.sampling import pick, seed_of

SEED = seed_of("files interleaved")
FIRST = int(os.environ.get("RUNLAKE_FIRST", "0"))
EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES") or pick(20, 300, 3000))
ROUNDS = 3

NAMES = ("a", "b", "c")
ODD = ("odd/1", "odd/2")
KEYS = (*map(key_of, NAMES), *ODD)
INGESTERS = ("ingester-1", "ingester-2", "ingester-3")
FAULTS = [(moment, how) for moment in (BEFORE, AFTER) for how in ("error", "crash")]
SOURCES = [("syslog", "web1")] * 4 + [("syslog", "web2"), ("nginx", "web1")]
STARTS = [NOON_MS, NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS, NOON_MS - 3 * DAY_MS]
LENGTHS = [None, None, 1000, 30 * HOUR_MS]
TOTALS: Counter[str] = Counter()


class Interleaving:
    """One history, made of its number: each decision is drawn."""

    def __init__(self, number: int) -> None:
        self.random = Random(f"{SEED}-{number}")
        self.files = Archived()
        self.keys = self.random.sample(KEYS, self.random.randint(1, 3))  # few, so that what happens happens to the same
        self.queue: list[str] = []
        self.sent: list[str] = []
        self.actors: dict[str, tuple[Actor, list[str]]] = {}
        self.shared: set[str] = set()  # files that were several objects at once: whichever came last is it, and takes it along
        self.trace: list[str] = []

    def run(self) -> None:
        for _ in range(ROUNDS):
            for _ in range(self.random.randint(2, 12)):
                self._decide()
            self._work_everything()
        self.files.done(*(message(s3_record(key, bucket=ARCHIVE)) for key in KEYS))
        self.files.check()

    def _decide(self) -> None:
        decisions: list[Callable[[], None]] = [self._change, self._start, self._go_on, self._fail, self._bring_again]
        self.random.choices(decisions, weights=[6, 6, 4, 2, 1])[0]()

    # Objects.

    def _change(self) -> None:
        key = self.random.choice(self.keys)
        change = self.random.choices([self._put, self._remove, self._break, self._copy], weights=[10, 6, 1, 1])[0]
        self.trace.append(f"{change.__name__} {key}")
        body = change(key)
        self.queue.append(body)
        self.sent.append(body)
        ids = Counter(record["metadata"]["id"] for record in self.files.objects().values() if record)
        self.shared |= {each for each, count in ids.items() if count > 1}

    def _put(self, key: str) -> str:
        draw = self.random
        own = NAMES[KEYS.index(key) % len(NAMES)]
        name = draw.choice([own, own, own, *NAMES])
        (what, where), start, length = draw.choice(SOURCES), draw.choice(STARTS), draw.choice(LENGTHS)
        end = None if length is None else start + length
        about = document(name, what, where, start, end=end, work_id=draw.choice([None, "job-1"]))
        self.trace[-1] += f" as {name} {what} {where} {start} {end}"
        return self.files.put(key, about, seconds=draw.choice([1, 1, 0]))

    def _remove(self, key: str) -> str:
        return self.files.remove(key)

    def _break(self, key: str) -> str:
        return self.files.put(key, None)

    def _copy(self, key: str) -> str:
        target = self.random.choice([each for each in KEYS if each != key])
        is_there = f"s3://{ARCHIVE}/{key}" in self.files.objects()
        return self.files.copy(key, target) if is_there else self._put(key)

    # The queue and the processes.

    def _bring_again(self) -> None:
        if self.sent:
            self.queue.append(self.random.choice(self.sent))

    def _start(self) -> None:
        idle = [name for name in INGESTERS if name not in self.actors]
        if not idle or not self.queue:
            return
        name, files, batch = self.random.choice(idle), self.files, []
        for _ in range(min(len(self.queue), self.random.choice([1, 1, 2, 3]))):
            batch.append(self.queue.pop(self.random.choice([-1, self.random.randrange(len(self.queue))])))
        TOTALS["batches"] += 1
        self.trace.append(f"{name} gets {[self.sent.index(body) for body in batch]}")
        actor = Actor(name, lambda wrap: files.ingest(files.ingester(wrap, files.check_stored), batch))
        self.actors[name] = (actor, batch)
        self._reap(name)
        self._until(name, self.random.choice(["head", "transact", "transact", "", ""]))

    def _go_on(self) -> None:
        if not self.actors:
            return
        name = self.random.choice(sorted(self.actors))
        for _ in range(self.random.choice([1, 1, 2, 3])):
            self._step(name)
        self._until(name, self.random.choice([*self._waiting(name), "transact", "query", "", ""]))

    def _fail(self) -> None:
        if self.actors:
            TOTALS["faults"] += 1
            self._step(self.random.choice(sorted(self.actors)), self.random.choice(FAULTS))

    def _waiting(self, name: str) -> list[str]:
        return [self.actors[name][0].waiting_for] if name in self.actors else []

    def _until(self, name: str, call: str) -> None:
        """Until such a call is next, or to the end."""
        while name in self.actors and self.actors[name][0].waiting_for != call:
            self._step(name)

    def _step(self, name: str, fault: tuple[str, str] | None = None) -> None:
        if name not in self.actors:
            return
        TOTALS["steps"] += 1
        actor = self.actors[name][0]
        self.trace.append(f"{name} {actor.waiting_for} {fault or ''}")
        actor.step(fault)
        self._reap(name)
        self.files.check_rows()

    def _reap(self, name: str) -> None:
        actor, batch = self.actors[name]
        if not actor.done:
            return
        del self.actors[name]
        if actor.error is not None and not isinstance(actor.error, Crash):
            raise actor.error
        again = batch if actor.error else actor.result
        self.trace.append(f"{name} is done, {len(again)} of {len(batch)} come again")
        self.queue += again

    # What holds when no message is left.

    def _work_everything(self) -> None:
        for name in self.random.sample(INGESTERS, len(INGESTERS)):
            self._until(name, "")
        self.random.shuffle(self.queue)
        last = self.files.ingester(check=self.files.check_stored)
        while self.queue:
            batch = [self.queue.pop() for _ in range(min(3, len(self.queue)))]
            self.trace.append(f"at last {[self.sent.index(body) for body in batch]}")
            self.queue += self.files.ingest(last, batch)
        self.files.check(unsure=self.shared)
        reported = self.files.reported()
        for record in self.files.objects().values():
            assert record is None or reported[canonical(record)], f"never reported: {record}"
        TOTALS["checks"] += 1


def test_any_interleaving_leaves_the_catalog_as_the_objects_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for pool in POOLS:
        monkeypatch.setattr(pool, InThread)
    print(f"\nseed: RUNLAKE_SEED={SEED} RUNLAKE_EXAMPLES={EXAMPLES}")
    for number in range(FIRST, FIRST + EXAMPLES):
        interleaving = Interleaving(number)
        try:
            interleaving.run()
        except BaseException:
            print(f"RUNLAKE_SEED={SEED} RUNLAKE_FIRST={number} RUNLAKE_EXAMPLES=1", *interleaving.trace, sep="\n  ")
            raise
        TOTALS["interleavings"] += 1
    print(*(f"{name}: {count}" for name, count in TOTALS.items()), sep=", ")
    assert TOTALS["interleavings"] == EXAMPLES
