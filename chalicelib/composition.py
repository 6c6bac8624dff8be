"""Everything wired together: the one place that knows which implementation stands behind which port.

Nothing is built at import. On Lambda ``app.py`` asks for it while the function starts, when there is the most CPU; elsewhere the
first request does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from chalicelib.access.doors import Door
from chalicelib.access.sealing import Sealer
from chalicelib.archive.archive import Archive
from chalicelib.archive.objects import ArchiveObjects
from chalicelib.archive.uploads import Uploads
from chalicelib.catalog.cursor import CursorSigner
from chalicelib.catalog.files import FILES, LATEST
from chalicelib.catalog.latest import LatestFiles
from chalicelib.catalog.listing import LISTING
from chalicelib.catalog.registration import Registration
from chalicelib.catalog.remembered import OBJECTS
from chalicelib.catalog.runs import RunCatalog
from chalicelib.catalog.search import Search
from chalicelib.deadline import Deadline
from chalicelib.events.browse import EventBrowser
from chalicelib.events.completeness import CompletenessWatch
from chalicelib.events.index import EVENTS, EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.routing import Router
from chalicelib.events.runlog import RunEventLog
from chalicelib.events.step_events import StepEvents
from chalicelib.events.step_log import StepLogs
from chalicelib.events.steps import Steps
from chalicelib.events.tail import EventTails
from chalicelib.events.told import ToldSteps
from chalicelib.events.views import Views
from chalicelib.events.writers import Writers
from chalicelib.masking.masker import Masker, SecretReader
from chalicelib.masking.rules import SecretName, parsed_text
from chalicelib.observability import (
    CATALOG_REQUESTS,
    REPORTS_PUBLISHED,
    ObservedStore,
    record,
    record_masked,
    report_stale_identity,
)
from chalicelib.ports import Clock, Database, ObjectStore, Publisher, Run, SegmentIndex, Workers
from chalicelib.runlog.assembly import READERS
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.following import Follower
from chalicelib.runlog.grep import Grep
from chalicelib.runlog.identity import Identities
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.pipelines import Pipelines
from chalicelib.runlog.position import PositionSigner
from chalicelib.runlog.reader import Reader
from chalicelib.runlog.writer import Writer

if TYPE_CHECKING:
    from chalicelib.access.policy import Policy
    from chalicelib.coordination import Administration, Lease, Source, SourceCoordinator
    from chalicelib.coordination.store import Store
    from chalicelib.events.configuration import EventsConfiguration
    from chalicelib.events.methods import MakeSink
    from chalicelib.events.ports import Target
    from chalicelib.events.registry import Registry
    from chalicelib.events.targets.configuration import TargetConfiguration
    from chalicelib.events.targets.transport import Transport
    from chalicelib.ingestion.ingester import Ingester
    from chalicelib.ingestion.run_files import RunFiles
    from chalicelib.settings import Settings

COMPACTION, SWEEP = "compaction", "sweep"
"""Sources of work, as coordination names them."""
SOURCES = (COMPACTION, SWEEP)
_THIS_MACHINE = frozenset({"127.0.0.1", "localhost", "::1"})
_SECONDS_OF_A_DAY = 86_400
_MS_OF_A_MINUTE = 60_000
_MS_OF_A_SECOND = 1000
_SSE = {"AES_256": "AES256", "AWS_KMS": "aws:kms"}


Sharing = Callable[[str], "tuple[Store, Source]"]
"""Where the work of a source is shared out, and under which name. Built when it is asked for: requests of the API seldom do."""


def in_memory_sharing() -> Sharing:
    """Among the threads of this process."""
    from chalicelib.coordination import InMemoryStore, Source

    store = InMemoryStore()
    return lambda source: (store, Source(source))


@dataclass(frozen=True, slots=True)
class Ports:
    """What the outside world is reached through. Stores are not yet observed; ``publisher`` None: nothing is reported; ``workers`` None:
    each invocation works alone; ``keys`` and ``policy`` read the issuer's keys and the policy, None: there are none."""

    store: ObjectStore
    archive_store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    database: Database
    publisher: Publisher | None
    clock: Clock
    sharing: Sharing = field(default_factory=in_memory_sharing)
    workers: Workers | None = None
    keys: Callable[[], bytes] | None = None
    policy: Callable[[], str] | None = None
    is_emulated: bool = True
    secrets: SecretReader | None = None


