"""Logging methods: where the events of a run are written. The sender chooses one by its name; how the run is read is the archive's choice.

``runlog``, the default, sends them to the archive. Another method writes them to another system, from which the archive's log browser reads
them; the archive has the start, the steps, the writers with the number of their events, and the end of the run. ``target`` sends events to
Elasticsearch, CloudWatch Logs, Fluentd, Logstash or a receiver of OTLP.

Packages add methods as entry points of the group ``runlake.logging_methods``: factories that are called with the method's options (a mapping),
return a ``LoggingMethod``, and declare the version of these protocols that they implement, themselves or in their module::

    RUNLAKE_PROTOCOL = 1
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from runlake.errors import SettingsError
from runlake.names import RunName
from runlake.settings import RUN_LOG, Settings, settings_path
from runlake.targets import TARGET, TargetMethod

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "runlake.logging_methods"
PROTOCOL = 1
"""The version of ``LoggingMethod`` and ``MethodWriter``. It grows when an implementation would have to change."""
_DECLARATION = "RUNLAKE_PROTOCOL"


class MethodWriter(Protocol):
    """Writes the events of one writer, from one thread. Raises ConnectionError if it is unknown whether all of them are stored: the same call
    comes again, after a pause."""

    def write(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Store events in order; returns when they are durable, with the reason for each event that is refused for good. An event has ``id``,
        ``timestamp`` (ms), ``message``, ``data`` with the run's mandatory data, and, if it has them, ``level`` and ``annotations``. Ids count
        from 0. A repeated event should be stored once."""

    def end(self, count: int, last_timestamp_ms: int | None) -> None:
        """Record the end of the writer, where the system can: its ids are 0 to ``count`` - 1. Comes again after an error."""

    def close(self) -> None:
        """Release connections."""


class LoggingMethod(Protocol):
    """Creates the writers of runs."""

    def create_writer(self, run: RunName, writer: str, instance_id: str) -> MethodWriter:
        """A writer of a run, by its unique name. ``instance_id``: of the archive. Sends nothing. Raises ConnectionError."""


@dataclass(frozen=True)
class ChosenMethod:
    """The method of a run, with the name under which the archive knows it; None: the run log. ``problem``: why that replaces the configured one."""

    name: str
    method: LoggingMethod | None
    problem: str = ""


_OF_RUN_LOG = ChosenMethod(RUN_LOG, None)


def choose_method(settings: Settings, fqn: str, name: str | None = None) -> ChosenMethod:
    """The method of a pipeline's runs: ``name``, or what the settings say. A package that cannot be used is replaced by the run log, since the
    log is worth more than its place. Raises SettingsError for a name that is not installed, and for invalid options."""
    name = name or settings.method_of(fqn)
    if name == RUN_LOG:
        return _OF_RUN_LOG
    options = settings.methods.get(name, {})
    if name == TARGET and not options:
        problem = f"the logging method {name} has no options: [methods.{name}] is missing"
        raise SettingsError(problem, next_step=f"add it to {settings_path()}, with the fields of the target (client/README.md)")
    if name == TARGET:
        return ChosenMethod(name, TargetMethod(options))
    from importlib.metadata import entry_points  # imported only if needed: most programs use the run log

    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = ", ".join(sorted({RUN_LOG, TARGET, *points}))
        raise SettingsError(
            f"there is no such logging method: {name} (there are {known})", next_step="correct method, or install its package"
        )
    factory, problem = _loaded(points[name])
    if factory is None:
        return ChosenMethod(RUN_LOG, None, f"the logging method {name} {problem}")
    try:
        method = factory(options)
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"the logging method {name} refuses its options: {error}", next_step=f"correct [methods.{name}]"
        ) from error
    if not callable(getattr(method, "create_writer", None)):
        return ChosenMethod(RUN_LOG, None, f"the logging method {name} creates no writers")
    return ChosenMethod(name, method)


def _loaded(point: EntryPoint) -> tuple[Callable[[Mapping[str, Any]], LoggingMethod] | None, str]:
    """The factory, or the reason why it cannot be used."""
    try:
        factory = point.load()
    except (Exception, SystemExit) as error:
        return None, f"cannot be loaded ({type(error).__name__}: {error})"
    of_module = getattr(sys.modules.get(getattr(factory, "__module__", "")), _DECLARATION, None)
    version = getattr(factory, _DECLARATION, of_module)
    if version != PROTOCOL or isinstance(version, bool):
        return None, f"implements version {version} of the protocol, not {PROTOCOL} ({_DECLARATION})"
    return factory, ""
