"""Unfinished multipart uploads on disk, which a later process continues.

A file for each push, named by a hash of what identifies it. Its lines are JSON: the server's answer that began the upload, then the number
and ETag of each stored part. Presigned URLs are capabilities, so file and folder are readable by their owner only, and a folder that others
could write is not used. No fsync: the lines survive the process, not the machine.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from runlake._python import time_from

_FORMAT = 1
_NAME = re.compile(r"[0-9a-f]{32}\.upload")
Json = dict[str, Any]


class UploadState:
    """The stored parts of one multipart upload. ``created``: the server's answer that began it, None if there is none to continue; ``etags``: of
    its parts, by their numbers. Without a file it is always empty: parts that are recorded are not kept."""

    def __init__(self, file: int | None, clock_s: Callable[[], float]) -> None:
        self._file, self._clock_s = file, clock_s
        self.created: Json | None = None
        self.etags: dict[int, str] = {}
        if file is not None and (found := _read(file)):
            self.created, self.etags = found

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored parts."""
        parts = self.created["upload"]["parts"] if self.created else ()
        return sum(int(part["size"]) for part in parts if int(part["number"]) in self.etags)

    @property
    def expires_s(self) -> float:
        """When the URLs expire, in seconds since the epoch; 0 if there are no parts."""
        return _expires_s(self.created) if self.created else 0.0

    @property
    def can_continue(self) -> bool:
        """Whether a later process can continue the upload now."""
        return self.expires_s > self._clock_s()

    def record(self, created: Json, number: int, etag: str) -> None:
        """Keep a stored part: one write, of which a reader sees all or nothing. If that fails, this part and later ones are not kept."""
        if self._file is None:
            return
        head = [] if self.created else [{"format": _FORMAT, "created": created}]
        data = "".join(json.dumps(line) + "\n" for line in [*head, [number, etag]]).encode()
        try:
            with open(self._file, "ab", buffering=0, closefd=False) as file:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._file = None
            return
        self.created = created
        self.etags[number] = etag

    def forget(self) -> None:
        """Begin anew: the upload is complete, or cannot be continued."""
        self.created, self.etags = None, {}
        if self._file is not None:
            try:
                os.ftruncate(self._file, 0)
            except OSError:
                self._file = None


@contextmanager
def upload_state(folder: Path | None, push: Json, clock_s: Callable[[], float] = time.time) -> Iterator[UploadState]:
    """The state of this push, which no other process uses meanwhile: it gets an empty one that keeps nothing, as do a folder that is None
    or cannot be used. Deletes expired states, and at the end that of a push without stored parts."""
    name = blake2b(json.dumps(push, sort_keys=True).encode(), digest_size=16).hexdigest() + ".upload"
    with ExitStack() as opened:
        place, file = -1, None
        with suppress(OSError):
            if folder is not None:
                place = _own_folder(folder, opened)
                _delete_expired(place, clock_s())
                file = _locked(place, name, os.O_CREAT | os.O_APPEND, opened)
        state = UploadState(file, clock_s)
        try:
            yield state
        finally:
            if file is not None and not state.etags:
                with suppress(OSError):
                    os.unlink(name, dir_fd=place)


def _own_folder(folder: Path, opened: ExitStack) -> int:
    """A descriptor: whoever owns a folder above could replace this one by another. Raises OSError."""
    if not folder.parent.exists():
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.mkdir(exist_ok=True, mode=0o700)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    opened.callback(os.close, place)
    found = os.fstat(place)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise PermissionError(errno.EPERM, "others can write to the folder", str(folder))
    return place


def _locked(place: int, name: str, flags: int, opened: ExitStack) -> int:
    """A state's file until ``opened`` ends. Raises OSError, also if another process has locked or deleted it."""
    file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600, dir_fd=place)
    opened.callback(os.close, file)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not os.fstat(file).st_nlink:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    return file


def _delete_expired(place: int, now_s: float) -> None:
    """Delete states that no process uses, and that are expired or unreadable."""
    for name in filter(_NAME.fullmatch, os.listdir(place)):
        with suppress(OSError), ExitStack() as opened:
            found = _read(_locked(place, name, 0, opened))
            if found is None or _expires_s(found[0]) <= now_s:
                os.unlink(name, dir_fd=place)


def _read(file: int) -> tuple[Json, dict[int, str]] | None:
    """A state; None if there is none that can be read. Cuts a last line that is not whole, so that lines can be appended."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as reader:
        data = reader.read()
    os.ftruncate(file, data.rfind(b"\n") + 1)
    *lines, _ = data.split(b"\n")
    try:
        head, *parts = map(json.loads, lines)
        if head["format"] != _FORMAT or not parts:
            return None
        return _checked(head["created"]), {int(number): str(etag) for number, etag in parts}
    except (ValueError, LookupError, TypeError):
        return None


def _checked(created: Json) -> Json:
    """Raises ValueError, LookupError or TypeError if it is no answer that began a multipart upload."""
    upload, parts = created["upload"], created["upload"]["parts"]
    if upload["method"] != "MULTIPART" or not all(int(part["number"]) and int(part["size"]) and part["url"] for part in parts):
        raise ValueError("this is no multipart upload")
    fields = (created["id"], created["url"], created["http_url"], upload["complete_url"], upload["abort_url"])
    if not all(isinstance(field, str) for field in fields):
        raise ValueError("a field is no text")
    int(created["metadata"]["start"])
    _expires_s(created)
    return created


def _expires_s(created: Json) -> float:
    return time_from(str(created["expires_at"])).timestamp()
