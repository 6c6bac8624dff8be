"""Builds the services of log pipelines. Built lazily: few API requests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from chalicelib.composition import SECONDS_OF_A_DAY, SOURCES, Services, coordinator, run_files
from chalicelib.deadline import Deadline
from chalicelib.ports import Run
from chalicelib.runlog.pipeline_listing import PipelineQuery

if TYPE_CHECKING:
    from chalicelib.pipelines.config_loader import ConfigSource, LoadedPipelines
    from chalicelib.pipelines.configuration import PipelineFile
    from chalicelib.pipelines.files.service import PipelineFiles
    from chalicelib.pipelines.handler_metrics import OnMetrics
    from chalicelib.pipelines.ports import MakeTarget
    from chalicelib.pipelines.supervisor import Supervisor
    from chalicelib.pipelines.wheels import WheelProblem
    from chalicelib.pipelines.worker import WorkerDependencies
    from chalicelib.removal.run_removal import RunRemoval

PIPELINES_WORK = "pipelines"
"""The source of work whose partitions are log pipelines, by name."""
_NAMES_A_PAGE = 1000


def installed_pipelines(services: Services, config: str | None = None) -> LoadedPipelines:
    """The log pipelines of this installation, or of a folder or ``s3://bucket/prefix``. Raises InvalidConfigurationError,
    UnavailableError."""
    from chalicelib.pipelines.allowed_modules import AllowedModules
    from chalicelib.pipelines.config_loader import load_pipelines
    from chalicelib.pipelines.configuration import Properties
    from chalicelib.pipelines.output_pipelines import Output

    settings = services.settings
    defaults = {name: getattr(settings, f"pipeline_{name}") for name in Properties.model_fields}
    source = pipeline_source(services, config)
    events = services.events.configuration
    return load_pipelines(
        source() if source else (),
        Properties(**defaults),
        modules=AllowedModules.read(settings.pipeline_modules),
        runs_built_in=settings.built_in_pipeline,
        outputs=[Output(name, target, _selected(events.patterns_of(name))) for name, target in events.named_outputs],
    )


def pipeline_source(services: Services, config: str | None = None) -> ConfigSource | None:
    """The location of the files of log pipelines; None: the installation has none. Raises InvalidConfigurationError."""
    from chalicelib.pipelines.config_loader import config_source

    settings = services.settings
    stores = {settings.bucket_name: services.store, settings.archive_bucket_name: services.archive_store}
    location = config or settings.pipelines_config
    return config_source(location, stores) if location else None


def load_wheels(services: Services, config: str | None = None) -> Sequence[WheelProblem]:
    """Make the pinned wheels importable in this process, before handlers are built. Returns those that are not used, and why; handlers
    that need one of them fail with that reason. Raises InvalidConfigurationError for an invalid location."""
    from chalicelib.pipelines.wheels import VARIABLE, WheelProblem, process_wheels

    if not (sha256 := services.settings.pipeline_wheels):
        return process_wheels().problems
    if (source := pipeline_source(services, config)) is None:
        return [WheelProblem(VARIABLE, "wheels are next to the files of pipelines: set RUNLAKE_PIPELINES_CONFIG")]
    return process_wheels().load(sha256, source.read)


def _selected(patterns: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    from chalicelib.pipelines.configuration import EXCLUDES

    return tuple(pattern if included else f"{EXCLUDES}{pattern}" for pattern, included in patterns)


def supervisor(
    services: Services, buffer_bytes: int, warn: Callable[..., None], on_metrics: OnMetrics, **options: Any
) -> Supervisor:
    """Builds the supervisor of log pipelines. ``buffer_bytes``: for pipelines without a configured size; ``on_metrics``: see
    ``WorkerDependencies``; ``options``: further fields of ``Supervisor``."""
    from chalicelib.pipelines.pipeline_state import PipelineStateStore
    from chalicelib.pipelines.supervisor import Supervisor
    from chalicelib.pipelines.worker import Worker

    states = PipelineStateStore(services.database, services.clock)
    return Supervisor(
        coordinator(services, PIPELINES_WORK),
        states,
        lambda assignment, fence, owner: Worker(
            assignment.file,
            replace(
                worker_dependencies(services, assignment.file, buffer_bytes, warn), shard=assignment.shard, on_metrics=on_metrics
            ),
            fence,
            owner,
        ),
        services.clock,
        warn,
        **options,
    )


def worker_dependencies(services: Services, file: PipelineFile, buffer_bytes: int, warn: Callable[..., None]) -> WorkerDependencies:
    """The collaborators of a log pipeline's worker."""
    from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
    from chalicelib.pipelines.sidecar_reader import StoredSidecarReader
    from chalicelib.pipelines.wheels import process_wheels
    from chalicelib.pipelines.worker import WorkerDependencies
    from chalicelib.runlog.new_segments import NewSegmentReader

    def names(after: str) -> tuple[Sequence[str], str | None]:
        page = services.pipelines.page(PipelineQuery(), _NAMES_A_PAGE, after)
        return page.names, page.after

    return WorkerDependencies(
        logs=services.reader,
        discovery=CatalogRunDiscovery(services.runs, names, file.source, services.clock),
        store=services.store,
        database=services.database,
        clock=services.clock,
        keep_s=services.settings.expiration_days * SECONDS_OF_A_DAY,
        buffer_bytes=buffer_bytes,
        warn=warn,
        generation=services.pipeline_files.generation_of,
        deletions=services.pipeline_files.generations.deletions,
        stores=services.located_bucket,
        sidecars=StoredSidecarReader(services.events.indexing, services.events.tails, services.index, services.clock),
        segments=NewSegmentReader(services.events.snapshots.tails),
        make_target=_target_maker(services, file),
        instance_id=services.settings.instance_id,
        wheel_problems=process_wheels().problems,
    )


