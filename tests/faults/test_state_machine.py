"""Any interleaving of 3 writers, 2 compactors, a closer, a sweeper and 2 readers, call by call, against a plain list of lines.

The model grows at the linearization point: when a segment's PUT takes effect in the bucket. Everything else is compared with it: an
acknowledged batch is in it exactly once, a reader never skips, repeats or reorders a line, no line follows a close that returned, and
finally logs.txt contains the model's bytes. On failure Hypothesis prints the steps and the seed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from chalicelib.errors import RunClosedError, UnavailableError
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.reader import Page, PageRequest
from tests.faults.interception import AFTER, BEFORE, Crash
from tests.faults.state_machines import run_state_machine
from tests.faults.stepping import Actor
from tests.sampling import pick, seed_of
from tests.world import RUN, START_MS, World

SEED = seed_of("state machine")
EXAMPLES = int(os.environ.get("RUNLAKE_EXAMPLES") or pick(20, 400, 5000))
STEPS = int(os.environ.get("RUNLAKE_STEPS", "60"))

WRITERS = ("writer-a", "writer-b", "writer-c")
KEYED = "writer-c"
REPEATS = tuple(f"{name} again" for name in WRITERS)
ACTORS = (*WRITERS, *REPEATS, "compactor-1", "compactor-2", "closer", "sweeper", "reader-1", "reader-2")
FAULTS = st.sampled_from([(moment, how) for moment in (BEFORE, AFTER) for how in ("error", "crash")])
TOTALS: Counter[str] = Counter()


class Interleavings(RuleBasedStateMachine):
    """Actors start and end; each rule is one decision of the scheduler."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.model: list[bytes] = []  # bodies of segments, in the order in which they were created
        self.actors: dict[str, Actor] = {}
        self.cookies: dict[str, str | None] = dict.fromkeys(WRITERS)
        self.pending: dict[str, tuple[Batch, str | None]] = {}  # batches that were sent and not acknowledged
        self.repeated: dict[str, Batch] = {}
        self.acknowledged: list[bytes] = []
        self.sent = 0
        self.closed_at: int | None = None
        self.reads: dict[str, tuple[int, int]] = {}
        self._watch_bucket()

    def _watch_bucket(self) -> None:
        put = self.world.store.put
        segments = self.world.layout.segments(RUN)

        def watched(key: str, body: bytes, *args: Any, **kwargs: Any) -> str:
            etag = put(key, body, *args, **kwargs)
            if key.startswith(segments) and body:
                self.model.append(body)
                assert self.closed_at is None, "a line was stored after a close had returned"
            return etag

        self.world.store.put = watched  # type: ignore[method-assign]

    def _start(self, name: str, operation: Callable[[Callable[[Any], Any]], Any]) -> None:
        self.actors[name] = Actor(name, operation)
        self._reap(name)

    def _reap(self, name: str) -> None:
        actor = self.actors[name]
        TOTALS["steps"] += 1
        if not actor.done:
            return
        del self.actors[name]
        if actor.error is not None and not isinstance(actor.error, (UnavailableError, RunClosedError, Crash)):
            raise actor.error
        self._after(name, actor)

    def _after(self, name: str, actor: Actor) -> None:
        if name in WRITERS:
            self._after_append(name, actor)
        elif name in REPEATS and actor.error is None:
            assert self.model.count(self.repeated[name].body) == 1
        elif name == "closer" and actor.error is None:
            self.closed_at = len(self.model)
        elif name.startswith("reader") and actor.error is None:
            self._check_page(name, actor.result)

    def _after_append(self, name: str, actor: Actor) -> None:
        if isinstance(actor.error, RunClosedError):
            batch, _ = self.pending.pop(name)
            assert batch.body not in self.model, "a batch was stored and then refused"
        elif actor.error is None:
            batch, _ = self.pending.pop(name)
            self.cookies[name] = actor.result.position
            self.acknowledged.append(batch.body)
            assert self.model.count(batch.body) == 1
            assert self.model.index(batch.body) == self._index_of(actor.result.entry.line)

    def _index_of(self, line: int) -> int:
        lines = 0
        for number, body in enumerate(self.model):
            if lines == line:
                return number
            lines += body.count(b"\n")
        raise AssertionError(f"no batch begins at line {line}")

    def _check_page(self, name: str, page: Page) -> None:
        after, before_lines = self.reads.pop(name)
        lines = self._lines()
        got = page.logs.split("\n") if page.logs else []
        assert got == lines[after : after + len(got)]
        assert before_lines <= page.total <= len(lines)
        assert len(got) == min(5, max(0, page.total - after)) and page.after == (after + 5 if after + 5 < page.total else None)

    def _lines(self) -> list[str]:
        return b"".join(self.model).decode().split("\n")[:-1]

    @rule(name=st.sampled_from(WRITERS), lines=st.integers(1, 4), size=st.sampled_from([3, 40]))
    def append(self, name: str, lines: int, size: int) -> None:
        if name in self.actors:
            return self._step(name)
        if name not in self.pending:
            self.sent += 1
            text = "".join(f"{name} {self.sent} {line} {'x' * size}\n" for line in range(lines))
            self.pending[name] = (Batch.from_text(text), self.cookies[name])
        batch, cookie = self.pending[name]
        key = self._key(name, batch, cookie)
        self._start(name, lambda wrap: self._parts(wrap).writer.append(RUN, batch, position=cookie, idempotency_key=key))

    @staticmethod
    def _key(name: str, batch: Batch, cookie: str | None) -> str | None:
        """A client without cookies cannot repeat exactly once; ours begins with an init, as connectors do, or has a key. One always has."""
        return f"{name}-{batch.digest}" if cookie is None or name == KEYED else None

    @rule(name=st.sampled_from(WRITERS))
    def repeat_at_once(self, name: str) -> None:
        """A client whose request takes too long sends it again while the first one goes on."""
        again = f"{name} again"
        if again in self.actors:
            return self._step(again)
        if name in self.actors:
            batch, cookie = self.pending[name]
            key = self._key(name, batch, cookie)
            self.repeated[again] = batch
            self._start(again, lambda wrap: self._parts(wrap).writer.append(RUN, batch, position=cookie, idempotency_key=key))

    @rule(name=st.sampled_from(["compactor-1", "compactor-2"]))
    def compact(self, name: str) -> None:
        self._run(name, lambda wrap: self._parts(wrap).finalizer.compact_and_finalize(RUN, self.world.deadline()))

    @rule(name=st.sampled_from(["reader-1", "reader-2"]), share=st.floats(0, 1))
    def read(self, name: str, share: float) -> None:
        if name not in self.actors:
            total = len(self._lines())
            after = int(share * total)
            self.reads[name] = (after, total)
            request = PageRequest(after=after, limit=5)
            return self._start(name, lambda wrap: self._parts(wrap).reader.page(RUN, request))
        return self._step(name)

    @rule()
    @precondition(lambda self: len(self.model) > 6)
    def close(self) -> None:
        self._run("closer", lambda wrap: self._parts(wrap).finalizer.close(RUN, None))

    @rule()
    def sweep(self) -> None:
        before_ms = self.world.clock.now_ms() - 60_000
        self._run("sweeper", lambda wrap: self._parts(wrap).finalizer.abandon(RUN, before_ms, self.world.deadline()))

    @rule(name=st.sampled_from(ACTORS), fault=FAULTS)
    def fail(self, name: str, fault: tuple[str, str]) -> None:
        if name in self.actors:
            TOTALS["faults"] += 1
            self.actors[name].step(fault)
            self._reap(name)

    @rule(name=st.sampled_from(ACTORS))
    def finish(self, name: str) -> None:
        if name in self.actors:
            self.actors[name].finish()
            self._reap(name)

    @rule(minutes=st.sampled_from([1, 2, 21]))
    @precondition(lambda self: not self.actors)  # a function lives 30 s: time does not jump while one runs
    def time_passes(self, minutes: int) -> None:
        self.world.clock.advance(minutes * 60)

    @rule(repeating=st.sampled_from([*WRITERS, None]))
    @precondition(lambda self: not self.actors and len(self.model) > 1)
    def a_long_pause(self, repeating: str | None) -> None:
        """Everything is compacted and retired; a writer whose response was lost long ago retries."""
        self.world.parts().finalizer.compact_and_finalize(RUN, self.world.deadline())
        self.world.clock.advance(21 * 60)
        self.world.parts().finalizer.compact_and_finalize(RUN, self.world.deadline())
        if repeating in self.pending:
            self.append(repeating, 1, 3)
            self.finish(repeating)

    @rule()
    def everybody_finishes(self) -> None:
        for name in list(self.actors):
            self.finish(name)

    @rule(seconds=st.integers(1, 4))
    def a_moment_passes(self, seconds: int) -> None:
        self.world.clock.advance(seconds)

    @invariant()
    def acknowledged_is_stored_once(self) -> None:
        counted = Counter(self.model)
        assert all(counted[body] == 1 for body in self.acknowledged)
        assert max(counted.values(), default=1) == 1, "a batch was stored twice"

    def teardown(self) -> None:
        for name in list(self.actors):
            self.actors[name].finish()
            self._reap(name)
        self._check_order()
        self._end()

    def _check_order(self) -> None:
        for name in WRITERS:
            own = [int(body.split(b" ")[1]) for body in self.model if body.startswith(name.encode())]
            assert own == sorted(own)

    def _end(self) -> None:
        parts = self.world.parts()
        for name, (batch, cookie) in list(self.pending.items()):
            key = self._key(name, batch, cookie)
            try:
                parts.writer.append(RUN, batch, position=cookie, idempotency_key=key)
            except RunClosedError:
                continue
        parts.finalizer.close(RUN, None)
        parts.finalizer.compact_and_finalize(RUN, self.world.deadline())
        assert self.world.body("logs.txt") == b"".join(self.model)
        assert self.world.read_all(limit=7) == (self._lines() or [])
        assert max(Counter(self.model).values(), default=1) == 1
        assert "partial.txt" not in self.world.names()
        TOTALS["interleavings"] += 1
        assert START_MS <= self.world.clock.now_ms()

    def _run(self, name: str, operation: Callable[[Callable[[Any], Any]], Any]) -> None:
        self._step(name) if name in self.actors else self._start(name, operation)

    def _step(self, name: str) -> None:
        self.actors[name].step()
        self._reap(name)

    def _parts(self, wrap: Callable[[Any], Any]) -> Any:
        return self.world.parts(wrap(self.world.store), wrap(self.world.index))


@pytest.mark.behavior("Writers, compactors and readers in any order keep every line once and in order.")
def test_any_interleaving_keeps_every_line_once_and_in_order() -> None:
    run_state_machine(Interleavings, seed=SEED, examples=EXAMPLES, steps=STEPS)
    print(f"interleavings: {TOTALS['interleavings']}, steps: {TOTALS['steps']}, faults: {TOTALS['faults']}")
    assert TOTALS["interleavings"] >= EXAMPLES
