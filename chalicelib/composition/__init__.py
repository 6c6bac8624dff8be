"""Dependency wiring: selects the implementation of each port and builds services.

Nothing is built at import. On Lambda ``app.py`` builds services while the function starts, when it has the most CPU; elsewhere the
first request does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from chalicelib.errors import InvalidConfigurationError, InvalidInputError
from chalicelib.observability import ObservedStore, record, redact_with

if TYPE_CHECKING:
    from chalicelib.access.authenticators import Authenticator
    from chalicelib.access.cursor_cipher import CursorCipher
    from chalicelib.archive.archive import Archive
    from chalicelib.archive.objects import ArchiveObjects
    from chalicelib.archive.uploads import Uploads
    from chalicelib.catalog.cursor import CursorSigner
    from chalicelib.catalog.latest import LatestFiles
    from chalicelib.catalog.recent import RecentRuns
    from chalicelib.catalog.registration import FileCatalogWriter
    from chalicelib.catalog.runs import RunCatalog
    from chalicelib.catalog.search import Search
    from chalicelib.composition.events import EventServices
    from chalicelib.coordination import Administration, Lease, SourceCoordinator, WorkSource
    from chalicelib.coordination.store import PartitionStore
    from chalicelib.events.bundling import SidecarBundler
    from chalicelib.explanation.run_explainer import RequestExplainer, ScheduledExplainer
    from chalicelib.ingestion.ingester import Ingester
    from chalicelib.ingestion.run_files import RunFiles
    from chalicelib.masking.masker import Masker, SecretReader
    from chalicelib.pipelines.files.bucket_location import BucketLocation
    from chalicelib.pipelines.files.service import PipelineFiles
    from chalicelib.ports import Clock, Database, ObjectStore, Publisher, Run, RunEnd, SegmentIndex, Workers
    from chalicelib.removal.run_removal import RunRemoval
    from chalicelib.runlog.compaction import Compactor
    from chalicelib.runlog.finalization import Finalizer
    from chalicelib.runlog.fingerprints import BatchFingerprints
    from chalicelib.runlog.following import Follower
    from chalicelib.runlog.grep import Grep
    from chalicelib.runlog.layout import Layout
    from chalicelib.runlog.pipeline_listing import PipelineListing
    from chalicelib.runlog.position import PositionSigner
    from chalicelib.runlog.reader import Reader
    from chalicelib.runlog.run_end_finder import RunEndFinder
    from chalicelib.runlog.writer import Writer
    from chalicelib.settings import Settings

COMPACTION, SWEEP, EXPLANATION, BUNDLING = "compaction", "sweep", "explanation", "bundling"
"""Names of the sources of work in coordination."""
SOURCES = (COMPACTION, SWEEP, EXPLANATION, BUNDLING)
SECONDS_OF_A_DAY = 86_400
_MS_OF_A_MINUTE = 60_000
_MS_OF_A_DAY = 86_400_000


WorkSources = Callable[[str], "tuple[PartitionStore, WorkSource]"]
"""Returns the partition store and the work source for a source's name. Built on first use: few API requests need it."""


def in_memory_work_sources() -> WorkSources:
    """Work shared among the threads of this process."""
    from chalicelib.coordination import InMemoryPartitionStore, WorkSource

    store = InMemoryPartitionStore()
    return lambda source: (store, WorkSource(source))


@dataclass(frozen=True, slots=True)
class Ports:
    """Adapters to external systems. Stores are not wrapped in ``ObservedStore`` yet. ``publisher`` None: no reports; ``workers`` None: each
    invocation works alone; ``keys`` reads an issuer's keys from a URL, ``policy`` the policy; None: not configured."""

    store: ObjectStore
    archive_store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    database: Database
    publisher: Publisher | None
    clock: Clock
    work_sources: WorkSources = field(default_factory=in_memory_work_sources)
    workers: Workers | None = None
    keys: Callable[[str], bytes] | None = None
    policy: Callable[[], str] | None = None
    is_emulated: bool = True
    secrets: SecretReader | None = None
    located_store: Callable[[BucketLocation], ObjectStore] | None = None


@dataclass(frozen=True, slots=True)
class _EventIndexer:
    """``ports.EventIndexer`` that loads the modules of events for the first run that has events."""

    services: Services

    def index_from(self, run: Run, first: int) -> None:
        """See ``EventIndexer``."""
        self.services.events.indexing.index_from(run, first)