def _target_maker(services: Services, file: PipelineFile) -> MakeTarget:
    """Targets of outputs are the operator's own; whoever may write a pipeline's file has the hosts of a setting."""
    from chalicelib.aws.targets import make_target
    from chalicelib.pipelines.output_pipelines import PREFIX

    is_output = file.name in {f"{PREFIX}{name}" for name, _ in services.events.configuration.named_outputs}
    return partial(make_target, hosts=None if is_output else services.settings.target_hosts)


def pipeline_files(services: Services) -> PipelineFiles:
    """Builds the operations on pipelines' files. The files are in the bucket of logs, outside its prefix; deletions include run
    logs."""
    from chalicelib.pipelines.files.service import PipelineFiles
    from chalicelib.removal.pipeline_runs import PipelineRuns, started_ms

    run_logs = PipelineRuns(services.store, services.layout, services.runs, services.removal)
    started = partial(started_ms, services.runs)
    return PipelineFiles(services.database, services.clock, services.located_bucket, run_logs, started)


def run_removal(services: Services) -> RunRemoval:
    """Builds the removal of runs."""
    from chalicelib.catalog.runs import partition_key
    from chalicelib.pipelines.files.generations import Generations
    from chalicelib.removal.run_removal import RunRemoval
    from chalicelib.removal.run_steps import RunSteps

    store, layout, database, clock = services.store, services.layout, services.database, services.clock

    def unlist(run: Run) -> int:
        files = run_files(services)
        ref = files.ref(layout.logs(run))
        state = services.registration.find(ref.id) if ref.id else None
        if state is None:
            return 0
        result = services.registration.update([ref], lambda each: files.describe(each, Deadline(clock)))[ref]
        if result.error:
            raise result.error
        return int(state.is_known)

    def release(run: Run) -> int:
        removed = 0
        for partitions, source in map(services.work_sources, SOURCES):
            partition = partitions.get(source.partitions, partition_key(run))
            removed += partition is not None and partitions.delete(partition) is None
        return removed

    steps = RunSteps(store, layout, services.index, database, clock, services.located_bucket, unlist, release)
    generations = Generations(database, clock)
    return RunRemoval(store, layout, services.writer, services.runs, services.index, database, clock, generations, steps)
