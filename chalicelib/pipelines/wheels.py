"""Wheels with handlers, which this process downloads, verifies and can then import.

::

    {folder or prefix of the pipelines' files}/lib/{sha256 of the list}.sha256     the list: sha256 and name of each wheel, as sha256sum prints
    {folder or prefix of the pipelines' files}/lib/{sha256 of the wheel}/{name}    a wheel

The setting ``RUNLAKE_PIPELINE_WHEELS`` is the hash of the list, and the list has the hashes of the wheels. So whoever can write to the
bucket, but not change the setting, can only make wheels unavailable: nothing is unpacked or imported before its hash was compared.

A wheel can add modules and replaces none: a wheel with a module that exists in this process, in the standard library, in Runlake or in a
wheel before it is refused as a whole, and its folder is behind all others on ``sys.path``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path

from chalicelib.errors import InvalidConfigurationError, ObjectNotFoundError
from chalicelib.pipelines.wheel_archive import MAX_WHEEL_BYTES, WheelArchive, WheelSet, read_wheel

VARIABLE = "RUNLAKE_PIPELINE_WHEELS"
MAX_WHEELS = 16
MAX_LIST_BYTES = 8 * 1024
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\s]+)")
_OURS = frozenset({"app", "chalicelib", "glue_jobs", "local"})
_FOLDER = "runlake-wheels-"
ReadFile = Callable[[str, int], bytes]
"""Reads a file at a name below the location of the pipelines' files: at most this many bytes. Raises RunlakeError, OSError."""


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel's file name and the SHA-256 of its bytes, in hexadecimal digits."""

    name: str
    sha256: str

    @property
    def key(self) -> str:
        """Its name below the location of the pipelines' files. A rebuilt wheel has another one, so the pinned one stays available."""
        return f"lib/{self.sha256}/{self.name}"


@dataclass(frozen=True, slots=True)
class WheelProblem:
    """A wheel, or the list of wheels, that is not used, and the reason."""

    wheel: str
    reason: str


def list_key(sha256: str) -> str:
    """The name of a list of wheels below the location of the pipelines' files."""
    return f"lib/{sha256}.sha256"


def list_of(wheels: Iterable[PinnedWheel]) -> bytes:
    """The list of these wheels. Its hash is the setting."""
    return "".join(f"{wheel.sha256}  {wheel.name}\n" for wheel in wheels).encode()


def parse_list(body: bytes) -> list[PinnedWheel]:
    """The wheels of a list, in its order: dependencies need no order. Raises InvalidConfigurationError."""
    found = [_LINE.fullmatch(line) for line in body.decode(errors="replace").splitlines()]
    wheels = [PinnedWheel(match[2], match[1]) for match in found if match]
    if len(wheels) < len(found):
        raise InvalidConfigurationError("each line must be the sha256 of a wheel, two spaces and its name")
    if len(wheels) > MAX_WHEELS:
        raise InvalidConfigurationError(f"there may be at most {MAX_WHEELS} wheels wheels={len(wheels)}")
    return wheels


def sha256_of(body: bytes) -> str:
    """The hash that pins these bytes."""
    return hashlib.sha256(body).hexdigest()


@dataclass(slots=True)
class ImportableWheels:
    """The wheels of a process. Used by one thread, before any handler is built.

    Wheels are unpacked to a fresh folder that only this user can read or write. Memory: the bytes of one wheel. Disk:
    ``MAX_UNPACKED_BYTES``, and what Python compiles. The next process that unpacks wheels removes the folder of one that has ended."""

    _problems: dict[str, WheelProblem] = field(default_factory=dict)
    _folder: Path | None = None
    _set: WheelSet = field(default_factory=WheelSet)
    _loaded: set[str] = field(default_factory=set)

    @property
    def problems(self) -> Sequence[WheelProblem]:
        """What is not used, and why."""
        return list(self._problems.values())

    def load(self, sha256: str, read: ReadFile) -> Sequence[WheelProblem]:
        """Make the wheels of the list with this hash importable. What failed is tried again by the next call; what succeeded makes no
        further request. Requests: a GET for the list and one for each wheel. Raises nothing: returns ``problems``."""
        if sha256 in self._loaded:
            return self.problems
        key = list_key(sha256)
        try:
            wheels = parse_list(_verified(read(key, MAX_LIST_BYTES), sha256))
        except Exception as error:  # whatever is wrong with the list concerns handlers of wheels only
            self._problems[key] = WheelProblem(key, _described(error))
            return self.problems
        self._problems.pop(key, None)
        if not self.add(wheels, read):
            self._loaded.add(sha256)
        return self.problems

    def add(self, wheels: Iterable[PinnedWheel], read: ReadFile) -> Sequence[WheelProblem]:
        """Make these wheels importable, as ``load``."""
        for wheel in wheels:
            if wheel.sha256 in self._loaded:
                continue
            try:
                self._unpack(wheel, read_wheel(wheel.name, _verified(read(wheel.key, MAX_WHEEL_BYTES), wheel.sha256)))
            except Exception as error:  # one wheel's fault concerns its own modules only
                self._problems[wheel.name] = WheelProblem(wheel.name, _described(error))
            else:
                self._problems.pop(wheel.name, None)
        return self.problems

    def _unpack(self, wheel: PinnedWheel, content: WheelArchive) -> None:
        extended = self._set.extended(content, _exists)
        self._folder = self._folder or _private_folder()
        folder = self._folder / wheel.sha256
        try:
            content.unpack(folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._set = extended
        self._loaded.add(wheel.sha256)
        sys.path.append(str(folder))


@cache
def process_wheels() -> ImportableWheels:
    """The wheels of this process."""
    return ImportableWheels()


def check_together(wheels: Iterable[WheelArchive]) -> None:
    """Check wheels before they are pinned together. Raises InvalidConfigurationError if they cannot be used together anywhere; which
    other modules exist depends on the process that loads them."""
    reduce(lambda checked, wheel: checked.extended(wheel, _is_reserved), wheels, WheelSet())


def _is_reserved(module: str) -> bool:
    return module in _OURS or module in sys.stdlib_module_names


def _exists(module: str) -> bool:
    return _is_reserved(module) or module in sys.modules or find_spec(module) is not None


def _verified(body: bytes, sha256: str) -> bytes:
    if (actual := sha256_of(body)) != sha256:
        raise InvalidConfigurationError(f"the content is not what was pinned sha256={actual}")
    return body


def _described(error: Exception) -> str:
    if isinstance(error, FileNotFoundError | ObjectNotFoundError):
        return "not found: run runlake-pipelines upload with all wheels, or pin a list that was uploaded"
    return f"{type(error).__name__}: {error}"[:400]


def _private_folder() -> Path:
    """A fresh folder, locked as long as this process runs. Removes those without a lock: on Lambda, ``/tmp`` outlives a process that
    was killed."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        if (lock := _lock(leftover)) is not None:
            if os.fstat(lock).st_uid == os.getuid():
                shutil.rmtree(leftover, ignore_errors=True)
            os.close(lock)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        if _lock(folder) is not None and folder.is_dir():  # else another process has just taken it for a leftover
            return folder


def _lock(folder: Path) -> int | None:
    """The descriptor of a folder's lock, which ends with it; None: another process has it, or the folder is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