@dataclass(frozen=True, slots=True)
class _AppendPolicy:
    """``runlog.writer.AppendPolicy`` that loads the modules of events for the first append: most functions that build a writer only close runs."""

    services: Services

    def check_first_segment(self, run: Run) -> None:
        """See ``AppendPolicy``."""
        self.services.events.choices.check_first_segment(run)

    def segment_metadata(self, run: Run) -> Mapping[str, str]:
        """See ``AppendPolicy``."""
        return self.services.events.choices.segment_metadata(run)


class Services:
    """The services of routes and triggers. Stateless with respect to runs: any number of processes may have an instance.

    Each service is built, and its modules are imported, on first use, so a function loads only the modules that it uses. A service that the
    settings do not allow raises InvalidConfigurationError."""

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self.settings, self.ports = settings, ports
        self._located: dict[BucketLocation, ObjectStore] = {}
        self.index, self.runs, self.database = ports.index, ports.runs, ports.database
        self.publisher, self.clock, self.work_sources, self.workers = (
            ports.publisher,
            ports.clock,
            ports.work_sources,
            ports.workers,
        )

    def with_ports(self, **ports: Any) -> Services:
        """A copy with some ports replaced."""
        return Services(self.settings, replace(self.ports, **ports))

    def prepare(self, *names: str) -> None:
        """Build these services now (``events.log``: a nested one). Raises InvalidConfigurationError."""
        for name in names:
            attrgetter(name)(self)

    @cached_property
    def store(self) -> ObjectStore:
        """The bucket of logs."""
        return ObservedStore(self.ports.store)

    @cached_property
    def archive_store(self) -> ObjectStore:
        """The bucket of the archive."""
        return ObservedStore(self.ports.archive_store)

    def bucket(self, name: str) -> ObjectStore:
        """A bucket by its name; "" is the bucket of logs. Raises InvalidInputError for a bucket that is not configured."""
        if name in ("", self.settings.bucket_name):
            return self.store
        if name == self.settings.archive_bucket_name:
            return self.archive_store
        raise InvalidInputError(f"neither the bucket of logs nor of the archive bucket={name!r}")

    def located_bucket(self, location: BucketLocation) -> ObjectStore:
        """A bucket of pipelines' files, with its role and owner, built once. Raises InvalidConfigurationError for a role that the
        installation does not list, InvalidInputError for a bucket that is not configured."""
        if not (location.role or location.owner):
            return self.bucket(location.bucket)
        if location.role and location.role not in self.settings.pipeline_role_arns:
            raise InvalidConfigurationError(f"the role is not listed: set RUNLAKE_PIPELINE_ROLES role={location.role}")
        if not location.role:
            self.bucket(location.bucket)
        if self.ports.located_store is None:
            raise InvalidConfigurationError(f"roles and owners of buckets need AWS bucket={location.bucket}")
        if location not in self._located:
            self._located[location] = ObservedStore(self.ports.located_store(location))
        return self._located[location]

    # ------------------------------------------------------------------------------------------------- the log of a run

    @cached_property
    def layout(self) -> Layout:
        """Object keys of runs."""
        from chalicelib.runlog.layout import Layout

        return Layout(self.settings.prefix)

    @cached_property
    def masker(self) -> Masker:
        """Masks secrets."""
        from chalicelib.masking.masker import Masker
        from chalicelib.masking.rules import parse_rules

        rules = parse_rules(self.settings.masking.get_secret_value() if self.settings.masking else "")
        return Masker(rules, self.ports.secrets, self.clock)

    def redact(self, text: str) -> str:
        """A caller's text with configured values masked, for log lines and errors. Makes no request."""
        return self.masker.redact(text)

    @cached_property
    def identities(self) -> BatchFingerprints:
        """Fingerprints of batches. Whatever the setting is now, an earlier attempt of a batch may have been masked."""
        from chalicelib.runlog.fingerprints import BatchFingerprints

        return BatchFingerprints(self.settings.signing_keys, lambda sent: self.masker.may_contain_secrets(sent))

    @cached_property
    def signer(self) -> PositionSigner:
        """Signs positions. Without keys, as in schedules and jobs, runs can be closed or abandoned, but nothing can be appended."""
        from chalicelib.runlog.position import PositionSigner

        return PositionSigner(self.settings.signing_keys)

    @cached_property
    def writer(self) -> Writer:
        """Appends batches to runs."""
        from chalicelib.runlog.writer import Writer

        return Writer(self.store, self.index, self.layout, self.signer, self.clock, self.identities, _AppendPolicy(self))

    @cached_property
    def compactor(self) -> Compactor:
        """Compacts segments into ``partial.txt``, and updates the index of events."""
        from chalicelib.runlog.compaction import Compactor

        return Compactor(self.store, self.index, self.layout, self.clock, event_indexer=_EventIndexer(self))

    @property
    def expiration_ms(self) -> int:
        """Lifetime of an object in the bucket of logs."""
        return self.settings.expiration_days * _MS_OF_A_DAY

    @cached_property
    def finalizer(self) -> Finalizer:
        """Closes and finalizes runs."""
        from chalicelib.runlog.finalization import Finalizer

        expiration_ms, storage_class = self.expiration_ms, self.settings.storage_class
        return Finalizer(self.store, self.compactor, self.writer, self.clock, storage_class, expiration_ms=expiration_ms)

    @cached_property
    def end_finder(self) -> RunEndFinder:
        """Determines how a run ended if its client did not report it."""
        from chalicelib.runlog.run_end_finder import RunEndFinder

        def stated_by_event(run: Run, number: int) -> RunEnd | None:
            from chalicelib.events.stated_end import stated_end

            return stated_end(self.events.indexing.sidecars.read_one(run, number))

        return RunEndFinder(self.store, self.layout, lambda run: self.events.index.failed_step(run), stated_by_event)

    @cached_property
    def reader(self) -> Reader:
        """Reads logs."""
        from chalicelib.runlog.reader import Reader

        return Reader(self.store, self.index, self.layout, self.clock, self.compactor)

    @cached_property
    def follower(self) -> Follower:
        """Waits for new lines of a run."""
        from chalicelib.runlog.following import Follower

        idle_ms = self.settings.viewer_idle_minutes * _MS_OF_A_MINUTE
        return Follower(self.store, self.index, self.layout, self.clock, self.reader, idle_ms, self.settings.stream_max_bytes)

    @cached_property
    def grep(self) -> Grep:
        """Searches the lines of a run."""
        from chalicelib.runlog.grep import Grep

        return Grep(self.reader, self.clock)

    @cached_property
    def explainer(self) -> RequestExplainer:
        """Explains a run on request."""
        from chalicelib.explanation.run_explainer import RequestExplainer
        from chalicelib.explanation.usual_lines import UsualLines

        return RequestExplainer(self.reader, self.runs, self.clock, UsualLines(self.store, self.layout, self.runs, self.clock))

    @cached_property
    def recent(self) -> RecentRuns:
        """Lists runs across pipelines."""
        from chalicelib.catalog.recent import RecentRuns

        return RecentRuns(self.runs)

    @cached_property
    def pipelines(self) -> PipelineListing:
        """Lists pipelines that have runs."""
        from chalicelib.runlog.pipeline_listing import PipelineListing

        return PipelineListing(self.store, self.layout)

    @cached_property
    def events(self) -> EventServices:
        """Services of events."""
        from chalicelib.composition.events import EventServices

        return EventServices(self)

    # ------------------------------------------------------------------------------------------------------ the archive

    @cached_property
    def search(self) -> Search:
        """Queries files."""
        from chalicelib.catalog.search import Search

        return Search(self.database)

    @cached_property
    def latest(self) -> LatestFiles:
        """The latest file of each source."""
        from chalicelib.catalog.latest import LatestFiles

        return LatestFiles(self.database, self.search)

    @cached_property
    def registration(self) -> FileCatalogWriter:
        """Writes the rows of files."""
        from chalicelib.catalog.registration import FileCatalogWriter

        return FileCatalogWriter(self.database, self.latest, self.clock)

    @cached_property
    def cursors(self) -> CursorSigner:
        """Signs cursors of lists."""
        from chalicelib.catalog.cursor import CursorSigner

        return CursorSigner(self.settings.cursor_signing_keys)

    @cached_property
    def archive_objects(self) -> ArchiveObjects:
        """Objects of the archive's files."""
        from chalicelib.archive.objects import ArchiveObjects

        return ArchiveObjects(self.archive_store, self.settings.archive_bucket_name)

    @cached_property
    def archive(self) -> Archive:
        """Files of both buckets."""
        from chalicelib.archive.archive import Archive

        stores = {self.settings.archive_bucket_name: self.archive_store, self.settings.bucket_name: self.store}
        return Archive(self.archive_objects, stores, self.registration, self.clock)

    @cached_property
    def uploads(self) -> Uploads:
        """Uploads by presigned URLs."""
        from chalicelib.archive.uploads import Uploads

        return Uploads(self.archive_store, self.clock, lambda: uuid4().hex)

    # ------------------------------------------------------------------------------------------------- other services

    @cached_property
    def authenticator(self) -> Authenticator:
        """Authenticates callers of the API."""
        from chalicelib.composition.access import authenticator

        return authenticator(self.settings, self.ports)

    @cached_property
    def cursor_cipher(self) -> CursorCipher:
        """Encrypts cursors."""
        from chalicelib.access.cursor_cipher import CursorCipher

        return CursorCipher(self.settings.cursor_signing_keys)

    @cached_property
    def pipeline_files(self) -> PipelineFiles:
        """Files of processing pipelines."""
        from chalicelib.composition.pipelines import pipeline_files

        return pipeline_files(self)

    @cached_property
    def removal(self) -> RunRemoval:
        """Removes runs."""
        from chalicelib.composition.pipelines import run_removal

        return run_removal(self)


