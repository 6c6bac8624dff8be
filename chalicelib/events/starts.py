"""Starts of runs as clients send them: validated and masked before they are stored (``runlog.attempts``).

A client that writes to another store than the run log names its logging method. The choice is stored before the start is answered, so
before the first event (decision 0055).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from chalicelib.events.names import checked_name
from chalicelib.events.well_formed import WellFormedText
from chalicelib.masking.masker import Masker
from chalicelib.ports import MAX_AGE_MS, Run
from chalicelib.runlog.attempts import MAX_ATTEMPTS, Attempt, Attempts, StartRequest
from chalicelib.runlog.choice import NAME, RUN_LOG
from chalicelib.runlog.zone import MAX_ZONE_CHARS, checked_zone

if TYPE_CHECKING:
    from chalicelib.events.choices import RunChoices

MAX_HOST_CHARS = 255
MAX_COMMAND_CHARS = 2_000
MIN_HEARTBEAT_S, MAX_HEARTBEAT_S = 10, 86_400
_HEARTBEAT = {"anyOf": [{"const": 0}, {"type": "integer", "minimum": MIN_HEARTBEAT_S, "maximum": MAX_HEARTBEAT_S}]}


def _checked_heartbeat(value: int) -> int:
    if value and not MIN_HEARTBEAT_S <= value <= MAX_HEARTBEAT_S:
        raise ValueError(f"heartbeats must come every {MIN_HEARTBEAT_S} to {MAX_HEARTBEAT_S} seconds; 0: none")
    return value


class StartBody(BaseModel):
    """The start of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    host: Annotated[WellFormedText, Field(max_length=MAX_HOST_CHARS)] = ""
    command: Annotated[
        WellFormedText,
        Field(max_length=MAX_COMMAND_CHARS, description="The command or function; secrets are masked."),
    ] = ""
    age_ms: Annotated[int, Field(ge=0, le=MAX_AGE_MS)] = Field(0, alias="ageMs", description="Time since the run began, in ms.")
    attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] | None = Field(
        None, description="The attempt to start; omitted or null: the next free one."
    )
    join: bool = Field(
        False,
        description="Write to the running attempt with the highest number, of any client; if none is running, start the next one.",
    )
    heartbeat_s: Annotated[int, AfterValidator(_checked_heartbeat), WithJsonSchema(_HEARTBEAT)] = Field(
        0,
        alias="heartbeatS",
        description="Seconds between the heartbeats that the client will send; 0: none. The run is silent after three times as long without a "
        "line or a heartbeat.",
    )
    method: Annotated[str, Field(pattern=NAME)] = Field(
        RUN_LOG,
        description="The logging method of the client: `runlog` sends lines to this API. Another one writes elsewhere, so the pipeline needs a "
        "browser of that store, and the run takes no lines here.",
    )
    zone: Annotated[str, Field(max_length=MAX_ZONE_CHARS)] = Field(
        "",
        description="The zone of times without one in the lines of the run: a name of IANA, or an offset such as `+01:00`. It cannot change. Without "
        "one they are in UTC.",
    )


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts runs, with host and command masked by the rules of the pipeline."""

    attempts: Attempts
    masker: Masker
    choices: RunChoices

    def start(self, run: Run, start_id: str, body: StartBody) -> Attempt:
        """Start an attempt, see ``Attempts.start``, and settle its method, see ``RunChoices.settle``: by whatever method it is written later,
        no other start takes it over. Raises InvalidInputError, AttemptTakenError, NoBrowserError (nothing is stored), OtherMethodError,
        OtherZoneError, UnavailableError."""
        own = () if body.method == RUN_LOG else (body.method,)
        self.masker.check_names(run.fqn, run.fqn, run.run_id, start_id, *own)
        choice = self.choices.for_start(run.fqn, body.method)
        host, command = (self._masked(run, text) for text in (body.host, body.command))
        name, zone = checked_name("start", start_id), checked_zone(body.zone) if body.zone else ""
        request = StartRequest(name, host, command, body.age_ms, body.attempt, body.join, body.heartbeat_s, zone)
        attempt = self.attempts.start(run, request)
        self.choices.settle(attempt.run, choice)
        return attempt

    def _masked(self, run: Run, text: str) -> str:
        return self.masker.mask(run.fqn, text.encode()).body.decode()
