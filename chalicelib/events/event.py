"""The event: message, time, writer, step and data; JSON throughout. From the seed ``jenkins-jep-212``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from chalicelib.errors import InvalidEventError
from chalicelib.events.names import MAX_NAME_CHARS
from chalicelib.events.well_formed import WellFormedJson, WellFormedText, well_formed
from chalicelib.ports import Run

INSTANCE_ID, LOGGABLE_TYPE, LOGGABLE_ID, JOB_ID, STEP_ID = "instanceId", "loggableType", "loggableId", "jobId", "stepId"
RUN = "run"
"""The loggable type of a run, the only one that has logs."""
MANDATORY = (INSTANCE_ID, LOGGABLE_TYPE, LOGGABLE_ID, JOB_ID)
"""Names of mandatory data of a run's events."""
INJECTED = frozenset({*MANDATORY, STEP_ID})
"""Names of data that the archive adds to each event of a run."""
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
MAX_LEVEL_CHARS = 40

Timestamp = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP_MS, description="In ms since the epoch.")]
# ``validation`` checks the lengths.
_Step = Annotated[WellFormedText, Field(json_schema_extra={"maxLength": MAX_NAME_CHARS})]
_Level = Annotated[
    WellFormedText,
    Field(description="A common name of a level; other names are rejected.", json_schema_extra={"maxLength": MAX_LEVEL_CHARS}),
]
_Data = Annotated[
    Mapping[str, JsonValue],
    BeforeValidator(well_formed),
    Field(description="Additional fields. The archive adds `instanceId`, `loggableType`, `loggableId` and `jobId`."),
]


class Annotation(BaseModel):
    """A note on the text (a link, a color, a fold): ``position`` in characters of the message, ``note`` any JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    position: Annotated[int, Field(ge=0, description="Offset in the message, in characters.")]
    note: Annotated[WellFormedJson, Field(description="Any JSON, for example a link, a color or a fold.")]


class NewEvent(BaseModel):
    """An event. Default of `timestamp`: the time of arrival. The ids of a writer's events count from 0; without a writer they are ignored."""

    # The single place that replaces lone surrogates and bounds nesting, for events from HTTP, agents and Python.

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    message: Annotated[WellFormedText, Field(description="One line or more.")]
    timestamp: Timestamp | None = None
    id: Annotated[int, Field(ge=0, description="Unique within its writer.")] | None = None
    step: _Step | None = None
    level: _Level | None = None
    data: _Data = {}
    annotations: Annotated[tuple[Annotation, ...], Field(description="Notes on parts of the message.")] = ()


class Event(BaseModel):
    """A complete event. ``id`` is unique within its writer; ``data`` has the mandatory data."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Annotated[int, Field(ge=0)]
    message: str
    timestamp: Timestamp
    data: Mapping[str, JsonValue]
    annotations: tuple[Annotation, ...] = ()
    level: str | None = None
    writer: str = ""

    @property
    def step(self) -> str | None:
        """The step that the event belongs to."""
        step = self.data.get(STEP_ID)
        return step if isinstance(step, str) else None


class WriterEndEvent(Event):
    """The record of a closed writer, sent to other systems after its events: ``id`` is their number, since their ids are 0 to ``id``
    - 1. ``timestamp``: when it was closed, or of its last event if that is later."""

    last_timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Loggable:
    """The subject of a log. For a run: ``loggable_id`` is the run id, ``job_id`` the pipeline's FQN. Browsers refuse other types."""

    instance_id: str
    loggable_type: str
    loggable_id: str
    job_id: str | None = None

    @classmethod
    def of_run(cls, run: Run, instance_id: str) -> Loggable:
        """A run on an installation."""
        return cls(instance_id, RUN, run.run_id, run.fqn)

    def mandatory_data(self, step: str | None = None) -> dict[str, JsonValue]:
        """The data that a writer injects into each event."""
        given = {INSTANCE_ID: self.instance_id, LOGGABLE_TYPE: self.loggable_type, LOGGABLE_ID: self.loggable_id}
        more = {JOB_ID: self.job_id, STEP_ID: step}
        return {**given, **{name: value for name, value in more.items() if value is not None}}

    def owns(self, data: Mapping[str, JsonValue]) -> bool:
        """Whether the data of an event names this loggable, letter by letter."""
        return all(data.get(name) == value for name, value in self.mandatory_data().items())


def loggable_of(data: Mapping[str, JsonValue]) -> Loggable | None:
    """The loggable that the data of an event names; None if mandatory data is missing."""
    instance, kind, id_, job = (data.get(name) for name in (INSTANCE_ID, LOGGABLE_TYPE, LOGGABLE_ID, JOB_ID))
    if not (isinstance(instance, str) and isinstance(kind, str) and isinstance(id_, str)):
        return None
    return Loggable(instance, kind, id_, job if isinstance(job, str) else None)


def complete_data(data: Mapping[str, JsonValue], loggable: Loggable, step: str | None) -> dict[str, JsonValue]:
    """The data of an event with the mandatory data. Names that the event has itself stay, except the step."""
    return {**data, **loggable.mandatory_data(step), **{name: data[name] for name in data if name != STEP_ID}}


def invalid_field(error: ValidationError) -> str:
    """The first invalid field of a document, by names of the schema only: a name that was sent may be a secret."""
    wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = wrong["loc"][:-1] if wrong["type"] == "extra_forbidden" else wrong["loc"]
    return ".".join(map(str, place[: 1 if place[:1] == ("data",) else 3])) or "item"


def run_of(loggable: Loggable) -> Run:
    """The run of a loggable. Raises InvalidEventError for another type, and if mandatory data is missing."""
    if loggable.loggable_type != RUN:
        raise InvalidEventError(f"only runs have logs loggableType={loggable.loggable_type!r}")
    data = loggable.mandatory_data()
    if missing := [name for name in MANDATORY if not data.get(name)]:
        raise InvalidEventError(f"an event lacks mandatory data missing={','.join(missing)}")
    return Run(str(loggable.job_id), loggable.loggable_id)
