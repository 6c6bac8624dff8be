"""Appends events to a run's log: the text in a segment, the rest in its sidecar; both are on S3 before a batch is acknowledged.

::

    PUT segments/n    (takes the sequence number; exactly once, as for any batch)
    PUT events/n      put-if-absent; a retry that finds its own segment writes it if it is missing

A crash between the two leaves lines without a sidecar. They were never acknowledged, and are plain text until the retry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from chalicelib.errors import PreconditionFailedError
from chalicelib.events.batch import prepare_batch, relocate_entries
from chalicelib.events.event import Loggable, NewEvent
from chalicelib.events.names import checked_name
from chalicelib.events.ports import Accepted
from chalicelib.events.sidecar import Sidecar, encode_sidecar
from chalicelib.lines.text import number_lines
from chalicelib.masking.masker import Masker
from chalicelib.ports import ABSENT, Clock, ObjectStore, PutOptions, Run, SegmentEntry
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.reader import Reader
from chalicelib.runlog.writer import Writer

_PACKED = PutOptions(content_type="application/gzip")


class RunEventLog:
    """``EventLog`` on the run log. Stateless. ``on_masked`` is called with the number of masked secrets by pattern."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        clock: Clock,
        writer: Writer,
        reader: Reader,
        masker: Masker,
        instance_id: str,
        on_masked: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> None:
        self._store, self._layout, self._clock, self._writer, self._reader = store, layout, clock, writer, reader
        self._masker, self._instance_id, self._on_masked = masker, instance_id, on_masked

    def append(
        self,
        run: Run,
        events: Sequence[NewEvent],
        *,
        writer: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """See the port. Two PUTs; a repeat one or two HEADs more. Also raises BatchTooLargeError and InvalidNameError."""
        name = checked_name("writer", writer) if writer else ""
        self._masker.check_names(run.fqn, run.fqn, run.run_id, name)
        if not events:
            opened = self._writer.append(run, Batch.from_bytes(b""), position=position)
            return Accepted(0, None, opened.position)
        loggable = Loggable.of_run(run, self._instance_id)
        ready = prepare_batch(events, loggable, name, self._clock.now_ms(), lambda body: self._masker.mask(run.fqn, body))
        self._on_masked(ready.masked)
        appended = self._writer.append(run, ready.batch, position=position, idempotency_key=idempotency_key)
        entry = appended.entry
        assert entry, "events always have lines"
        entries = ready.entries
        if appended.repeated and entry.bytes != len(ready.batch.body):
            entries = relocate_entries(self._stored(run, entry), entries)
        placed = [replace(each, line=each.line + entry.line, byte=each.byte + entry.byte) for each in entries]
        self._put_sidecar(run, Sidecar.of_segment(entry, name, self._instance_id, placed))
        return Accepted(len(placed), entry.line, appended.position, appended.repeated, tuple(ready.refused))

    def _put_sidecar(self, run: Run, sidecar: Sidecar) -> None:
        key, body = self._layout.sidecar(run, sidecar.sequence), encode_sidecar(sidecar)
        with suppress(PreconditionFailedError):  # written by an earlier attempt
            put_retrying_conflicts(self._store, key, body, _PACKED, ABSENT)

    def _stored(self, run: Run, entry: SegmentEntry) -> bytes:
        """The text that an earlier attempt stored, if other masking rules produced other bytes."""
        scan = self._reader.scan(run, entry.line)
        lines = islice(number_lines(scan.chunks), scan.skip, scan.skip + entry.lines)
        return b"".join(line + b"\n" for _, line in lines)
