"""Downloads that resume, and are compared with the archive's counts."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runlake.archive import Archive, Json
from runlake.errors import IncompleteError, NotFoundError, RefusedError, UnavailableError, advise
from runlake.names import RunName
from runlake.pacing import retried
from runlake.settings import RUN_LOG

RANGE_NOT_SATISFIABLE = 416


@dataclass(frozen=True)
class DownloadResult:
    """A log on disk. ``verified``: whether it has the archive's bytes and lines; None if the archive's counts are not final yet."""

    path: Path
    bytes: int
    lines: int
    resumed_at: int
    verified: bool | None


@dataclass
class Download:
    """Downloads one log to one file: first to ``PATH.part``, from which a retry resumes. ``progress`` gets the bytes so far and in total."""

    archive: Archive
    run: RunName
    path: Path
    progress: Callable[[int, int | None], None] = lambda done, total: None
    pause: Callable[[float], object] = time.sleep
    notice: Callable[[str], object] = lambda text: None
    """Gets a message when it begins to retry."""

    def fetch(self) -> DownloadResult:
        """Raises IncompleteError if the bytes or lines are not those of a complete run; the part is deleted then, since resuming from it would not
        help. Raises ApiError, or UnavailableError after retries; the part stays. Raises OSError before the download if ``path`` cannot be a file."""
        self._check_path()
        facts = self._facts()
        part = part_of(self.path)
        begin = part.stat().st_size if part.exists() else 0
        total = int(facts["bytes"]) if facts and facts["browser"] == RUN_LOG else None
        with continued_by_a_repeat(part):
            retried(lambda: self._resume(part, total), self.pause, self.notice)
        size, lines = _measured(part)
        verified = self._verified(facts, size, lines)
        if verified is False and facts:
            part.unlink()
            raise IncompleteError(
                f"the download differs from the archive's log bytes={size} of {facts['bytes']} lines={lines} of {facts['lines']}"
            )
        part.replace(self.path)
        return DownloadResult(self.path, size, lines, begin, verified)

    def _check_path(self) -> None:
        """Raises OSError if the path is a folder or a device, or its folder does not exist."""
        os.stat(os.path.join(self.path.parent, "."))
        for path in (self.path, part_of(self.path)):
            check_regular(path)

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
            if error.status != RANGE_NOT_SATISFIABLE:
                raise
            # No bytes after the part: it is complete, or part of another log, which the verification detects.

    def _facts(self) -> Json | None:
        try:
            return self.archive.facts(self.run)
        except NotFoundError:
            return None

    def _verified(self, facts: Json | None, size: int, lines: int) -> bool | None:
        if not facts or not facts["complete"] or facts["browser"] != RUN_LOG:  # the archive does not count what is in another store
            return None
        return bool(size == facts["bytes"] and lines == facts["lines"])


def check_regular(path: Path) -> None:
    """Raises FileExistsError if the path is a folder or a device."""
    if path.exists() and not path.is_file():
        raise FileExistsError(errno.EEXIST, "exists and is not a regular file", str(path))


@contextmanager
def continued_by_a_repeat(part: Path) -> Iterator[None]:
    """Errors that leave a part of the file say so; not those of a refused request, whose own next step comes first."""
    try:
        yield
    except (UnavailableError, OSError, KeyboardInterrupt) as error:
        if part.is_file() and part.stat().st_size:
            advise(error, f"repeat it to continue: {part} stays bytes={part.stat().st_size}")
        raise


def part_of(path: Path) -> Path:
    """The file of an unfinished transfer to ``path``, from which a retry resumes."""
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
