"""Leftovers: lines, and the end of a run, that a program could not ship before it exited, in a folder for ``runlake drain``.

A folder has ``run.json`` (server, run, position, and the progress of a drain), ``sent.gz`` (an unanswered batch as it was sent, which its
position makes safe to repeat), and the chunks of the spool, oldest first.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runlake.deliveries import EventDelivery, TextDelivery, delivery_of
from runlake.errors import LeftoverError
from runlake.names import RunName
from runlake.outcomes import RunEnd
from runlake.spool import check_is_own
from runlake.starts import Start

_FACTS = "run.json"
_SENT = "sent.gz"


@dataclass(frozen=True, slots=True)
class Leftover:
    """The content of ``run.json``. ``close``: the run is to be closed after the lines; ``facts``: those of the delivery. ``position``: presented by
    the next batch, which is ``sent.gz`` with ``sent`` items, or, if that is 0, starts at byte ``begin`` of all chunks. ``start``: reported first, if
    there is no position yet; ``end``: sent with the close."""

    url: str
    run: RunName
    position: str | None
    close: bool
    facts: dict[str, Any] = field(default_factory=dict)
    start: Start | None = None
    sent: int = 0
    begin: int = 0
    end: RunEnd | None = None

    @property
    def delivery(self) -> TextDelivery | EventDelivery:
        """How the lines get into the archive."""
        return delivery_of(self.run, self.facts)

    def as_json(self) -> str:
        """The text of ``run.json``."""
        run_fields = {"url": self.url, "fqn": self.run.fqn, "runId": self.run.run_id, "close": self.close}
        how_far = {"position": self.position, "sent": self.sent, "begin": self.begin}
        start = self.start.facts() if self.start else None
        end = self.end.document() if self.end else None
        return json.dumps(run_fields | how_far | {"delivery": self.facts, "start": start, "end": end})


def write_leftover(folder: Path, leftover: Leftover, sent: bytes | None) -> None:
    """Make a folder of chunks a leftover. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if sent:
        (folder / _SENT).write_bytes(sent)
    # Written last: a folder with run.json is complete. The position in it is a credential.
    write_facts(folder, leftover)


def write_facts(folder: Path, leftover: Leftover) -> None:
    """Write ``run.json`` atomically: a reader sees the old or the new one. Raises OSError."""
    _replace(folder / _FACTS, leftover.as_json())


def leftovers_in(root: Path) -> list[Path]:
    """The folders of leftovers, oldest first. Raises PermissionError if another user owns the root."""
    check_is_own(root)
    return sorted((path.parent for path in root.glob(f"*/{_FACTS}")), key=lambda folder: folder.stat().st_mtime)


@contextmanager
def claimed(folder: Path) -> Iterator[Leftover | None]:
    """Lock a leftover against other drains; None if another drain has locked or shipped it. Raises LeftoverError, OSError."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield _locked(folder, descriptor)
    finally:
        os.close(descriptor)


def discard_leftover(folder: Path) -> bool:
    """Delete a leftover with its lines, readable or not; False if another drain has locked it. Raises OSError."""
    try:
        with claimed(folder) as leftover:
            if leftover is None:
                return False
            remove(folder)
    except LeftoverError:
        remove(folder)
    return True


def chunks_in(folder: Path) -> list[Path]:
    """The files to send after ``sent.gz``, in order."""
    return sorted(folder.glob("*.chunk"))


def waiting_bytes(folder: Path, leftover: Leftover) -> int:
    """Bytes of files that are not sent yet. Raises OSError."""
    sent = sent_path(folder).stat().st_size if leftover.sent else 0
    return sent + sum(path.stat().st_size for path in chunks_in(folder)) - leftover.begin


def sent_path(folder: Path) -> Path:
    """The path of the unanswered batch, which may not exist."""
    return folder / _SENT


def remove(folder: Path) -> None:
    """Delete a leftover. ``run.json`` goes first: without it, the rest is not shipped a second time."""
    for path in [folder / _FACTS, *folder.iterdir()]:
        if path.exists():
            path.unlink()
    folder.rmdir()


def _locked(folder: Path, descriptor: int) -> Leftover | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _read(folder)
    except (BlockingIOError, FileNotFoundError):
        return None


def _read(folder: Path) -> Leftover:
    data = (folder / _FACTS).read_bytes()
    try:
        facts = json.loads(data)
        run = RunName(facts["fqn"], facts["runId"])
        start = Start.of(facts["start"]) if facts["start"] else None
        end = RunEnd.of(facts["end"]) if facts["end"] else None
        how_far = (facts["sent"], facts["begin"])
        return Leftover(facts["url"], run, facts["position"], facts["close"], facts["delivery"], start, *how_far, end)
    except (ValueError, LookupError, TypeError) as error:
        raise LeftoverError(f"{_FACTS} cannot be read: {type(error).__name__}: {error}") from error


def _replace(path: Path, text: str) -> None:
    made = path.with_suffix(".new")
    with open(made, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    made.replace(path)
