"""The files of a dataset: the interface of their store, and an implementation for a folder. Names are relative, with slashes."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from chalicelib.errors import ObjectNotFoundError


class ListedFile(NamedTuple):
    """A file of a listing."""

    name: str
    bytes: int


class Files(Protocol):
    """The store that publication depends on. Every call may fail before or after it took effect, and can be repeated.

    Raises UnavailableError if the store does not respond.
    """

    @property
    def uri(self) -> str:
        """The root's URI for Spark and SQL engines, without a slash at the end."""

    def list(self, prefix: str) -> Iterator[ListedFile]:
        """Files whose names begin with ``prefix``, ascending. A folder's name ends with a slash."""

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Bytes [start, end) of a file, or to its end. Raises ObjectNotFoundError."""

    def create(self, name: str, body: bytes) -> bool:
        """Write a complete file unless it exists; returns whether it was created. False may also mean that an earlier attempt of
        this call created it: compare the content."""

    def put(self, name: str, body: bytes) -> None:
        """Write a complete file, replacing an existing one."""

    def upload(self, name: str, body: IO[bytes]) -> None:
        """Write a complete file from another one that can be read repeatedly, replacing an existing one. Memory: a part of it."""

    def move(self, source: str, target: str) -> None:
        """``target`` then has the complete content of ``source``, which may still exist. Raises ObjectNotFoundError."""

    def delete(self, names: Iterable[str]) -> None:
        """Remove files; a missing file is a success."""

    def clear(self, folder: str) -> None:
        """Remove a folder with its content; its name ends with a slash."""


class LocalFiles:
    """A folder of this machine, or of a shared file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def uri(self) -> str:
        """See the port."""
        return f"file://{self._folder.absolute()}"  # Hadoop's form, without percent-encoding

    def list(self, prefix: str) -> Iterator[ListedFile]:
        """See the port."""
        start = self._folder / prefix if prefix.endswith("/") or not prefix else (self._folder / prefix).parent
        paths = [Path(root) / name for root, _, names in os.walk(start) for name in names]
        for name in sorted(path.relative_to(self._folder).as_posix() for path in paths):
            if name.startswith(prefix) and (size := self._size(name)) is not None:
                yield ListedFile(name, size)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """See the port."""
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                return file.read(-1 if end is None else end - start)
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"no such file name={name}") from error

    def create(self, name: str, body: bytes) -> bool:
        """See the port. Creating a hard link is atomic, so readers never see a partial file."""
        written = self._written(name, body)
        try:
            os.link(written, self._folder / name)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        return True

    def put(self, name: str, body: bytes) -> None:
        """See the port."""
        self._written(name, body).replace(self._folder / name)

    def upload(self, name: str, body: IO[bytes]) -> None:
        """See the port."""
        temporary = self._temporary(name)
        with temporary.open("wb") as file:
            shutil.copyfileobj(body, file)
        temporary.replace(self._folder / name)

    def move(self, source: str, target: str) -> None:
        """See the port. A rename."""
        (self._folder / target).parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._folder / source).replace(self._folder / target)
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"no such file name={source}") from error

    def delete(self, names: Iterable[str]) -> None:
        """See the port."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def clear(self, folder: str) -> None:
        """See the port."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)

    def _written(self, name: str, body: bytes) -> Path:
        temporary = self._temporary(name)
        temporary.write_bytes(body)
        return temporary

    def _temporary(self, name: str) -> Path:
        """The path of a hidden file in the target's folder."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.with_name(f".{path.name}.{uuid.uuid4().hex}")

    def _size(self, name: str) -> int | None:
        try:
            return (self._folder / name).stat().st_size
        except FileNotFoundError:
            return None  # deleted meanwhile