@dataclass(frozen=True, slots=True)
class EventServices:
    """What works with events. ``indexing``: what the index is told by. ``registry`` is built when it is first asked for."""

    log: RunEventLog
    writers: Writers
    told: ToldSteps
    index: EventIndex
    indexing: EventIndexing
    logs: StepLogs
    steps: Steps
    browser: EventBrowser
    watch: CompletenessWatch
    registry: Callable[[], Registry]


@dataclass(frozen=True, slots=True)
class Services:
    """What routes and triggers work with. Holds no state of runs: any number of processes may have one. ``door`` is built when it is
    first asked for: only the API lets anybody in. Raises InvalidConfigurationError."""

    settings: Settings
    store: ObjectStore
    archive_store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    database: Database
    publisher: Publisher | None
    clock: Clock
    sharing: Sharing
    workers: Workers | None
    layout: Layout
    writer: Writer
    compactor: Compactor
    finalizer: Finalizer
    reader: Reader
    follower: Follower
    grep: Grep
    pipelines: Pipelines
    masker: Masker
    events: EventServices
    router: Callable[[], Router]
    search: Search
    latest: LatestFiles
    registration: Registration
    cursors: CursorSigner
    archive_objects: ArchiveObjects
    archive: Archive
    uploads: Uploads
    door: Callable[[], Door]
    sealer: Sealer


_services: Services | None = None
_building = Lock()


def services() -> Services:
    """This process's services, built from its environment when they are first asked for. Raises InvalidConfigurationError."""
    if _services is None:
        with _building:
            if _services is None:
                install(_from_environment())
    assert _services
    return _services


def install(built: Services | None) -> None:
    """Use these services in this process from now on; None: build them anew when they are asked for."""
    global _services
    _services = built


def assemble(settings: Settings, ports: Ports) -> Services:
    """Runlake over any set of ports."""
    store = ObservedStore(ports.store)
    layout = Layout(settings.prefix)
    masker = _masker(settings, ports)
    writer = Writer(store, ports.index, layout, PositionSigner(settings.signing_keys), ports.clock, _identities(settings, masker))
    events = _EventParts(store, ports, layout, settings)
    compactor = Compactor(store, ports.index, layout, ports.clock, index_events=events.indexing.bring_up_to_date)
    finalizer = Finalizer(store, compactor, writer, ports.clock, settings.storage_class)
    reader = Reader(store, ports.index, layout, ports.clock, compactor)
    archive_store = ObservedStore(ports.archive_store)
    search = Search(ports.database)
    latest = LatestFiles(ports.database, search)
    registration = Registration(ports.database, latest, ports.clock)
    archive_objects = ArchiveObjects(archive_store, settings.archive_bucket_name)
    stores = {settings.archive_bucket_name: archive_store, settings.bucket_name: store}
    return Services(
        settings=settings,
        store=store,
        archive_store=archive_store,
        index=ports.index,
        runs=ports.runs,
        database=ports.database,
        publisher=ports.publisher,
        clock=ports.clock,
        sharing=ports.sharing,
        workers=ports.workers,
        layout=layout,
        writer=writer,
        compactor=compactor,
        finalizer=finalizer,
        reader=reader,
        follower=Follower(store, ports.index, layout, ports.clock, reader, settings.viewer_idle_minutes * _MS_OF_A_MINUTE),
        grep=Grep(reader, ports.clock),
        pipelines=Pipelines(store, layout),
        masker=masker,
        events=events.services(ports, settings, writer, reader, masker),
        router=cache(lambda: Router.of(_events_configuration(settings).rules)),
        search=search,
        latest=latest,
        registration=registration,
        cursors=CursorSigner(settings.signing_keys),
        archive_objects=archive_objects,
        archive=Archive(archive_objects, stores, registration, ports.clock),
        uploads=Uploads(archive_store, ports.clock, lambda: uuid4().hex),
        door=cache(lambda: _door(settings, ports)),
        sealer=Sealer(settings.signing_keys),
    )


