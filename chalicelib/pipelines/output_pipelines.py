"""Pipelines of the configured ``outputs``: each output is delivered by a pipeline of its own, so that a slow one delays no other.

``output.NAME`` names the pipeline, and its checkpoint. The name of an output without one is its kind and a digest of its address:
another order of outputs, or other headers, change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from pydantic import JsonValue, ValidationError

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.targets.configuration import target_of, without_name
from chalicelib.pipelines.configuration import FORWARD_HANDLER, PipelineFile, Properties

PREFIX = "output."
HANDLER = "forward"
_DIGEST_BYTES = 6
_CREDENTIALS = ("headers", "headers_from")


@dataclass(frozen=True, slots=True)
class Output:
    """A target that gets the events of runs whose FQN matches one of ``patterns``. ``target``: as in docs/forwarding.md."""

    name: str
    target: JsonValue
    patterns: tuple[str, ...] = ("*",)


def configured_outputs(documents: Iterable[JsonValue]) -> Iterator[Output]:
    """The entries of ``outputs`` of RUNLAKE_EVENTS, for all runs. An invalid one is invalid for ``output_pipeline`` too."""
    for document in documents:
        try:
            name, target = without_name(document)
        except InvalidConfigurationError:
            name, target = None, document
        yield Output(name or _default_name(target), target)


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


def _default_name(target: JsonValue) -> str:
    if not isinstance(target, Mapping):
        return ""
    address = {name: value for name, value in target.items() if name not in _CREDENTIALS}
    packed = json.dumps(address, sort_keys=True).encode()
    return f"{target.get('kind')}-{blake2b(packed, digest_size=_DIGEST_BYTES).hexdigest()}"
