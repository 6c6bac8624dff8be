"""The queue between an application and the shipper: order, bounds, a disk that refuses, and the notices of dropped lines."""

from __future__ import annotations

import errno
import os
import pkgutil
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from client.tests.dead_programs import RUN
from runlake import buffer as buffering
from runlake import spool
from runlake.batches import MAX_LINE_BYTES, first_lines
from runlake.buffer import SAVE_S, Batch, Buffer, gap_line, hole_line
from runlake.spool import Spool, claim, folders_in
from runlake.spoolstate import SpoolState


def spool_in(root: Path | None, limit_bytes: int = 1 << 20, trouble: Callable[[OSError], object] | None = None) -> Spool:
    return Spool(
        root,
        SpoolState("http://x", RUN, RUN, "group"),
        limit_bytes if root else 0,
        trouble or (lambda error: pytest.fail(str(error))),
    )


class Clock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


class Disk:
    """A disk that has room for so many bytes; None: for all."""

    def __init__(self) -> None:
        self.room: int | None = None
        self._write = os.write

    def write(self, file: int, data: memoryview) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "full")
        size = len(data) if self.room is None else min(self.room, len(data))
        self.room = self.room and self.room - size
        return self._write(file, data[:size])


class Archive:
    """Takes batches of a buffer as a shipper does; ``text`` is what was acknowledged, ``stored`` its lines but notices."""

    def __init__(self, buffer: Buffer, text: bytes = b"") -> None:
        self.buffer, self.text, self.stored = buffer, text, 0

    def send(self, batch_bytes: int) -> Batch | None:
        """A batch that is not answered."""
        batch = self.buffer.take(batch_bytes)
        if batch is not None:
            is_begun_on_disk = batch.begin + (first_lines(batch.data, 1) or len(batch.data)) <= self.buffer.spool.end
            assert batch.end <= self.buffer.spool.end or not is_begun_on_disk, "nobody could repeat it after a kill"
            self.buffer.spool.record(batch_end=batch.end, batch_lines=batch.lines)
        return batch

    def store(self, batch: Batch | None) -> bool:
        if batch is None:
            return False
        self.text += batch.data
        self.stored += batch.lines - batch.notices
        self.buffer.spool.record(begin=batch.end, begin_line=batch.end_line, batch_end=batch.end, batch_lines=0)
        self.buffer.acknowledge(batch)
        return True

    def store_all(self, batch_bytes: int = 1 << 20) -> bytes:
        while self.store(self.send(batch_bytes)):
            pass
        return self.text


def taken(buffer: Buffer) -> bytes:
    batch = buffer.take(1 << 20)
    return batch.data if batch else b""


_NUMBERED, _NOTICE = re.compile(rb"(\d+)\.*"), re.compile(rb"\[runlake\] (?:lines may be missing here, )?(\d+) .*")


def check_order(text: bytes, put: int, *, may_end_early: bool) -> None:
    """Numbered lines are there once and in order; where some are missing, one line states how many."""
    expected = 0
    assert text == b"" or text.endswith(b"\n"), "a part of a line"
    for line in text.split(b"\n")[:-1]:
        if found := _NUMBERED.fullmatch(line):
            assert int(found[1]) == expected, text
            expected += 1
        else:
            notice = _NOTICE.fullmatch(line)
            assert notice, line
            expected += int(notice[1])
    assert expected == put or (may_end_early and expected < put), text


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 60)),
        st.tuples(st.just("part"), st.integers(0, 9)),
        st.tuples(st.sampled_from(["store", "send"]), st.integers(1, 200)),
        st.tuples(st.just("disk"), st.one_of(st.none(), st.integers(0, 90))),
        st.tuples(st.just("pause"), st.just(2)),
    ),
    max_size=50,
)


