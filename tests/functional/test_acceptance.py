"""The twelve acceptance behaviours of the run-log contract, each by its number, through HTTP where possible.

On the deployed stack the same behaviours are in ``tests/integration/test_acceptance_on_the_stack.py``, with OpenMetadata's own client in
``tests/integration/openmetadata``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.artifact import artifact_metadata
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.functional.gateway import get, installed, post
from tests.world import World

MIB = 1024 * 1024
GIB = 1024 * MIB
RUN = Run("svc.pipeline", "run-1")
URL = f"{RUN.fqn}/{RUN.run_id}"


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


class Connector:
    """A client with a cookie jar, one request in flight."""

    def __init__(self, url: str = URL) -> None:
        self.url, self.cookie = url, ""

    def send(self, text: str) -> int:
        """POST a LogBatch; the status."""
        body = json.dumps({"logs": text, "connectorId": "host-1", "timestamp": 1, "compressed": False, "lineCount": 1})
        headers = {"Content-Type": "application/json"} | ({"Cookie": self.cookie} if self.cookie else {})
        answer = post(self.url, body, headers)
        if answer.status == 200:
            self.cookie = answer.cookie
        return answer.status


def read_lines(url: str = URL) -> list[str]:
    """The lines of all pages."""
    lines: list[str] = []
    after: str | None = "0"
    while after is not None:
        page = get(f"{url}?after={after}").json
        lines += page["logs"].split("\n") if page["total"] else []
        after = page["after"]
    return lines


def settle(world: World, run: Run = RUN) -> None:
    world.parts().finalizer.compact_and_finalize(run, world.deadline())


@pytest.mark.behavior("A log is read page by page; each page names the next position, and the last one names none.")
def test_behaviour_01_five_lines_by_two(world: World) -> None:
    Connector().send("1\n2\n3\n4\n5\n")
    pages = [get(f"{URL}?after={after}&limit=2").json for after in (0, 2, 4)]
    assert [(page["logs"], page["after"]) for page in pages] == [("1\n2", "2"), ("3\n4", "4"), ("5", None)]
    assert {page["total"] for page in pages} == {5}


@pytest.mark.behavior("Writers that append to one run at the same time lose and repeat no line.")
def test_behaviour_02_threads_on_one_run_lose_and_repeat_nothing(world: World) -> None:
    def work(name: str) -> None:
        connector = Connector()
        for number in range(10):
            assert connector.send(f"{name} {number} first\n{name} {number} second\n") == 200

    threads = [threading.Thread(target=work, args=(f"thread-{number}",)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = read_lines()
    assert len(lines) == 100
    for name in (f"thread-{number}" for number in range(5)):
        expected = [f"{name} {number} {half}" for number in range(10) for half in ("first", "second")]
        assert [line for line in lines if line.startswith(name)] == expected
    assert all(one.replace("first", "second") == other for one, other in zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.behavior("A batch that is sent again after a lost response is stored once.")
@pytest.mark.parametrize("how", ["error", "crash"])
def test_behaviour_03_a_batch_whose_answer_was_lost_is_stored_once(how: str) -> None:
    world = World()
    with installed(world):
        connector = Connector()
        connector.send("first\n")
    with installed(world, Intercepted(world.store, StopAt(0, AFTER, how))):  # type: ignore[arg-type]
        try:
            assert connector.send("the batch\n") == 503
        except Crash:
            assert how == "crash"
    assert "the batch" in world.read_all(RUN), "the store had applied it"
    with installed(world):
        assert connector.send("the batch\n") == 200
        assert read_lines() == ["first", "the batch"]


@pytest.mark.behavior("Concurrent and interrupted closes leave one complete `logs.txt`.")
def test_behaviour_04_close_gives_logs_txt_twice_at_once_and_after_half_a_close(world: World) -> None:
    Connector().send("a\nb\n")
    settle(world)
    threads = [threading.Thread(target=post, args=(f"{URL}/close",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = post(f"{URL}/close", '{"connectorId": "ignored"}')
    assert (answer.status, answer.json) == (200, {"message": "Log stream closed successfully"})
    assert world.body("logs.txt", RUN) == b"a\nb\n" and "partial.txt" not in world.names(RUN)
    for number in range(40):
        half = World()
        with installed(half):
            Connector().send("a\nb\n")
            settle(half)
        stop = StopAt(number, BEFORE, "error")
        with installed(half, Intercepted(half.store, stop)):  # type: ignore[arg-type]
            post(f"{URL}/close")
        with installed(half):
            assert post(f"{URL}/close").status == 200
        assert half.body("logs.txt", RUN) == b"a\nb\n" and "partial.txt" not in half.names(RUN)
        if not stop.fired:
            break
    assert number > 5


@pytest.mark.behavior("A closed run refuses appends; an abandoned run is reopened by an append.")
def test_behaviour_05_closed_refuses_and_abandoned_reopens_with_the_next_epoch(world: World) -> None:
    connector = Connector()
    connector.send("first\n")
    world.clock.advance(25 * 3600)
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() - 24 * 3_600_000, world.deadline())
    assert world.store.head(world.layout.logs(RUN)).metadata["writer-epoch"] == "1"
    assert connector.send("second\n") == 200
    post(f"{URL}/close")
    info = world.store.head(world.layout.logs(RUN))
    assert info.metadata["writer-epoch"] == "2" and world.body("logs.txt", RUN) == b"first\nsecond\n"
    before = world.names(RUN)
    assert connector.send("third\n") == 409 and Connector().send("third\n") == 409
    assert world.names(RUN) == before and read_lines() == ["first", "second"]


@pytest.mark.slow
@pytest.mark.behavior("Compaction continues after the loss of everything but the bucket.")
def test_behaviour_06_compaction_survives_the_loss_of_everything_but_the_store(world: World) -> None:
    connector = Connector()
    assert [connector.send(("x" * 1023 + "\n") * (3 * 1024)) for _ in range(2)] == [200, 200]
    settle(world)
    assert Connector().send("more\n") == 200
    number = 0
    while True:
        stop = StopAt(number, BEFORE, "error")
        try:
            world.parts(Intercepted(world.store, stop)).compactor.compact(RUN, world.deadline())  # type: ignore[arg-type]
        except Exception:
            number += 1
            assert read_lines()[-1] == "more"
        if not stop.fired:
            break
    reborn = World()
    reborn.store, reborn.clock = world.store, world.clock  # the catalog is lost too
    reborn.parts().compactor.compact(RUN, reborn.deadline())
    assert world.body("partial.txt", RUN).endswith(b"x\nmore\n") and world.store.uploads == 0


@pytest.mark.behavior("A log of several GiB is finalized by copies within S3.")
def test_behaviour_07_six_gibibytes_are_finalized_without_passing_through(world: World) -> None:
    line = b"z" * 63 + b"\n"
    size = 6 * GIB
    world.store.put_repeated(world.layout.partial(RUN), line, size, artifact_metadata(size // 64, size, 3, 1))
    assert Connector().send("the end\n") == 200
    uploaded = world.store.uploaded_bytes
    assert post(f"{URL}/close").status == 200
    settle(world)
    assert world.store.uploaded_bytes - uploaded == len(b"the end\n")
    assert world.store.head(world.layout.logs(RUN)).size == size + 8
    assert world.store.get(world.layout.logs(RUN), size - 64, size + 8).body == line + b"the end\n"


@pytest.mark.behavior("A reader sees every line once while the log is compacted.")
def test_behaviour_08_a_read_during_compaction_sees_every_line_once(world: World) -> None:
    connector = Connector()
    expected = [f"line {number}" for number in range(30)]
    for text in expected:
        connector.send(text + "\n")
    for _ in range(2):
        compactor = Actor("compactor", lambda wrap: world.parts(wrap(world.store)).compactor.compact(RUN, world.deadline()))
        while not compactor.done:
            assert read_lines() == expected
            compactor.step()
        assert compactor.error is None and read_lines() == expected
        connector.send("one more\n")
        expected.append("one more")


@pytest.mark.behavior("A log that OpenMetadata's server began is read, continued and closed.")
@pytest.mark.parametrize(
    "metadata", [{}, {"last-flushed-line": "2", "total-bytes": "12", "writer-epoch": "1", "writer-version": "1"}]
)
def test_behaviour_09_openmetadatas_partial_txt_is_read_appended_to_and_closed(world: World, metadata: dict[str, str]) -> None:
    world.store.put(f"pipeline-logs/svc_pipeline/{RUN.run_id}/partial.txt", b"old 1\nold 2\n", PutOptions(metadata))
    assert read_lines() == ["old 1", "old 2"]
    assert Connector().send("new\n") == 200
    assert read_lines() == ["old 1", "old 2", "new"]
    post(f"{URL}/close")
    assert world.body("logs.txt", RUN) == b"old 1\nold 2\nnew\n"


@pytest.mark.parametrize("name", ["000001.txt", "00000000001", "0", "readme", "٠٠٠٠٠٠٠٠٠٠", ""])
def test_foreign_objects_below_segments_are_ignored(world: World, name: str) -> None:
    """A copy of OpenMetadata's bucket may contain some."""
    world.store.put(world.layout.segments(RUN) + name, b"foreign\n", PutOptions())
    connector = Connector()
    assert connector.send("one\n") == 200 and read_lines() == ["one"]
    settle(world)
    assert Connector().send("two\n") == 200 and read_lines() == ["one", "two"]
    assert get("svc.pipeline/stream/run-1").status == 200
    post(f"{URL}/close")
    assert world.body("logs.txt", RUN) == b"one\ntwo\n" and read_lines() == ["one", "two"]


