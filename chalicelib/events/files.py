"""Plain files as a logging method and a log browser: for machines without AWS, and if a run's browser is not installed.

::

    {directory}/{job}/{loggable}/log.txt          the text, as in a run's log
                                 events.jsonl     a line of JSON for each event (``sidecar.SidecarEntry``), written after its text
                                 writers.jsonl    {"writer", "openedMs"} of each writer, and its end: {"writer", "count", "lastTimestampMs"}

Writers of several processes share the files: each batch is appended under a file lock. Nothing else ends a run: it has ended while all of its
writers are closed.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeVar

from chalicelib.errors import DamagedLogError
from chalicelib.events.batch import prepare_batch
from chalicelib.events.byte_ranges import ByteRange, merge_adjacent
from chalicelib.events.completeness import COMPLETE, LOST, PENDING, Completeness, writer_state
from chalicelib.events.event import Event, Loggable, run_of
from chalicelib.events.event_view import build_event_view
from chalicelib.events.log_streams import last_lines
from chalicelib.events.ports import NO_DATA, EventWriter, LogText, WriterData
from chalicelib.events.ranges import Range, add_id, merged
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.sinks import BatchSink, as_new, rejection
from chalicelib.events.text import ANSWER_BYTES, cut, decode_text
from chalicelib.events.writing import SinkWriter
from chalicelib.masking.mask import Masked
from chalicelib.ports import Clock
from chalicelib.runlog.layout import encode_name

_COUNTED_BYTES = 1024 * 1024
_T = TypeVar("_T")


def folder_of(directory: Path, loggable: Loggable) -> Path:
    """The directory of a run's files. Names are percent-encoded, so none leaves ``directory``. Raises InvalidEventError for another
    loggable."""
    run = run_of(loggable)
    return directory / encode_name(run.fqn) / encode_name(run.run_id)


@dataclass(frozen=True, slots=True)
class FilesMethod:
    """``LoggingMethod``; ``mask`` is applied to each batch before it is written."""

    directory: Path
    clock: Clock
    mask: Callable[[str, bytes], Masked] = lambda _, body: Masked(body, {})

    def create_writer(
        self, loggable: Loggable, *, writer: str | None = None, step: str | None = None, data: WriterData = NO_DATA
    ) -> EventWriter:
        """See the port."""
        folder = folder_of(self.directory, loggable)
        folder.mkdir(parents=True, exist_ok=True)
        files = _Files(self, loggable, folder)
        made = SinkWriter(BatchSink(files.send), loggable, self.clock, writer=writer, step=step, data=data, on_close=files.end)
        files.record({"writer": made.writer, "openedMs": self.clock.now_ms()})
        return made


class _Files:
    """Appends the events of one writer to the files of a loggable."""

    def __init__(self, method: FilesMethod, loggable: Loggable, folder: Path) -> None:
        self._method, self._loggable, self._folder = method, loggable, folder
        self._known = (0, 0)  # bytes and lines that are counted

    def send(self, events: Sequence[Event]) -> None:
        """Raises InvalidEventError once the valid events are durable."""
        fqn, writer = run_of(self._loggable).fqn, events[0].writer
        now_ms = self._method.clock.now_ms()
        new_events = [as_new(event) for event in events]
        ready = prepare_batch(new_events, self._loggable, writer, now_ms, lambda body: self._method.mask(fqn, body))
        with open(self._folder / "log.txt", "a+b") as log, open(self._folder / "events.jsonl", "ab") as events_file:
            fcntl.flock(log, fcntl.LOCK_EX)
            byte, line = self._end_of(log)
            placed = [replace(each, line=each.line + line, byte=each.byte + byte) for each in ready.entries]
            _durable(log, ready.batch.body)
            documents = [{"writer": writer, "instance": self._loggable.instance_id} | asdict(each) for each in placed]
            _durable(events_file, b"".join(json.dumps(each).encode() + b"\n" for each in documents))
            self._known = (byte + len(ready.batch.body), line + ready.batch.lines)
        if ready.refused:
            raise rejection(ready.refused)

    def end(self, writer: str, count: int, last_ms: int | None) -> None:
        self.record({"writer": writer, "count": count, "lastTimestampMs": last_ms})

    def record(self, document: Mapping[str, Any]) -> None:
        with open(self._folder / "writers.jsonl", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _durable(file, json.dumps(document).encode() + b"\n")

    def _end_of(self, log: BinaryIO) -> tuple[int, int]:
        """Bytes and lines of the log, with those that other writers appended since the last call."""
        byte, line = self._known
        log.seek(byte)
        while piece := log.read(_COUNTED_BYTES):
            byte, line = byte + len(piece), line + piece.count(b"\n")
        return byte, line


def _durable(file: BinaryIO, body: bytes) -> None:
    file.write(body)
    file.flush()
    os.fsync(file.fileno())


class FilesBrowser:
    """``LogBrowser`` of plain files. A step's log reads events.jsonl, and only the step's bytes of the text."""

    def __init__(self, directory: Path, loggable: Loggable) -> None:
        self._folder, self._loggable = folder_of(directory, loggable), loggable

    def overall_log(self, start: int = 0) -> LogText:
        """See the port. Complete until another writer is opened."""
        has_ended = self._has_ended()  # read before the text, which a writer may add and then close
        with self.open_binary() as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(min(start, size))
            data = cut(file.read(ANSWER_BYTES), more=start + ANSWER_BYTES < size)
        return LogText(decode_text(data), start + len(data), has_ended and start + len(data) >= size)

    def step_log(self, step: str, completed: bool, start: int = 0) -> LogText:
        """See the port. Complete as ``completed`` says, or as the overall log."""
        completed = completed or self._has_ended()
        ranges = merge_adjacent(
            ByteRange(each.byte, each.end_byte - each.byte, each.line, each.lines)
            for _, each in self._entries()
            if each.step == step
        )
        found, skip = bytearray(), start
        with self.open_binary() as file:
            for each in ranges:
                if skip < each.bytes and len(found) < ANSWER_BYTES:
                    file.seek(each.byte + skip)
                    found += file.read(min(each.bytes - skip, ANSWER_BYTES - len(found)))
                skip = max(0, skip - each.bytes)
        end = sum(each.bytes for each in ranges)
        data = cut(bytes(found), more=start + len(found) < end)
        return LogText(decode_text(data), start + len(data), completed and start + len(data) >= end)

    def open_binary(self) -> BinaryIO:
        """See the port."""
        try:
            return open(self._folder / "log.txt", "rb")
        except FileNotFoundError:
            return io.BytesIO()

    def open_text(self) -> TextIO:
        """See the port."""
        return io.TextIOWrapper(self.open_binary(), encoding="utf-8", errors="replace", newline="\n")

    def lines(self, maximum: int) -> list[str]:
        """See the port. Memory: the lines."""
        with self.open_binary() as file:

            def read(start: int, end: int) -> bytes:
                file.seek(start)
                return file.read(end - start)

            return last_lines(read, file.seek(0, os.SEEK_END), maximum)

    def log_file(self) -> Path:
        """See the port: the log itself, which must not be removed."""
        return self._folder / "log.txt"

    def events(self) -> Iterator[Event]:
        """See the port."""
        with self.open_binary() as file:
            for head, each in self._entries():
                file.seek(each.byte)
                place = Sidecar(0, each.line, each.byte, each.lines, each.bytes, head["writer"], head["instance"], 0, ())
                yield build_event_view(each, place, file.read(each.bytes), self._loggable).event()

    def completeness(self) -> Completeness:
        """See the port. Lost are events that a closed writer counted and that are in no file; of a writer that was killed, nothing shows whether
        it still runs. Reads writers.jsonl and events.jsonl. Memory: the writers."""
        ends = self._writer_ends()  # read first: a writer's end follows its events
        ids: defaultdict[str, list[Range]] = defaultdict(list)
        last_ms: dict[str, int] = {}
        for head, each in self._entries():
            name = head["writer"]
            last_ms[name] = max(each.timestamp, last_ms.get(name, 0))
            if each.id is not None:
                add_id(ids[name], each.id)
        states = [writer_state(name, ends.get(name), merged(ids[name]), last_ms.get(name)) for name in sorted({*ends, *last_ms})]
        is_complete = bool(ends) and all(each.complete for each in states if each.writer in ends)
        state = COMPLETE if is_complete else LOST if any(each.lost for each in states) else PENDING
        return Completeness(state, _are_closed(ends), states)

    def delete(self) -> None:
        """See the port."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _entries(self) -> Iterator[tuple[dict[str, str], SidecarEntry]]:
        """The entries of events.jsonl, in the log's order."""

        def entry(document: dict[str, Any]) -> tuple[dict[str, str], SidecarEntry]:
            head = {name: str(document.pop(name)) for name in ("writer", "instance")}
            return head, SidecarEntry(**document)

        return _read_documents(self._folder / "events.jsonl", entry)

    def _writer_ends(self) -> dict[str, int | None]:
        """The number of events of each registered writer, None until it is closed."""

        def end(document: dict[str, Any]) -> tuple[str, int | None]:
            return str(document["writer"]), int(document["count"]) if "count" in document else None

        ends: dict[str, int | None] = {}
        for writer, count in _read_documents(self._folder / "writers.jsonl", end):
            ends[writer] = ends.get(writer) if count is None else count
        return ends

    def _has_ended(self) -> bool:
        return _are_closed(self._writer_ends())


def _read_documents(path: Path, parse: Callable[[dict[str, Any]], _T]) -> Iterator[_T]:
    """The lines of a file of JSON. An unterminated last line was never acknowledged and is skipped. Raises DamagedLogError."""
    if not path.exists():
        return
    with open(path, "rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            try:
                parsed = parse(json.loads(raw))
            except (ValueError, TypeError, KeyError) as error:
                raise DamagedLogError(f"not a line of a log's files path={path}") from error
            yield parsed


def _are_closed(ends: Mapping[str, int | None]) -> bool:
    return bool(ends) and None not in ends.values()
