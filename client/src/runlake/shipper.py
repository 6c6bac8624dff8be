"""The thread that ships a run: batches from a buffer to the archive, in order, each stored once.

Exactly once: the first request gets a position, and each batch presents the one of the previous response. An unanswered batch is sent
again with the same bytes and position, and the archive stores it once::

    POST batch 7, position 6  ->  stored, the response is lost
    POST batch 7, position 6  ->  repeat recognized: the position of batch 7

So one batch is in flight at a time, and a batch that was sent is never split differently. If the run is closed, the batch and all later
ones go to its next attempt (``starts``). A shipper that starts an attempt for this reason closes it at its end: no other process would.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from runlake.archive import Archive
from runlake.batches import MAX_LINE_BYTES, cut
from runlake.buffer import Buffer
from runlake.deliveries import Delivery
from runlake.errors import (
    AccessError,
    ApiError,
    AttemptTakenError,
    MethodRefusedError,
    MethodUnavailableError,
    NotFoundError,
    RefusedError,
    RunClosedError,
    RunlakeError,
    SettingsError,
    UnavailableError,
)
from runlake.heartbeats import Heartbeats
from runlake.leftovers import Leftover, write_leftover
from runlake.names import RunName
from runlake.notices import WaitNotices
from runlake.outcomes import RunEnd
from runlake.pacing import Backoff
from runlake.spool import drain_command
from runlake.starts import MAX_MOVES, Start, StartedRun
from runlake.terminal import sanitize

_ACCESS_WAIT_S = 5.0
_own = threading.local()


def is_shipping() -> bool:
    """Whether this is a shipper's thread: log records of its HTTP client must not be shipped, which would never end."""
    return getattr(_own, "shipping", False)