class _EventParts:
    """What of events the compactor needs, and the rest once there is a reader."""

    def __init__(self, store: ObjectStore, ports: Ports, layout: Layout, settings: Settings) -> None:
        self._store, self._layout = store, layout
        self.index = EventIndex(ports.database, ports.clock, settings.expiration_days * _SECONDS_OF_A_DAY)
        self.told = ToldSteps(store, layout, self.index)
        self.indexing = EventIndexing(store, layout, self.index, self.told)

    def services(self, ports: Ports, settings: Settings, writer: Writer, reader: Reader, masker: Masker) -> EventServices:
        """All of it."""
        store, layout, clock = self._store, self._layout, ports.clock
        views, writers = Views(store, ports.index, layout), Writers(store, layout, clock)
        tails, grace_ms = EventTails(views, self.indexing, self.index, clock), settings.events_lost_after_seconds * _MS_OF_A_SECOND
        log = RunEventLog(store, layout, clock, writer, reader, masker, settings.instance_id, record_masked)
        logs, steps = StepLogs(views, self.index, tails), StepEvents(views, self.index, self.indexing, tails)
        browser = EventBrowser(reader, views, tails, self.indexing, steps, ports.index, clock, settings.instance_id)
        return EventServices(
            log=log,
            writers=writers,
            told=self.told,
            index=self.index,
            indexing=self.indexing,
            logs=logs,
            steps=Steps(views, self.index, tails),
            browser=browser,
            watch=CompletenessWatch(writers, self.index, writer.tails, clock, grace_ms),
            registry=cache(lambda: _registry(settings, clock, masker, (store, log, writers, views, logs, browser))),
        )


def _registry(settings: Settings, clock: Clock, masker: Masker, run_log: tuple[Any, ...]) -> Registry:
    from chalicelib.events.registry import Context, Registry, RunLogParts

    make_output = partial(_output, clock, masker)
    return Registry(Context(clock, masker.mask, RunLogParts(*run_log), make_output), _events_configuration(settings))


def _output(clock: Clock, masker: Masker, document: Any) -> MakeSink:
    from chalicelib.events.methods import to_target
    from chalicelib.events.targets.configuration import target_of

    return to_target(partial(make_target, target_of(document)), masker, clock)


def _events_configuration(settings: Settings) -> EventsConfiguration:
    from chalicelib.events.configuration import configured

    document = settings.events.get_secret_value() if settings.events else ""
    return configured(document, settings.logging_method, settings.log_browser)


def _door(settings: Settings, ports: Ports) -> Door:
    """How callers of the API show who they are."""
    from chalicelib.access.doors import IamDoor, OpenDoor, TokenDoor

    settings.check_auth(is_emulated=ports.is_emulated)
    if settings.auth == "none":
        return OpenDoor()
    if settings.auth == "iam":
        return IamDoor(_policy(ports))
    from chalicelib.access.keys import Keys
    from chalicelib.access.tokens import Tokens

    assert ports.keys and settings.jwt_issuer
    keys = Keys(ports.keys, ports.clock, report_stale_identity)
    tokens = Tokens(keys, settings.jwt_issuer, settings.audiences, settings.jwt_leeway_seconds)
    return TokenDoor(tokens, settings.jwt_claim, _policy(ports))


def _policy(ports: Ports) -> Callable[[], Policy]:
    from chalicelib.access.kept import Kept
    from chalicelib.access.policy import Policy

    if ports.policy is None:
        return Policy
    read = ports.policy
    return Kept(lambda: Policy.parse(read()), ports.clock, "the policy", report_stale_identity).get


def _masker(settings: Settings, ports: Ports) -> Masker:
    rules = parsed_text(settings.masking.get_secret_value() if settings.masking else "[]")
    return Masker(rules, ports.secrets, ports.clock)


def _identities(settings: Settings, masker: Masker) -> Identities:
    """Without the setting nothing was ever masked; an empty list says that something may have been."""
    return Identities(settings.signing_keys, masker.may_vary) if settings.masking else Identities(settings.signing_keys)


