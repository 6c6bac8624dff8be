"""Ships a writer's bytes to the archive: batches in order, each stored once. It has a thread, or ships what a dead process left.

Exactly once: the first request gets a position, and each batch presents the one of the previous response. An unanswered batch is sent
again with the same bytes and position, and the archive stores it once::

    POST batch 7, position 6  ->  stored, the response is lost
    POST batch 7, position 6  ->  repeat recognized: the position of batch 7

So one batch is in flight at a time, and a batch that was sent is never split differently. What the next process would have to repeat is in the
state of the spool before each request: the start, then position and bounds of the batch (decision 0056). If the run is closed, the batch and all
later ones go to its next attempt (``starts``). A shipper that starts an attempt for this reason closes it at its end: no other process would.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from runlake.archive import Archive
from runlake.buffer import Batch, Buffer
from runlake.deliveries import Delivery
from runlake.errors import (
    AccessError,
    ApiError,
    AttemptTakenError,
    ForeignAnswerError,
    MethodRefusedError,
    MethodUnavailableError,
    NotFoundError,
    RefusedError,
    RunClosedError,
    RunDeletedError,
    RunlakeError,
    SettingsError,
    UnavailableError,
)
from runlake.heartbeats import Heartbeats
from runlake.names import RunName
from runlake.notices import WaitNotices
from runlake.outcomes import RunEnd
from runlake.pacing import Backoff
from runlake.spool import STATE_BYTES, drain_command
from runlake.starts import MAX_MOVES, Start, StartedRun
from runlake.terminal import sanitize

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


@dataclass
class Counts:
    """Lines (or events) by what became of them, requests, and failed requests. ``kept_lines``: left on disk for ``runlake drain``;
    ``aside_lines``: those of the refused ones that are on disk."""

    stored_lines: int = 0
    dropped_lines: int = 0
    refused_lines: int = 0
    kept_lines: int = 0
    aside_lines: int = 0
    cut_lines: int = 0
    requests: int = 0
    failures: int = 0

    @property
    def lost_lines(self) -> int:
        """Lines that are not in the archive, and that no drain adds unless a person has corrected the cause."""
        return self.dropped_lines + self.refused_lines


@dataclass(frozen=True)
class Pace:
    """When to send: ``batch_bytes`` at once, or all pending bytes ``interval_s`` after the first line, or a heartbeat after ``heartbeat_s``
    without requests (0: none). The waits after failures: from ``first_wait_s`` to ``most_wait_s``, and ``access_wait_s`` after an error that only a
    person can correct. ``notice_s``: when a person is notified of a wait at the end; ``next_notice_s``: how much later again."""

    batch_bytes: int = 1024 * 1024
    interval_s: float = 0.5
    first_wait_s: float = 0.25
    most_wait_s: float = 10.0
    access_wait_s: float = 5.0
    heartbeat_s: float = 0.0
    notice_s: float = 5.0
    next_notice_s: float = 60.0


class _Packing:
    """A batch in the form in which it is sent; made in a thread of its own if that is ``ahead`` of its turn: compression does not hold the
    interpreter."""

    def __init__(self, batch: Batch, pack: Callable[[bytes], bytes], *, ahead: bool) -> None:
        self.batch, self._pack = batch, pack
        self._packed: bytes | None = None
        self._thread = threading.Thread(target=self._work, name="runlake-packing", daemon=True) if ahead else None
        if self._thread is not None:
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is shutting down
                self._thread = None

    def packed(self) -> bytes:
        """The bytes to send."""
        if self._thread is not None:
            self._thread.join()
        if self._packed is None:
            self._packed = self._pack(self.batch.data)
        return self._packed

    def _work(self) -> None:
        self._packed = self._pack(self.batch.data)


class _StoppedError(Exception):
    """``finish`` no longer waits: the state belongs to the next process."""


class Shipper:
    """Ships the bytes of ``buffer`` to one run, by its ``delivery``. The first ``start`` starts the thread; ``finish`` ends it.

    The start in the state of the spool is reported before the first batch; None: the shipper only writes. ``on_started`` is called with the
    response, in the shipper's thread. ``notify`` gets messages for a person, each once. ``before_end`` ships what other processes of the run
    left, before the run is closed. ``starts_again``: whether lines of a closed run go to its next attempt; else they stay on disk.

    Memory in addition to the buffer's: two batches or lines, twice.
    """

    def __init__(
        self,
        connect: Callable[[], Archive],
        delivery: Delivery,
        buffer: Buffer,
        pace: Pace | None = None,
        notify: Callable[[str], None] = to_stderr,
        on_started: Callable[[StartedRun], None] | None = None,
        before_end: Callable[[], object] | None = None,
        *,
        starts_again: bool = True,
    ) -> None:
        self._connect, self._delivery, self._buffer, self._notify = connect, delivery, buffer, notify
        self._spool, self._on_started, self._before_end = buffer.spool, on_started, before_end
        self._requested, self._starts_again = buffer.spool.state.run, starts_again
        self._moves, self._is_start_refused = 0, False
        self._pace = pace or Pace()
        self._heartbeats = Heartbeats(self._pace.heartbeat_s, self._send_heartbeat)
        self._counts = Counts()
        self._archive: Archive | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()  # a signal handler may log while its own thread starts it
        self._state = threading.Condition()
        self._in_flight: Batch | None = None
        self._packing: _Packing | None = None
        self._aside_bytes = 0
        self._finish = _Finish()
        self._is_access_refused = self._is_permanent = self._is_run_deleted = False
        self._last_error = ""
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
                self._start_threads()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all bytes put so far are stored or refused; False after the timeout."""
        if self._finish.asked:
            return self._finish.ended
        self.start()
        target = self._buffer.request_flush()
        with self._state:
            return self._state.wait_for(lambda: self._buffer.begin >= target or self._finish.ended, timeout_s)

    def hurry(self, timeout_s: float) -> None:
        """Make ``finish``, also one that is under way, take at most so many seconds from now; then lines are left on disk. From any thread."""
        with self._state:
            self._finish.hurry_until_s = min(self._finish.hurry_until_s, time.monotonic() + timeout_s)
            self._state.notify_all()

    def state_zone(self, zone: str) -> None:
        """State the zone of times without one in the lines. Too late once a batch is on its way."""
        with self._state:
            if self._spool.state.position is None and not self._finish.asked:
                self._record(zone=zone)

    def record_end(self, end: RunEnd | None) -> None:
        """Write the outcome to disk as soon as it is known: if this process is killed from here on, the drain closes the run with it."""
        with suppress(_StoppedError):
            self._record(close=True, run_end=end)

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
        progress; an error that only a person can correct is not waited for. A run with lines on disk stays open, so that they can be added later.
        """
        if self._finish.asked:
            return self.counts
        self._heartbeats.stop()
        with self._state:  # the thread must not end between the end of the bytes and their state
            self._finish.close = close
            self._buffer.end()
            has_work = close or self._spool.state.owns_attempt or bool(self._buffer.pending_bytes) or self._thread is not None
            if has_work:
                self._record(is_ended=True, close=close, run_end=end, facts=self._delivery.facts() | self._delivery.end_facts())
        if has_work:
            self.start()
        return self._finished(timeout_s, while_moving, report_wait, has_work=has_work)

    def ship_remaining(self, timeout_s: float, is_over: Callable[[int], bool] = lambda begin: False) -> Counts:
        """Ship in this thread what a dead process left, as ``finish`` does. The run is closed only if its end is on disk. ``is_over``: whether to
        stop before the batch that begins at this offset."""
        self._finish.is_over, self._finish.close = is_over, self._spool.state.close
        return self._finished(timeout_s, while_moving=True, report_wait=False, has_work=True)

    def _finished(self, timeout_s: float, while_moving: bool, report_wait: bool, *, has_work: bool) -> Counts:
        self._finish.asked = True
        self._finish.nudge.set()
        try:
            if self._thread is not None:
                notices = WaitNotices(self._pace.notice_s if report_wait else inf, self._pace.next_notice_s)
                self._wait(timeout_s, while_moving, notices)
            elif has_work:
                self._finish.deadline = Deadline(timeout_s, while_moving)
                self._work()
        finally:
            self._settle()  # also after an interrupt, so that lines are left on disk
        return self.counts

    def abandon(self) -> None:
        """In a forked child: the parent ships all of this."""
        self._finish.asked = self._finish.ended = self._finish.released = True
        self._finish.abandoned.set()
        _inherited.append(self._archive)

    def _start_threads(self) -> None:
        thread = threading.Thread(target=self._work, name=f"runlake-{self.run}", daemon=True)
        saver = threading.Thread(target=self._buffer.save_while_open, name=f"runlake-spool-{self.run}", daemon=True)
        if self._thread is None:
            self._thread = thread  # before it starts: a signal handler that logs meanwhile starts no other
            try:
                thread.start()
                saver.start()
            except RuntimeError:
                self._thread = thread if thread.ident else None

    def _wait(self, timeout_s: float, while_moving: bool, notices: WaitNotices) -> None:
        deadline = Deadline(timeout_s, while_moving, self._buffer.begin)
        while (left_s := min(deadline.over_s, self._finish.hurry_until_s) - time.monotonic()) > 0:
            with self._state:
                if self._finish.ended:
                    return
                self._state.wait(min(left_s, notices.left_s))
                if deadline.moved(self._buffer.begin):
                    notices.progressed()
            if not self._finish.ended and notices.take():
                self._report_wait(max(deadline.over_s - time.monotonic(), 0))

    def _report_wait(self, left_s: float) -> None:
        lines, root = self._buffer.pending_lines, self._buffer.spool_root
        what = f"{lines} {self._delivery.unit} of {self.run} wait" if lines else f"the end of {self.run} waits"
        then = f"left in {root} for `{drain_command(root)}`" if root else "lost, because there is no spool"
        where = "the archive" if self._delivery.reaches_archive else "their store or the archive"
        self._report(f"{what} for {where}, {left_s:.0f} s more while nothing moves; the rest is then {then}")

    def _settle(self) -> None:
        """Stop the thread's effects, store the remaining lines on disk, and report."""
        with self._state:
            self._finish.abandoned.set()
            self._finish.nudge.set()
            self._buffer.stop_saving()
            if self._buffer.pending_lines > 0 or self._is_end_unanswered:
                self._keep()
            else:
                self._spool.remove()
                self._report_open_run()
            self._finish.released = True
            self._spool.close()
        if self._thread is None or self._finish.ended:
            self._disconnect()
        self._report_losses()

    @property
    def _is_end_unanswered(self) -> bool:
        """Whether the end of the run, or of a writer of events, is not reported yet."""
        return self._has_an_end() and not self._finish.closed and not self._finish.refusal

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

    def _keep(self) -> None:
        """Leave the remaining lines on disk, as the state has described them all along."""
        with suppress(OSError):  # reported by the spool
            self._spool.ensure()
        left = self._counts.kept_lines = self._buffer.settle()
        self._spool.record(dropped=self._buffer.dropped_lines, reason=self._spool.state.reason or self._last_error)
        root = self._buffer.spool_root
        if root is None or not self._spool.is_on_disk:
            self._spool.remove()
            self._report_open_run()
            return
        command = f"run `{drain_command(root)}` later"
        if left:
            self._report(f"{left} {self._delivery.unit} of {self.run} wait in {root}: {command}")
        else:
            self._report(f"the end of {self.run} waits in {root}: {command}, or it is abandoned after a day")

    def _report_losses(self) -> None:
        counts, root = self.counts, self._buffer.spool_root
        if lost := counts.lost_lines - counts.aside_lines:
            how = f"dropped={counts.dropped_lines} refused={counts.refused_lines - counts.aside_lines}"
            self._report(f"{lost} {self._delivery.unit} of {self.run} are lost: {how}")
        if counts.aside_lines and root is not None:
            what = f"{counts.aside_lines} {self._delivery.unit} of {self.run} were refused"
            self._report(f"{what}: `{drain_command(root)} --list` shows them")

    def _work(self) -> None:
        _own.shipping = True
        self._heartbeats.start(f"runlake-heartbeat-{self.run}")
        try:
            with suppress(OSError):  # reported by the spool: without a disk, memory is all there is
                self._spool.ensure()
            if self._delivery.needs_close or self._is_to_be_started:
                self._retry(self._open)
            while not self._finish.abandoned.is_set() and self._ship_next():
                if self._finish.is_over(self._buffer.begin):
                    self._finish.abandoned.set()
            with self._state:
                has_an_end = self._has_an_end() and not self._finish.abandoned.is_set()
            if has_an_end and not self._is_run_deleted:
                self._retry(self._close)
        except _StoppedError:
            pass
        except Exception as error:
            self._report(f"shipping {self.run} stopped reason={error!r}")  # must not reach the application
        finally:
            _own.shipping = False
            with self._state:
                if self._finish.abandoned.is_set():
                    self._disconnect()
                self._finish.ended = True
                self._state.notify_all()

    def _record(self, **changes: Any) -> None:
        """Change the state of the spool, unless another process may have it by now."""
        with self._state:
            if self._finish.released:
                raise _StoppedError
            self._spool.record(**changes)

    def _facts(self) -> dict[str, Any]:
        end = self._delivery.end_facts() if self._spool.state.is_ended else {}
        return self._delivery.facts() | end

    def _ship_next(self) -> bool:
        """Ship one batch; False at the end."""
        if self._packing is None:
            self._buffer.wait(1, None)
            self._buffer.wait(self._pace.batch_bytes, self._pace.interval_s)
        packing, self._packing = self._packing or self._packed_next(), None
        if packing is None:
            return not self._buffer.is_drained
        self._in_flight = packing.batch
        if packing.batch.data and not self._is_run_deleted:
            self._packing = self._packed_next(ahead=True)
            self._retry(partial(self._append, packing.packed()))
        else:
            self._answered(packing.batch, refused=packing.batch.lines)
        return True

    def _packed_next(self, *, ahead: bool = False) -> _Packing | None:
        """The next batch; ``ahead``: only a full one, which is packed while the one before is under way."""
        if ahead and self._buffer.pending_bytes < self._pace.batch_bytes:
            return None
        batch = self._buffer.take(self._pace.batch_bytes, self._delivery.fit_to_request)
        return None if batch is None else _Packing(batch, self._delivery.pack, ahead=ahead)

    def _retry(self, act: Callable[[Archive], None]) -> None:
        """Call until it succeeds, is refused for good, or ``finish`` no longer waits."""
        backoff = Backoff(self._pace.first_wait_s, self._pace.most_wait_s)
        while not self._finish.abandoned.is_set():
            wait_s = self._try_once(act, backoff)
            if wait_s is None:
                return
            is_last = self._finish.asked and (self._is_permanent or self._is_too_late())
            if is_last and not self._finish.nudge.is_set():
                self._finish.abandoned.set()
                return
            if self._finish.nudge.wait(wait_s) and not self._finish.abandoned.is_set():
                self._finish.nudge.clear()  # finish was called: try once more at once, then wait as before

    def _is_too_late(self) -> bool:
        is_over = self._finish.deadline is not None and self._finish.deadline.is_over(self._buffer.begin)
        return is_over or time.monotonic() > self._finish.hurry_until_s

    def _try_once(self, act: Callable[[Archive], None], backoff: Backoff) -> float | None:
        """Seconds to wait before the next try; None: no further try."""
        self._is_permanent = False
        try:
            if self._archive is None:
                self._archive = self._connect()
            self._counts.requests += 1
            act(self._archive)
        except (AccessError, NotFoundError, ForeignAnswerError, SettingsError) as error:
            return self._permanent(error)
        except UnavailableError as error:
            self._counts.failures += 1
            self._last_error = str(error)
            if isinstance(error, MethodUnavailableError):  # nothing else would tell a person that the target is away
                self._report_error(error)
            return backoff.next_s(error.retry_after_s)
        except RunClosedError as error:
            return self._continue_in_next_attempt(error)
        except RunDeletedError as error:
            self._drop_lines_of_deleted_run(error)
        except (AttemptTakenError, MethodRefusedError) as error:
            self._stop_storing(error)
        except ApiError as error:
            self._refused(error)
        else:
            self._is_access_refused, self._last_error = False, ""
        return None

    def _permanent(self, error: RunlakeError) -> float:
        """Only a person can correct it: it is tried again slowly, since a policy may be rolling out, and not waited for at the end."""
        self._counts.failures += 1
        if isinstance(error, AccessError) and not self._is_access_refused:
            self._is_access_refused = True  # the token is read again
            return 0.0
        self._is_permanent = True
        if isinstance(error, NotFoundError) and self._archive is not None:
            error = self._archive.located(error)
        self._report_error(error)
        with suppress(_StoppedError):
            self._record(reason=str(error))
        return self._pace.access_wait_s

    @property
    def _is_to_be_started(self) -> bool:
        """Whether a start is reported before the first line. A writer that joins reports none."""
        start = self._spool.state.start
        return start is not None and not start.is_joining

    def _open(self, archive: Archive) -> None:
        zone = self._spool.state.zone
        try:
            self._open_in(archive, zone)
        except (RefusedError, RunClosedError) as error:
            if not zone:
                raise
            self._open_in(archive, "")  # raises again if something else is refused
            self._record(zone="")
            self._report(f"{self.run}: {error}: its lines are stored without the zone {zone}")

    def _open_in(self, archive: Archive, zone: str) -> None:
        state = self._spool.state
        if state.position is None:
            self._close_in_closed_run(archive)
            started = (
                self._start(archive, state.start, zone) if state.start and (self._moves or not self._is_start_refused) else None
            )
            opened = self._delivery.open(archive, zone) if started is None or self._delivery.needs_close else ""
            owns = (
                {}
                if started is None or state.start is None or not state.start.is_joining
                else {"owns_attempt": not started.is_joined}
            )
            position = started.position if started else opened
            self._record(position=position, stored_as=self._delivery.run, facts=self._facts(), **owns)

    def _start(self, archive: Archive, start: Start, zone: str) -> StartedRun | None:
        """None: the server refuses the start. Raises AttemptTakenError, MethodRefusedError, NotFoundError, RunClosedError,
        UnavailableError, RefusedError (with a zone)."""
        try:
            started = archive.start_run(self._requested, start, zone)
        except (AttemptTakenError, MethodRefusedError):
            raise
        except RefusedError as error:
            if zone:
                raise
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
        if self._on_started:
            with suppress(Exception):  # a failing callback must not cost lines
                self._on_started(started)
        return started

    def _close_in_closed_run(self, archive: Archive) -> None:
        try:
            self._delivery.close_in_closed_run(archive)
        except (NotFoundError, RefusedError, RunClosedError) as error:
            self._report_error(error)  # the next lines can still be stored

    def _send_heartbeat(self) -> None:
        """Called in the heartbeats' thread."""
        _own.shipping = True
        archive = self._archive
        if archive is not None and self._spool.state.position is not None:
            with suppress(Exception):  # for example, the connection was closed meanwhile
                archive.send_heartbeat(self.run)

    def _continue_in_next_attempt(self, error: RunClosedError) -> float | None:
        """Seconds to wait before the batch is sent to the next attempt; None: it stays for the disk."""
        if not self._starts_again or self._moves >= MAX_MOVES:
            if not self._starts_again:
                error.next_step = "`runlake drain --next-attempt` stores them in its next attempt"
            self._stop_storing(error)
            return None
        self._moves += 1
        if self._spool.state.position is not None and self._in_flight is not None:
            self._delivery = self._delivery.ending_before(self._delivery.pack(self._in_flight.data))
        self._start_again()
        return 0.0

    def _start_again(self) -> None:
        start = self._spool.state.start or Start.now(self._requested, "", is_joining=True)
        heartbeat_s, begin = int(self._pace.heartbeat_s), self._spool.state.begin
        again = start.again(heartbeat_s)
        self._record(
            start=again, position=None, batch_end=begin, batch_lines=0, facts=self._facts(), owns_attempt=not start.is_joining
        )

    def _stop_storing(self, error: ApiError) -> None:
        """No attempt accepts lines: present and future ones are left on disk."""
        self._report_error(error)
        with suppress(_StoppedError):
            if self._starts_again and self._spool.state.start:
                self._start_again()
            self._record(reason=str(error))
        self._finish.abandoned.set()

    def _append(self, packed: bytes, archive: Archive) -> None:
        sent = self._in_flight
        assert sent is not None
        if self._spool.state.position is None:
            self._open(archive)
            self._counts.requests += 1
        position = self._spool.state.position
        assert position is not None
        if self._spool.state.batch_end != sent.end:
            self._record(batch_end=sent.end, batch_lines=sent.lines)
        stored = self._delivery.append(archive, packed, position)
        if self._delivery.reaches_archive:
            self._heartbeats.sent()
        refused = min(stored.refused, sent.lines)
        self._answered(
            sent, position=stored.position, stored=0 if sent.is_hole else sent.lines - sent.notices - refused, refused=refused
        )
        if stored.reason:
            self._report_error(RefusedError(400, stored.reason))
            if refused and not stored.items:
                self._put_aside(sent, stored.reason)

    @property
    def _closes_the_run(self) -> bool:
        state = self._spool.state
        return self._finish.close or (state.owns_attempt and (state.is_ended or self._moves > 0 or not self._buffer.is_ended))

    def _has_an_end(self) -> bool:
        is_open = self._delivery.needs_close and self._spool.state.position is not None
        return self._closes_the_run or (is_open and self._spool.state.is_ended)

    def _close(self, archive: Archive) -> None:
        if self._before_end is not None and self._finish.close:
            self._before_end()
        state = self._spool.state
        if state.position is not None and state.is_ended:
            try:
                self._delivery.close(archive)
            except (NotFoundError, RefusedError, RunClosedError) as error:
                self._report_error(error)  # the run can still be closed
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
        end, lost = self._spool.state.run_end, self._buffer.dropped_lines + self._spool.state.refused
        return end.with_lost(lost) if end and lost else end

    def _drop_lines_of_deleted_run(self, error: RunDeletedError) -> None:
        """Neither this batch nor later ones are stored, and no disk keeps them: the run was deleted because of what it has."""
        self._is_run_deleted, self._finish.refusal = True, str(error)
        self._report_error(error)
        if (sent := self._in_flight) is not None:
            self._answered(sent, refused=sent.lines)

    def _refused(self, error: ApiError) -> None:
        self._report_error(error)
        sent = self._in_flight
        if sent is not None:
            with suppress(_StoppedError):
                if self._spool.state.is_refused:  # again: it stays where it is
                    self._record(reason=str(error))
                    self._finish.abandoned.set()
                    return
                self._answered(sent, refused=sent.lines)
                self._put_aside(sent, str(error))

    def _put_aside(self, sent: Batch, reason: str) -> None:
        """Keep a refused batch in a folder of its own, where ``drain --list`` shows it; all of this writer have the limit of its spool together."""
        self._aside_bytes += len(sent.data) + STATE_BYTES
        if 0 < self._spool.limit_bytes < self._aside_bytes:
            return
        with suppress(OSError):
            self._spool.put_aside(sent.data, position=None, reason=reason, is_refused=True)
            self._counts.aside_lines += sent.lines

    def _answered(self, sent: Batch, position: str | None = None, stored: int = 0, refused: int = 0) -> None:
        """The batch is stored or refused: first the state says so, then its bytes are forgotten."""
        with self._state:
            state = self._spool.state
            of_response = {} if position is None else {"position": position, "reason": ""}
            dropped = self._buffer.dropped_lines
            how_far = {"begin": sent.end, "begin_line": sent.end_line}
            self._record(**how_far, **of_response, refused=state.refused + refused, dropped=dropped)
            self._counts.stored_lines += stored
            self._counts.refused_lines += refused
            self._in_flight = None
            self._buffer.acknowledge(sent)
            self._state.notify_all()

    def _report_error(self, error: RunlakeError) -> None:
        self._report_once(type(error).__name__, f"{self.run}: {error}" + (f" ({error.next_step})" if error.next_step else ""))

    def _report_once(self, kind: str, text: str) -> None:
        if kind not in self._reported:
            self._reported.add(kind)
            self._report(text)

    def _report(self, text: str) -> None:
        with suppress(Exception):  # a failing callback must not stop the shipper
            self._notify(text)

    def _disconnect(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()


class Deadline:
    """``over_s``, by the monotonic clock: after ``timeout_s`` without progress, or in all if it is not ``while_moving``. ``progress``: a value that
    changes with each step."""

    def __init__(self, timeout_s: float, while_moving: bool, progress: object = None) -> None:
        self._timeout_s, self._while_moving, self._seen = timeout_s, while_moving, progress
        self.over_s = time.monotonic() + timeout_s

    def moved(self, progress: object) -> bool:
        """Whether there was progress that restarts the time."""
        if not self._while_moving or progress == self._seen:
            return False
        self._seen, self.over_s = progress, time.monotonic() + self._timeout_s
        return True

    def is_over(self, progress: object) -> bool:
        """Whether it is too late."""
        return not self.moved(progress) and time.monotonic() > self.over_s


@dataclass
class _Finish:
    """Progress of the end: ``asked``, ``abandoned`` (nothing more is sent), ``ended`` (the thread), and ``released`` (the spool, for other
    processes). ``refusal``: why the run can never be closed."""

    asked: bool = False
    close: bool = False
    closed: bool = False
    refusal: str = ""
    ended: bool = False
    released: bool = False
    deadline: Deadline | None = None
    hurry_until_s: float = inf
    is_over: Callable[[int], bool] = lambda begin: False
    abandoned: threading.Event = field(default_factory=threading.Event)
    nudge: threading.Event = field(default_factory=threading.Event)


_inherited: list[Archive | None] = []
"""Connections of the parent, referenced so that a forked child neither uses nor closes them."""
