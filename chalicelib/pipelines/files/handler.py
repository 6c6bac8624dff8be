"""The handler that writes the files of applications on S3: used in ``logging.config``-like configurations like any other handler.

::

    handlers:
      audit:
        class: chalicelib.pipelines.files.handler.RollingS3Handler
        base: audit                 # the first folders of the keys; distinguishes the files of handlers
        format: jsonl               # text, jsonl, avro, parquet
        compress: gzip              # text and jsonl only
        path: "{application}/{level}.log"   # another layout of keys; {level}: a file for each level
        formatter: mine             # the layout of a message; for text: of the line
        max_bytes: 104857600        # a file is closed at this size,
        max_age_s: 21600            # at this age,
        idle_s: 900                 # or after this long without an event
        roll: daily                 # the events of a file: of a day, of an hour (hourly), or by a pattern of %Y %m %d %H %M
        keep_days: 7                # retention: 0 for no limit
        keep_bytes: 0
        keep_files: 0

``emit`` keeps events in memory. ``flush`` closes files that are due; ``pending_writes`` writes all waiting events to S3 and
returns the rows that make them visible, for the checkpoint's transaction. So each event is in the files exactly once, wherever
the process dies. Decision 0029. Memory: ``memory_bytes``, one batch more, and about 3 KB for each file that is open or has
changed since the last commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any
from uuid import uuid4

from chalicelib.errors import InvalidConfigurationError, RunlakeError
from chalicelib.pipelines.files.appendable_object import AppendableFile, FileGroup, SupersededError
from chalicelib.pipelines.files.bucket_location import HOME
from chalicelib.pipelines.files.formats import format_named
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import (
    DAY_MS,
    LAST_MS,
    FileContext,
    checked_base,
    clamped,
)
from chalicelib.pipelines.files.output_sets import OutputSet, get_output_set, put_output_set
from chalicelib.pipelines.files.path_template import clash_of, output_layout
from chalicelib.pipelines.files.records import time_of
from chalicelib.pipelines.files.rows import OPEN, FileRow, FileRows
from chalicelib.pipelines.files.text import LineFormatter
from chalicelib.pipelines.files.two_phase_commit import TwoPhaseCommit
from chalicelib.pipelines.ports import APP, FQN, GENERATION, NAMESPACE, PROGRAM, HandlerContext
from chalicelib.ports import ObjectStore, Write

MIB = 1024 * 1024
CANDIDATES = 4
"""The number of the latest files of a context's day that are considered for continuation."""
CANDIDATES_OF_PATHS = 32
"""The same for handlers with a path: the context's files of all levels are among them."""
NOWHERE = "-"
"""The value of a missing attribute of a record."""


