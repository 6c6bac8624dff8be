"""What is told of a step beside its events: its name, its parent, when it began and ended, and how.

``{run}/events/steps/{step}``: JSON, of each field what was told last, and a version that counts the changes.
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
from chalicelib.events.masking import masked_name
from chalicelib.events.names import MAX_NAME_CHARS, checked_label, checked_new_name
from chalicelib.events.well_formed import WellFormedText
from chalicelib.masking.fields import FieldMask
from chalicelib.masking.mask import Masked
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions, Run
from chalicelib.runlog.layout import Layout

_TRIES = 8
_Name = Annotated[WellFormedText, Field(min_length=1, max_length=MAX_NAME_CHARS)]


class ToldStep(BaseModel):
    """Fields that are not given stay as they are; null takes one back."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)

    name: _Name | None = None
    parent: _Name | None = None
    started_ms: Timestamp | None = Field(None, alias="startedMs")
    ended_ms: Timestamp | None = Field(None, alias="endedMs")
    status: Literal["running", "succeeded", "failed"] | None = None


class ToldSteps:
    """Keeps what is told, its names masked by the pipeline's rules (``mask`` takes its FQN). ``index`` learns it at once, and once more when the
    notification comes."""

    def __init__(
        self, store: ObjectStore, layout: Layout, index: EventIndex, mask: Callable[[str, bytes], Masked] | None = None
    ) -> None:
        self._store, self._layout, self._index, self._mask = store, layout, index, mask

    def tell(self, run: Run, step: str, told: ToldStep) -> ToldStep:
        """Add to what is known. A GET, a PUT and a row. Repeatable. Raises InvalidEventError, InvalidNameError, UnavailableError."""
        self._layout.check_new(run)
        step, told = self._masked(run, step, told)
        for label in (told.name, told.parent):
            checked_label("step", label or "")
        key = self._layout.step(run, checked_new_name("step", step))
        for _ in range(_TRIES):
            seen, etag = self._found(key)
            merged = {**seen, **told.model_dump(by_alias=True, exclude_unset=True)}
            if merged == seen and etag:
                return read_told(merged)
            merged["version"] = int(seen.get("version", 0)) + 1
            condition = Condition(if_match=etag) if etag else ABSENT
            try:
                self._store.put(key, json.dumps(merged).encode(), PutOptions(content_type="application/json"), condition)
            except (PreconditionFailedError, WriteConflictError):
                continue
            self._index.tell(run, step, merged, merged["version"])
            return read_told(merged)
        raise StoreUnavailableError(f"others keep telling of the step step={step[:80]!r} tries={_TRIES}")

    def _masked(self, run: Run, step: str, told: ToldStep) -> tuple[str, ToldStep]:
        """Names as events have them."""
        if self._mask is None:
            return step, told
        fields = FieldMask(partial(self._mask, run.fqn))
        names = {field: getattr(told, field) for field in ("name", "parent")}
        changes = {field: masked_name("step", name, fields) for field, name in names.items() if name is not None}
        return masked_name("step", step, fields), told.model_copy(update=changes)

    def landed(self, run: Run, step: str) -> None:
        """Index what is told now. A GET and a row. Raises ObjectNotFoundError."""
        found, _ = self._found(self._layout.step(run, step))
        if not found:
            raise ObjectNotFoundError(f"nothing was told of the step step={step[:80]!r}")
        self._index.tell(run, step, found, int(found.get("version", 1)))

    def _found(self, key: str) -> tuple[dict[str, Any], str]:
        try:
            found = self._store.get(key)
        except ObjectNotFoundError:
            return {}, ""
        try:
            document = json.loads(found.body)
            read_told(document)
            return dict(document), found.info.etag
        except (ValueError, TypeError) as error:
            raise DamagedLogError(f"not what was told of a step key={key}") from error


def read_told(document: Mapping[str, Any]) -> ToldStep:
    """What an object or a row says. Raises ValueError."""
    try:
        return ToldStep.model_validate({name: value for name, value in document.items() if name != "version"})
    except ValidationError as error:
        raise ValueError(str(error)) from None
