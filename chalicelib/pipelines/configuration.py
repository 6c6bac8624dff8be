"""The schema of a pipeline's YAML file, which is validated completely before any part is built.

``logging`` has the schema of ``logging.config.dictConfig`` without its process-wide parts: nothing is incremental, and no logger
is disabled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.targets.configuration import target_of
from chalicelib.pipelines.allowed_modules import DEFAULTS_ONLY, AllowedModules, names_in
from chalicelib.pipelines.files.path_template import clash_of, output_layout
from chalicelib.pipelines.references import References, referenced_keys
from chalicelib.pipelines.suggestions import did_you_mean

MAX_FILE_BYTES = 256 * 1024
"""The size of a file; also of its values with aliases expanded."""
MAX_VALUES = 20_000
"""The number of keys and values in a file, with each alias counted as its expansion."""
MAX_DEPTH = 50
MAX_HANDLERS = 200
MAX_HANDLER_NAME_CHARS = 200
ROLLING_HANDLER = "chalicelib.pipelines.files.handler.RollingS3Handler"
FORWARD_HANDLER = "chalicelib.pipelines.forward_handler.ForwardHandler"
_MAX_NUMBER_CHARS = 64
_MAX_REASONS = 10
MAX_SHARDS = 64
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
FINALIZED: Literal["finalized"] = "finalized"
LIVE: Literal["live"] = "live"
_MIB = 1024 * 1024
FACTORY = "()"
ERRORS = "errors"
"""The key of a handler that the framework takes, if its value is a mapping."""
REFERENCED = "referenced"
"""The field of referenced keys, which no file can set."""
_DEFINED = ("formatters", "filters", "handlers", "loggers")
EXCLUDES = "!"
"""Begins a pattern of excluded names."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Properties(_Part):
    """Properties of a pipeline. ``buffer_bytes`` 0: automatic. A file may set each of these and no other; the installation's
    settings (``RUNLAKE_PIPELINE_…``) are the defaults."""

    event_delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 2000
    buffer_bytes: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    checkpoint_interval_ms: Annotated[int, Field(ge=100, le=3_600_000)] = 10_000
    fetch_bytes: Annotated[int, Field(ge=1024, le=64 * _MIB)] = _MIB
    logger_cache_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    logger_cache_ttl_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 300_000


class Errors(_Part):
    """A handler is disabled after more than ``max`` errors in ``window_s`` seconds. ``retries`` of one event before it becomes a
    dead letter."""

    max: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    window_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    retries: Annotated[int, Field(ge=0, le=20)] = 3


class HandlerErrors(_Part):
    """``errors`` of a handler: its own instead of the pipeline's."""

    max: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    window_s: Annotated[int | None, Field(ge=1, le=86_400)] = None


