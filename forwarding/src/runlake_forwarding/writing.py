"""Writes new events to a target, for the client's logging method ``target``. The client masks, retries and pauses: here each request is sent
once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.targets import make_target
from chalicelib.errors import InvalidInputError, UnavailableError
from chalicelib.events.event import Annotation, Event, Loggable, WriterEndEvent, invalid_field
from chalicelib.events.forwarding import Forwarder, Rejection, RetryPolicy
from chalicelib.events.targets.configuration import parsed_target
from chalicelib.ports import Run

_Answer = TypeVar("_Answer")


def check_target(target: str) -> None:
    """Check a JSON document that describes a target. Raises ValueError, whose message has no values."""
    _mapped(lambda: parsed_target(target))


class TargetWriter:
    """Writes the events of one writer of a run to a target, in order, for ``runlake.methods.MethodWriter``. Not thread-safe. Memory: one
    request. Raises ValueError for an invalid target, ConnectionError if the target, or a secret of it, is unavailable."""

    def __init__(self, target: str, fqn: str, run_id: str, *, instance_id: str, writer: str) -> None:
        self._writer, self._loggable, self._clock = writer, Loggable.of_run(Run(fqn, run_id), instance_id), SystemClock()
        self._reasons: list[str] = []
        self._batch: Sequence[Mapping[str, Any]] = ()
        self._added, self._ended = 0, -1
        self._forwarder = _mapped(lambda: self._connected(target))

    def write(self, events: Sequence[Mapping[str, Any]]) -> Sequence[str]:
        """Send events; returns the reason for each that the target refuses for good. After ConnectionError, the same events continue with the
        first that is not settled."""
        if events != self._batch:
            self._batch, self._added, self._reasons = list(events), 0, []
        while self._added < len(self._batch):
            try:
                event = self._event(self._batch[self._added])
            except ValidationError as error:
                self._reasons.append(f"the event is invalid field={invalid_field(error)}")
            else:
                _mapped(partial(self._forwarder.add, event))
            self._added += 1
        _mapped(self._forwarder.flush)
        self._batch = ()
        return self._reasons

    def end(self, count: int, last_timestamp_ms: int | None) -> None:
        """Send the record of the writer's end, which the log browser counts by. After ConnectionError, the same record is sent again."""
        if self._ended != count:
            _mapped(lambda: self._forwarder.end(self._end(count, last_timestamp_ms)))
            self._ended = count
        _mapped(self._forwarder.flush)

    def _end(self, count: int, last_timestamp_ms: int | None) -> WriterEndEvent:
        return WriterEndEvent(
            id=count,
            message=f"writer closed events={count}",
            timestamp=max(self._clock.now_ms(), last_timestamp_ms or 0),
            data=self._loggable.mandatory_data(),
            writer=self._writer,
            last_timestamp_ms=last_timestamp_ms,
        )

    def close(self) -> None:
        """Close the connection."""
        self._target.close()

    def _connected(self, target: str) -> Forwarder:
        self._target = make_target(parsed_target(target))
        once = RetryPolicy(attempts=1)
        return Forwarder(self._target, self._loggable, self._clock, policy=once, on_rejected=self._refused)

    def _refused(self, rejection: Rejection, _request: Sequence[Event]) -> None:
        self._reasons.append(rejection.reason)

    def _event(self, event: Mapping[str, Any]) -> Event:
        notes = tuple(Annotation(position=each["position"], note=each["note"]) for each in event.get("annotations", ()))
        return Event(
            id=event["id"],
            message=event["message"],
            timestamp=event["timestamp"],
            data=event["data"],
            annotations=notes,
            level=event.get("level"),
            writer=self._writer,
        )


def _mapped(act: Callable[[], _Answer]) -> _Answer:
    try:
        return act()
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    except UnavailableError as error:
        raise ConnectionError(str(error)) from error