@pytest.mark.behavior("Lines wait in memory and on disk in order, and a line states exactly how many were dropped there.")
@examples(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(STEPS, st.integers(0, 400), st.integers(0, 400), st.sampled_from(["stored", "settled", "killed"]))
def test_lines_come_out_in_order_or_are_counted_where_they_are_missing(
    steps: list[tuple[str, Any]], memory_bytes: int, spool_bytes: int, how_it_ends: str
) -> None:
    disk, clock, put, is_broken = Disk(), Clock(), 0, False
    with (
        tempfile.TemporaryDirectory() as folder,
        patch("os.write", disk.write),
        patch.object(spool, "CHUNK_BYTES", 100),
        patch.object(buffering, "_BLOCK_BYTES", 50),
    ):
        root = Path(folder)
        buffer = Buffer(memory_bytes, spool_in(root, spool_bytes, lambda error: None), clock_s=clock)
        archive, sent = Archive(buffer), None
        for step, number in steps:
            match step:
                case "put":
                    buffer.put(b"%d%s\n" % (put, b"." * number))
                    put += 1
                case "part":
                    line = b"%d.........\n" % put
                    buffer.put(line[: 1 + number])
                    buffer.put(line[1 + number :])
                    put += 1
                case "store":
                    archive.store(sent or archive.send(number))
                    sent = None
                case "send":
                    sent = sent or archive.send(number)
                case "disk":
                    disk.room, is_broken = number, True
                case "pause":
                    clock.now_s += number
        if how_it_ends != "killed":
            buffer.end()
            assert archive.stored + buffer.dropped_lines + buffer.pending_lines == put
        if how_it_ends == "stored":
            archive.store(sent)
            check_order(archive.store_all(), put, may_end_early=False)
            assert buffer.is_drained and buffer.pending_lines == 0
        kept = buffer.settle() if how_it_ends == "settled" else 0
        stored = len(re.findall(rb"(?m)^\d", archive.text))
        assert stored == archive.stored
        assert how_it_ends == "killed" or stored + buffer.dropped_lines + kept == put
        buffer.spool.record(is_ended=how_it_ends != "killed")
        buffer.spool.close()
        for left in folders_in(root):
            resumed = claim(left)
            assert resumed
            rest = Archive(Buffer.of(resumed, hole_line), archive.text)
            first = rest.buffer.take(150)
            assert not (sent and first) or is_broken or (first.data, first.begin) == (sent.data, sent.begin)
            rest.store(first)
            check_order(rest.store_all(150), put, may_end_early=True)
            assert len(re.findall(rb"(?m)^\d", rest.text)) >= stored + kept
            resumed.close()


def test_line_of_a_signal_handler_follows_the_change_that_it_interrupts(tmp_path: Path) -> None:
    """The handler runs where the buffer reads the clock."""
    pending: list[bytes] = []

    def clock_s() -> float:
        if pending:
            buffer.put(pending.pop())
        return 5.0

    buffer = Buffer(100, spool_in(tmp_path), clock_s=clock_s)
    pending.append(b"during a put\n")
    buffer.put(b"one\n")
    pending.append(b"during a take\n")
    assert [taken(buffer), taken(buffer)] == [b"one\nduring a put\n", b"during a take\n"]


def test_gap_line_replaces_dropped_lines() -> None:
    buffer = Buffer(100, spool_in(None))
    assert buffer.put(b"a" * 90 + b"\n")
    assert not buffer.put(b"b" * 50 + b"\n")
    assert not buffer.put(b"c\n")  # there is room for it, but one gap is better than many
    taken(buffer)
    assert buffer.put(b"d\n")
    assert taken(buffer) == gap_line(2) + b"d\n"
    assert buffer.dropped_lines == 2


def test_gap_between_the_parts_of_a_line_is_a_line_of_its_own() -> None:
    buffer = Buffer(20, spool_in(None))
    buffer.put(b"begun ")
    assert not buffer.put(b"ended\n" + b"x" * 20 + b"\nand ")
    assert buffer.put(b"next\n")
    assert taken(buffer) == gap_line(2) + b"and next\n"


def test_gap_at_the_end_has_a_line() -> None:
    buffer = Buffer(10, spool_in(None))
    assert not buffer.put(b"x" * 20 + b"\n")
    buffer.end()
    assert taken(buffer) == gap_line(1)
    assert buffer.is_drained


def test_last_line_without_a_newline_gets_one_at_the_end() -> None:
    buffer = Buffer(100, spool_in(None))
    buffer.put(b"one\ntwo")
    assert taken(buffer) == b"one\n"
    buffer.end()
    assert taken(buffer) == b"two\n"


def test_put_with_a_wait_blocks_until_there_is_room() -> None:
    buffer = Buffer(10, spool_in(None))
    buffer.put(b"12345678\n")
    waiting = threading.Thread(target=lambda: buffer.put(b"abcdefgh\n", wait_s=60))
    waiting.start()
    assert taken(buffer) == b"12345678\n"
    waiting.join()
    assert taken(buffer) == b"abcdefgh\n"
    assert buffer.dropped_lines == 0


def test_put_with_a_wait_ends_when_the_disk_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, disk = Clock(), Disk()
    disk.room = 0
    monkeypatch.setattr(os, "write", disk.write)
    buffer = Buffer(10, spool_in(tmp_path, trouble=lambda error: None), clock_s=clock)
    buffer.put(b"12345678\n")
    waiting = threading.Thread(target=lambda: buffer.put(b"abcdefgh\n", wait_s=60), daemon=True)
    waiting.start()
    disk.room, clock.now_s = None, clock.now_s + 2
    saving = threading.Thread(target=buffer.save_while_open, daemon=True)
    saving.start()
    waiting.join(20)
    buffer.stop_saving()
    assert not waiting.is_alive() and taken(buffer) == b"12345678\nabcdefgh\n"


def test_oldest_lines_are_on_disk_and_the_newest_in_memory(tmp_path: Path) -> None:
    buffer = Buffer(20, spool_in(tmp_path, 20))
    lines = [b"0 aaaaaa\n", b"1 bbbbbb\n", b"2 cccccc\n", b"3 dddddd\n"]
    assert all(map(buffer.put, lines)) and not buffer.put(b"4 eeeeee\n")
    assert written(tmp_path) == b"".join(lines[:2])
    assert Archive(buffer).store_all(9) == b"".join(lines)
    assert written(tmp_path) == b""


def written(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.glob("*/*.chunk")))