@pytest.mark.behavior("An idle run is finalized, and an append at that moment is kept.")
def test_behaviour_10_an_idle_run_is_finalized_a_fresh_one_is_not_and_a_racing_append_is_kept(world: World) -> None:
    fresh, racing = Run("svc.pipeline", "fresh"), Run("svc.pipeline", "racing")
    Connector().send("idle\n")
    Connector("svc.pipeline/racing").send("first\n")
    world.clock.advance(25 * 3600)
    Connector("svc.pipeline/fresh").send("fresh\n")
    before_ms = world.clock.now_ms() - 24 * 3_600_000
    sweeper = Actor("sweeper", lambda wrap: world.parts(wrap(world.store)).finalizer.abandon(racing, before_ms, world.deadline()))
    while sweeper.waiting_for != "put":
        sweeper.step()
    assert Connector("svc.pipeline/racing").send("just in time\n") == 200
    sweeper.finish()
    assert not sweeper.result.sealed and read_lines("svc.pipeline/racing") == ["first", "just in time"]
    for run in (RUN, fresh):
        world.parts().finalizer.abandon(run, before_ms, world.deadline())
    assert "logs.txt" in world.names(RUN) and "logs.txt" not in world.names(fresh)


@pytest.mark.behavior("A reader that disconnects and returns sees each line once.")
def test_behaviour_11_a_viewer_that_leaves_and_comes_back_sees_each_line_once(world: World) -> None:
    connector, seen, after = Connector(), list[str](), 0
    for number in range(12):
        connector.send(f"{number} a\n{number} b\n")
        if number % 3 == 2:  # joins late, and is away meanwhile
            page = get(f"{URL}?after={after}&limit=5").json
            seen += page["logs"].split("\n")
            after = len(seen)
            assert page["streaming"] is True
        if number % 5 == 4:
            settle(world)
    post(f"{URL}/close")
    page = get(f"{URL}?after={after}").json
    seen += page["logs"].split("\n")
    assert seen == [f"{number} {half}" for number in range(12) for half in "ab"]
    assert page["streaming"] is False and page["after"] is None


def test_behaviour_12_a_connectors_whole_life_arrives_in_order(world: World) -> None:
    """With OpenMetadata's own handler: tests/integration/openmetadata. Here its sequence: burst, single records, a trace, metrics, close."""
    connector = Connector()
    burst = [f"record {number}" for number in range(1200)]
    trace = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "KeyError: 'missing'"]
    metrics = ["streamable_logger shutdown:", "  shipped:  records=1204 batches=7"]
    for first in range(0, 1200, 500):
        assert connector.send("\n".join(burst[first : first + 500]) + "\n") == 200
    for text in ("slow 1", "slow 2", "slow 3", "\n".join(trace), "\n".join(metrics)):
        assert connector.send(text + "\n") == 200
    assert post(f"{URL}/close", json.dumps({"connectorId": "host-1", "timestamp": 2})).status == 200
    assert read_lines() == [*burst, "slow 1", "slow 2", "slow 3", *trace, *metrics]
