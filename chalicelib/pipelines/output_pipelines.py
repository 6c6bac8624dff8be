"""Pipelines of the configured ``outputs``: each output is delivered by a pipeline of its own, so that a slow one delays no other.

``output.NAME`` names the pipeline, and its checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.targets.configuration import target_of
from chalicelib.pipelines.configuration import FORWARD_HANDLER, PipelineFile, Properties

PREFIX = "output."
HANDLER = "forward"


@dataclass(frozen=True, slots=True)
class Output:
    """A target that gets the events of runs that ``patterns`` select, as in ``RunSelection``. ``target``: as in docs/forwarding.md."""

    name: str
    target: JsonValue
    patterns: tuple[str, ...] = ("*",)


def output_pipeline(output: Output, defaults: Properties | None = None) -> PipelineFile:
    """The pipeline of an output. Raises InvalidConfigurationError, whose message has no values."""
    target_of(output.target)
    logging = {
        "version": 1,
        "handlers": {HANDLER: {"class": FORWARD_HANDLER, "target": output.target}},
        "root": {"level": "NOTSET", "handlers": [HANDLER]},
    }
    try:
        return PipelineFile.model_validate({
            "name": PREFIX + output.name,
            "properties": (defaults or Properties()).model_dump(),
            "source": {"what": output.patterns},
            "logging": logging,
        })  # fmt: skip
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InvalidConfigurationError(
            f"invalid output, {wrong['msg'].lower()} field={'.'.join(map(str, wrong['loc']))}"
        ) from None