def test_lines_are_on_disk_before_they_are_sent(tmp_path: Path) -> None:
    buffer = Buffer(100, spool_in(tmp_path))
    buffer.put(b"one\n")
    assert taken(buffer) == b"one\n" == written(tmp_path)


def test_batch_is_not_partly_on_disk_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, disk = Clock(), Disk()
    disk.room = 6
    monkeypatch.setattr(os, "write", disk.write)
    archive = Archive(Buffer(100, spool_in(tmp_path), clock_s=clock))
    archive.buffer.put(b"one\ntwo\nthree\n")
    sent = [archive.send(100), archive.send(100)]
    assert written(tmp_path) == b"one\ntw" and [batch and batch.data for batch in sent] == [b"one\n", b"two\nthree\n"]
    clock.now_s, disk.room = clock.now_s + 2, None
    assert archive.send(100) is None and written(tmp_path) == b"one\ntwo\nthree\n"


def test_lines_of_a_chunk_that_somebody_deleted_are_counted(tmp_path: Path) -> None:
    archive = Archive(Buffer(100, spool_in(tmp_path), writes_through=True))
    archive.buffer.put(b"one\ntwo\nthree\n")
    next(tmp_path.glob("*/*.chunk")).unlink()
    assert archive.store_all() == hole_line(3) and (archive.buffer.dropped_lines, archive.buffer.pending_lines) == (3, 0)
    archive.buffer.put(b"four\n")
    shutil.rmtree(next(tmp_path.iterdir()))
    assert (archive.buffer.settle(), archive.buffer.dropped_lines) == (0, 4)


def test_child_writes_each_line_through(tmp_path: Path) -> None:
    buffer = Buffer(100, spool_in(tmp_path), writes_through=True)
    buffer.put(b"one\n")
    assert written(tmp_path) == b"one\n"


def test_line_is_saved_at_an_age_and_after_a_pause_of_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, disk, waits = Clock(), Disk(), list[float | None]()
    buffer = Buffer(100, spool_in(tmp_path, trouble=lambda error: None), clock_s=clock)
    buffer.put(b"one\n")
    clock.now_s += 0.25
    buffer.put(b"two\n")

    def wait(timeout_s: float | None) -> None:
        waits.append(timeout_s)
        if timeout_s is None:
            buffer.stop_saving()
            return
        assert len(waits) > 1 or written(tmp_path) == b""
        clock.now_s += timeout_s
        disk.room = 0 if len(waits) == 1 else None

    monkeypatch.setattr(buffer._unsaved, "wait", wait)
    monkeypatch.setattr(os, "write", disk.write)
    buffer.save_while_open()
    assert waits == [SAVE_S - 0.25, 1.0, None] and written(tmp_path) == b"one\ntwo\n"


@contextmanager
def refusing(name: str, number: int) -> Iterator[None]:
    """A disk that answers this error to this call."""

    def refuse(*arguments: Any, **more: Any) -> Any:
        if name == "os.open" and not arguments[1] & os.O_CREAT:  # to delete a folder
            return opened(*arguments, **more)
        raise OSError(number, os.strerror(number))

    opened = os.open

    with patch(name, refuse):
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("name", ["os.write", "os.open", "os.mkdir", "os.pwrite", "os.rename", "fcntl.flock"])
def test_disk_that_refuses_costs_no_line_while_there_is_memory(name: str, number: int, tmp_path: Path) -> None:
    troubles: list[OSError] = []
    clock = Clock()
    buffer = Buffer(100, spool_in(tmp_path, trouble=troubles.append), clock_s=clock)
    archive = Archive(buffer)
    with refusing(name, number):
        for line in (b"one\n", b"two\n", b"three\n"):
            buffer.put(line)
            archive.store(archive.send(5))
            clock.now_s += 2
    buffer.put(b"four\n")
    assert archive.store_all() == b"one\ntwo\nthree\nfour\n"
    assert [error.errno for error in troubles] == [number] and buffer.dropped_lines == 0
    assert list(tmp_path.glob("making-*")) == []


