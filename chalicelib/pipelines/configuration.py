"""A pipeline as its file describes it: one YAML file, checked whole before anything of it is built.

``logging`` is what ``logging.config.dictConfig`` takes, without what is about a process: nothing is incremental, nothing is disabled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from chalicelib.errors import InvalidConfigurationError

MAX_FILE_BYTES = 256 * 1024
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
FINALIZED: Literal["finalized"] = "finalized"
LIVE: Literal["live"] = "live"
_MIB = 1024 * 1024
_ROOT = "root"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Properties(_Part):
    """How a pipeline works. ``buffer_bytes`` 0: automatic. A file may say each of these, and no other; what it leaves out is the
    installation's (``RUNLAKE_PIPELINE_…``)."""

    event_delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 2000
    buffer_bytes: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    checkpoint_interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 10_000
    fetch_bytes: Annotated[int, Field(ge=1024, le=64 * _MIB)] = _MIB
    logger_cache_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    logger_cache_ttl_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 300_000


class Errors(_Part):
    """When a handler is given up: more than ``max`` errors in ``window_s`` seconds. ``retries`` of one event before it is set aside."""

    max: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    window_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    retries: Annotated[int, Field(ge=0, le=20)] = 3


class Source(_Part):
    """Which runs: ``live`` are those that go on, ``finalized`` those that have ended, also before there was the pipeline. ``what``:
    patterns of pipelines' names (FQN) with ``*``, ``?`` and ``[…]``."""

    include: tuple[Literal["finalized", "live"], ...] = (FINALIZED, LIVE)
    what: tuple[str, ...] = ("*",)

    @field_validator("include", "what", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _has_some(self) -> Self:
        if not self.include or not self.what:
            raise ValueError("include and what name one at least")
        return self

    def wants(self, fqn: str) -> bool:
        """Whether runs of this name are worked."""
        return any(fnmatchcase(fqn, pattern) for pattern in self.what)


_Named = Mapping[str, Mapping[str, Any]]


class Logging(_Part):
    """What ``dictConfig`` takes. Each handler that is named is there; one at least gets events."""

    version: Literal[1]
    formatters: _Named = {}
    filters: _Named = {}
    handlers: _Named
    loggers: _Named = {}
    root: Mapping[str, Any] = {}
    disable_existing_loggers: bool = False
    """Of a process: without effect."""

    @field_validator("root", "loggers")
    @classmethod
    def _has_known_keys(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {"level", "handlers", "filters", "propagate"}
        loggers = value.values() if value and all(isinstance(each, Mapping) for each in value.values()) else [value]
        unknown = sorted({str(key) for each in loggers for key in each if key not in known})
        if unknown:
            raise ValueError(f"a logger has {', '.join(sorted(known))}, not {', '.join(unknown)}")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        named = [name for _, logger in self.each_logger() for name in logger.get("handlers") or ()]
        unknown = sorted({str(name) for name in named if name not in self.handlers})
        if unknown:
            raise ValueError(f"no such handler: {', '.join(unknown)}")
        if not named:
            raise ValueError("no logger has a handler, so nothing would be done with any event")
        lost = sorted(name for name, handler in self.handlers.items() if "class" not in handler and "()" not in handler)
        if lost:
            raise ValueError(f"a handler has class or (): {', '.join(lost)}")
        return self

    def each_logger(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The configured loggers by name; the root's is empty."""
        yield "", self.root
        yield from self.loggers.items()


class PipelineFile(_Part):
    """A pipeline. ``name`` is unique, and names its checkpoint."""

    name: Annotated[str, Field(pattern=NAME)]
    properties: Properties = Properties()
    errors: Errors = Errors()
    source: Source = Source()
    logging: Logging


def parsed(text: str, stem: str, defaults: Properties | None = None) -> PipelineFile:
    """The pipeline of a file. ``stem``: its name without its ending, the pipeline's where it says none. Raises
    InvalidConfigurationError, which names each thing that is wrong."""
    document = _document(text, stem)
    document.setdefault("name", stem)
    given = document.get("properties")
    if isinstance(given, dict) and defaults is not None:
        document["properties"] = {**defaults.model_dump(), **given}
    elif given is None:
        document["properties"] = (defaults or Properties()).model_dump()
    try:
        return PipelineFile.model_validate(document)
    except ValidationError as error:
        told = "; ".join(_told(each) for each in error.errors(include_url=False))
        raise InvalidConfigurationError(f"{told} file={stem}") from None


def _document(text: str, stem: str) -> dict[str, Any]:
    if len(text) > MAX_FILE_BYTES:
        raise InvalidConfigurationError(f"a pipeline's file has at most {MAX_FILE_BYTES} bytes file={stem}")
    try:
        document = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidConfigurationError(f"no yaml: {' '.join(str(error).split())} file={stem}") from None
    if not isinstance(document, dict):
        raise InvalidConfigurationError(f"a pipeline's file holds names and values file={stem}")
    return document


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
    """Plain values only, and each name once: YAML itself would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"a name stands twice: {twice}", node.start_mark)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _told(error: ErrorDetails) -> str:
    name = ".".join(map(str, error["loc"])) or "file"
    message = error["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(error["input"], Mapping) else f" value={str(error['input'])[:80]!r}"
    return f"{message[:1].lower()}{message[1:]} at={name}{shown}"
