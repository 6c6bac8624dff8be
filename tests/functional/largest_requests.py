"""The largest request of each operation, and the world with the largest response: for the table of their cost, and for the tests of response
sizes."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlencode

import yaml

from chalicelib import composition
from chalicelib.archive.contents import MAX_INLINE_BYTES
from chalicelib.archive.uploads import MAX_BYTES
from chalicelib.composition import COMPACTION
from chalicelib.coordination import Partition, Status, WorkSource
from chalicelib.coordination.partition import format_timestamp, to_row
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import PutOptions, Run
from chalicelib.routes.budgets import BUDGETS, MIB, BodyForm, Operation
from chalicelib.routes.viewer import files
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.finalization import INLINE_UPLOADED_BYTES
from tests.files_harness import record_of
from tests.functional.archive import Site, hash_of
from tests.functional.budget_requests import MSGPACK, SAMPLES, Sample, padded
from tests.functional.gateway import LOGS, Answer, Context, call, installed
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

EMOJI, CONTROL, QUOTE = "\U0001f600", "\x01", '"'
"""Of the letters that a response escapes, the one that takes most of it (12 bytes), one that is small here (7 for 1), one that JSON escapes
twice (4)."""
FQN = "f" * 430
RUN_ID = "r" * 430
"""About the longest names of a run that an S3 key has room for."""
RUN = Run(FQN, RUN_ID)
_JSON = {"Content-Type": "application/json"}
_EVENTS, _CATALOG, _WORK = f"/v1/events/{FQN}/{RUN_ID}", f"/v1/catalog/pipelines/{FQN}/runs", "/v1/coordination"
_FILES, _PIPELINES, _PIPELINE_FILES = "/v0/archive/files", "/v1/pipelines", "/v1/pipeline-files"


class Stage(World):
    """A world with a catalog of runs and a folder of pipelines."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.runs, self.folder = InMemoryRunCatalog(), folder
        self.partitions = self.work_sources(COMPACTION)[0]
        self.work_sources = lambda source: (self.partitions, WorkSource(source))

    def append(self, *texts: str, run: Run = RUN) -> None:
        """Append and catalog batches of a log."""
        for text in texts:
            entry = self.parts().writer.append(run, Batch.from_text(text)).entry
            assert entry
            self.runs.record_segment(run, entry)
            self.index.put(run, [entry])


@dataclass(frozen=True)
class Largest:
    """A largest request. ``prepare`` stores its objects. ``note``: its largest dimension. ``status`` None: it is rejected after it was read."""

    operation: Operation
    url: str
    note: str = ""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Stage], None] = lambda _: None
    status: int | None = 200

    @contextmanager
    def ready(self) -> Iterator[Callable[[], Answer]]:
        """A function that sends the request once."""
        with tempfile.TemporaryDirectory(prefix="runlake-budgets-") as folder:
            stage = Stage(Path(folder))
            settings = {"pipelines_config": folder, "pipeline_modules": "logging"}
            with installed(stage, runs=stage.runs, publisher=InMemoryPublisher(), **settings):
                self.prepare(stage)
                yield lambda: call(self.operation[0], self.url, self.body, dict(self.headers), Context(600_000))


def _log(line: str, size: int = 4 * MIB, batches: int = 1) -> Callable[[Stage], None]:
    """A log of the given size in bytes."""
    count = size // batches // (len(line.encode()) + 1)
    return lambda stage: stage.append(*[f"{line}\n" * count] * batches)


def _runs(stage: Stage) -> None:
    for number in range(1000):
        stage.append("x\n", run=Run(EMOJI * 30, f"{number:04d}{EMOJI * 30}"))


def _pipelines_of_runs(stage: Stage) -> None:
    for number in range(100):
        stage.append("x\n", run=Run(f"{number:04d}{EMOJI * 30}", EMOJI * 30))


def _ask(path: str, *lines: object) -> None:
    body = "\n".join(json.dumps(line) for line in lines)
    answer = call("POST", path, body, {"Content-Type": "application/x-ndjson"})
    assert answer.status == 200, answer.body


