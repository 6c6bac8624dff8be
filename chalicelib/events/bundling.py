"""Moves the sidecars of an ended run to bundles: a run of 10,000 small batches then has a few objects instead (decision 0048).

Safe at any time and for concurrent callers: sidecars are immutable, a bundle is written put-if-absent before its sidecars are deleted, and
only sidecars that a stored bundle contains byte for byte are deleted. A reopened run keeps its bundles and gets single sidecars again. A
crash leaves sidecars that are in a bundle too; the next call deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidNameError, ObjectNotFoundError, PreconditionFailedError, SnapshotChangedError
from chalicelib.events.sidecar_bundle import BUNDLE_BYTES, MAX_SIDECARS, BundleName, encode_bundle
from chalicelib.events.sidecar_store import SidecarStore
from chalicelib.ports import ABSENT, Clock, ListedObject, ObjectStore, PutOptions, Run
from chalicelib.runlog.artifact import Artifact, find_artifact
from chalicelib.runlog.compaction import BUNDLED_BYTES, RETIRE_AFTER_MS
from chalicelib.runlog.conflicts import put_retrying_conflicts, retry_on_change
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import delete_all

_THREADS = 16


@dataclass(slots=True)
class Bundled:
    """Numbers of sidecars that were moved, and of bundles that were written."""

    sidecars: int = 0
    bundles: int = 0


class SidecarBundler:
    """Bundles sidecars of runs. ``store``: checks the lease before each call."""

    def __init__(self, store: ObjectStore, layout: Layout, clock: Clock) -> None:
        self._store, self._layout, self._clock = store, layout, clock
        self._sidecars = SidecarStore(store, layout)

    def bundle(self, run: Run, deadline: Deadline) -> Bundled:
        """Bundle the sidecars of the segments in ``logs.txt`` that are older than 20 minutes, except those above 256 KiB. Idempotent.

        A HEAD and a LIST, another LIST for each 1,000; a GET for each sidecar, 16 at once; for each bundle a PUT, a HEAD, and a
        DeleteObjects for each 1,000; a GET and a DELETE for each sidecar that an earlier call has left. Memory: twice ``BUNDLE_BYTES``, and
        250 bytes for each sidecar of a bundle; for what was left, the bundles around it. Raises DeadlineExceededError between two bundles,
        UnavailableError: the next call continues; DamagedLogError: a bundle is damaged, or has other bytes for a sidecar."""
        done = Bundled()
        retry_on_change(lambda: self._attempt(run, deadline, done))
        return done

    def _attempt(self, run: Run, deadline: Deadline, done: Bundled) -> None:
        logs = self._final_log(run)
        if logs is None:
            return
        names = self._sidecars.bundles(run)
        for listed in _batches(self._movable(run, logs)):
            deadline.check()
            left = self._delete_bundled(run, names, listed, done)
            if len(left) > 1:
                self._move(run, logs, left, done)

    def _final_log(self, run: Run) -> Artifact | None:
        logs = find_artifact(self._store, self._layout.logs(run))
        return logs if logs and logs.reason and not logs.is_deleted else None

    def _movable(self, run: Run, logs: Artifact) -> Iterator[ListedObject]:
        before_ms = self._clock.now_ms() - RETIRE_AFTER_MS
        for found in self._sidecars.list_single(run):
            if self._sidecars.number_of(run, found.key) >= logs.next_segment:
                return
            if found.last_modified_ms <= before_ms and 0 < found.size <= BUNDLED_BYTES:
                yield found

    def _delete_bundled(
        self, run: Run, names: Sequence[BundleName], listed: Sequence[ListedObject], done: Bundled
    ) -> list[ListedObject]:
        """Delete those that a bundle contains byte for byte: an earlier call ended before it did. Returns those outside of all bundles; one
        that is only among the numbers of a bundle, because a late retry wrote it, stays as it is. Raises DamagedLogError if a bundle has
        other bytes for a number: a run with this name was deleted without it, and written anew. Both stay."""
        outside: list[ListedObject] = []
        leftover: list[tuple[ListedObject, list[bytes]]] = []
        for found in listed:
            number = self._sidecars.number_of(run, found.key)
            around = [name for name in names if name.first <= number <= name.last]
            copies = [body for name in around if (body := self._sidecars.bundle(run, name).get(number)) is not None]
            if not around:
                outside.append(found)
            elif copies:
                leftover.append((found, copies))
        with ThreadPoolExecutor(_THREADS) as threads:
            deleted = list(threads.map(self._delete_copied, leftover))
        done.sidecars += sum(deleted)
        if not all(deleted):
            key = leftover[deleted.index(False)][0].key
            raise DamagedLogError(f"a bundle has other bytes for sidecars count={deleted.count(False)} key={key}")
        return outside

    def _delete_copied(self, leftover: tuple[ListedObject, list[bytes]]) -> bool:
        """Delete a sidecar if it equals one of its copies; returns whether it does. Compares bytes: an ETag is no hash with SSE-KMS."""
        listed, copies = leftover
        if self._body(listed) not in copies:
            return False
        try:
            self._store.delete(listed.key, if_match=listed.etag)
        except PreconditionFailedError as error:
            raise SnapshotChangedError(f"a sidecar was written anew key={listed.key}") from error
        return True

    def _move(self, run: Run, logs: Artifact, listed: Sequence[ListedObject], done: Bundled) -> None:
        """Write a bundle and delete its sidecars. Raises SnapshotChangedError if another caller was faster."""
        numbers = [self._sidecars.number_of(run, found.key) for found in listed]
        try:
            key = self._layout.bundle(run, numbers[0], numbers[-1])
        except InvalidNameError:
            return  # a run with very long names
        with ThreadPoolExecutor(_THREADS) as threads:
            bodies = list(threads.map(self._body, listed))
        options = PutOptions(content_type="application/gzip")
        try:
            etag = put_retrying_conflicts(self._store, key, encode_bundle(list(zip(numbers, bodies, strict=True))), options, ABSENT)
        except PreconditionFailedError as error:
            raise SnapshotChangedError(f"another process has bundled sidecars key={key}") from error
        found = self._final_log(run)
        if found is None or found.next_segment < logs.next_segment:
            self._store.delete(key, if_match=etag)  # the run was deleted meanwhile
            raise SnapshotChangedError(f"the run was deleted run={run.fqn}/{run.run_id}")
        done.bundles += 1
        delete_all(self._store, [each.key for each in listed])
        done.sidecars += len(listed)

    def _body(self, listed: ListedObject) -> bytes:
        try:
            return self._store.get(listed.key).body
        except ObjectNotFoundError as error:
            raise SnapshotChangedError(f"another process has moved a sidecar key={listed.key}") from error


def _batches(listed: Iterator[ListedObject]) -> Iterator[list[ListedObject]]:
    """Consecutive sidecars of ``BUNDLE_BYTES`` at most."""
    batch: list[ListedObject] = []
    size = 0
    for found in listed:
        if batch and (size + found.size > BUNDLE_BYTES or len(batch) == MAX_SIDECARS):
            yield batch
            batch, size = [], 0
        batch.append(found)
        size += found.size
    if batch:
        yield batch