def make_target(configuration: TargetConfiguration) -> Target:
    """Another system that events are sent to. Raises UnavailableError when its credentials cannot be read."""
    from chalicelib.aws.clients import make_client
    from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
    from chalicelib.aws.http import Urllib3Transport, signed
    from chalicelib.events.targets.configuration import CloudWatchLogs, Elasticsearch, target_over_http

    if isinstance(configuration, CloudWatchLogs):
        return CloudWatchLogsTarget(make_client("logs", region=configuration.region), configuration.group, configuration.shape)
    transport: Transport = Urllib3Transport()
    if isinstance(configuration, Elasticsearch) and configuration.sign:
        transport = signed(transport, configuration.region, configuration.sign)
    return target_over_http(configuration, transport, _secrets)


def coordinator(services: Services, source: str) -> SourceCoordinator:
    """This invocation's part in sharing out a source of work. Its figures are metrics."""
    from chalicelib.coordination import SourceCoordinator

    return SourceCoordinator(*services.sharing(source), services.clock, record)


def administration(services: Services, source: str) -> Administration:
    """What an operator does with a source of work."""
    from chalicelib.coordination import Administration

    return Administration(*services.sharing(source), services.clock)


def leased_finalizer(services: Services, lease: Lease, *, readers: int = READERS, looks_for_markers: bool = True) -> Finalizer:
    """What compacts and finishes runs, and asks the lease before each call of the store. See ``Assembler`` and ``Finalizer``."""
    from chalicelib.coordination.guard import guarded

    store = guarded(services.store, lease)
    # The index is not guarded: what is written there twice is the same.
    index_events = services.events.indexing.bring_up_to_date
    compactor = Compactor(store, services.index, services.layout, services.clock, readers, index_events)
    writer = Writer(store, services.index, services.layout, PositionSigner(services.settings.signing_keys), services.clock)
    storage_class = services.settings.storage_class
    return Finalizer(store, compactor, writer, services.clock, storage_class, looks_for_markers=looks_for_markers)


def ingester(services: Services) -> Ingester:
    """What works S3's notifications."""
    from chalicelib.ingestion.ingester import Ingester
    from chalicelib.ingestion.run_objects import EARLY_FLUSH_S, RunObjects

    def early_flush(run: Run) -> None:
        services.compactor.compact(run, Deadline(services.clock, EARLY_FLUSH_S))

    bucket, watermark_bytes = services.settings.bucket_name, services.settings.early_flush_watermark_bytes
    store, index, runs, layout = services.store, services.index, services.runs, services.layout
    return Ingester(
        run_objects=RunObjects(bucket, store, index, runs, layout, watermark_bytes, early_flush, services.events.indexing.landed),
        run_files=run_files(services),
        archive=services.archive_objects,
        registration=services.registration,
        clock=services.clock,
        publisher=services.publisher,
    )


def run_files(services: Services) -> RunFiles:
    """What looks at finished logs as files."""
    from chalicelib.ingestion.run_files import RunFiles

    return RunFiles(services.settings.bucket_name, services.store, services.index, services.layout)


def _from_environment() -> Services:
    from chalicelib import settings

    loaded = settings.load()
    return assemble(loaded, _aws_ports(loaded))


def _aws_ports(settings: Settings) -> Ports:
    """Imported here: boto3 and the settings' machinery are most of a cold start, and packaging or tests need neither."""
    from chalicelib.aws.clients import make_client
    from chalicelib.aws.clock import SystemClock
    from chalicelib.aws.database import DynamoDbDatabase
    from chalicelib.aws.dynamodb import Table
    from chalicelib.aws.publisher import SnsPublisher
    from chalicelib.catalog.dynamodb_runs import DynamoDbRunCatalog
    from chalicelib.catalog.segments import DynamoDbSegmentIndex

    database, topics = make_client("dynamodb", region=None), make_client("sns", region=None)
    _count_requests(database, CATALOG_REQUESTS)
    _count_requests(topics, REPORTS_PUBLISHED)
    keep_s = settings.expiration_days * _SECONDS_OF_A_DAY
    topic = settings.report_topic_arn
    return Ports(
        store=_s3_store(settings, settings.bucket_name),
        archive_store=_s3_store(settings, settings.archive_bucket_name),
        index=DynamoDbSegmentIndex(Table(database, settings.segments_table), keep_s),
        runs=DynamoDbRunCatalog(Table(database, settings.runs_table), keep_s),
        database=DynamoDbDatabase(database, _schemas(settings)),
        publisher=SnsPublisher(topics, topic) if topic else None,
        clock=SystemClock(),
        sharing=_sharing(settings),
        workers=_workers(),
        keys=partial(_keys, settings),
        policy=partial(_policy_text, settings.policy_parameter) if settings.policy_parameter else None,
        is_emulated=_is_emulated(),
        secrets=_secrets,
    )