def _many_events(stage: Stage) -> None:
    for _ in range(2):
        _ask(_EVENTS, *({"message": CONTROL * 500, "data": {"a": EMOJI * 50}, "step": "s"} for _ in range(1000)))


def _many_steps(_: Stage) -> None:
    for part in range(10):
        _ask(_EVENTS, *({"message": "m", "step": f"{part}-{number}-{EMOJI * 40}"} for number in range(1000)))


def _many_writers(stage: Stage) -> None:
    """Lost writers, whose names a response lists twice."""
    writers = composition.services().events.writers
    for number in range(6000):
        writers.close(Run("svc.a", "r1"), f"{number:04d}{EMOJI * 45}", 1)
    stage.clock.advance(7 * 86_400)


def _partitions(stage: Stage) -> None:
    failed = json.dumps({"error": EMOJI * 1000, "failed_ms": START_MS})
    for number in range(100):
        about = {"status": Status.COMPLETED, "priority": format_timestamp(START_MS), "state": failed, "closed_count": 20}
        key = f"{number:03d}{EMOJI * 30}/{EMOJI * 30}"
        stage.partitions.put_row(to_row(Partition(WorkSource(COMPACTION).partitions, key, **about)))


def _partition(status: Status, **more: object) -> Callable[[Stage], None]:
    def put(stage: Stage) -> None:
        failed = json.dumps({"error": EMOJI * 1000, "failed_ms": START_MS})
        about = {"status": status, "priority": format_timestamp(START_MS), "state": failed, **more}
        stage.partitions.put_row(to_row(Partition(WorkSource(COMPACTION).partitions, f"{FQN}/{RUN_ID}", **about)))

    return put


def _handler(stage: Stage) -> RollingS3Handler:
    made = RollingS3Handler(base="pipeline-files", format="jsonl", workers=1)
    made.use(HandlerContext(stage.store, stage.database, stage.clock, "runlake", lambda: None))
    return made


def _files_of_pipelines(stage: Stage) -> None:
    handler = _handler(stage)
    for number in range(12_000):
        handler.handle(record_of(number, text=CONTROL * 50, time_ms=START_MS + number))
    stage.database.transact(handler.pending_writes())
    handler.committed()


def _orphans(stage: Stage) -> None:
    _handler(stage)
    for number in range(1100):
        stage.store.put(f"pipeline-files/svc/2026-09-21/flow/{'p' * 900}/{number:08d}.jsonl", b"orphan", PutOptions())
    stage.clock.advance(7200)


def _runs_to_delete(stage: Stage) -> None:
    put_output_set(stage.database, OutputSet("pipeline-files", "", 0, 0, 0))
    for number in range(100):
        stage.append("x\n", run=Run("svc.a", f"r{number}"))
    stage.clock.advance(1)


def _wide_pipelines(stage: Stage) -> None:
    """Pipelines with the most handlers, each with the longest name, reason and position; and invalid files."""
    names = [f"{at:03d}{EMOJI * 197}" for at in range(200)]
    logging_ = {
        "version": 1,
        "handlers": {name: {"class": "logging.NullHandler"} for name in names},
        "root": {"handlers": names[:1]},
    }
    switches = PipelineStateStore(stage.database, stage.clock)
    for file in ("wide", *(f"wide{number}" for number in range(5))):
        (stage.folder / f"{file}.yaml").write_text(yaml.safe_dump({"logging": logging_}, allow_unicode=True))
        for name in names:
            switches.set_handler(file, HandlerState(name, DISABLED, EMOJI * 5000, START_MS, "f" * 1000, 1))
    for number in range(110):
        (stage.folder / f"bad{number}{EMOJI * 50}.yaml").write_text("name: " + EMOJI * 500 + "[" * 40)


def _archived(body: bytes = b"x", count: int = 1, **more: object) -> Callable[[Stage], None]:
    """Files with the longest metadata; the last one's id is its number in 32 digits."""

    def push(stage: Stage) -> None:
        site = Site(stage, InMemoryPublisher())
        for _ in range(count):
            site.file(body, path="/" + QUOTE * 450, what="w" * 200, where="h" * 200, **more)

    return push


def _file_url(tail: str = "", number: int = 1) -> str:
    return f"{_FILES}/{number:032x}{tail}"


