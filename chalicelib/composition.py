"""Everything wired together: the one place that knows which implementation stands behind which port.

Nothing is built at import. On Lambda ``app.py`` asks for it while the function starts, when there is the most CPU; elsewhere the
first request does.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from chalicelib.catalog.runs import RunCatalog
from chalicelib.observability import CATALOG_REQUESTS, REPORTS_PUBLISHED, ObservedStore, record
from chalicelib.ports import Clock, ObjectStore, Publisher, Run, SegmentIndex
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.deadline import Deadline
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.position import PositionSigner
from chalicelib.runlog.reader import Reader
from chalicelib.runlog.writer import Writer

if TYPE_CHECKING:
    from chalicelib.ingestion.ingester import Ingester
    from chalicelib.settings import Settings

EARLY_FLUSH_S = 20.0
"""How long a notification may hold its function to compact a run that has outgrown the watermark; the schedule does the rest."""
_SECONDS_OF_A_DAY = 86_400
_SSE = {"AES_256": "AES256", "AWS_KMS": "aws:kms"}


@dataclass(frozen=True, slots=True)
class Ports:
    """What the outside world is reached through. ``store`` is not yet observed; ``publisher`` None: nothing is reported."""

    store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    publisher: Publisher | None
    clock: Clock


@dataclass(frozen=True, slots=True)
class Services:
    """What routes and triggers work with. Holds no state of runs: any number of processes may have one."""

    settings: Settings
    store: ObjectStore
    index: SegmentIndex
    runs: RunCatalog
    publisher: Publisher | None
    clock: Clock
    layout: Layout
    writer: Writer
    compactor: Compactor
    finalizer: Finalizer
    reader: Reader


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
    writer = Writer(store, ports.index, layout, PositionSigner(settings.signing_keys), ports.clock)
    compactor = Compactor(store, ports.index, layout, ports.clock)
    finalizer = Finalizer(store, compactor, writer, ports.clock, settings.storage_class)
    reader = Reader(store, ports.index, layout, ports.clock, compactor)
    return Services(
        settings=settings,
        store=store,
        index=ports.index,
        runs=ports.runs,
        publisher=ports.publisher,
        clock=ports.clock,
        layout=layout,
        writer=writer,
        compactor=compactor,
        finalizer=finalizer,
        reader=reader,
    )


def ingester(services: Services) -> Ingester:
    """What works S3's notifications."""
    from chalicelib.ingestion.ingester import Ingester

    def early_flush(run: Run) -> None:
        services.compactor.compact(run, Deadline(services.clock, EARLY_FLUSH_S))

    return Ingester(
        bucket=services.settings.bucket_name,
        store=services.store,
        index=services.index,
        runs=services.runs,
        layout=services.layout,
        clock=services.clock,
        publisher=services.publisher,
        watermark_bytes=services.settings.early_flush_watermark_bytes,
        early_flush=early_flush,
    )


def _from_environment() -> Services:
    from chalicelib import settings

    loaded = settings.load()
    return assemble(loaded, _aws_ports(loaded))


def _aws_ports(settings: Settings) -> Ports:
    """Imported here: boto3 and the settings' machinery are most of a cold start, and packaging or tests need neither."""
    from chalicelib.aws.clients import make_client
    from chalicelib.aws.clock import SystemClock
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
        store=_s3_store(settings),
        index=DynamoDbSegmentIndex(Table(database, settings.segments_table), keep_s),
        runs=DynamoDbRunCatalog(Table(database, settings.runs_table), keep_s),
        publisher=SnsPublisher(topics, topic) if topic else None,
        clock=SystemClock(),
    )


def _count_requests(client: Any, metric: str) -> None:
    """Each request that leaves for a service, retries included. S3's are counted by their latencies."""
    client.meta.events.register("before-send", lambda **_: record(metric, 1))


def _s3_store(settings: Settings) -> ObjectStore:
    """The bucket. Region, endpoint and static credentials are of the store alone: the catalog is always AWS's."""
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
        settings.bucket_name,
        Encryption(algorithm, settings.kms_key_id),
        patient=lambda: make_client("s3", read_timeout_s=PATIENT_READ_TIMEOUT_S, **arguments),
    )
