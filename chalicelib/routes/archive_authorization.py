"""Authorization of reads and writes in the archive.

A file of the archive is authorized by its ``what``: ``archive:read`` and ``archive:write``. The log of a run is authorized by ``logs:read``
of the FQN in its key, never by its ``what``: several FQNs share one, and a writer to the archive may give a file any ``what``, and metadata
with any FQN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.access.principal import Principal
from chalicelib.catalog.files import location_of
from chalicelib.catalog.metadata import MAX_NAME_CHARS, Metadata
from chalicelib.composition import Services
from chalicelib.errors import NoSuchFileError, NotChangeableError, ObjectNotFoundError
from chalicelib.routes import gate, secrets
from chalicelib.runlog.layout import may_share_legacy_name, shared_legacy_name

READ = (Scope.ARCHIVE_READ, Scope.LOGS_READ)
T = TypeVar("T")
_BEGINNING = re.compile(r"[A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class ArchiveAuthorizer:
    """Authorizes one principal's requests to the archive of ``services``."""

    services: Services
    principal: Principal

    @property
    def may_read_all(self) -> bool:
        """Whether the principal may read every file."""
        return self.principal.may_all(*READ)

    def may_contain(self, what: str) -> bool:
        """Whether a ``what`` may contain visible files. A run's ``what`` is its FQN in lowercase with characters outside of the datalake's
        replaced by ``_``, so it starts with the literal prefix of a pattern of FQNs."""
        names = self.principal.grants[Scope.LOGS_READ].patterns
        return self.principal.may(Scope.ARCHIVE_READ, what) or any(what.startswith(_beginning(name)) for name in names)

    def resource(self, url: str, what: str, lines: object) -> tuple[Scope, str]:
        """The scope and name that are required to read a file, by its address on S3. A log without a number of ``lines`` was written by
        OpenMetadata: several FQNs share its key."""
        bucket, key = location_of(url)
        if bucket != self.services.settings.bucket_name:
            return Scope.ARCHIVE_READ, what
        parsed = self.services.layout.parse(key)
        if parsed is None:
            return Scope.LOGS_READ, key
        is_shared = lines is None and may_share_legacy_name(parsed.run.fqn)
        return Scope.LOGS_READ, shared_legacy_name(parsed.run.fqn) if is_shared else parsed.run.fqn

    def may_read(self, document: Mapping[str, Any]) -> bool:
        """Whether the principal may read the file of a record."""
        return self.principal.may(*self.resource(document["url"], document["metadata"]["what"], document["metadata"].get("lines")))

    def name_of(self, document: Mapping[str, Any]) -> str:
        """The file of a record in an audit line: the name that its permission is for, and its address, which has its run or id."""
        url, metadata = document["url"], document["metadata"]
        return f"{self.resource(url, metadata['what'], metadata.get('lines'))[1]} {url}"

    def authorize_read(self, url: str, metadata: Metadata) -> None:
        """Authorize reading a file. Raises ObjectNotFoundError, so a hidden file looks like a missing one."""
        scope, name = self.resource(url, metadata.what, (metadata.model_extra or {}).get("lines"))
        allowed = self.principal.may(scope, name)
        gate.record_decision(scope, f"{name} {url}", allowed)
        if not allowed:
            raise ObjectNotFoundError("")

    def authorize_write(self, url: str, metadata: Metadata) -> None:
        """Authorize changing a file. Raises ForbiddenError or NotChangeableError for a readable file; ObjectNotFoundError for any other."""
        scope, name = self.resource(url, metadata.what, (metadata.model_extra or {}).get("lines"))
        if scope is Scope.ARCHIVE_READ and self.principal.may(Scope.ARCHIVE_WRITE, name):
            gate.record_decision(Scope.ARCHIVE_WRITE, f"{name} {url}", True)
            return
        self.authorize_read(url, metadata)
        if scope is Scope.LOGS_READ:
            raise NotChangeableError(f"the log of a run cannot be changed or deleted as a file id={metadata.id}")
        gate.require_scope(Scope.ARCHIVE_WRITE, name)


def archive_authorizer() -> ArchiveAuthorizer:
    """The authorizer of the current request."""
    return ArchiveAuthorizer(composition.services(), gate.principal())


def authorize_create(metadata: Metadata) -> None:
    """Authorize creating a file with this metadata, or changing a file to it. Raises ForbiddenError, InvalidNameError."""
    gate.require_scope(Scope.ARCHIVE_WRITE, metadata.what)
    secrets.check_joined_names(metadata.where, metadata.what)
    secrets.check_joined_names(metadata.what, metadata.where)
    secrets.check_joined_names(metadata.work_id or "", metadata.what)


def _beginning(pattern: str) -> str:
    """The common prefix of every ``what`` derived from an FQN that matches the pattern."""
    match = _BEGINNING.match(pattern)
    assert match
    return match[0].lower().strip("_")[:MAX_NAME_CHARS]


def find_visible(file_id: str, find: Callable[[], T]) -> T:
    """Find a file by its id. Raises NoSuchFileError: for a principal that may not read every file, the same for hidden and missing files."""
    try:
        return find()
    except ObjectNotFoundError as error:
        if archive_authorizer().may_read_all:
            raise error if isinstance(error, NoSuchFileError) else NoSuchFileError(file_id) from error
        gate.record_decision("see", f"file {file_id[:100]}", False, "hidden, or not there")
        raise NoSuchFileError(file_id, "or the scope to read it is missing") from error
