"""Names of runs, in paths and URLs, and generated ids."""

from __future__ import annotations

import os
import re
import shlex
import time
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from runlake.errors import SettingsError
from runlake.terminal import sanitize

MAX_NAME_CHARS = 200
MAX_RUN_NAME_BYTES = 1002
"""Of FQN and run id, percent-encoded: beyond that, an S3 key is too long for any prefix of the archive."""
RESERVED_RUN_IDS = frozenset({"last", "close", "download", "grep", "explanation", "histogram"})
_UNSAFE_IN_FILES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class RunName:
    """A run: the fully qualified name of its pipeline, and its id."""

    fqn: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.fqn}/{self.run_id}"

    @property
    def words(self) -> str:
        """The name as arguments of a shell command."""
        return shlex.join([self.fqn, self.run_id])


@dataclass(frozen=True)
class DeadLetterName:
    """An event that a handler of a processing pipeline failed to process. ``line``: its first one in the run's log, from 0."""

    pipeline: str
    handler: str
    run: RunName
    line: int


def checked_run_name(run: RunName) -> RunName:
    """Reject a run name that the archive would refuse, as far as the client can know. Raises SettingsError."""
    for what, name in (("fqn", run.fqn), ("run id", run.run_id)):
        if not name or "\t" in name or sanitize(name) != name:
            raise _misnamed("names of runs must have printable characters only", what, name)
        if name != name.strip():
            raise _misnamed("names of runs must not begin or end with a blank", what, name)
        if name in (".", ".."):
            raise _misnamed("the name cannot be used in a URL", what, name)
    if run.run_id in RESERVED_RUN_IDS:
        raise _misnamed("a run id cannot be a word of the API's paths", "run id", run.run_id)
    if "/" in run.run_id:
        raise _misnamed("a run id must not contain a slash", "run id", run.run_id)
    if len(path_segment(run.fqn)) + len(path_segment(run.run_id)) > MAX_RUN_NAME_BYTES:
        raise _misnamed(f"fqn and run id must have at most {MAX_RUN_NAME_BYTES} bytes once encoded", "run id", run.run_id)
    return run


def checked_name(what: str, name: str) -> str:
    """A step's id or a writer's name that the archive accepts. Raises SettingsError."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or len(quote(name, safe="")) > 3 * MAX_NAME_CHARS:
        raise _misnamed(f"a {what} must have 1 to {MAX_NAME_CHARS} printable characters", what, name)
    return name


def _misnamed(rule: str, what: str, name: str) -> SettingsError:
    return SettingsError(f"{rule} {what.replace(' ', '_')}={name[:200]!a}", next_step=f"choose another {what}")


def file_name(text: str, max_chars: int) -> str:
    """The end of a text as the name of a file: characters other than letters, digits and ``._-`` are "_", several in a row one."""
    return _UNSAFE_IN_FILES.sub("_", text)[-max_chars:]


def path_segment(name: str) -> str:
    """A name as one percent-encoded segment of a path, slashes too; a byte that is not UTF-8 is "?"."""
    return quote(name, safe="", errors="replace")


def page_url(url: str, fqn: str | None = None, run_id: str | None = None) -> str:
    """The address of the web page (docs/viewer.md) of the server at ``url``: of a run, of a pipeline's runs, or the start page.

    Names are percent-encoded. It has no user or password, even if ``url`` has one: it is printed.
    """
    query = [f"{key}={path_segment(name)}" for key, name in (("p", fqn), ("r", run_id)) if name]
    return f"{public_url(url)}/v1/ui/" + ("?" + "&".join(query) if query else "")


def public_url(url: str) -> str:
    """An address without user and password, to be printed; "" for one that cannot be parsed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}" if parts.netloc else ""


def is_same_address(one: str, other: str) -> bool:
    """Whether two addresses have the same origin and path. A slash at the end, a default port and user information make no difference."""
    try:
        return _origin_and_path(one) == _origin_and_path(other)
    except ValueError:
        return one == other


def _origin_and_path(url: str) -> tuple[str, str, int | None, str]:
    """Raises ValueError for an invalid port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme), parts.path.rstrip("/")


def new_run_id() -> str:
    """A unique run id; ids sort by the second of their creation."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + "-" + os.urandom(4).hex()