_services: Services | None = None
_building = Lock()


def services() -> Services:
    """This process's services, built from its environment on first use. Raises InvalidConfigurationError."""
    if _services is None:
        with _building:
            if _services is None:
                install(_from_environment())
    assert _services
    return _services


def install(built: Services | None) -> None:
    """Use these services in this process from now on; None: build new ones on next use."""
    global _services
    _services = built
    redact_with(built.redact if built and built.settings.masking else None)


def assemble(settings: Settings, ports: Ports) -> Services:
    """Build the services over any set of ports."""
    return Services(settings, ports)


def coordinator(services: Services, source: str) -> SourceCoordinator:
    """A coordinator for a source of work. It records metrics."""
    from chalicelib.coordination import SourceCoordinator

    return SourceCoordinator(*services.work_sources(source), services.clock, record)


def administration(services: Services, source: str) -> Administration:
    """An operator's actions on a source of work."""
    from chalicelib.coordination import Administration

    return Administration(*services.work_sources(source), services.clock)


def leased_finalizer(services: Services, lease: Lease, *, readers: int | None = None, removes_markers: bool = True) -> Finalizer:
    """A finalizer that checks the lease before each call of the store. See ``Concatenator`` and ``Finalizer``."""
    from chalicelib.coordination.lease import lease_checked
    from chalicelib.runlog.compaction import Compactor
    from chalicelib.runlog.concatenation import READERS
    from chalicelib.runlog.finalization import Finalizer
    from chalicelib.runlog.writer import Writer

    store = lease_checked(services.store, lease)
    # The index needs no lease check: its writes are idempotent.
    compactor = Compactor(store, services.index, services.layout, services.clock, readers or READERS, _EventIndexer(services))
    writer = Writer(store, services.index, services.layout, services.signer, services.clock)
    storage_class = services.settings.storage_class
    return Finalizer(
        store,
        compactor,
        writer,
        services.clock,
        storage_class,
        removes_markers=removes_markers,
        expiration_ms=services.expiration_ms,
    )