class RollingS3Handler(logging.Handler):
    """See the module. ``workers``: files that are written to S3 in parallel. ``bucket``: another than the archive's own, which
    the context provides, with ``role`` and ``bucket_owner`` as of ``BucketLocation``. Raises InvalidConfigurationError."""

    def __init__(
        self,
        base: str,
        format: str = "text",
        *,
        bucket: str = "",
        role: str = "",
        bucket_owner: str = "",
        extension: str = "",
        compress: str = "",
        roll: str = "",
        path: str = "",
        max_bytes: int = 100 * MIB,
        max_age_s: int = 6 * 3600,
        idle_s: int = 900,
        keep_days: float = 7,
        keep_bytes: int = 0,
        keep_files: int = 0,
        memory_bytes: int = 64 * MIB,
        max_open: int = 2000,
        workers: int = 8,
    ) -> None:
        super().__init__()
        limits = {"max_bytes": max_bytes, "max_age_s": max_age_s, "idle_s": idle_s, "memory_bytes": memory_bytes}
        self.check_options({"base": base, **limits})
        options = {"base": base, "format": format, "extension": extension, "compress": compress, "roll": roll}
        options |= {"path": path, "bucket": bucket, "role": role, "bucket_owner": bucket_owner}
        self._layout = layout = output_layout(options)
        self._format, self._extension, self._template = format_named(layout.format), layout.extension, layout.template
        self._period_ms = layout.period.length_ms
        self._has_levels = layout.template is not None and layout.template.has_level
        self._has_counted_numbers = self._period_ms == DAY_MS and layout.template is None
        self._numbers = _TimeNumbers()
        self._base = OutputSet(
            base, bucket, int(keep_days * DAY_MS), keep_bytes, keep_files, layout.location.role, layout.location.owner
        )
        self._max_bytes, self._max_age_ms, self._idle_ms = max_bytes, max_age_s * 1000, idle_s * 1000
        self._memory_bytes, self._max_open, self._workers = memory_bytes, max_open, workers
        self._text_layout = LineFormatter() if format == "text" else logging.Formatter()
        self._taken = self._dropped = self._begun_files = 0
        self._files: dict[FileGroup, AppendableFile] = {}
        self._over: list[AppendableFile] = []
        self._dead: frozenset[str] = frozenset()
        self._buffered_bytes, self._full_bytes = 0, memory_bytes
        self._now_ms = 0
        self._context: HandlerContext | None = None

    @staticmethod
    def check_options(options: Mapping[str, Any]) -> None:
        """Check the arguments that the layout of the files leaves unchecked. Raises InvalidConfigurationError."""
        if "base" in options:
            checked_base(options["base"])
        for name in ("max_bytes", "max_age_s", "idle_s", "memory_bytes"):
            if name in options and options[name] <= 0:
                raise InvalidConfigurationError(f"a limit of files must be positive {name}={options[name]}")

    def use(self, context: HandlerContext) -> None:
        """See ``TakesContext``. Two requests. Raises InvalidConfigurationError if the base belongs to another bucket, or another
        handler of this worker writes the same files."""
        output = self._layout.name
        if clash := clash_of(output, context.outputs):
            raise InvalidConfigurationError(f"another handler of the pipeline writes the same files output={clash}")
        context.outputs.add(output)
        self._context, self._database, self._clock = context, context.database, context.clock
        self._store = self._store_of(context)
        known = get_output_set(context.database, self._base.name)
        if known and known.bucket != self._base.bucket:
            raise InvalidConfigurationError(f"the output set already uses another bucket base={known.name} bucket={known.bucket!r}")
        if known != self._base:
            put_output_set(context.database, self._base)
        self._generations = Generations(context.database, context.clock)
        self._stage = TwoPhaseCommit(context.database, context.fence, context.clock, uuid4().hex)
        self._now_ms = context.clock.now_ms()

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging``: by the configured layout, or the format's own."""
        return (self.formatter or self._text_layout).format(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Add an event. No request, unless a batch exceeds the memory."""
        try:
            if self._context is None:
                raise RuntimeError("this handler works only in a pipeline: it has no context")
            time_ms, attributes = time_of(record), record.__dict__
            if not 0 <= time_ms <= LAST_MS:
                time_ms = clamped(time_ms)
            generation = attributes.get(GENERATION) or NOWHERE
            if generation in self._dead:
                self._dropped += 1
                return
            group = (  # a plain tuple: a FileGroup is equal to it, and takes longer to make
                attributes.get(NAMESPACE) or NOWHERE,
                attributes.get(APP) or NOWHERE,
                attributes.get(PROGRAM) or NOWHERE,
                attributes.get(FQN) or NOWHERE,
                generation,
                time_ms - time_ms % self._period_ms,
                record.levelname if self._has_levels else "",
            )
            file = self._files.get(group)  # type: ignore[call-overload]
            if file is None or file.is_closed or file.contents.size + file.buffered_bytes >= self._max_bytes:
                file = self._new_file(FileGroup(*group), time_ms)
            self._buffered_bytes += file.add(record, self.format(record), time_ms)
        except Exception:
            self.handleError(record)
            return
        file.active_ms = self._now_ms
        self._taken += 1
        if self._buffered_bytes > self._full_bytes:
            self._spill()

    @property
    def counts(self) -> dict[str, int]:
        """``events`` that were added, ``dropped``: those of dead generations, ``files`` that were begun."""
        return {"events": self._taken, "dropped": self._dropped, "files": self._begun_files}

    def flush(self) -> None:
        """Close files that are full, old or idle, also without new events. Write waiting events to S3 if they exceed the memory.
        Raises UnavailableError (call it again), LeaseError."""
        if self._context is None:
            return
        with self._locked():
            self._now_ms = self._clock.now_ms()
            for file in self._files.values():
                file.is_closed = file.is_closed or self._is_due(file)
            if self._buffered_bytes > self._memory_bytes:
                self._publish(self._waiting())

    def pending_writes(self) -> Sequence[Write]:
        """See ``CommitsWithCheckpoint``. Writes all waiting events to S3 first. At most ten writes; one if more rows have
        changed. Raises UnavailableError (call it again), LeaseError."""
        if self._context is None:
            return []
        with self._locked():
            self._now_ms = self._clock.now_ms()
            if self._stage.has_uncommitted:  # perhaps because a deletion has removed the row of one of them
                self._generations.clear_cache()
            self._drop_dead([file for file in self._all() if file.is_dirty])
            self._publish(self._waiting())
            changed = [file for file in self._all() if file.is_dirty]
            return self._stage.writes([(file, self._row_of(file)) for file in changed])

    def committed(self) -> None:
        """See ``CommitsWithCheckpoint``."""
        if self._context is None:
            return
        with self._locked():
            self._stage.committed()
            self._over = [file for file in self._over if not _is_done(file)]
            for group in [group for group, file in self._files.items() if file.is_closed and _is_done(file)]:
                del self._files[group]
            self._evict()

    def _new_file(self, group: FileGroup, time_ms: int) -> AppendableFile:
        before = self._files.get(group)
        file = AppendableFile(self._base.name, group, self._format, self._now_ms, time_ms)
        if before is not None:
            before.is_closed = True
            self._over.append(before)
            file.needs_lookup, file.predecessor = False, before
        self._files[group] = file
        return file

    def _is_due(self, file: AppendableFile) -> bool:
        age_ms, idle_ms = self._now_ms - file.created_ms, self._now_ms - file.active_ms
        return file.size >= self._max_bytes or age_ms >= self._max_age_ms or idle_ms >= self._idle_ms

    def _all(self) -> Iterable[AppendableFile]:
        return [*self._over, *self._files.values()]

    def _waiting(self) -> list[AppendableFile]:
        return [file for file in self._all() if file.buffered_bytes or file.waiting]

    def _spill(self) -> None:
        """Within a batch: write the largest files to S3. A failure is retried after another quarter of the memory, and by the
        flush."""
        if self._context is None:
            return
        files = sorted(self._waiting(), key=lambda file: -file.buffered_bytes)
        least = self._buffered_bytes // 2
        chosen: list[AppendableFile] = []
        for file in files:
            chosen.append(file)
            least -= file.buffered_bytes
            if least <= 0:
                break
        try:
            self._publish(chosen)
            self._full_bytes = self._memory_bytes
        except RunlakeError:  # the flush reports it
            self._full_bytes = self._buffered_bytes + self._memory_bytes // 4

    def _publish(self, files: Sequence[AppendableFile]) -> None:
        """Write the waiting events of these files to S3. All are tried, then the first error is raised."""
        groups: dict[FileGroup, list[AppendableFile]] = {}
        for file in self._drop_dead(files):
            groups.setdefault(file.group, []).append(file)
        if self._workers > 1 and len(groups) > 1:
            with ThreadPoolExecutor(min(self._workers, len(groups))) as threads:
                troubles = list(threads.map(self._publish_group, groups.values()))
        else:
            troubles = [self._publish_group(each) for each in groups.values()]
        self._buffered_bytes = sum(file.buffered_bytes for file in self._all())
        for trouble in troubles:
            if trouble is not None:
                raise trouble

    def _publish_group(self, files: Sequence[AppendableFile]) -> Exception | None:
        """Publish the files of one group in sequence: a file takes a number only after its predecessor has one."""
        try:
            for file in files:
                self._publish_file(file)
        except Exception as error:  # raised by the caller, once all files were tried
            return error
        return None

    def _publish_file(self, file: AppendableFile) -> None:
        assert self._context is not None
        if file.needs_lookup:
            self._find_open_file(file)
            file.needs_lookup = False
        elif file.predecessor is not None:
            file.sequence = self._number_after(file.predecessor.sequence)
            file.predecessor = None
        while True:
            try:
                return file.publish(self._store, self._context.fence, self._key_of(file), self._now_ms)
            except SupersededError:
                file = self._replace_superseded(file)

    def _replace_superseded(self, file: AppendableFile) -> AppendableFile:
        """Replace a superseded file. Called under the handler's lock in the thread that has it, or in one of its threads: each
        has a file of its own."""
        other = file.successor(self._now_ms)
        if self._files.get(file.group) is file:
            self._files[file.group] = other
            self._over.append(file)
        else:
            other.is_closed = True
            self._over.append(other)
        return other

    def _find_open_file(self, file: AppendableFile) -> None:
        """Find the file that another process of this handler left open, and the number after which to begin a new one. One Query."""
        first_ms = file.group.start_ms
        limit = CANDIDATES_OF_PATHS if self._template else CANDIDATES
        rows = FileRows(self._database).newest(self._context_of(file.group), first_ms, first_ms + self._period_ms - 1, limit)
        folder = self._path_of(file.group)
        mine = [row for row in rows if row.extension == self._extension and row.path.rpartition("~")[0] == folder]
        file.sequence = self._number_after(max((row.sequence for row in mine), default=-1))
        for row in mine:
            if self._can_resume(row, file):
                return file.resume(row)

    def _number_after(self, last: int) -> int:
        return last + 1 if self._has_counted_numbers else self._numbers.take(self._now_ms)

    def _can_resume(self, row: FileRow, file: AppendableFile) -> bool:
        is_same = (row.fqn, row.generation, row.format) == (file.group.fqn, file.group.generation, self._format.name)
        is_good = self._format.grows and row.state == OPEN and row.staged is None and row.contents.size > 0
        first_ms, last_ms = file.group.start_ms, file.group.start_ms + self._period_ms - 1
        is_good = is_good and first_ms <= row.contents.from_ms and row.contents.to_ms <= last_ms  # else: of a longer period
        is_young = self._now_ms - row.created_ms < self._max_age_ms and self._now_ms - row.contents.changed_ms < self._idle_ms
        return is_same and is_good and is_young and row.contents.size < self._max_bytes

    def _drop_dead(self, files: Sequence[AppendableFile]) -> list[AppendableFile]:
        """The files whose generation is alive; files of dead ones are dropped, with their waiting and uncommitted events."""
        asked = [file.group.generation for file in files if file.group.generation != NOWHERE]
        self._dead |= self._generations.dead_among(asked)
        gone = [file for file in files if file.group.generation in self._dead]
        for file in gone:
            self._dropped += file.drop()
            if self._files.get(file.group) is file:
                del self._files[file.group]
        if gone:
            self._over = [file for file in self._over if file.group.generation not in self._dead]
        return [file for file in files if file.group.generation not in self._dead]

    def _row_of(self, file: AppendableFile) -> FileRow:
        """A file's stored row, or a first one that is not stored yet."""
        if file.row is not None:
            return file.row
        self._begun_files += 1
        return FileRow(
            self._context_of(file.group),
            file.first_ms,
            file.created_ms,
            file.sequence,
            self._extension,
            self._format.name,
            file.group.day,
            file.group.fqn,
            file.group.generation,
            OPEN,
            file.contents,
            path=self._key_of(file)(file.sequence) if self._template else "",
        )

    def _evict(self) -> None:
        """Drop the files that were idle for longest from memory, down to ``max_open``: their rows lead to them again."""
        if len(self._files) <= self._max_open:
            return
        idle = sorted((each for each in self._files.items() if not each[1].buffered_bytes), key=lambda each: each[1].active_ms)
        for group, _ in idle[: len(self._files) - self._max_open]:
            del self._files[group]

    def _context_of(self, group: FileGroup) -> FileContext:
        return FileContext(self._base.name, group.namespace, group.app, group.program)

    def _key_of(self, file: AppendableFile) -> Callable[[int], str]:
        if folder := self._path_of(file.group):
            return lambda sequence: f"{folder}~{sequence:08d}.{self._extension}"
        context, day = self._context_of(file.group), file.group.day
        return lambda sequence: context.key(day, sequence, self._extension)

    def _path_of(self, group: FileGroup) -> str:
        """The keys of a group's files without their numbers; "" without a template."""
        if self._template is None:
            return ""
        names = {"namespace": group.namespace, "application": group.app, "program": group.program}
        return f"{self._base.name}/{self._template.render(names | {'fqn': group.fqn, 'level': group.level}, group.start_ms)}"

    def _store_of(self, context: HandlerContext) -> ObjectStore:
        if self._base.location == HOME:
            return context.store
        if context.stores is None:
            raise InvalidConfigurationError(
                f"the handler's environment provides only the default bucket bucket={self._base.bucket!r}"
            )
        return context.stores(self._base.location)

    def _locked(self) -> Any:
        assert self.lock is not None
        return self.lock


class _TimeNumbers:
    """Numbers of files whose period is shorter than a day, or whose folder is not a day's: the time of their creation in ms. A
    counter would need the newest row of a folder, which no query finds there. A number is taken once by a handler."""

    def __init__(self) -> None:
        self._last, self._taking = 0, Lock()

    def take(self, now_ms: int) -> int:
        """The next number. Called in threads that publish files."""
        with self._taking:
            self._last = max(now_ms, self._last + 1)
            return self._last


def _is_done(file: AppendableFile) -> bool:
    return not (file.is_dirty or file.buffered_bytes or file.waiting)
