"""The queue between an application and the shipper: order, bounds, and the notices of dropped lines."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from runlake.batches import MAX_LINE_BYTES, cut, lines_of
from runlake.buffer import Buffer, gap_line
from runlake.spool import Spool


@examples(deadline=None)  # the machine may be busy
@given(st.lists(st.one_of(st.integers(1, 300), st.none()), max_size=60), st.integers(0, 500))
@example([10, 30, None, 3], 20)  # the last bytes fit into memory, but older ones are on disk
@example([10, 30, 3], 20)
def test_what_comes_out_is_what_went_in(steps: list[int | None], memory_bytes: int) -> None:
    """A number: put so many bytes; None: take some. The bytes may be in memory and on disk."""
    with tempfile.TemporaryDirectory() as folder:
        buffer = Buffer(memory_bytes, Spool(Path(folder), 1 << 20))
        put = taken = b""
        for number, step in enumerate(steps):
            if step is None:
                taken += buffer.take()
            else:
                data = bytes([number % 256]) * step + b"\n"
                assert buffer.put(data)
                put += data
        assert buffer.pending_bytes == len(put) - len(taken)
        while more := buffer.take():
            taken += more
        buffer.remove_spool()
    assert taken == put
    assert buffer.pending_bytes == 0


def test_gap_line_replaces_dropped_lines() -> None:
    buffer = Buffer(100)
    assert buffer.put(b"a" * 90 + b"\n")
    assert not buffer.put(b"b" * 50 + b"\n")
    assert not buffer.put(b"c\n")  # there is room for it, but one gap is better than many
    buffer.take()
    assert buffer.put(b"d\n")
    assert buffer.take() == gap_line(2) + b"d\n"
    assert buffer.dropped_lines == 2


def test_the_rest_of_a_line_whose_beginning_was_dropped_is_dropped_too() -> None:
    buffer = Buffer(100)
    buffer.put(b"begun")
    assert not buffer.put(b"x" * 200)
    assert buffer.take() == b"begun"
    assert buffer.put(b"rest\nnext\n")
    assert buffer.take() == b"\n" + gap_line(1) + b"next\n"


def test_gap_at_the_end_has_a_line() -> None:
    buffer = Buffer(10)
    assert not buffer.put(b"x" * 20 + b"\n")
    buffer.end()
    assert buffer.take() == gap_line(1)
    assert buffer.is_drained


def test_put_with_a_wait_blocks_until_there_is_room() -> None:
    buffer = Buffer(10)
    buffer.put(b"12345678\n")
    waiting = threading.Thread(target=lambda: buffer.put(b"abcdefgh\n", wait_s=60))
    waiting.start()
    assert buffer.take() == b"12345678\n"
    waiting.join()
    assert buffer.take() == b"abcdefgh\n"
    assert buffer.dropped_lines == 0


def test_a_disk_that_cannot_be_written_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    buffer = Buffer(4, Spool(tmp_path / "file", 1 << 20))
    buffer.put(b"12345678\n")
    assert buffer.dropped_lines == 1


def test_spool_is_accessible_to_its_owner_only(tmp_path: Path) -> None:
    (tmp_path / "of others").mkdir()
    (tmp_path / "spool").symlink_to(tmp_path / "of others")
    buffer = Buffer(0, Spool(tmp_path / "spool", 1 << 20))
    buffer.put(b"secret\n")
    assert buffer.dropped_lines == 1
    own = Spool(tmp_path / "new" / "spool", 1 << 20)
    own.write(b"secret\n")
    assert own.folder.stat().st_mode & 0o077 == 0
    own.remove()


@examples(deadline=None)  # the machine may be busy
@given(st.lists(st.binary(max_size=12)), st.integers(1, 20))
def test_batches_are_whole_lines_and_all_of_them(parts: list[bytes], batch_bytes: int) -> None:
    data = b"\n".join(parts)
    waiting = bytearray(data)
    batches = []
    while batch := cut(waiting, batch_bytes, final=False):
        assert batch.endswith(b"\n") and (len(batch) <= batch_bytes or lines_of(batch) == 1)
        batches.append(batch)
    assert b"\n" not in waiting
    rest = cut(waiting, batch_bytes, final=True)
    assert b"".join(batches) + rest == data


def test_a_line_that_no_request_can_carry_is_cut() -> None:
    waiting = bytearray(b"x" * (MAX_LINE_BYTES + 5) + b"\n")
    assert len(cut(waiting, 100, final=False)) == MAX_LINE_BYTES
    assert cut(waiting, 100, final=False) == b"xxxxx\n"