def _is_emulated() -> bool:
    """Whether AWS is an emulator on this machine. A function on AWS reaches nothing there, whatever its variables say."""
    return urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in _THIS_MACHINE


def _keys(settings: Settings) -> bytes:
    from chalicelib.access.download import downloaded

    assert settings.jwt_jwks_url
    return downloaded(settings.jwt_jwks_url)


def _policy_text(parameter: str) -> str:
    return _read_secret("ssm", parameter)


def _secrets(name: SecretName) -> str:
    return _read_secret(name.service, name.name, name.field)


def _read_secret(service: str, name: str, field: str = "") -> str:
    from chalicelib.aws.clients import make_client
    from chalicelib.aws.secrets import read_secret

    return read_secret(partial(make_client, region=None), service, name, field)


def _sharing(settings: Settings) -> Sharing:
    from chalicelib.coordination.building import make_source, make_store
    from chalicelib.coordination.settings import parsed

    coordination = parsed(settings.source_coordination)

    @cache
    def store() -> Store:
        from chalicelib.aws.clock import SystemClock
        from chalicelib.aws.coordination import CoordinationAws

        return make_store(coordination, CoordinationAws(SystemClock(), watch=partial(_count_requests, metric=CATALOG_REQUESTS)))

    return lambda source: (store(), make_source(coordination, source))


def _workers() -> Workers | None:
    """Of the function that this process is of, if it is of one."""
    from chalicelib.aws.workers import LambdaWorkers

    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    return LambdaWorkers(name) if name else None


def _count_requests(client: Any, metric: str) -> None:
    """Each request that leaves for a service, retries included. S3's are counted by their latencies."""
    client.meta.events.register("before-send", lambda **_: record(metric, 1))


def _schemas(settings: Settings) -> dict[str, Any]:
    from chalicelib.aws.database import Schema

    return {
        FILES: Schema(settings.files_table, "time_index_key", "range_key"),
        LATEST: Schema(settings.latest_table, "what_where_key"),
        LISTING: Schema(settings.listing_table, "partition", "at"),
        OBJECTS: Schema(settings.objects_table, "key"),
        EVENTS: Schema(settings.segments_table, "run", "at"),
    }


def _s3_store(settings: Settings, bucket: str) -> ObjectStore:
    """A bucket. Region, endpoint and static credentials are of the store alone: the catalog is always AWS's."""
    from chalicelib.aws.clients import PATIENT_READ_TIMEOUT_S, make_client
    from chalicelib.aws.object_store import Encryption, S3ObjectStore

    secret, token = settings.aws_secret_access_key, settings.aws_session_token
    arguments: dict[str, Any] = {
        "region": settings.aws_region,
        "endpoint_url": settings.aws_endpoint_url,
        "aws_access_key_id": settings.aws_access_key_id,
        "aws_secret_access_key": secret.get_secret_value() if secret else None,
        "aws_session_token": token.get_secret_value() if token else None,
    }
    algorithm = _SSE[settings.sse_algorithm] if settings.enable_server_side_encryption else None
    return S3ObjectStore(
        make_client("s3", **arguments),
        bucket,
        Encryption(algorithm, settings.kms_key_id),
        patient=lambda: make_client("s3", read_timeout_s=PATIENT_READ_TIMEOUT_S, **arguments),
    )
