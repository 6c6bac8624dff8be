"""Facts about a step that clients report apart from its events: name, parent, start, end and status.

``{run}/events/steps/{step}``: JSON with the newest value of each field, and a version that counts the changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chalicelib.errors import (
    DamagedLogError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreUnavailableError,
    WriteConflictError,
)
from chalicelib.events.event import Timestamp
from chalicelib.events.index import EventIndex
from chalicelib.events.masking import masked_step
from chalicelib.events.names import MAX_NAME_CHARS, checked_label, checked_name
from chalicelib.events.well_formed import WellFormedText
from chalicelib.masking.fields import FieldMask
from chalicelib.masking.mask import Masked
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import Layout

_TRIES = 8
StepStatus = Literal["running", "succeeded", "failed"]
_Name = Annotated[WellFormedText, Field(min_length=1, max_length=MAX_NAME_CHARS)]


class StepUpdate(BaseModel):
    """An update of a step. Omitted fields keep their values; null removes a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    name: _Name | None = None
    parent: _Name | None = None
    started_ms: Timestamp | None = Field(None, alias="startedMs")
    ended_ms: Timestamp | None = Field(None, alias="endedMs")
    status: StepStatus | None = None


class StepUpdates:
    """Stores updates of steps on S3. Names are masked by the pipeline's rules (``mask`` takes its FQN). ``index`` is updated at
    once, and again by the S3 notification."""

    def __init__(
        self, store: ObjectStore, layout: Layout, index: EventIndex, mask: Callable[[str, bytes], Masked] | None = None
    ) -> None:
        self._store, self._layout, self._index, self._mask = store, layout, index, mask

    def record(self, run: Run, step: str, update: StepUpdate) -> StepUpdate:
        """Merge an update into the stored document. A GET, a PUT and a row. Repeatable. Raises InvalidEventError, InvalidNameError,
        UnavailableError."""
        self._layout.check_new(run)
        step, update = self._masked(run, step, update)
        for label in (update.name, update.parent):
            checked_label("step", label or "")
        key = self._layout.step(run, checked_name("step", step))
        for _ in range(_TRIES):
            seen, etag = self._read(key)
            merged = {**seen, **update.model_dump(by_alias=True, exclude_unset=True)}
            if merged == seen and etag:
                return parse_step_update(merged)
            merged["version"] = int(seen.get("version", 0)) + 1
            condition = Condition(if_match=etag) if etag else ABSENT
            try:
                self._store.put(key, json.dumps(merged).encode(), PutOptions(content_type="application/json"), condition)
            except (PreconditionFailedError, WriteConflictError):
                continue
            self._index.put_step_update(run, step, merged, merged["version"])
            return parse_step_update(merged)
        raise StoreUnavailableError(f"the step is being changed concurrently step={step[:80]!r} tries={_TRIES}")

    def _masked(self, run: Run, step: str, update: StepUpdate) -> tuple[str, StepUpdate]:
        """Mask names as those of events are masked."""
        if self._mask is None:
            return step, update
        fields = FieldMask(partial(self._mask, run.fqn))
        names = {field: getattr(update, field) for field in ("name", "parent")}
        changes = {field: masked_step(name, fields) for field, name in names.items() if name is not None}
        return masked_step(step, fields), update.model_copy(update=changes)

    def index_stored(self, run: Run, step: str) -> None:
        """Index the stored document of a step. A GET and a row. Raises ObjectNotFoundError."""
        document, _ = self._read(self._layout.step(run, step))
        if not document:
            raise ObjectNotFoundError(f"no update of the step is stored step={step[:80]!r}")
        self._index.put_step_update(run, step, document, int(document["version"]))

    def _read(self, key: str) -> tuple[dict[str, Any], str]:
        try:
            stored = self._store.get(key)
        except ObjectNotFoundError:
            return {}, ""
        try:
            document = json.loads(stored.body)
            parse_step_update(document)
            return dict(document), stored.info.etag
        except (ValueError, TypeError) as error:
            raise DamagedLogError(f"not a step update key={key}") from error


def parse_step_update(document: Mapping[str, Any]) -> StepUpdate:
    """Read the fields of an object or a row. Raises ValueError."""
    try:
        return StepUpdate.model_validate({name: value for name, value in document.items() if name != "version"})
    except ValidationError as error:
        raise ValueError(str(error)) from None
