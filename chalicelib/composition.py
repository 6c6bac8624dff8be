"""Everything wired together: the one place that knows which implementation stands behind which port.

Nothing is built at import. On Lambda ``app.py`` asks for it while the function starts, when there is the most CPU; elsewhere the
first request does.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from chalicelib.observability import ObservedStore
from chalicelib.ports import Clock, ObjectStore, Publisher, SegmentIndex
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.position import PositionSigner
from chalicelib.runlog.reader import Reader
from chalicelib.runlog.writer import Writer

if TYPE_CHECKING:
    from chalicelib.catalog.runs import RunCatalog
    from chalicelib.settings import Settings  # with pydantic-settings, a fifth of a cold start


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


def _from_environment() -> Services:
    from chalicelib import settings

    loaded = settings.load()
    return assemble(loaded, _aws_ports(loaded))
