"""Loads the pipelines: the built-in one and every ``*.yaml`` of a folder, or of a prefix of a bucket.

``validate`` rejects an invalid file, and one whose name is already taken; the schedule skips it with a warning. The first file
with a name wins, in order of file names after the built-in one. If the built-in file is missing, the installation is broken, and none
runs; if that pipeline is disabled, the others run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Protocol

from chalicelib.errors import InvalidConfigurationError, StoreConditionError
from chalicelib.pipelines.allowed_modules import DEFAULTS_ONLY, AllowedModules
from chalicelib.pipelines.configuration import MAX_FILE_BYTES, PipelineFile, Properties, parse_pipeline_file
from chalicelib.pipelines.files.path_template import clash_of
from chalicelib.pipelines.output_pipelines import PREFIX, Output, output_pipeline
from chalicelib.ports import ObjectStore, PutOptions

BUILT_IN = "runlake"
OUTPUTS = "RUNLAKE_EVENTS"
"""The location of pipelines that are not in a file: the ``outputs`` of this setting."""
ENDING = ".yaml"
_S3 = "s3://"
_BUILT_IN_FILE = files(__package__) / f"{BUILT_IN}{ENDING}"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A pipeline's file: ``location`` for messages, ``stem`` its name without the extension."""

    location: str
    stem: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A file that is not a valid pipeline, and the reason."""

    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedPipelines:
    """The valid pipelines, in order, and the problems."""

    pipelines: Sequence[PipelineFile]
    problems: Sequence[ConfigProblem]

    def named(self, name: str) -> PipelineFile | None:
        """The pipeline with this name."""
        return next((each for each in self.pipelines if each.name == name), None)

    def chosen(self, names: Collection[str]) -> Sequence[PipelineFile]:
        """The pipelines with these names; all if ``names`` is empty. Raises InvalidConfigurationError for an unknown name."""
        known = [each.name for each in self.pipelines]
        for name in names:
            if name not in known:
                raise InvalidConfigurationError(f"no such pipeline: {name}; there are {', '.join(known) or 'none'}")
        return [each for each in self.pipelines if not names or each.name in names]


class ConfigSource(Protocol):
    """A source of pipelines' files."""

    def __call__(self) -> Iterable[ConfigFile]:
        """All files, in order of their names. Raises UnavailableError, InvalidConfigurationError."""

    def read(self, name: str, most: int) -> bytes:
        """The first ``most`` bytes of a file that accompanies them. Raises RunlakeError, OSError."""

    def write(self, name: str, body: bytes) -> str:
        """Store a file that accompanies them; returns its location. Raises RunlakeError, OSError."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A local folder, without its subfolders."""

    path: Path

    def __call__(self) -> Iterator[ConfigFile]:
        """See ``ConfigSource``."""
        if not self.path.is_dir():
            raise InvalidConfigurationError(f"no such folder of pipelines folder={self.path}")
        for path in sorted(self.path.glob(f"*{ENDING}")):
            body = path.read_bytes()[: MAX_FILE_BYTES + 1] if path.is_file() else b""
            yield ConfigFile(str(path), path.stem, body.decode(errors="replace"))

    def read(self, name: str, most: int) -> bytes:
        """See ``ConfigSource``."""
        with (self.path / name).open("rb") as file:
            return file.read(most)

    def write(self, name: str, body: bytes) -> str:
        """See ``ConfigSource``."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        return str(path)


@dataclass(frozen=True, slots=True)
class BucketPrefix:
    """The objects directly below a prefix of a bucket. A LIST, and a GET each."""

    store: ObjectStore
    prefix: str

    def __call__(self) -> Iterator[ConfigFile]:
        """See ``ConfigSource``."""
        folder, after = self._folder, ""
        while True:
            page = self.store.list(folder, start_after=after)
            for listed in page.objects:
                name = listed.key.removeprefix(folder)
                if name.endswith(ENDING) and "/" not in name:
                    yield from self._read(listed.key, name.removesuffix(ENDING))
            if not page.truncated:
                return
            after = page.objects[-1].key

    def read(self, name: str, most: int) -> bytes:
        """See ``ConfigSource``."""
        return self.store.get(f"{self._folder}{name}", 0, most).body

    def write(self, name: str, body: bytes) -> str:
        """See ``ConfigSource``."""
        self.store.put(f"{self._folder}{name}", body, PutOptions(content_type="application/octet-stream"))
        return f"{self._folder}{name}"

    @property
    def _folder(self) -> str:
        return f"{self.prefix.rstrip('/')}/" if self.prefix else ""

    def _read(self, key: str, stem: str) -> Iterator[ConfigFile]:
        try:
            body = self.store.get(key, 0, MAX_FILE_BYTES + 1).body
        except StoreConditionError:
            return  # deleted since it was listed
        yield ConfigFile(key, stem, body.decode(errors="replace"))


def config_source(location: str, stores: Mapping[str, ObjectStore]) -> ConfigSource:
    """A folder, or ``s3://bucket/prefix`` in one of these buckets. Raises InvalidConfigurationError."""
    if not location.startswith(_S3):
        return LocalFolder(Path(location))
    bucket, _, prefix = location.removeprefix(_S3).partition("/")
    if bucket not in stores:
        raise InvalidConfigurationError(f"pipelines are read from one of these buckets: {', '.join(stores)} place={location}")
    return BucketPrefix(stores[bucket], prefix)


