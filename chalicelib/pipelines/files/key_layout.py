"""The layout of keys: an application's folder of a day, and the prefixes of rows' keys.

::

    {base}/{namespace}/{yyyy-mm-dd}/{app}/{program}/{seq:08d}.{ext}     the object
    {namespace}:{app}:{program}:…                                       the row, in the partition {base}

A handler with a path has other keys (``path_template``). A file
has the events of one day (by the events' times), so that a time range leads to days, and days to rows.
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
"""The default extension of each format."""
PARQUET = "parquet"
PARQUET_NEEDS_JOB = "Parquet needs pyarrow, which the functions lack: run the pipeline in the job run_pipelines"
COMPRESSION = "gzip"
COMPRESSIBLE = ("text", "jsonl")
_EXTENSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_FILE = re.compile(r"[^/]+/[0-9]{4}-[0-9]{2}-[0-9]{2}/[^/]+/[^/]+/[0-9]{8,}\.[^/~]+")
_BASE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._=-]*(/[A-Za-z0-9_-][A-Za-z0-9._=-]*)*")
MAX_NAME_BYTES = 200
_NAMELESS = "%00"
"""No valid name is encoded like this: control characters are rejected in requests."""


def is_base(base: str) -> bool:
    """Whether this is a valid base."""
    return _BASE.fullmatch(base) is not None and len(base) <= MAX_NAME_BYTES


def checked_base(base: str) -> str:
    """Raises InvalidConfigurationError."""
    if not is_base(base):
        raise InvalidConfigurationError(
            f"a base must be folders of letters, digits and ._=-, separated by slashes base={base[:100]!r}"
        )
    return base


def checked_extension(extension: str) -> str:
    """Raises InvalidConfigurationError."""
    if not _EXTENSION.fullmatch(extension):
        raise InvalidConfigurationError(f"an extension must be 1 to 40 letters, digits and ._- extension={extension[:100]!r}")
    return extension


def format_name(format_: str, compress: str) -> str:
    """The name of a configured format, as rows have it. Raises InvalidConfigurationError."""
    if format_ not in EXTENSIONS:
        raise InvalidConfigurationError(f"a format must be one of {', '.join(EXTENSIONS)} format={format_[:100]!r}")
    if compress not in ("", COMPRESSION):
        raise InvalidConfigurationError(f"compress must be {COMPRESSION} compress={compress[:100]!r}")
    if compress and format_ not in COMPRESSIBLE:
        raise InvalidConfigurationError(f"only {' and '.join(COMPRESSIBLE)} can be compressed format={format_!r}")
    return f"{format_}+{compress}" if compress else format_


def extension_of(format_: str, extension: str, compress: str) -> str:
    """A handler's extension: the configured one or the format's, and ``.gz`` for compressed files. Raises
    InvalidConfigurationError."""
    extension = extension or EXTENSIONS[format_]
    return checked_extension(f"{extension}.gz" if compress == COMPRESSION and not extension.endswith(".gz") else extension)


def output_name(base: str, extension: str) -> str:
    """The name of a handler's output. Two handlers with the same name would append to each other's files."""
    return f"{base}/….{extension}"


def is_file_of(base: str, key: str) -> bool:
    """Whether ``FileContext.key`` makes this key for this base. At most one base matches, even if bases are nested: no element
    has a slash, so the base is all of the key but its last five elements."""
    return key.startswith(f"{base}/") and _FILE.fullmatch(key, len(base) + 1) is not None


def element(name: str, max_bytes: int = MAX_NAME_BYTES) -> str:
    """A name as one element of a key: no slash, no colon. A very long one is truncated and made unique by a digest."""
    encoded = encode_name(name) or _NAMELESS
    if len(encoded) <= max_bytes:
        return encoded
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"{encoded[: max_bytes - 40]}~{digest}"


@dataclass(frozen=True, slots=True)
class FileContext:
    """The owner of files: ``base`` distinguishes handlers; namespace, app and program are attributes of records."""

    base: str
    namespace: str
    app: str
    program: str

    @property
    def prefix(self) -> str:
        """The prefix of all its rows' keys, and of no other context's: it ends in a colon, so flow1 is not a prefix of flow10."""
        return prefix_of(self.namespace, self.app, self.program)

    def folder(self, day: int) -> str:
        """The prefix of all objects of a day (days since the epoch)."""
        return f"{self.base}/{element(self.namespace)}/{day_text(day)}/{element(self.app)}/{element(self.program)}/"

    def key(self, day: int, sequence: int, extension: str) -> str:
        """An object's key."""
        return f"{self.folder(day)}{sequence:08d}.{extension}"


def prefix_of(*names: str) -> str:
    """The prefix of the rows of a namespace, of an application in it, or of a program."""
    return "".join(f"{element(name)}:" for name in names)


def prefix_end(prefix: str) -> str:
    """The first key after all keys with a prefix (which ends in a colon)."""
    return prefix[:-1] + chr(ord(":") + 1)


def clamped(time_ms: int) -> int:
    """The nearest time that keys can represent."""
    return min(max(time_ms, 0), LAST_MS)


def day_text(day: int) -> str:
    """``yyyy-mm-dd``."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
