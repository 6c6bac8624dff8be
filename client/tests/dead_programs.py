"""What a dead program left in its spool, by the buffer and the spool that a program has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runlake import RunName
from runlake.buffer import Batch, Buffer
from runlake.spool import Spool, StateFile
from runlake.spoolstate import SpoolState

RUN = RunName("p", "r")


_PIECE_BYTES = 97
"""Of what is put and written at once: pieces end anywhere."""


class DeadProgram:
    """Writes a folder as a program that puts ``data``, until ``end`` or ``die``. ``state``: fields of its state."""

    def __init__(self, root: Path, url: str, data: bytes = b"", *, run: RunName = RUN, **state: Any) -> None:
        self.spool = Spool(root, SpoolState(url, run, run, "group", **state), 1 << 30)
        self.spool.ensure()
        self.buffer = Buffer(1 << 30, self.spool, writes_through=True)
        for begin in range(0, len(data), _PIECE_BYTES):
            self.buffer.put(data[begin : begin + _PIECE_BYTES])

    def send(self, batch_bytes: int, position: str) -> Batch:
        """Take the next batch for a request that presents this position."""
        batch = self.buffer.take(batch_bytes)
        assert batch is not None
        self.spool.record(position=position, batch_end=batch.end, batch_lines=batch.lines)
        return batch

    def acknowledge(self, batch: Batch, position: str) -> None:
        """The response to a batch."""
        self.spool.record(position=position, begin=batch.end, begin_line=batch.end_line, batch_end=batch.end, batch_lines=0)
        self.buffer.acknowledge(batch)

    def end(self, *, close: bool = True, **state: Any) -> Path:
        """The program ended in order, and the archive was away."""
        self.buffer.end()
        self.spool.record(is_ended=True, close=close, **state)
        return self.die()

    def die(self) -> Path:
        """The program was killed. Returns its folder."""
        folder = self.spool.folder
        assert folder is not None
        self.spool.close()
        return folder


def replace_state(folder: Path, text: bytes) -> None:
    """As a program of another version, or a mistake, could."""
    file = StateFile.open(folder / "state")
    file.read()
    file.write(text)
    file.close()


def leave(root: Path, url: str, data: bytes = b"one\n", *, name: str = "left", **state: Any) -> Path:
    """A folder with this name, of a program that ended in order, and had sent nothing."""
    run = state.pop("run", RUN)
    return DeadProgram(root, url, data, run=run).end(**state).rename(root / name)