def leased_explainer(services: Services, lease: Lease) -> ScheduledExplainer:
    """An explainer of finalized runs that checks the lease before each call of the store."""
    from chalicelib.coordination.lease import lease_checked
    from chalicelib.explanation.run_explainer import ScheduledExplainer
    from chalicelib.explanation.usual_lines import UsualLines

    store, layout, runs = lease_checked(services.store, lease), services.layout, services.runs
    return ScheduledExplainer(store, layout, runs, UsualLines(store, layout, runs, services.clock))


def leased_bundler(services: Services, lease: Lease) -> SidecarBundler:
    """A bundler of sidecars that checks the lease before each call of the store."""
    from chalicelib.coordination.lease import lease_checked
    from chalicelib.events.bundling import SidecarBundler

    return SidecarBundler(lease_checked(services.store, lease), services.layout, services.clock)


def ingester(services: Services) -> Ingester:
    """The ingester of S3 notifications."""
    from chalicelib.deadline import Deadline
    from chalicelib.ingestion.ingester import Ingester
    from chalicelib.ingestion.run_objects import EARLY_FLUSH_S, RunObjects

    def early_flush(run: Run) -> None:
        services.compactor.compact(run, Deadline(services.clock, EARLY_FLUSH_S))

    bucket, watermark_bytes = services.settings.bucket_name, services.settings.early_flush_watermark_bytes
    store, index, runs, layout = services.store, services.index, services.runs, services.layout
    return Ingester(
        run_objects=RunObjects(
            bucket, store, index, runs, layout, watermark_bytes, early_flush, services.events.indexing.index_object
        ),
        run_files=run_files(services),
        archive=services.archive_objects,
        registration=services.registration,
        clock=services.clock,
        publisher=services.publisher,
    )


def run_files(services: Services) -> RunFiles:
    """Derives file records from the logs of ended runs."""
    from chalicelib.ingestion.run_files import RunFiles

    return RunFiles(services.settings.bucket_name, services.store, services.index, services.layout)


def _from_environment() -> Services:
    from chalicelib import settings
    from chalicelib.composition.environment import aws_ports

    loaded = settings.load()
    return assemble(loaded, aws_ports(loaded))
