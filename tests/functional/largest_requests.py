"""The largest request of each operation, and the world with the largest response: for the table of their cost, and for the tests of response
sizes."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from chalicelib import composition
from chalicelib.archive.contents import MAX_INLINE_BYTES
from chalicelib.archive.uploads import MAX_BYTES
from chalicelib.composition import COMPACTION
from chalicelib.coordination import Partition, Status, WorkSource
from chalicelib.coordination.partition import format_timestamp, to_row
from chalicelib.explanation.explanation import CauseCandidate, Explanation
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet, put_output_set
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import PutOptions, Run
from chalicelib.routes.budgets import MIB
from chalicelib.routes.viewer import files
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.finalization import INLINE_UPLOADED_BYTES
from tests.files_harness import record_of
from tests.functional.archive import Site, hash_of
from tests.functional.budget_requests import RECORDS, STREAMS, VALUES, items, padded, streams, values
from tests.functional.gateway import LOGS, Answer, Context, call, installed
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.samples import JSON, LINES, NAMES, SAMPLES, TEXT, Sample, dead_letter, nothing
from tests.world import START_MS, World

EMOJI, CONTROL, QUOTE = "\U0001f600", "\x01", '"'
"""Of the letters that a response escapes, the one that takes most of it (12 bytes), one that is small here (7 for 1), one that JSON escapes
twice (4)."""
FQN = "f" * 430
RUN_ID = "r" * 430
"""About the longest names of a run that an S3 key has room for."""
RUN = Run(FQN, RUN_ID)
LONG = {
    **NAMES, "fqn": FQN, "runId": RUN_ID, "writer": "w" * 60, "step": "s" * 60, "start": "s" * 60, "what": "w" * 200, "where": "h" * 200,
    "source": COMPACTION, "name": "wide", "file": max(files(), key=lambda name: len(files()[name])),
}  # fmt: skip
"""Long names of each kind, and those of the largest objects."""


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
    """A largest request. ``encoded`` builds its body. ``prepare`` stores its objects. ``note``: its largest dimension. ``status`` None: it is
    rejected after it was read."""

    sample: Sample
    note: str = ""
    encoded: Callable[[], bytes | None] = lambda: None
    prepare: Callable[[Stage], None] = nothing
    status: int | None = 200

    @property
    def body(self) -> bytes | None:
        """Built when it is needed: all bodies are 100 MB."""
        return self.encoded()

    @contextmanager
    def ready(self, body: bytes | None = None) -> Iterator[Callable[[], Answer]]:
        """A function that sends the request once, with another body if any."""
        body = self.encoded() if body is None else body
        with tempfile.TemporaryDirectory(prefix="runlake-budgets-") as folder:
            stage = Stage(Path(folder))
            settings = {"pipelines_config": folder, "pipeline_modules": "logging"}
            with installed(stage, runs=stage.runs, publisher=InMemoryPublisher(), **settings):
                self.prepare(stage)
                yield lambda: call(self.sample.method, self.sample.url, body, self.sample.all_headers(), Context(600_000))


def _log(line: str, size: int = 4 * MIB, batches: int = 1) -> Callable[[Stage], None]:
    """A log of the given size in bytes."""
    count = size // batches // (len(line.encode()) + 1)
    return lambda stage: stage.append(*[f"{line}\n" * count] * batches)


_EXPLANATION = Explanation.of([CauseCandidate(10**9, EMOJI * 500, "r" * 40, "f" * 40, 0.999)] * 3).to_text()


def _runs(stage: Stage) -> None:
    for number in range(1000):
        run = Run(EMOJI * 30, f"{number:04d}{EMOJI * 30}")
        stage.append("x\n", run=run)
        stage.runs.record_finalization(run, 1, 2, 1, START_MS)
        stage.runs.record_explanation(run, 1, _EXPLANATION)


def _pipelines_of_runs(stage: Stage) -> None:
    for number in range(100):
        stage.append("x\n", run=Run(f"{number:04d}{EMOJI * 30}", EMOJI * 30))


def _append_events(*events: object) -> None:
    sample = replace(SAMPLES["POST", _EVENT], names=LONG, query={}, content_type=LINES)
    answer = sample.send(sample.encoded(events))
    assert answer.status == 200, answer.body


def _many_events(stage: Stage) -> None:
    for _ in range(2):
        _append_events(*({"message": CONTROL * 500, "data": {"a": EMOJI * 50}, "step": "s"} for _ in range(1000)))


def _many_steps(_: Stage) -> None:
    for part in range(10):
        _append_events(*({"message": "m", "step": f"{part}-{number}-{EMOJI * 40}"} for number in range(1000)))


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


def _many_files(stage: Stage) -> None:
    handler = _handler(stage)
    for number in range(85):
        handler.handle(record_of(number, text="x", time_ms=START_MS + number, program=f"{number:03d}{EMOJI * 50}"))
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


def _dead_letters(stage: Stage) -> None:
    """One that is larger than a response, and many with long names."""
    dead_letter(stage, message=CONTROL * 1_000_000, data={"a": EMOJI * 100_000})
    for number in range(1000):
        dead_letter(stage, Run("svc.a", f"{number:04d}{EMOJI * 50}"))


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


_INLINE = ("é" * (MAX_INLINE_BYTES // 6 - 10)).encode()
_UPLOAD = {
    "start": START_MS, "end": START_MS + 1, "path": "/" + QUOTE * 450, "where": "h" * 200, "what": "w" * 200, "hash": hash_of(b""), "size": MAX_BYTES,
    "work_id": None,
}  # fmt: skip
_NEEDLES = ("n" + QUOTE * 11) * 100
"""A line that has something in a hundred places."""
_LINES = 'a line of the "log", with 1 more; ' + "x" * 65


def _of_sample(sample: Sample) -> Iterator[Largest]:
    """The most items, runs and values of the operation."""
    kind, budget = sample.content_type.rpartition("/")[2], sample.budget
    yield Largest(sample, f"items, {kind}", lambda: items(sample, budget.items.limit))
    if sample.path.endswith("_bulk") and sample.operation != ("POST", "/v1/agents/elasticsearch/_bulk"):
        return
    if sample in STREAMS:
        yield Largest(sample, f"runs, {kind}", lambda: streams(sample, budget.streams))
    if sample in VALUES:
        yield Largest(sample, f"values, {kind}", lambda: values(sample, budget.values.limit - 20), status=None)


def _long(sample: Sample, note: str = "", prepare: Callable[[Stage], None] = nothing, **fields: Any) -> Largest:
    """With long names, and with a document of the greatest size if it has one."""
    sample = replace(sample, **{"names": LONG} | fields)
    document = sample.document

    def encoded() -> bytes | None:
        return document if isinstance(document, bytes | None) else padded(document, sample.budget.body_bytes)

    return Largest(sample, note, encoded, prepare, sample.status)


def _of_a_run(sample: Sample) -> Largest:
    """Of a run with a catalogued line, as each sample requires."""
    names = LONG if sample.needs is nothing else NAMES

    def prepare(stage: Stage) -> None:
        stage.append("x\n", run=Run(names["fqn"], names["runId"]))
        sample.needs(stage)

    return _long(sample, prepare=prepare, names=names)


def _get(
    path: str, note: str = "", prepare: Callable[[Stage], None] = nothing, query: Mapping[str, object] | None = None, **fields: Any
) -> Largest:
    return _long(SAMPLES["GET", path], note, prepare, query=query or {}, **fields)


def _send(method: str, path: str, document: Any = None, prepare: Callable[[Stage], None] = nothing, **fields: Any) -> Largest:
    sample = SAMPLES[method, path]
    return _long(sample, prepare=prepare, document=sample.document if document is None else document, **fields)


def _append(note: str, encoded: Callable[[], bytes], content_type: str) -> Largest:
    sample = replace(SAMPLES["POST", f"{_LOG}/{{runId}}"], names=LONG, content_type=content_type)
    return Largest(sample, note, encoded, status=sample.status)


def _unpacked() -> bytes:
    """64 MiB, the default limit of an unpacked body, in a body that is large enough for them."""
    return gzip.compress((b"x" * 999 + b"\n") * (64 * MIB // 1000), 9).ljust(400 * 1024, b"\0")


_LOG, _EVENT, _FILES, _LATEST = (
    f"{LOGS}/{{fqn}}",
    "/v1/events/{fqn}/{runId}",
    "/v0/archive/files",
    "/v0/archive/latest/{what}/{where}",
)
_RUNS, _WORK, _PIPELINES = "/v1/catalog/pipelines/{fqn}/runs", "/v1/coordination/{source}", "/v1/pipelines"
_PIPELINE_FILES, _FQN, _LETTERS = "/v1/pipeline-files", {"fqn": quote(EMOJI * 30)}, "/v1/dead-letters"
_LIST: list[Largest] = [
    _append("one string", lambda: b'"' + b"x" * (6 * MIB - 2) + b'"', JSON),
    _append("lines", lambda: (_LINES + "\n").encode() * (6 * MIB // 101), TEXT),
    _append("unpacked", _unpacked, "application/gzip"),
    _get(f"{_LOG}/{{runId}}", "lines", _log(_LINES), {"limit": 10_000}),
    _get(f"{_LOG}/{{runId}}", "escaped lines", _log(CONTROL * 200), {"limit": 10_000}),
    _get(f"{_LOG}/{{runId}}", "one line", _log(CONTROL * (4 * MIB - 1)), {"limit": 10_000}),
    _send("POST", f"{_LOG}/{{runId}}/close", prepare=_log(_LINES, INLINE_UPLOADED_BYTES, 16)),
    _get(f"{_LOG}/stream/{{runId}}", "", _log("\u2028" * 50), {"wait": 0}),
    _get(f"{_LOG}/{{runId}}/download", "inline", _log(_LINES, 4 * MIB - 200)),
    _get(f"{_LOG}/{{runId}}/download", "link", _log(_LINES, 24 * MIB, 4), status=307),
    _get(_LOG, "", _runs, {"limit": 1000}, names=_FQN),
    _get(f"{_LOG}/last", "", _log(CONTROL * 200), {"limit": 10_000}),
    _get(f"{_LOG}/last/download", "", _log(_LINES, 4 * MIB - 200)),
    *(each for sample in RECORDS for each in _of_sample(sample)),
    _get(_EVENT, "", _many_events, {"limit": 1000}),
    _send("PUT", f"{_EVENT}/starts/{{start}}", {"host": EMOJI * 255, "command": EMOJI * 2000}),
    _send("POST", f"{_EVENT}/writers/{{writer}}/close", {"count": 10**12}),
    _send("POST", f"{_EVENT}/steps/{{step}}", {"name": EMOJI * 200}),
    _get(f"{_EVENT}/log", "JSON", _log(CONTROL * 200), {"maxLines": 1_000_000}),
    _get(f"{_EVENT}/log", "raw", _log(CONTROL * 200), {"maxLines": 1_000_000, "raw": "true"}),
    _get(f"{_EVENT}/steps", "", _many_steps, {"limit": 10_000}),
    _get(f"{_EVENT}/completeness", "", _many_writers, {"limit": 10_000}, names=NAMES),
    _get("/v1/catalog", "", _runs, {"limit": 100}),
    _get("/v1/catalog/history", "", _runs, {"fqn": EMOJI * 30}),
    _get("/v1/catalog/pipelines", "", _pipelines_of_runs, {"limit": 100}),
    _get(_RUNS, "", _runs, {"limit": 100}, names=_FQN),
    _get(f"{_RUNS}/{{runId}}", "", _log("x", 64, 16)),
    _get(f"{_RUNS}/{{runId}}/explanation", "", _log(f"ERROR {EMOJI * 500}\n", 16 * MIB)),
    _get(f"{_RUNS}/{{runId}}/grep", "places", _log(_NEEDLES, 8 * MIB), {"q": "n", "limit": 1000}),
    _get(
        f"{_RUNS}/{{runId}}/grep",
        "pattern, 1 MiB",
        _log("a word, other words; " * 5, MIB),
        {"q": "a.*?[b-z]+.*?c", "regex": "true", "limit": 1000},
    ),
    _get(f"{_RUNS}/{{runId}}/histogram", "", _log("x", 2400, 1200), {"buckets": 500}),
    _get(f"{_FILES}/", "", _archived(count=101), {"what": "w" * 200, "start": "0001-01-01", "end": "9999-12-31T23:59:59.999Z"}),
    _send("POST", _FILES, _UPLOAD),
    _get(f"{_FILES}/{{id}}/data", "", _archived(_INLINE)),
    _get(f"{_FILES}/{{id}}/metadata", "", _archived()),
    _send("PATCH", f"{_FILES}/{{id}}/metadata", {"path": "/" + EMOJI * 50}, _archived()),
    _send("DELETE", f"{_FILES}/{{id}}", prepare=_archived()),
    _get(_LATEST, "", _archived()),
    _get(f"{_LATEST}/data", "", _archived(_INLINE)),
    _get(_WORK, "", _partitions, {"limit": 100}),
    _send("POST", f"{_WORK}/{{fqn}}/{{runId}}/retry", prepare=_partition(Status.COMPLETED, closed_count=20)),
    _send(
        "POST",
        f"{_WORK}/{{fqn}}/{{runId}}/release",
        prepare=_partition(Status.ASSIGNED, owner="o" * 255, timeout_ms=START_MS + 600_000),
    ),
    _get(_PIPELINE_FILES, "", _files_of_pipelines, {"namespace": "svc", "app": "flow", "limit": 10_000}),
    _get(f"{_PIPELINE_FILES}/files", "", _many_files, {"namespace": "svc", "app": "flow", "limit": 1000}),
    _send("DELETE", _PIPELINE_FILES, prepare=_runs_to_delete),
    _get(f"{_PIPELINE_FILES}/repair", "", _orphans),
    _send("POST", f"{_PIPELINE_FILES}/repair", prepare=_orphans, query={}),
    _get(_LETTERS, "", _dead_letters, {"fqn": "svc.a", "limit": 1000}),
    _get(f"{_LETTERS}/{{name}}", "", _dead_letters, SAMPLES["GET", f"{_LETTERS}/{{name}}"].query, names=NAMES),
    _get(_PIPELINES, "", _wide_pipelines, {"limit": 200}),
    *(
        _send("POST", f"{_PIPELINES}/{{name}}/{action}", body, _wide_pipelines)
        for action, body in (("enable", {}), ("disable", {"handler": f"000{EMOJI * 197}"}), ("replay", {"from": "2026-01-01"}))
    ),
]
_LISTED = {each.sample.operation for each in _LIST}
LARGEST = (*_LIST, *(_of_a_run(each) for each in SAMPLES.values() if each.operation not in _LISTED))
"""Those of the list, and the samples of the operations that have no larger request or response."""
