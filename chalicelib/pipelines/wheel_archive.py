"""One wheel with handlers: its modules, and its unpacking. Only pure Python for any Python 3 (``py3-none-any``): the functions and Glue
have different versions of Python, and functions may run on either processor.

Members become regular files with the members' contents: links, permissions and owners are not restored. Nothing is written outside of
the folder, and never more than the archive's directory states, so the limits hold before anything is written.
"""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from chalicelib.errors import InvalidConfigurationError

MAX_WHEEL_BYTES = 16 * 1024 * 1024
MAX_UNPACKED_BYTES = 128 * 1024 * 1024
"""Of all wheels of a process; Python adds about as much for compiled modules. A function's ``/tmp`` has 512 MB."""
MAX_WHEEL_FILES = 5_000
"""Of all wheels of a process."""
_NAME = re.compile(r"[A-Za-z0-9._]{1,100}-[A-Za-z0-9._!+]{1,50}(-[0-9][A-Za-z0-9._]{0,20})?-(py2\.)?py3-none-any\.whl")
_NATIVE = (".so", ".pyd", ".dll", ".dylib")
_FLAG_ENCRYPTED = 1
_DAMAGED = (BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)
"""What ``zipfile`` raises for damaged archives; NotImplementedError is a RuntimeError."""


@dataclass(frozen=True, slots=True)
class WheelArchive:
    """A wheel in memory. ``modules``: the names that it adds to those that can be imported."""

    archive: ZipFile
    members: Sequence[ZipInfo]
    modules: frozenset[str]

    @property
    def unpacked_bytes(self) -> int:
        """The size of all members."""
        return sum(member.file_size for member in self.members)

    def unpack(self, folder: Path) -> None:
        """Write all members to a folder that does not exist yet. Raises InvalidConfigurationError for damaged members, OSError."""
        folder.mkdir(mode=0o700)
        for member in self.members:
            target = folder / member.filename
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with self.archive.open(member) as source, target.open("xb") as file:
                    shutil.copyfileobj(source, file)
            except _DAMAGED as error:
                raise InvalidConfigurationError(f"a member cannot be unpacked: {error} member={member.filename[:200]!r}") from None


@dataclass(frozen=True, slots=True)
class WheelSet:
    """The modules and sizes of wheels that are used together, without the wheels."""

    modules: frozenset[str] = frozenset()
    unpacked_bytes: int = 0
    files: int = 0

    def extended(self, wheel: WheelArchive, exists: Callable[[str], bool]) -> WheelSet:
        """With one more wheel. ``exists``: whether a module of a name exists, besides those of the set. Raises
        InvalidConfigurationError."""
        if taken := sorted(name for name in wheel.modules if name in self.modules or exists(name)):
            raise InvalidConfigurationError(f"modules exist already, and a wheel replaces none: {', '.join(taken)[:200]}")
        size, files = self.unpacked_bytes + wheel.unpacked_bytes, self.files + len(wheel.members)
        if size > MAX_UNPACKED_BYTES or files > MAX_WHEEL_FILES:
            raise InvalidConfigurationError(
                f"wheels together may have {MAX_UNPACKED_BYTES} bytes unpacked and {MAX_WHEEL_FILES} files"
            )
        return WheelSet(self.modules | wheel.modules, size, files)


def read_wheel(name: str, body: bytes) -> WheelArchive:
    """Check a wheel's name, size and members. Raises InvalidConfigurationError."""
    if not _NAME.fullmatch(name):
        raise InvalidConfigurationError(f"a wheel of pure Python for any Python 3 is named …-py3-none-any.whl wheel={name[:200]!r}")
    if len(body) > MAX_WHEEL_BYTES:
        raise InvalidConfigurationError(f"a wheel must have at most {MAX_WHEEL_BYTES} bytes wheel={name}")
    try:
        archive = ZipFile(BytesIO(body))
    except _DAMAGED as error:
        raise InvalidConfigurationError(f"not a zip file: {error} wheel={name}") from None
    members = [member for member in archive.infolist() if not member.is_dir()]
    if wrong := next(filter(None, map(_fault_of, members)), None):
        raise InvalidConfigurationError(f"{wrong} wheel={name}")
    wheel = WheelArchive(archive, members, frozenset(filter(None, (_module_of(member.filename) for member in members))))
    if not wheel.modules:
        raise InvalidConfigurationError(f"a wheel must contain modules wheel={name}")
    return wheel


def _fault_of(member: ZipInfo) -> str:
    """Why a member cannot be unpacked; empty: it can."""
    name = member.filename
    if "\\" in name or any(part in ("", ".", "..") for part in name.split("/")):
        return f"a member is outside of the wheel's folder member={name[:200]!r}"
    if member.flag_bits & _FLAG_ENCRYPTED or member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        return f"a member is encrypted, or compressed by another method than deflate member={name[:200]!r}"
    if name.endswith(_NATIVE):
        return f"only pure Python runs in the function and on Glue member={name[:200]!r}"
    if ".data/purelib/" in name or ".data/platlib/" in name:
        return f"modules must be at the top of the wheel, as in one of pure Python member={name[:200]!r}"
    return ""


def _module_of(member: str) -> str:
    """The module or package at the top that a member belongs to; empty: none."""
    top, _, inner = member.partition("/")
    name, dot, kind = top.partition(".")
    return name if name.isidentifier() and name != "__pycache__" and (not dot if inner else kind in ("py", "pyc")) else ""
