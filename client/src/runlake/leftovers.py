"""Lines that a program could not ship before it ended: kept in a folder, shipped by ``runlake drain``.

A folder holds ``run.json`` (which server, run and position), ``sent.gz`` (a batch that was sent and not answered, as it was
sent: whose position makes it harmless to send it again), and the chunks of the spool, oldest first.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runlake.archive import Archive
from runlake.buffer import Buffer
from runlake.deliveries import Delivery, delivery_of
from runlake.names import RunName
from runlake.spool import Spool

_FACTS = "run.json"
_SENT = "sent.gz"
_MEMORY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Leftover:
    """What is known of kept lines. ``close``: the run was to be closed after them; ``facts``: those of the delivery."""

    url: str
    run: RunName
    position: str | None
    close: bool
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def delivery(self) -> Delivery:
        """How they get into the archive."""
        return delivery_of(self.run, self.facts)

    def as_json(self) -> str:
        """For ``run.json``."""
        facts = {"url": self.url, "fqn": self.run.fqn, "runId": self.run.run_id, "position": self.position, "close": self.close}
        return json.dumps(facts | self.facts)


def keep_leftover(folder: Path, leftover: Leftover, sent: bytes | None) -> None:
    """Add to a folder of chunks what makes a leftover of it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if sent:
        (folder / _SENT).write_bytes(sent)
    # The position is a credential of sorts, and the last to be written: a folder with it is whole.
    _replace(folder / _FACTS, leftover.as_json())


def leftovers_in(root: Path) -> list[Path]:
    """The folders of leftovers, oldest first."""
    return sorted((found.parent for found in root.glob(f"*/{_FACTS}")), key=lambda folder: folder.stat().st_mtime)


@contextmanager
def claimed(folder: Path) -> Iterator[Leftover | None]:
    """A leftover that nobody else drains meanwhile; None when somebody does, or did. Raises OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield _read(folder)
    except (BlockingIOError, FileNotFoundError):
        yield None
    finally:
        os.close(descriptor)


def send_again(folder: Path, leftover: Leftover, archive: Archive) -> tuple[int, Leftover]:
    """Send the batch that had no answer, if there is one: its lines, and the leftover as it is then. Raises ApiError, UnavailableError, OSError.

    ``run.json`` keeps the position that the batch presents, so a drain that is stopped here sends it again, to be stored once.
    """
    sent = folder / _SENT
    if not sent.exists():
        return 0, leftover
    if leftover.position is None:
        leftover = replace(leftover, position=leftover.delivery.open(archive))
        _replace(folder / _FACTS, leftover.as_json())
    stored = leftover.delivery.append(archive, sent.read_bytes(), str(leftover.position))
    return stored.items, replace(leftover, position=stored.position)


def refill(folder: Path, root: Path) -> Buffer:
    """A buffer with a folder's chunks, in order; it has room for all of them. Raises OSError."""
    chunks = sorted(folder.glob("*.chunk"))
    total_bytes = sum(chunk.stat().st_size for chunk in chunks)
    buffer = Buffer(_MEMORY_BYTES, Spool(root, total_bytes))
    for chunk in chunks:
        buffer.put(chunk.read_bytes())
    return buffer


def remove(folder: Path) -> None:
    """Forget a leftover. ``run.json`` goes first: without it the rest is not shipped a second time."""
    for path in [folder / _FACTS, *folder.iterdir()]:
        if path.exists():
            path.unlink()
    folder.rmdir()


def _read(folder: Path) -> Leftover:
    facts = json.loads((folder / _FACTS).read_text())
    run = RunName(facts.pop("fqn"), facts.pop("runId"))
    return Leftover(facts.pop("url"), run, facts.pop("position"), facts.pop("close"), facts)


def _replace(path: Path, text: str) -> None:
    made = path.with_suffix(".new")
    with open(made, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    made.replace(path)
