"""A run with everything is deleted on the deployed stack, beside clients; then none of its texts is left in anything that is stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from chalicelib.deadline import Deadline
from chalicelib.errors import RunDeletedError
from chalicelib.removal.run_removal import registration_key
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import DeletionOrder
from chalicelib.runlog.reader import PageRequest
from runlake import Settings
from runlake.draining import Drained, drain_folder
from tests import sampling
from tests.faults.interception import Crash
from tests.integration.marked_run import LOGS, MarkedRun, Search, dataset_of, remove_rows
from tests.integration.rebuild_harness import HOUR_S, services_of, wait_until_quiet
from tests.integration.stacks import Stack

CLIENT = "name of a writer"
"""Stays in the list of the archive's sources, see ``docs/deletion.md``."""
PIPELINES = "/v1/catalog/pipelines"


@pytest.fixture
def versioned(stack: Stack) -> Iterator[Stack]:
    """The stack, while its buckets keep old versions."""
    with closing(stack.client("s3")) as s3:
        for status in ("Enabled", "Suspended"):
            for bucket in (stack["bucket"], stack["archive_bucket"]):
                s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
            if status == "Enabled":
                yield stack


@contextmanager
def repeated(*actions: Callable[[], Any]) -> Iterator[None]:
    """Repeat each action in a thread of its own."""
    is_over = threading.Event()

    def repeat(action: Callable[[], Any]) -> None:
        while not is_over.is_set():
            action()

    threads = [threading.Thread(target=repeat, args=(each,)) for each in actions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.behavior("Of a run that is deleted beside its clients none of its texts is left in anything that the stack stores.")
def test_no_text_of_a_deleted_run_is_left(versioned: Stack, tmp_path: Path) -> None:
    stack, spool = versioned, tmp_path / "spool"
    with closing(MarkedRun(stack)) as marked, closing(MarkedRun(stack)) as reader, services_of(stack, 0) as now:
        marked.write(now)
        wait_until_quiet(stack)
        marked.derive(now)
        marked.explain(now)
        dataset = dataset_of(stack)
        marked.put_rows(dataset)
        folder = marked.spool(spool)
        search = Search(stack, marked.marks)
        assert set(marked.marks) == set(search.found(tmp_path)) and len(marked.marks) >= 20

        answers: list[tuple[float, int]] = []
        drained: list[Drained | None] = []
        read = f"{LOGS}/{marked.run.fqn}/{marked.run.run_id}"

        def poll() -> None:
            began_s = time.monotonic()
            answers.append((began_s, reader.call("GET", read, expected=None).status_code))

        with repeated(poll):
            drain = threading.Thread(target=lambda: drained.append(drain_folder(folder, Settings(url=stack.api_url), 20)))
            drain.start()
            retries = [marked.retry()]
            path = f"{PIPELINES}/{marked.run.fqn}/runs/{marked.run.run_id}?reason=test"
            assert marked.call("DELETE", path).json()["state"] == "deleted"
            deleted_s = time.monotonic()
            retries.append(marked.retry())
            drain.join()
        poll()
        assert retries == [200, 410] and drained[0] and drained[0].is_done
        assert {status for began_s, status in answers if began_s > deleted_s} == {410}
        assert {status for _, status in answers} <= {200, 410}
        with services_of(stack, HOUR_S) as later:
            assert later.removal.resume(Deadline(later.clock)) >= 2
            remove_rows(dataset, later)
        wait_until_quiet(stack)
        found = search.found(tmp_path)
        assert set(found.pop(CLIENT, ())) <= {stack["listing_table"]} and found == {}
        assert marked.call("DELETE", path).json()["counts"]["uploads"] == 1


class Killed:
    """Ends this process's work at its n-th request to AWS; then it makes no other until ``spare``."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._last: int | None = None

    def __call__(self, request: Any, event_name: str, **_: Any) -> None:
        """See botocore's event ``before-send``."""
        self.requests.append(event_name.removeprefix("before-send."))
        if self._last is not None and len(self.requests) > self._last:
            raise Crash(event_name)

    def after(self, requests: int) -> None:
        self.requests, self._last = [], requests

    def spare(self) -> None:
        self._last = None


@pytest.mark.behavior("A deletion that is killed at any request to AWS is completed by the schedule.")
def test_killed_deletion_is_completed(versioned: Stack) -> None:
    """At a few requests of those that a deletion and the sweep make; ``RUNLAKE_SAMPLE=all``: at each."""
    killed, marks = Killed(), dict[str, str]()
    with services_of(versioned, 0, killed) as now, services_of(versioned, HOUR_S, killed) as later:

        def delete_until(request: int) -> int:
            for services in (now, later):
                services.clock.advance(time.monotonic() - began_s - services.clock.monotonic_s())  # type: ignore[attr-defined]
            with closing(MarkedRun(versioned)) as marked:
                first = now.writer.append(marked.run, Batch.from_text(f"{marked.mark('first line')}\n"))
                now.writer.append(marked.run, Batch.from_text(f"{marked.mark('second line')}\n"), position=first.position)
                marked.derive(now)
                killed.after(request)
                with suppress(Crash):
                    now.removal.delete(marked.run, DeletionOrder("operator"), Deadline(now.clock))
                    later.removal.resume(Deadline(later.clock))
                killed.spare()
                requests, key = killed.requests, registration_key(marked.run)
                if not now.database.get_many([key]):
                    now.removal.delete(marked.run, DeletionOrder("operator"), Deadline(now.clock))
                later.removal.resume(Deadline(later.clock))
                deletion = later.removal.deletion(marked.run)
                assert deletion and deletion.is_done, f"stopped at {request} {requests[-1]}"
                with pytest.raises(RunDeletedError):
                    later.reader.page(marked.run, PageRequest())
                marks.update({f"{place} at {request}": text for place, text in marked.marks.items()})
            return len(requests)

        began_s = time.monotonic()
        numbers = range(delete_until(10**9))
        for number in sampling.sample(numbers, "killed deletion", 2, 1):
            delete_until(number)
        wait_until_quiet(versioned)
        assert len(numbers) > 50 and Search(versioned, marks).found() == {}
