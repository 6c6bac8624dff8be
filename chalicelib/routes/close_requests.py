"""The body of a close request: the end of the run. A body without ``outcome``, such as OpenMetadata's connectors send, is ignored."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from chalicelib.errors import InvalidInputError
from chalicelib.events.well_formed import WellFormedText, well_formed
from chalicelib.ports import EXIT_CODES, MAX_AGE_MS, RunEnd

MAX_EXCEPTION_CHARS, MAX_STEP_CHARS, MAX_SIGNAL_CHARS = 2_000, 200, 20
MAX_LOST_LINES = 10**12


class EndBody(BaseModel):
    """How a run ended. Other fields are ignored, as all are without `outcome`."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    outcome: Literal["succeeded", "failed", "cancelled"]
    exit_code: Annotated[int, Field(ge=EXIT_CODES.start, lt=EXIT_CODES.stop)] | None = Field(None, alias="exitCode")
    signal: Annotated[str, Field(max_length=MAX_SIGNAL_CHARS, pattern="^[A-Z0-9+-]*$")] = ""
    exception: Annotated[WellFormedText, Field(max_length=MAX_EXCEPTION_CHARS)] = ""
    step: Annotated[WellFormedText, Field(max_length=MAX_STEP_CHARS)] = ""
    lost_lines: Annotated[int, Field(ge=0, le=MAX_LOST_LINES)] = Field(0, alias="lostLines")
    age_ms: Annotated[int, Field(ge=0, le=MAX_AGE_MS)] = Field(0, alias="ageMs", description="Time since the run ended, in ms.")


_FIELDS = tuple(field.alias or name for name, field in EndBody.model_fields.items())


def read_run_end(event: Mapping[str, Any], mask: Callable[[bytes], bytes], now_ms: int) -> RunEnd | None:
    """The end in an API Gateway event that arrived at ``now_ms``, its texts masked; None if there is none. Raises InvalidInputError,
    UnavailableError."""
    document = _document(event)
    if document is None:
        return None
    try:
        body = EndBody.model_validate_json(json.dumps(well_formed(document)))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InvalidInputError(f"not the end of a run: {wrong['msg'].lower()} field={wrong['loc'][0]}") from error
    except ValueError as error:
        raise InvalidInputError(f"not the end of a run: {error}") from error
    exception, step = (mask(text.encode()).decode() for text in (body.exception, body.step))
    ended_ms = now_ms - body.age_ms if body.age_ms else 0
    return RunEnd(body.outcome, body.exit_code, body.signal, exception, step, body.lost_lines, ended_ms)


def _document(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The body, if it is a JSON object with an outcome."""
    raw = event.get("body") or ""
    try:
        document = json.loads(base64.b64decode(raw) if event.get("isBase64Encoded") else raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or "outcome" not in document:
        return None
    return {name: document[name] for name in _FIELDS if name in document}