_INLINE = ("é" * (MAX_INLINE_BYTES // 6 - 10)).encode()
_UPLOAD = {
    "start": START_MS, "end": START_MS + 1, "path": "/" + QUOTE * 450, "where": "h" * 200, "what": "w" * 200, "hash": hash_of(b""), "size": MAX_BYTES,
    "work_id": None,
}  # fmt: skip
_NEEDLES = ("n" + QUOTE * 11) * 100
"""A line that has something in a hundred places."""
_UNPACKED = gzip.compress((b"x" * 999 + b"\n") * (64 * MIB // 1000), 9).ljust(400 * 1024, b"\0")
"""64 MiB, which an installation allows unless it is told otherwise, of a body that earns them by its size."""
_LATEST = f"/v0/archive/latest/{'w' * 200}/{'h' * 200}"
_ALL_TIMES = urlencode({"what": "w" * 200, "start": "0001-01-01", "end": "9999-12-31T23:59:59.999Z"})
_DOCUMENT = BUDGETS["POST", "/v1/pipelines/{name}/replay"].body_bytes


_SAME_AS_POST = {each for each in SAMPLES if each[1].endswith("_bulk") and each != ("POST", "/v1/agents/elasticsearch/_bulk")}


def _of_sample(sample: Sample) -> Iterator[Largest]:
    """The most items, runs and values of the operation."""
    assert sample.items and sample.values
    of = Largest(sample.operation, sample.url, headers=sample.headers())
    kind, budget = sample.content_type.rpartition("/")[2], sample.budget
    yield replace(of, note=f"items, {kind}", body=sample.items(budget.items.limit))
    if sample.operation in _SAME_AS_POST:
        return
    if sample.streams:
        yield replace(of, note=f"runs, {kind}", body=sample.streams(budget.streams))
    yield replace(of, note=f"values, {kind}", body=sample.values(budget.values.limit - 20), status=None)


_LOG, _EVENT = f"{LOGS}/{{fqn}}", "/v1/events/{fqn}/{runId}"
_HERE = f"{LOGS}/{FQN}/{RUN_ID}"
_LINES = 'a line of the "log", with 1 more; ' + "x" * 65
_APPEND = Largest(("POST", f"{_LOG}/{{runId}}"), _HERE)
_PAGE = Largest(("GET", f"{_LOG}/{{runId}}"), f"{_HERE}?limit=10000")
_DOWNLOAD = Largest(("GET", f"{_LOG}/{{runId}}/download"), f"{_HERE}/download", prepare=_log(_LINES, 4 * MIB - 200))
_BY_BYTE = Largest(("GET", f"{_EVENT}/log"), f"{_EVENTS}/log?maxLines=1000000")
_GREP = f"{_CATALOG}/{RUN_ID}/grep?" + urlencode({"q": "n", "limit": 1000})
_LIST: list[Largest] = [
    replace(_APPEND, note="one string", body=b'"' + b"x" * (6 * MIB - 2) + b'"', headers=_JSON),
    replace(_APPEND, note="lines", body=(_LINES + "\n").encode() * (6 * MIB // 101), headers={"Content-Type": "text/plain"}),
    replace(_APPEND, note="unpacked", body=_UNPACKED, headers={"Content-Type": "application/gzip"}),
    replace(_PAGE, note="lines", prepare=_log(_LINES)),
    replace(_PAGE, note="escaped lines", prepare=_log(CONTROL * 200)),
    replace(_PAGE, note="one line", prepare=_log(CONTROL * (4 * MIB - 1))),
    Largest(("POST", f"{_LOG}/{{runId}}/close"), f"{_HERE}/close", prepare=_log(_LINES, INLINE_UPLOADED_BYTES, 16)),
    Largest(("GET", f"{_LOG}/stream/{{runId}}"), f"{LOGS}/{FQN}/stream/{RUN_ID}?wait=0", prepare=_log("\u2028" * 50)),
    replace(_DOWNLOAD, note="inline"),
    replace(_DOWNLOAD, note="link", prepare=_log(_LINES, 24 * MIB, 4), status=307),
    Largest(("GET", _LOG), f"{LOGS}/{quote(EMOJI * 30)}?limit=1000", prepare=_runs),
    Largest(("GET", f"{_LOG}/last"), f"{LOGS}/{FQN}/last?limit=10000", prepare=_log(CONTROL * 200)),
    Largest(("GET", f"{_LOG}/last/download"), f"{LOGS}/{FQN}/last/download", prepare=_log(_LINES, 4 * MIB - 200)),
    *(each for sample in (*SAMPLES.values(), MSGPACK) if sample.budget.form is BodyForm.RECORDS for each in _of_sample(sample)),
    Largest(("GET", _EVENT), f"{_EVENTS}?limit=1000", prepare=_many_events),
    Largest(
        ("PUT", f"{_EVENT}/starts/{{start}}"),
        f"{_EVENTS}/starts/{'s' * 60}",
        body=padded({"host": EMOJI * 255, "command": EMOJI * 2000}, _DOCUMENT),
        headers=_JSON,
    ),
    Largest(("PUT", f"{_EVENT}/heartbeat"), f"{_EVENTS}/heartbeat"),
    Largest(("PUT", f"{_EVENT}/writers/{{writer}}"), f"{_EVENTS}/writers/{'w' * 60}"),
    Largest(
        ("POST", f"{_EVENT}/writers/{{writer}}/close"),
        f"{_EVENTS}/writers/{'w' * 60}/close",
        body=padded({"count": 10**12}, _DOCUMENT),
        headers=_JSON,
    ),
    Largest(
        ("POST", f"{_EVENT}/steps/{{step}}"),
        f"{_EVENTS}/steps/{'s' * 60}",
        body=padded({"name": EMOJI * 200}, _DOCUMENT),
        headers=_JSON,
    ),
    replace(_BY_BYTE, note="JSON", prepare=_log(CONTROL * 200)),
    replace(_BY_BYTE, note="raw", url=f"{_BY_BYTE.url}&raw=true", prepare=_log(CONTROL * 200)),
    Largest(("GET", f"{_EVENT}/steps"), f"{_EVENTS}/steps?limit=10000", prepare=_many_steps),
    Largest(("GET", f"{_EVENT}/completeness"), "/v1/events/svc.a/r1/completeness?limit=10000", prepare=_many_writers),
    Largest(("GET", "/v1/configuration"), "/v1/configuration"),
    Largest(("GET", "/v1/agents/elasticsearch"), "/v1/agents/elasticsearch"),
    Largest(("HEAD", "/v1/agents/elasticsearch"), "/v1/agents/elasticsearch"),
    Largest(("GET", "/v1/agents/elasticsearch/_license"), "/v1/agents/elasticsearch/_license"),
    Largest(("GET", "/v1/agents/elasticsearch/_cluster/health"), "/v1/agents/elasticsearch/_cluster/health"),
    Largest(("GET", "/v1/catalog"), "/v1/catalog?limit=100", prepare=_runs),
    Largest(("GET", "/v1/catalog/pipelines"), "/v1/catalog/pipelines?limit=100", prepare=_pipelines_of_runs),
    Largest(
        ("GET", "/v1/catalog/pipelines/{fqn}/runs"), f"/v1/catalog/pipelines/{quote(EMOJI * 30)}/runs?limit=100", prepare=_runs
    ),
    Largest(("GET", "/v1/catalog/pipelines/{fqn}/runs/{runId}"), f"{_CATALOG}/{RUN_ID}", prepare=_log("x", 64, 16)),
    Largest(("GET", "/v1/catalog/pipelines/{fqn}/runs/{runId}/grep"), _GREP, "places", prepare=_log(_NEEDLES, 8 * MIB)),
    Largest(
        ("GET", "/v1/catalog/pipelines/{fqn}/runs/{runId}/grep"),
        f"{_CATALOG}/{RUN_ID}/grep?" + urlencode({"q": "a.*?[b-z]+.*?c", "regex": "true", "limit": 1000}),
        "pattern, 1 MiB",
        prepare=_log("a word, other words; " * 5, MIB),
    ),
    Largest(
        ("GET", "/v1/catalog/pipelines/{fqn}/runs/{runId}/histogram"),
        f"{_CATALOG}/{RUN_ID}/histogram?buckets=500",
        prepare=_log("x", 2400, 1200),
    ),
    Largest(("GET", "/v0/archive"), "/v0/archive/"),
    Largest(("GET", "/v0/archive/files"), f"{_FILES}/?{_ALL_TIMES}", prepare=_archived(count=101)),
    Largest(("POST", "/v0/archive/files"), _FILES, body=padded(_UPLOAD, _DOCUMENT), headers=_JSON, status=201),
    Largest(("GET", "/v0/archive/files/{id}/data"), _file_url("/data"), prepare=_archived(_INLINE)),
    Largest(("GET", "/v0/archive/files/{id}/metadata"), _file_url("/metadata"), prepare=_archived()),
    Largest(
        ("PATCH", "/v0/archive/files/{id}/metadata"),
        _file_url("/metadata"),
        body=padded({"path": "/" + EMOJI * 50}, _DOCUMENT),
        headers=_JSON,
        prepare=_archived(),
    ),
    Largest(("DELETE", "/v0/archive/files/{id}"), _file_url(), prepare=_archived(), status=204),
    Largest(("GET", "/v0/archive/latest/{what}/{where}"), _LATEST, prepare=_archived()),
    Largest(("GET", "/v0/archive/latest/{what}/{where}/data"), f"{_LATEST}/data", prepare=_archived(_INLINE)),
    Largest(("GET", "/v1/coordination/{source}"), f"{_WORK}/compaction?limit=100", prepare=_partitions),
    Largest(
        ("POST", "/v1/coordination/{source}/{fqn}/{runId}/retry"),
        f"{_WORK}/compaction/{FQN}/{RUN_ID}/retry",
        prepare=_partition(Status.COMPLETED, closed_count=20),
    ),
    Largest(
        ("POST", "/v1/coordination/{source}/{fqn}/{runId}/release"),
        f"{_WORK}/compaction/{FQN}/{RUN_ID}/release",
        prepare=_partition(Status.ASSIGNED, owner="o" * 255, timeout_ms=START_MS + 600_000),
    ),
    Largest(("GET", _PIPELINE_FILES), f"{_PIPELINE_FILES}?namespace=svc&app=flow&limit=10000", prepare=_files_of_pipelines),
    Largest(("DELETE", _PIPELINE_FILES), f"{_PIPELINE_FILES}?namespace=svc", prepare=_runs_to_delete, status=202),
    Largest(("GET", f"{_PIPELINE_FILES}/repair"), f"{_PIPELINE_FILES}/repair", prepare=_orphans),
    Largest(("POST", f"{_PIPELINE_FILES}/repair"), f"{_PIPELINE_FILES}/repair", prepare=_orphans),
    Largest(("GET", _PIPELINES), f"{_PIPELINES}?limit=200", prepare=_wide_pipelines),
    *(
        Largest(
            ("POST", f"{_PIPELINES}/{{name}}/{action}"),
            f"{_PIPELINES}/wide/{action}",
            body=padded(body, _DOCUMENT),
            headers=_JSON,
            prepare=_wide_pipelines,
        )
        for action, body in (("enable", {}), ("disable", {"handler": f"000{EMOJI * 197}"}), ("replay", {"from": "2026-01-01"}))
    ),
    Largest(("GET", "/"), "/", status=302),
    Largest(("GET", "/v1/ui"), "/v1/ui/"),
    Largest(("GET", "/v1/ui/config"), "/v1/ui/config"),
    Largest(("GET", "/v1/ui/{file}"), f"/v1/ui/{max(files(), key=lambda name: len(files()[name]))}"),
    Largest(("GET", "/v1/health"), "/v1/health"),
    Largest(("GET", "/health"), "/health/"),
    Largest(("GET", "/v0/environment"), "/v0/environment/"),
    Largest(("GET", "/spec"), "/spec/"),
    Largest(("GET", "/v1/openapi.json"), "/v1/openapi.json"),
    Largest(("GET", "/docs"), "/docs/"),
]
LARGEST = tuple(_LIST)