def to_stderr(text: str) -> None:
    """Print a message for a person; a program without stderr drops it."""
    try:
        print(sanitize(f"runlake: {text}"), file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return


@dataclass(slots=True)
class Counts:
    """Lines (or events) by what became of them, requests, and failed requests. ``kept_lines``: left on disk for ``runlake drain``."""

    stored_lines: int = 0
    dropped_lines: int = 0
    refused_lines: int = 0
    kept_lines: int = 0
    cut_lines: int = 0
    requests: int = 0
    failures: int = 0

    @property
    def lost_lines(self) -> int:
        """Lines that are not in the archive, and that ``runlake drain`` will not add either."""
        return self.dropped_lines + self.refused_lines


@dataclass(frozen=True, slots=True)
class Pace:
    """When to send: ``batch_bytes`` at once, or all pending bytes ``interval_s`` after the first line, or a heartbeat after ``heartbeat_s``
    without requests (0: none); the waits after failures; when a person is notified of a wait at the end, and how much later again."""

    batch_bytes: int = 1024 * 1024
    interval_s: float = 0.5
    first_wait_s: float = 0.25
    most_wait_s: float = 10.0
    access_wait_s: float = _ACCESS_WAIT_S
    heartbeat_s: float = 0.0
    notice_s: float = 5.0
    next_notice_s: float = 60.0


@dataclass(slots=True)
class _InFlightBatch:
    """A batch that may have been sent, and has no response yet."""

    packed: bytes
    lines: int
    bytes: int


class Shipper:
    """Ships the bytes of ``buffer`` to one run, by its ``delivery``. The first ``start`` starts the thread; ``finish`` ends it.

    ``start_of_run``: reported before the first batch; None: the shipper only writes. ``on_started`` is called with the response, in the
    shipper's thread. ``notify`` gets messages for a person, each once.

    Memory in addition to the buffer's: a batch or a line, twice, and a chunk of the spool.
    """

    def __init__(
        self,
        connect: Callable[[], Archive],
        delivery: Delivery,
        buffer: Buffer,
        pace: Pace | None = None,
        notify: Callable[[str], None] = to_stderr,
        start_of_run: Start | None = None,
        on_started: Callable[[StartedRun], None] | None = None,
    ) -> None:
        self._connect, self._delivery, self._buffer, self._notify = connect, delivery, buffer, notify
        self._requested, self._start_of_run, self._on_started = delivery.run, start_of_run, on_started
        self._moves, self._is_start_refused = 0, False
        self._has_own_attempt = False
        self._pace = pace or Pace()
        self._heartbeats = Heartbeats(self._pace.heartbeat_s, self._send_heartbeat)
        self._counts = Counts()
        self._position: str | None = None
        self._archive: Archive | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._state = threading.Condition()
        self._moving = threading.Lock()  # held while bytes move from the buffer to _waiting and _in_flight
        self._waiting = bytearray()
        self._in_flight: _InFlightBatch | None = None
        self._delivered_bytes = 0
        self._finish = _Finish()
        self._reported: set[str] = set()

    @property
    def run(self) -> RunName:
        """The run that stores the log: the attempt, once it is known."""
        return self._delivery.run

    @property
    def is_ended(self) -> bool:
        """Whether its thread does nothing more."""
        return self._thread is None or self._finish.ended

    @property
    def has_moved(self) -> bool:
        """Whether the run was closed by another process, and later lines go to another attempt."""
        return self._moves > 0

    @property
    def counts(self) -> Counts:
        """The counts so far."""
        self._counts.dropped_lines = self._buffer.dropped_lines
        return self._counts

    def start(self) -> None:
        """Start the thread, if it is not running. A shutting-down interpreter refuses new threads: then ``finish`` ships."""
        if self._thread is None and not self._finish.asked:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._work, name=f"runlake-{self.run}", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError:
                        return
                    self._thread = thread

    def flush(self, timeout_s: float) -> bool:
        """Wait until all bytes put so far are stored or refused; False after the timeout."""
        if self._finish.asked:
            return self._finish.ended
        self.start()
        target = self._buffer.request_flush()
        with self._state:
            return self._state.wait_for(lambda: self._delivered_bytes >= target or self._finish.ended, timeout_s)

    def finish(
        self,
        timeout_s: float,
        *,
        close: bool = True,
        while_moving: bool = False,
        end: RunEnd | None = None,
        report_wait: bool = False,
    ) -> Counts:
        """Ship the remaining lines, close the run with its outcome, and stop. Idempotent.

        Lines that are not shipped in time are left on disk for ``runlake drain``, and so is a close without a response. ``while_moving`` restarts
        the time after each stored batch; ``report_wait`` notifies a person of the wait. Never raises, and takes at most ``timeout_s`` without
        progress. A run with lines on disk stays open, so that they can be added later.
        """
        if self._finish.asked:
            return self.counts
        self._heartbeats.stop()
        self._finish.close, self._finish.end = close, end
        self._buffer.end()
        has_work = self._has_an_end() or bool(self._buffer.pending_bytes)
        if has_work:
            self.start()
        self._finish.asked = True
        self._finish.nudge.set()
        try:
            if self._thread is not None:
                notices = WaitNotices(self._pace.notice_s if report_wait else inf, self._pace.next_notice_s)
                self._wait(timeout_s, while_moving, notices)
            elif has_work:
                self._finish.deadline = time.monotonic() + timeout_s
                self._work()
        finally:
            self._settle()  # also after an interrupt, so that lines are left on disk
        return self.counts

    def abandon(self) -> None:
        """In a forked child: the parent ships all of this."""
        self._finish.asked = self._finish.ended = True
        self._finish.abandoned.set()
        _inherited.append(self._archive)
        self._buffer.abandon()

    def _wait(self, timeout_s: float, while_moving: bool, notices: WaitNotices) -> None:
        deadline = time.monotonic() + timeout_s
        seen = self._delivered_bytes
        while (left_s := deadline - time.monotonic()) > 0:
            with self._state:
                if self._finish.ended:
                    return
                self._state.wait(min(left_s, notices.left_s))
                if while_moving and self._delivered_bytes != seen:
                    seen, deadline = self._delivered_bytes, time.monotonic() + timeout_s
                    notices.progressed()
            if not self._finish.ended and notices.take():
                self._report_wait(max(deadline - time.monotonic(), 0))

    def _report_wait(self, left_s: float) -> None:
        with self._moving:
            sent = self._in_flight
            lines = (sent.lines if sent else 0) + self._waiting.count(b"\n") + self._buffer.pending_lines
        root = self._buffer.spool_root
        what = f"{lines} {self._delivery.unit} of {self.run} wait" if lines else f"the end of {self.run} waits"
        then = f"left in {root} for `{drain_command(root)}`" if root else "lost, because there is no spool"
        where = "the archive" if self._delivery.reaches_archive else "their store or the archive"
        self._report(f"{what} for {where}, {left_s:.0f} s more while nothing moves; the rest is then {then}")

    def _settle(self) -> None:
        """Stop the thread's effects, store the remaining lines on disk, and report."""
        with self._state:
            self._finish.abandoned.set()
            self._finish.nudge.set()
        with self._moving:
            if self._in_flight or self._waiting or self._buffer.pending_bytes or self._is_close_unanswered:
                self._persist()
            else:
                self._buffer.remove_spool()
                self._report_open_run()
        if self._thread is None or self._finish.ended:
            self._disconnect()
        self._report_losses()

    @property
    def _is_close_unanswered(self) -> bool:
        return self._finish.close and not self._finish.closed and not self._finish.refusal

    def _report_open_run(self) -> None:
        if self._finish.closed:
            return
        if self._finish.refusal:
            self._report(f"{self.run} cannot be closed: {self._finish.refusal}")
        elif self._closes_the_run:
            self._report(
                f"{self.run} could not be closed: run `runlake close {self.run.words}` later, or it is abandoned after a day"
            )
        elif self._has_an_end():
            self._report(f"a writer of {self.run} could not be closed: the run will not be complete")

    def _persist(self) -> None:
        """Write the remaining lines to disk, with the facts that ``runlake drain`` needs."""
        sent = self._in_flight
        try:
            lines, spool = self._buffer.persist(bytes(self._waiting))
            if spool is None:
                self._buffer.dropped_lines += sent.lines if sent else 0
                self._report_open_run()
                return
            facts, count = self._delivery.facts(), sent.lines if sent else 0
            start = self._start_of_run if self._position is None else None
            leftover = Leftover(
                self._url(), self.run, self._position, self._closes_the_run, facts, start, count, end=self._end_with_lost()
            )
            write_leftover(spool.folder, leftover, sent.packed if sent else None)
        except (OSError, RunlakeError) as error:
            self._buffer.dropped_lines += sent.lines if sent else 0
            self._report(f"{self._delivery.unit} of {self.run} could not be kept on disk reason={error}")
            self._report_open_run()
            return
        left = self._counts.kept_lines = lines + (sent.lines if sent else 0)
        root = spool.folder.parent
        command = f"run `{drain_command(root)}` later"
        if left:
            self._report(f"{left} {self._delivery.unit} of {self.run} wait in {root}: {command}")
        else:
            self._report(f"the end of {self.run} waits in {root}: {command}, or it is abandoned after a day")

    def _url(self) -> str:
        """The server's address; connects only if there was no connection yet."""
        archive = self._archive
        if archive is not None:
            return archive.url
        with self._connect() as made:
            return made.url

    def _report_losses(self) -> None:
        counts = self.counts
        if counts.lost_lines:
            how = f"dropped={counts.dropped_lines} refused={counts.refused_lines}"
            self._report(f"{counts.lost_lines} {self._delivery.unit} of {self.run} are lost: {how}")

    def _work(self) -> None:
        _own.shipping = True
        self._heartbeats.start(f"runlake-heartbeat-{self.run}")
        try:
            if self._delivery.needs_close or self._is_to_be_started:
                self._retry(self._open)
            while not self._finish.abandoned.is_set() and self._ship_next():
                pass
            if self._has_an_end() and not self._finish.abandoned.is_set():
                self._retry(self._close)
        except Exception as error:
            self._report(f"shipping {self.run} stopped reason={error!r}")  # must not reach the application
        finally:
            _own.shipping = False
            with self._state:
                if self._finish.abandoned.is_set():
                    self._disconnect()
                self._finish.ended = True
                self._state.notify_all()

    def _ship_next(self) -> bool:
        """Ship one batch; False at the end."""
        if b"\n" not in self._waiting:
            self._buffer.wait(1, None)
        self._buffer.wait(max(self._pace.batch_bytes - len(self._waiting), 1), self._pace.interval_s)
        with self._moving:
            if self._finish.abandoned.is_set():
                return False
            self._fill_waiting()
            final = self._buffer.is_drained
            batch = cut(self._waiting, self._pace.batch_bytes, final=final)
            if not batch:
                return not final
            fit_to_request = self._delivery.fit_to_request(batch)
            self._waiting[:0] = batch[len(fit_to_request) :]
            self._in_flight = self._packed(fit_to_request)
        self._retry(self._append)
        return True

    def _fill_waiting(self) -> None:
        """Take bytes for a batch, or all there are; of a line longer than that, as much as one request can carry."""
        while len(self._waiting) < self._pace.batch_bytes or (b"\n" not in self._waiting and len(self._waiting) < MAX_LINE_BYTES):
            more = self._buffer.take()
            if not more:
                return
            self._waiting += more

    def _packed(self, batch: bytes) -> _InFlightBatch:
        self._counts.cut_lines += not batch.endswith(b"\n") and len(batch) == MAX_LINE_BYTES
        return _InFlightBatch(self._delivery.pack(batch), self._delivery.count(batch), len(batch))

    def _retry(self, act: Callable[[Archive], None]) -> None:
        """Call until it succeeds, is refused for good, or ``finish`` no longer waits."""
        backoff = Backoff(self._pace.first_wait_s, self._pace.most_wait_s)
        while not self._finish.abandoned.is_set():
            wait_s = self._try_once(act, backoff)
            if wait_s is None:
                return
            if self._is_too_late():
                self._finish.abandoned.set()
                return
            if self._finish.nudge.wait(wait_s) and not self._finish.abandoned.is_set():
                self._finish.nudge.clear()  # finish was called: try once more at once, then wait as before

    def _is_too_late(self) -> bool:
        return self._finish.deadline is not None and time.monotonic() > self._finish.deadline

    def _try_once(self, act: Callable[[Archive], None], backoff: Backoff) -> float | None:
        """Seconds to wait before the next try; None: no further try."""
        try:
            if self._archive is None:
                self._archive = self._connect()
            self._counts.requests += 1
            act(self._archive)
        except UnavailableError as error:
            self._counts.failures += 1
            if isinstance(error, MethodUnavailableError):  # nothing else would tell a person that the target is away
                self._report_once(error)
            return backoff.next_s(error.retry_after_s)
        except (AccessError, NotFoundError, SettingsError) as error:
            # Access may be granted, a token renewed or an address routed while the program runs: lines wait as in an outage.
            self._counts.failures += 1
            self._report_once(error)
            return backoff.next_s(self._pace.access_wait_s)
        except RunClosedError as error:
            return self._continue_in_next_attempt(error)
        except (AttemptTakenError, MethodRefusedError) as error:
            self._stop_storing(error)
        except ApiError as error:
            self._refused(error)
        return None

    @property
    def _is_to_be_started(self) -> bool:
        """Whether a start is reported before the first line. A writer that joins reports none."""
        return self._start_of_run is not None and not self._start_of_run.is_joining

    def _open(self, archive: Archive) -> None:
        if self._position is None:
            start = self._start_of_run
            self._close_in_closed_run(archive)
            started = self._start(archive, start) if start and (self._moves or not self._is_start_refused) else None
            opened = self._delivery.open(archive) if started is None or self._delivery.needs_close else ""
            self._position = started.position if started else opened

    def _start(self, archive: Archive, start: Start) -> StartedRun | None:
        """None: the server refuses the start. Raises AttemptTakenError, MethodRefusedError, NotFoundError, RunClosedError,
        UnavailableError."""
        try:
            started = archive.start_run(self._requested, start)
        except (AttemptTakenError, MethodRefusedError):
            raise
        except RefusedError as error:
            reason = f"its start is refused: {error}"
            if self._moves:
                self._moves = MAX_MOVES
                raise RunClosedError(409, f"the run is closed, and {reason}") from None
            self._is_start_refused = True
            self._report(f"{self.run}: {reason}")
            return None
        if started.refusal:
            self._report(f"{started.run} is started without host, command and age: {started.refusal}")
        self._delivery = self._delivery.for_attempt(started)
        if start.is_joining:
            self._has_own_attempt = not started.is_joined
        if self._on_started:
            with suppress(Exception):  # a failing callback must not cost lines
                self._on_started(started)
        return started

    def _close_in_closed_run(self, archive: Archive) -> None:
        try:
            self._delivery.close_in_closed_run(archive)
        except (NotFoundError, RefusedError, RunClosedError) as error:
            self._report_once(error)  # the next lines can still be stored

    def _send_heartbeat(self) -> None:
        """Called in the heartbeats' thread."""
        _own.shipping = True
        archive = self._archive
        if archive is not None and self._position is not None:
            with suppress(Exception):  # for example, the connection was closed meanwhile
                archive.send_heartbeat(self.run)

    def _continue_in_next_attempt(self, error: RunClosedError) -> float | None:
        """Seconds to wait before the batch is sent to the next attempt; None: it stays for the disk."""
        if self._moves >= MAX_MOVES:
            self._stop_storing(error)
            return None
        self._moves += 1
        if self._position is not None and self._in_flight is not None:
            self._delivery = self._delivery.ending_before(self._in_flight.packed)
        self._start_again(self._start_of_run or Start.now(self._requested, "", is_joining=True))
        return 0.0

    def _start_again(self, start: Start) -> None:
        self._start_of_run, self._position = start.again(int(self._pace.heartbeat_s)), None
        self._has_own_attempt = not start.is_joining

    def _stop_storing(self, error: ApiError) -> None:
        """No attempt accepts lines: present and future ones are left on disk."""
        if self._start_of_run:
            self._start_again(self._start_of_run)
        self._position = None
        self._report_once(error)
        self._finish.abandoned.set()

    def _append(self, archive: Archive) -> None:
        sent = self._in_flight
        assert sent is not None
        if self._position is None:
            self._open(archive)
            self._counts.requests += 1
        assert self._position is not None
        stored = self._delivery.append(archive, sent.packed, self._position)
        if self._delivery.reaches_archive:
            self._heartbeats.sent()
        with self._state:
            if self._finish.abandoned.is_set():
                return  # it is on disk with its position: a repeat is harmless
            self._position = stored.position
            self._counts.stored_lines += sent.lines - stored.refused
            self._counts.refused_lines += stored.refused
            self._answered(sent)
        if stored.reason:
            self._report_once(RefusedError(400, stored.reason))

    @property
    def _closes_the_run(self) -> bool:
        return self._finish.close or self._has_own_attempt

    def _has_an_end(self) -> bool:
        return self._closes_the_run or (self._delivery.needs_close and self._position is not None)

    def _close(self, archive: Archive) -> None:
        if self._position is not None:
            try:
                self._delivery.close(archive)
            except (NotFoundError, RefusedError, RunClosedError) as error:
                self._report_once(error)  # the run can still be closed
        if self._closes_the_run:
            try:
                reason = archive.close_run(self.run, self._end_with_lost())
            except RefusedError as error:
                self._finish.refusal = str(error)
                raise
            if reason:
                self._report(f"{self.run} is closed without the details of its end: {reason}")
        self._finish.closed = True

    def _end_with_lost(self) -> RunEnd | None:
        end, lost = self._finish.end, self.counts.lost_lines
        return end.with_lost(lost) if end and lost else end

    def _refused(self, error: ApiError) -> None:
        self._report_once(error)
        with self._state:
            sent = self._in_flight
            if sent is not None and not self._finish.abandoned.is_set():
                self._counts.refused_lines += sent.lines
                self._answered(sent)

    def _answered(self, sent: _InFlightBatch) -> None:
        self._in_flight = None
        self._delivered_bytes += sent.bytes
        self._state.notify_all()

    def _report_once(self, error: RunlakeError) -> None:
        kind = type(error).__name__
        if kind not in self._reported:
            self._reported.add(kind)
            self._report(f"{self.run}: {error}" + (f" ({error.next_step})" if error.next_step else ""))

    def _report(self, text: str) -> None:
        with suppress(Exception):  # a failing callback must not stop the shipper
            self._notify(text)

    def _disconnect(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()


@dataclass(slots=True)
class _Finish:
    """Progress of the end: ``asked``, ``abandoned`` (``finish`` no longer waits) and ``ended``. ``refusal``: why the run can never be
    closed."""

    asked: bool = False
    close: bool = False
    end: RunEnd | None = None
    closed: bool = False
    refusal: str = ""
    ended: bool = False
    deadline: float | None = None
    abandoned: threading.Event = field(default_factory=threading.Event)
    nudge: threading.Event = field(default_factory=threading.Event)


_inherited: list[Archive | None] = []
"""Connections of the parent, referenced so that a forked child neither uses nor closes them."""