class RunSelection(_Part):
    """The runs to process: ``live`` are running runs, ``finalized`` ended ones, including those from before the pipeline existed.
    ``what``: patterns of pipelines' names (FQN) with ``*``, ``?`` and ``[…]``; one after ``!`` excludes. The first that matches counts."""

    include: tuple[Literal["finalized", "live"], ...] = (FINALIZED, LIVE)
    what: tuple[str, ...] = ("*",)

    @field_validator("include", "what", mode="before")
    @classmethod
    def _is_a_list(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _has_some(self) -> Self:
        if not self.include or not self.what:
            raise ValueError("include and what must not be empty")
        return self

    def matches(self, fqn: str) -> bool:
        """Whether runs of this FQN are processed."""
        matching = (pattern for pattern in self.what if fnmatchcase(fqn, pattern.removeprefix(EXCLUDES)))
        return not next(matching, EXCLUDES).startswith(EXCLUDES)


_Named = Mapping[str, Mapping[str, Any]]


class Logging(_Part):
    """The input of ``dictConfig``. Each referenced handler is defined; at least one receives events. ``referenced``: further keys of the
    file's section that values after ``cfg://`` name; other keys are errors."""

    version: Literal[1]
    formatters: _Named = {}
    filters: _Named = {}
    handlers: _Named
    loggers: _Named = {}
    root: Mapping[str, Any] = {}
    disable_existing_loggers: bool = False
    """Process-wide in ``dictConfig``: without effect here."""
    referenced: Mapping[str, Any] = {}
    _modules: AllowedModules = PrivateAttr(default=DEFAULTS_ONLY)

    def model_post_init(self, context: Any, /) -> None:
        """Take the module list from the validation context: a file cannot set it."""
        if isinstance(context, AllowedModules):
            self._modules = context

    @property
    def modules(self) -> AllowedModules:
        """The modules that the file may name."""
        return self._modules

    @model_validator(mode="before")
    @classmethod
    def _separates_referenced_keys(cls, document: Any) -> Any:
        """Separate the referenced keys, and replace sections and definitions that are references themselves."""
        if not isinstance(document, dict):
            return document
        if REFERENCED in document:
            raise ValueError(f"extra inputs are not permitted: {REFERENCED}")
        names = set(referenced_keys(document))
        referenced = {key: value for key, value in document.items() if key in names and key not in cls.model_fields}
        references = References(document)
        try:
            sections = {
                key: references.definitions(value) if key in _DEFINED or isinstance(value, str) else value
                for key, value in document.items()
                if key not in referenced
            }
        except InvalidConfigurationError as error:
            raise ValueError(str(error)) from None
        return {**sections, REFERENCED: referenced}

    @field_validator("handlers")
    @classmethod
    def _is_limited(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(value) > MAX_HANDLERS:
            raise ValueError(f"at most {MAX_HANDLERS} handlers")
        if any(len(name) > MAX_HANDLER_NAME_CHARS for name in value):
            raise ValueError(f"a handler's name must have at most {MAX_HANDLER_NAME_CHARS} characters")
        return value

    @field_validator("root", "loggers")
    @classmethod
    def _has_known_keys(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {"level", "handlers", "filters", "propagate"}
        loggers = value.values() if value and all(isinstance(each, Mapping) for each in value.values()) else [value]
        unknown = sorted({str(key) for each in loggers for key in each if key not in known})
        if unknown:
            raise ValueError(
                f"a logger may have {', '.join(sorted(known))}, not {', '.join(unknown)}{did_you_mean(unknown[0], known)}"
            )
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        try:
            lists = [logger.get("handlers") or [] for _, logger in self.each_logger()]
        except InvalidConfigurationError as error:
            raise ValueError(f"{error} at=loggers") from None
        if not all(isinstance(each, list) for each in lists):
            raise ValueError("the handlers of a logger must be a list of names")
        named = [name for names in lists for name in names]
        unknown = sorted({str(name) for name in named if not (isinstance(name, str) and name in self.handlers)})
        if unknown:
            raise ValueError(f"no such handler: {', '.join(unknown)}{did_you_mean(unknown[0], self.handlers)}")
        if not named:
            raise ValueError("no logger has a handler, so no event would be processed")
        lost = sorted(name for name, handler in self.handlers.items() if "class" not in handler and "()" not in handler)
        if lost:
            raise ValueError(f"a handler needs class or (): {', '.join(lost)}")
        return self

    @model_validator(mode="after")
    def _names_listed_modules(self) -> Self:
        definitions = [each for kind in (self.handlers, self.formatters, self.filters) for each in kind.values()] + [
            self.referenced
        ]
        missing = self.modules.missing([name for definition in definitions for name in names_in(definition)])
        if missing:
            closest = did_you_mean(missing[0], self.modules.listed)
            remedy = f"{closest} Otherwise" if closest else ":"
            setting = self.modules.setting_with(missing)
            raise ValueError(f"modules are not listed: {', '.join(missing)[:500]}{remedy} set {setting[:1000]}")
        return self

    @model_validator(mode="after")
    def _writes_separate_files(self) -> Self:
        try:
            outputs = self.outputs()
        except InvalidConfigurationError as error:
            raise ValueError(str(error)) from error
        twice = sorted({output for number, output in enumerate(outputs) if clash_of(output, outputs[:number])})
        if twice:
            raise ValueError(
                f"two handlers write the same files: give one another base, path or extension: {', '.join(twice)[:500]}"
            )
        return self

    @model_validator(mode="after")
    def _forwards_to_valid_targets(self) -> Self:
        references = self.references()
        for name, handler in self.handlers.items():
            if class_of(handler) == FORWARD_HANDLER:
                try:
                    target_of(references.resolved(handler.get("target")))
                except InvalidConfigurationError as error:
                    raise ValueError(f"{error} handler={name}") from None
        return self

    @model_validator(mode="after")
    def _has_valid_errors(self) -> Self:
        for name in self.handlers:
            try:
                self.errors_of(name)
            except ValidationError as error:
                reasons = "; ".join(_reason(each) for each in error.errors(include_url=False)[:_MAX_REASONS])
                raise ValueError(f"errors of a handler: {reasons} handler={name}") from None
            except InvalidConfigurationError as error:
                raise ValueError(f"{error} handler={name}") from None
        return self

    def errors_of(self, handler: str) -> HandlerErrors | None:
        """A handler's own ``errors``. Text in their place is an argument of the handler, as ``logging.FileHandler`` has it. Raises
        ValidationError, InvalidConfigurationError."""
        own = self.references().resolved(self.handlers[handler].get(ERRORS))
        return HandlerErrors.model_validate(own) if isinstance(own, dict) else None

    def outputs(self) -> list[str]:
        """The names of the rolling handlers' outputs, as far as the file determines them: not those of subclasses. Raises
        InvalidConfigurationError for an invalid path, period or extension."""
        rolling = [each for each in self.handlers.values() if class_of(each) == ROLLING_HANDLER]
        references = self.references()
        return [output_layout(references.resolved(each)).name for each in rolling]

    def each_logger(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The configured loggers by name, with what their references refer to; the root's name is empty. Raises
        InvalidConfigurationError."""
        references = self.references()
        yield "", references.values_of(self.root)
        for name, logger in self.loggers.items():
            yield name, references.values_of(logger)

    def document(self) -> dict[str, Any]:
        """What references refer into: the file's section."""
        return {**{name: getattr(self, name) for name in _keys_of(Logging)}, **self.referenced}

    def references(self) -> References:
        """The references of the file's section."""
        return References(self.document())


def class_of(definition: Mapping[str, Any]) -> Any:
    """The name of a definition's class or factory."""
    return definition.get(FACTORY, definition.get("class"))


class PipelineFile(_Part):
    """A pipeline. ``name`` is unique, and names its checkpoint. ``enabled``: whether it runs until an operator enables or disables
    it. ``shards``: the number of workers that share its runs, by FQN; events are in order within a shard."""

    name: Annotated[str, Field(pattern=NAME)]
    enabled: bool = True
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 1
    properties: Properties = Properties()
    errors: Errors = Errors()
    source: RunSelection = RunSelection()
    logging: Logging

    def handler_errors(self) -> dict[str, Errors]:
        """The ``errors`` of handlers that have their own, completed by the pipeline's."""
        own = {name: self.logging.errors_of(name) for name in self.logging.handlers}
        return {name: self.errors.model_copy(update=each.model_dump(exclude_none=True)) for name, each in own.items() if each}


def parse_pipeline_file(
    text: str, stem: str, defaults: Properties | None = None, modules: AllowedModules = DEFAULTS_ONLY
) -> PipelineFile:
    """Parse a pipeline's file. ``stem``: its name without the extension, the default of the pipeline's name. Imports and calls
    nothing that the file names. Raises InvalidConfigurationError, which lists up to ten errors."""
    document = _document(text, stem)
    document.setdefault("name", stem)
    given = document.get("properties")
    if isinstance(given, dict) and defaults is not None:
        document["properties"] = {**defaults.model_dump(), **given}
    elif given is None:
        document["properties"] = (defaults or Properties()).model_dump()
    try:
        return PipelineFile.model_validate(document, context=modules)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        reasons = [_reason(each) for each in errors[:_MAX_REASONS]] + (["…"] if len(errors) > _MAX_REASONS else [])
        raise InvalidConfigurationError(f"{'; '.join(reasons)} file={stem}") from None


def _document(text: str, stem: str) -> dict[str, Any]:
    if len(text) > MAX_FILE_BYTES:
        raise InvalidConfigurationError(f"a pipeline's file must have at most {MAX_FILE_BYTES} bytes file={stem}")
    try:
        document = yaml.load(text, _Loader)
    except (
        Exception
    ) as error:  # constructors of YAML raise KeyError, AttributeError and others for tags that do not fit their values
        raise InvalidConfigurationError(f"invalid yaml: {_yaml_reason(error)[:500]} file={stem}") from None
    if not isinstance(document, dict):
        raise InvalidConfigurationError(f"a pipeline's file must be a mapping file={stem}")
    return document


def _yaml_reason(error: Exception) -> str:
    """What is wrong and where, without the line of the file, which may have the credentials of a target."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return " ".join(str(error).split()) or type(error).__name__
    texts = (getattr(error, name, None) for name in ("context", "problem"))
    return f"{', '.join(filter(None, texts))} line={mark.line + 1} column={mark.column + 1}"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # untyped
    """Plain values only, and each key once: YAML itself would take the last. An alias counts as its expansion, so nothing larger
    than the limits of a file is built."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._values = self._depth = 0
        self._sizes: dict[int, tuple[int, int]] = {}  # of nodes: values and characters

    def compose_node(self, parent: Any, index: Any) -> yaml.Node:
        """See ``yaml.composer``: called for each node, and for each alias with the node that it refers to."""
        self._values += 1
        if self._values > MAX_VALUES:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_VALUES} values", self.peek_event().start_mark)
        if self._depth == MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_DEPTH} levels", self.peek_event().start_mark)
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not is_alias:
            self._sizes[id(node)] = self._size(node)
        elif id(node) not in self._sizes:  # it is still being composed
            raise yaml.composer.ComposerError(None, None, "a value contains itself", node.start_mark)
        return node

    def _size(self, node: yaml.Node) -> tuple[int, int]:
        if isinstance(node, yaml.ScalarNode):
            if node.tag.endswith((":int", ":float")) and len(node.value) > _MAX_NUMBER_CHARS:
                raise yaml.composer.ComposerError(None, None, "a number is too long", node.start_mark)
            return 1, len(node.value)
        children = [each for pair in node.value for each in pair] if isinstance(node, yaml.MappingNode) else node.value
        sizes = [self._sizes[id(child)] for child in children]
        values, characters = 1 + sum(size[0] for size in sizes), sum(size[1] for size in sizes)
        if values > MAX_VALUES or characters > MAX_FILE_BYTES:
            raise yaml.composer.ComposerError(None, None, "aliases expand to too much", node.start_mark)
        return values, characters

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """See ``yaml.constructor``."""
        seen: set[str] = set()
        for name in [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]:
            if name in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate name: {name[:100]}", node.start_mark)
            seen.add(name)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def _reason(error: ErrorDetails) -> str:
    name = ".".join(map(str, error["loc"]))[:200] or "file"
    message = error["msg"].removeprefix("Value error, ")[:1500]
    if error["type"] == "extra_forbidden":
        message += did_you_mean(str(error["loc"][-1]), _keys_at(error["loc"][:-1]))
    value = "" if isinstance(error["input"], Mapping) else f" value={str(error['input'])[:80]!r}"
    return f"{message[:1].lower()}{message[1:]} at={name}{value}"


def _keys_at(location: tuple[int | str, ...]) -> Iterable[str]:
    """The keys of a file at a place of its schema."""
    model: Any = PipelineFile
    for name in location:
        field = model.model_fields.get(name)
        model = field.annotation if field else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return ()
    return _keys_of(model)


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [name for name in model.model_fields if name != REFERENCED]
