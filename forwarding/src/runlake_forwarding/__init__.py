"""Forwards a run's events to another system, for ``runlake forward``: the archive's own implementation, with the types of the standard
library only, so that the client depends on no class of the server (decision 0046)."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.targets import make_target
from chalicelib.errors import InvalidInputError, UnavailableError
from chalicelib.events.event import Loggable
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.run_forwarding import ApiSource, Get, Save, follow, forward
from chalicelib.events.targets.configuration import parsed_target
from chalicelib.ports import Run
from runlake_forwarding.writing import TargetWriter, check_target

__all__ = ["Forwarded", "TargetWriter", "check_target", "forward_run"]
_MAX_REASONS = 10


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Counts of events and requests, and the reasons of the first refused events."""

    taken: int
    refused: int
    requests: int
    repeated: int
    reasons: tuple[str, ...]


def forward_run(
    get: Get, target: str, fqn: str, run_id: str, *, instance_id: str, position: str | None, save: Save, is_live: bool
) -> Forwarded:
    """Forward the events after ``position``, and until the log is complete if ``is_live``. ``get`` reads below the run's events, and
    its errors pass; ``target``: a JSON document. After a failure the next call continues at the saved position.

    Raises ValueError (an invalid target or position; nothing was sent) and ConnectionError (the target, or a secret of it, is
    unavailable)."""
    try:
        clock = SystemClock()
        forwarder = Forwarder(make_target(parsed_target(target)), Loggable.of_run(Run(fqn, run_id), instance_id), clock)
        source = ApiSource(get)
        if is_live:
            follow(source, forwarder, clock, position, save)
        else:
            forward(source, forwarder, position, save)
        forwarder.close()
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    except UnavailableError as error:
        raise ConnectionError(str(error)) from error
    done = forwarder.figures
    reasons = tuple(f"{each.event.id if each.event else '?'} {each.reason}" for each in done.rejections[:_MAX_REASONS])
    return Forwarded(done.taken, done.refused, done.requests, done.repeated, reasons)