def load_pipelines(
    sources: Iterable[ConfigFile],
    defaults: Properties | None = None,
    built_in: Traversable = _BUILT_IN_FILE,
    modules: AllowedModules = DEFAULTS_ONLY,
    *,
    outputs: Iterable[Output] = (),
    runs_built_in: bool = False,
) -> LoadedPipelines:
    """The built-in pipeline, those of ``outputs``, and those of these files. ``runs_built_in``: whether the built-in one is enabled
    until an operator enables or disables it. Raises InvalidConfigurationError if that is missing or invalid."""
    try:
        text = built_in.read_text()
    except OSError as error:
        raise InvalidConfigurationError(f"the built-in pipeline is missing: the installation is broken file={built_in}") from error
    first = parse_pipeline_file(text, BUILT_IN, defaults).model_copy(update={"enabled": runs_built_in})
    if first.name != BUILT_IN:
        raise InvalidConfigurationError(f"the built-in pipeline has another name name={first.name}")
    pipelines, problems, taken = [first], list[ConfigProblem](), {BUILT_IN: str(built_in)}
    for output in outputs:
        taken[f"{PREFIX}{output.name}"] = OUTPUTS  # also of an invalid one: a file of this name would count as the operator's
        try:
            pipeline = output_pipeline(output, defaults)
        except InvalidConfigurationError as error:
            problems.append(ConfigProblem(OUTPUTS, f"{error} output={output.name}"))
            continue
        pipelines.append(pipeline)
    writers = dict.fromkeys(first.logging.outputs(), first.name)
    for source in sources:
        try:
            pipeline = parse_pipeline_file(source.text, source.stem, defaults, modules)
        except InvalidConfigurationError as error:
            problems.append(ConfigProblem(source.location, str(error)))
            continue
        if pipeline.name in taken:
            problems.append(
                ConfigProblem(source.location, f"another pipeline has this name name={pipeline.name} in={taken[pipeline.name]}")
            )
            continue
        writes = pipeline.logging.outputs()
        if shared := next(filter(None, (clash_of(output, writers) for output in writes)), None):
            problems.append(
                ConfigProblem(
                    source.location, f"another pipeline writes the same files pipeline={writers[shared]} output={shared[:200]}"
                )
            )
            continue
        taken[pipeline.name] = source.location
        writers |= dict.fromkeys(writes, pipeline.name)
        pipelines.append(pipeline)
    return LoadedPipelines(pipelines, problems)