@pytest.mark.parametrize("name", ["os.write", "os.open", "runlake.spool.Spool.write", "threading.Condition.__enter__"])
def test_exception_of_a_signal_handler_neither_loses_nor_doubles_lines(name: str, tmp_path: Path) -> None:
    """It is raised after any call that the main thread makes, as for Ctrl-C."""
    acted = pkgutil.resolve_name(name)

    def interrupted(*arguments: Any, **more: Any) -> Any:
        acted(*arguments, **more)
        raise KeyboardInterrupt

    archive = Archive(Buffer(100, spool_in(tmp_path), writes_through=True))
    archive.buffer.put(b"one\n") if name != "os.open" else archive.buffer.spool.ensure()
    with suppress(KeyboardInterrupt), patch(name, interrupted):
        archive.buffer.put(b"two\n")
    archive.buffer.put(b"three\n")
    others = threading.Thread(target=archive.store_all, daemon=True)
    others.start()
    others.join(10)
    assert archive.text.removeprefix(b"one\n") == b"two\nthree\n"


def test_state_that_cannot_be_written_leaves_no_old_one(tmp_path: Path) -> None:
    """A drain would store its lines again."""
    archive = Archive(Buffer(100, spool_in(tmp_path, trouble=lambda error: None)))
    archive.buffer.put(b"one\n")
    sent = archive.send(4)
    with refusing("os.pwrite", errno.EIO):
        archive.store(sent)
    archive.buffer.put(b"two\n")
    assert archive.store_all() == b"one\ntwo\n" and folders_in(tmp_path) == []
    archive.buffer.put(b"three\n")
    archive.buffer.end()
    assert (archive.buffer.settle(), archive.buffer.dropped_lines) == (0, 1)
    archive.buffer.spool.close()


def test_refused_batch_that_the_disk_refuses_too_leaves_no_folder(tmp_path: Path) -> None:
    spool_of_run = spool_in(tmp_path)
    spool_of_run.ensure()
    with refusing("os.write", errno.ENOSPC), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        spool_of_run.put_aside(b"one\n")
    assert folders_in(tmp_path) == [spool_of_run.folder]
    spool_of_run.close()


def test_folder_that_cannot_be_made_leaves_lines_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    troubles: list[OSError] = []
    buffer = Buffer(12, spool_in(tmp_path / "file", trouble=troubles.append))
    buffer.put(b"12345678\n")
    assert not buffer.put(b"more\n") and len(troubles) == 1
    buffer.end()
    assert Archive(buffer).store_all() == b"12345678\n" + gap_line(1)


def test_spool_is_accessible_to_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "of others").mkdir()
    (tmp_path / "spool").symlink_to(tmp_path / "of others")
    troubles: list[OSError] = []
    buffer = Buffer(0, spool_in(tmp_path / "spool", trouble=troubles.append))
    buffer.put(b"secret\n")
    buffer.end()
    assert isinstance(troubles[0], PermissionError) and not list((tmp_path / "of others").iterdir())
    own = spool_in(tmp_path / "new" / "spool")
    own.write(b"secret\n")
    assert own.folder and all(path.stat().st_mode & 0o077 == 0 for path in (own.folder, *own.folder.iterdir()))
    own.remove()


@examples(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=12)), st.integers(1, 20))
def test_batches_are_complete_lines_and_all_of_them(parts: list[bytes], batch_bytes: int) -> None:
    rest = b"\n".join(parts)
    while size := first_lines(rest, batch_bytes):
        batch, rest = rest[:size], rest[size:]
        assert batch.endswith(b"\n") and (size <= batch_bytes or batch.count(b"\n") == 1)
    assert b"\n" not in rest


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_line_that_no_request_can_carry_is_cut(*, is_in_parts: bool) -> None:
    buffer, line = Buffer(1 << 30, spool_in(None)), b"x" * (MAX_LINE_BYTES + 5)
    for part in (line, b"\n") if is_in_parts else (line + b"\n",):
        buffer.put(part)
    archive = Archive(buffer)
    batches = []
    while (batch := archive.send(100)) and archive.store(batch):
        batches.append(len(batch.data))
    assert max(batches) <= MAX_LINE_BYTES + 1 and archive.text.replace(b"\n", b"") == line and len(batches) == 2
