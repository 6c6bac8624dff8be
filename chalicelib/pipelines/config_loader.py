"""Which pipelines there are: the built-in one and every ``*.yaml`` of a folder, or of a prefix of a bucket.

A bad file, or one whose name another has taken, is refused by ``validate`` and skipped with a warning where pipelines run: the first
one, in order of file names behind the built-in one, is kept. Without the built-in one nothing runs.
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
from chalicelib.ports import ObjectStore

BUILT_IN = "runlake"
ENDING = ".yaml"
_S3 = "s3://"
_BUILT_IN_FILE = files(__package__) / f"{BUILT_IN}{ENDING}"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of a scan: ``place`` for people, ``stem`` its name without its ending."""

    location: str
    stem: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """A file that is no pipeline, and why."""

    location: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedPipelines:
    """What a scan found, in order."""

    pipelines: Sequence[PipelineFile]
    problems: Sequence[ConfigProblem]

    def named(self, name: str) -> PipelineFile | None:
        """The pipeline of this name."""
        return next((each for each in self.pipelines if each.name == name), None)

    def chosen(self, names: Collection[str]) -> Sequence[PipelineFile]:
        """Those of these names; all where none is given. Raises InvalidConfigurationError for a name that no pipeline has."""
        known = [each.name for each in self.pipelines]
        for name in names:
            if name not in known:
                raise InvalidConfigurationError(f"no such pipeline: {name}; there are {', '.join(known) or 'none'}")
        return [each for each in self.pipelines if not names or each.name in names]


class ConfigSource(Protocol):
    """Where pipelines' files are."""

    def __call__(self) -> Iterable[ConfigFile]:
        """All of them, in order of their names. Raises UnavailableError, InvalidConfigurationError."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of this machine; not those below it."""

    path: Path

    def __call__(self) -> Iterator[ConfigFile]:
        """See ``Files``."""
        if not self.path.is_dir():
            raise InvalidConfigurationError(f"no such folder of pipelines folder={self.path}")
        for path in sorted(self.path.glob(f"*{ENDING}")):
            body = path.read_bytes()[: MAX_FILE_BYTES + 1] if path.is_file() else b""
            yield ConfigFile(str(path), path.stem, body.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class BucketPrefix:
    """Objects of a bucket right below a prefix. A LIST, and a GET each."""

    store: ObjectStore
    prefix: str

    def __call__(self) -> Iterator[ConfigFile]:
        """See ``Files``."""
        folder, after = f"{self.prefix.rstrip('/')}/" if self.prefix else "", ""
        while True:
            page = self.store.list(folder, start_after=after)
            for listed in page.objects:
                name = listed.key.removeprefix(folder)
                if name.endswith(ENDING) and "/" not in name:
                    yield from self._read(listed.key, name.removesuffix(ENDING))
            if not page.truncated:
                return
            after = page.objects[-1].key

    def _read(self, key: str, stem: str) -> Iterator[ConfigFile]:
        try:
            body = self.store.get(key, 0, MAX_FILE_BYTES + 1).body
        except StoreConditionError:
            return  # gone since it was listed
        yield ConfigFile(key, stem, body.decode(errors="replace"))


def config_files(location: str | None, stores: Mapping[str, ObjectStore]) -> Iterable[ConfigFile]:
    """The files of a folder, or of ``s3://bucket/prefix`` in one of these buckets; None: none. Raises InvalidConfigurationError."""
    if location is None:
        return ()
    if not location.startswith(_S3):
        return LocalFolder(Path(location))()
    bucket, _, prefix = location.removeprefix(_S3).partition("/")
    if bucket not in stores:
        raise InvalidConfigurationError(f"pipelines are read from one of these buckets: {', '.join(stores)} place={location}")
    return BucketPrefix(stores[bucket], prefix)()


def load_pipelines(
    sources: Iterable[ConfigFile],
    defaults: Properties | None = None,
    built_in: Traversable = _BUILT_IN_FILE,
    modules: AllowedModules = DEFAULTS_ONLY,
) -> LoadedPipelines:
    """The pipelines of these files, the built-in one first. Raises InvalidConfigurationError when that is missing or bad."""
    try:
        text = built_in.read_text()
    except OSError as error:
        raise InvalidConfigurationError(f"the built-in pipeline is missing: the installation is broken file={built_in}") from error
    first = parse_pipeline_file(text, BUILT_IN, defaults)
    if first.name != BUILT_IN:
        raise InvalidConfigurationError(f"the built-in pipeline has another name name={first.name}")
    pipelines, problems, taken = [first], [], {BUILT_IN: str(built_in)}
    writers = dict.fromkeys(first.logging.outputs(), first.name)
    for source in sources:
        try:
            pipeline = parse_pipeline_file(source.text, source.stem, defaults, modules)
        except InvalidConfigurationError as error:
            problems.append(ConfigProblem(source.location, str(error)))
            continue
        if pipeline.name in taken:
            problems.append(
                ConfigProblem(source.location, f"another has the name already name={pipeline.name} in={taken[pipeline.name]}")
            )
            continue
        if shared := next((output for output in pipeline.logging.outputs() if output in writers), None):
            problems.append(
                ConfigProblem(source.location, f"another writes the same files pipeline={writers[shared]} output={shared[:200]}")
            )
            continue
        taken[pipeline.name] = source.location
        writers |= dict.fromkeys(pipeline.logging.outputs(), pipeline.name)
        pipelines.append(pipeline)
    return LoadedPipelines(pipelines, problems)
