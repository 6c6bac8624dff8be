"""Downloads that go on where they stopped, and are compared with what the archive says."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runlake.archive import Archive
from runlake.errors import IncompleteError, NotFoundError, RefusedError, UnavailableError
from runlake.names import RunName
from runlake.pacing import Backoff

_TRIES = 8
_RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """A log on disk. ``verified``: it has the bytes and lines that the archive says; None where that is not known yet."""

    path: Path
    bytes: int
    lines: int
    resumed_at: int
    verified: bool | None


@dataclass(slots=True)
class Download:
    """One log to one file: first to ``PATH.part``, which another try goes on with. ``progress`` gets bytes so far and in all."""

    archive: Archive
    run: RunName
    path: Path
    progress: Callable[[int, int | None], None] = lambda done, total: None
    pause: Callable[[float], object] = time.sleep

    def fetch(self) -> DownloadResult:
        """Raises IncompleteError when the bytes or lines are not those of a complete run; the part is removed then, since going on
        with it would not help. Raises ApiError, UnavailableError after some tries; the part stays. Raises OSError before anything is
        fetched where ``path`` cannot be a file."""
        self._check_path()
        facts = self._facts()
        part = _part_of(self.path)
        begin = part.stat().st_size if part.exists() else 0
        total = int(facts["bytes"]) if facts else None
        self._download_with_retries(part, total)
        size, lines = _measured(part)
        verified = self._verified(facts, size, lines)
        if verified is False and facts:
            part.unlink()
            raise IncompleteError(
                f"the log is not what it should be bytes={size} of {facts['bytes']} lines={lines} of {facts['lines']}"
            )
        part.replace(self.path)
        return DownloadResult(self.path, size, lines, begin, verified)

    def _check_path(self) -> None:
        """Before anything is fetched: a folder, a device or a place without a folder cannot become the file. Raises OSError."""
        os.stat(os.path.join(self.path.parent, "."))
        for path in (self.path, _part_of(self.path)):
            if path.exists() and not path.is_file():
                raise FileExistsError(errno.EEXIST, "it is there, and is no file", str(path))

    def _download_with_retries(self, part: Path, total: int | None) -> None:
        backoff = Backoff()
        for left in reversed(range(_TRIES)):
            try:
                return self._resume(part, total)
            except UnavailableError as error:
                if not left:
                    raise
                self.pause(backoff.next_s(error.retry_after_s))

    def _resume(self, part: Path, total: int | None) -> None:
        have = part.stat().st_size if part.exists() else 0
        try:
            with self.archive.download(self.run, have) as (begin, pieces), open(part, "r+b" if have else "wb") as file:
                file.seek(begin)
                file.truncate()
                for piece in pieces:
                    file.write(piece)
                    self.progress(file.tell(), total)
        except RefusedError as error:
            if error.status != _RANGE_NOT_SATISFIABLE:
                raise
            # There is nothing behind what we have: it is all there, or it is of something else, which the check finds.

    def _facts(self) -> dict[str, int] | None:
        try:
            return self.archive.facts(self.run)
        except NotFoundError:
            return None

    def _verified(self, facts: dict[str, int] | None, size: int, lines: int) -> bool | None:
        if not facts or not facts["complete"]:
            return None
        return size == facts["bytes"] and lines == facts["lines"]


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _measured(path: Path) -> tuple[int, int]:
    """Bytes and lines of a file."""
    size = lines = 0
    last = b"\n"
    with open(path, "rb") as file:
        while block := file.read(1024 * 1024):
            size += len(block)
            lines += block.count(b"\n")
            last = block[-1:]
    return size, lines + (last != b"\n")
