"""Where files stand: an application's folder of a day, and the beginnings of rows' keys.

::

    {base}/{namespace}/{yyyy-mm-dd}/{app}/{program}/{seq:08d}.{ext}     the object
    {namespace}:{app}:{program}:…                                       the row, in the partition {base}

The day is that of the events: a file has the events of one day, so that a range of time leads to days, and days to rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b

from chalicelib.errors import InvalidConfigurationError
from chalicelib.runlog.layout import encode_name

DAY_MS = 86_400_000
LAST_MS = 253_402_300_799_999
"""The end of the year 9999: times have 15 digits."""
EXTENSIONS = {"text": "log", "jsonl": "jsonl", "avro": "avro", "parquet": "parquet"}
"""Of files, by format, where a handler sets none."""
_EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_FILE = re.compile(r"[^/]+/[0-9]{4}-[0-9]{2}-[0-9]{2}/[^/]+/[^/]+/[0-9]{8,}\.[^/]+")
_BASE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=-]*(/[A-Za-z0-9_-][A-Za-z0-9._=-]*)*")
_MAX_NAME_BYTES = 200
_NAMELESS = "%00"
"""No name of ours becomes this: control characters are refused at the door."""


def is_base(base: str) -> bool:
    """Whether files can have this base."""
    return _BASE.fullmatch(base) is not None and len(base) <= _MAX_NAME_BYTES


def checked_base(base: str) -> str:
    """Raises InvalidConfigurationError."""
    if not is_base(base):
        raise InvalidConfigurationError(f"a base is folders of letters, digits and ._=- with slashes between base={base[:100]!r}")
    return base


def checked_extension(extension: str) -> str:
    """Raises InvalidConfigurationError."""
    if not _EXTENSION.fullmatch(extension):
        raise InvalidConfigurationError(f"an extension is 1 to 40 letters, digits and ._- extension={extension[:100]!r}")
    return extension


def output_name(base: str, extension: str) -> str:
    """Which files a handler writes. Two handlers of one name would continue each other's files."""
    return f"{base}/….{extension}"


def is_file_of(base: str, key: str) -> bool:
    """Whether a key is one that ``Context.key`` makes for this base. It is for one base at most, also where bases lie within each other: no
    element has a slash, so the base is all of the key but its last five elements."""
    return key.startswith(f"{base}/") and _FILE.fullmatch(key, len(base) + 1) is not None


def element(name: str) -> str:
    """A name as one element of a key: no slash, no colon. A very long one is cut and told apart by its digest."""
    encoded = encode_name(name) or _NAMELESS
    if len(encoded) <= _MAX_NAME_BYTES:
        return encoded
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{encoded[: _MAX_NAME_BYTES - 40]}~{digest}"


@dataclass(frozen=True, slots=True)
class FileContext:
    """Whose files: ``base`` tells handlers apart, the others are what records say of themselves."""

    base: str
    namespace: str
    app: str
    program: str

    @property
    def prefix(self) -> str:
        """All its rows' keys begin with this, and no other context's: it ends in a colon, so flow1 is not the beginning of flow10."""
        return prefix_of(self.namespace, self.app, self.program)

    def folder(self, day: int) -> str:
        """All objects of a day (days since the epoch) begin with this."""
        return f"{self.base}/{element(self.namespace)}/{day_text(day)}/{element(self.app)}/{element(self.program)}/"

    def key(self, day: int, sequence: int, extension: str) -> str:
        """An object's key."""
        return f"{self.folder(day)}{sequence:08d}.{extension}"


def prefix_of(*names: str) -> str:
    """What the rows of a namespace, of an application of it, or of a program begin with."""
    return "".join(f"{element(name)}:" for name in names)


def prefix_end(prefix: str) -> str:
    """The key that all keys with a prefix (which ends in a colon) sort before."""
    return prefix[:-1] + chr(ord(":") + 1)


def clamped(time_ms: int) -> int:
    """A time that keys can hold."""
    return min(max(time_ms, 0), LAST_MS)


def day_text(day: int) -> str:
    """``yyyy-mm-dd``."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
