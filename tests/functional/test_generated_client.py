"""openapi-python-client accepts the OpenAPI document, and the client that it generates works with the API in memory."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from chalicelib.ports import ABSENT, PutOptions
from tests.docs.served import ASIDE, Served, served
from tests.functional.archive import hash_of
from tests.functional.gateway import STAGE, call
from tests.support.samples import RUN, dead_letter
from tests.world import START_MS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Setting per-request cookies:DeprecationWarning"),  # in the generated code
]
FQN, RUN_ID = "shop.a b/ü", "run-1"
_UNREAD_BODY = re.compile("Unsupported content type .*|Missing schema")
"""A warning: the generator omits types of bodies that it cannot encode, such as text/plain."""


class InMemory(httpx.BaseTransport):
    """Sends requests to the API of this process, as API Gateway would."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.raw_path.decode().removeprefix(STAGE)
        answer = call(request.method, url, request.read().decode() or None, dict(request.headers))
        return httpx.Response(answer.status, headers=answer.headers, text=answer.body)


class Generated:
    """The generated package: the ``models`` of its schemas, and the ``modules`` of its operations."""

    def __init__(self, folder: Path, warnings: set[str | None]) -> None:
        self.warnings = warnings
        self.models: Any = importlib.import_module(f"{folder.name}.models")
        files = [path for path in folder.glob("api/*/*.py") if path.stem != "__init__"]
        self.modules: dict[str, Any] = {
            path.stem: importlib.import_module(f"{folder.name}.api.{path.parent.name}.{path.stem}") for path in files
        }
        self.package: Any = importlib.import_module(folder.name)

    def operations(self) -> Any:
        """The operations as functions of a new client: ``read_log(fqn, run_id)``."""
        client = self.package.Client(f"http://memory{STAGE}", httpx_args={"transport": InMemory()}, raise_on_unexpected_status=True)
        return SimpleNamespace(**{name: _bound(module, client) for name, module in self.modules.items()})


def _bound(module: Any, client: Any) -> Callable[..., Any]:
    return lambda *args, **options: module.sync(*args, client=client, **options)


@pytest.fixture(scope="module")
def document() -> Any:
    with served():
        return call("GET", "/v1/openapi.json").json


@pytest.fixture(scope="module")
def generated(document: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generated]:
    from openapi_python_client import generate  # takes half a second, also in a run without these tests
    from openapi_python_client.config import Config, ConfigFile, MetaType

    folder = tmp_path_factory.mktemp("generated")
    source, package = folder / "openapi.json", folder / "generated_runlake_client"
    source.write_text(json.dumps(document))
    config = Config.from_sources(ConfigFile(post_hooks=[]), MetaType.NONE, source, "utf-8", overwrite=False, output_path=package)
    warnings = {error.detail for error in generate(config=config)}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield Generated(package, warnings)
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        del sys.modules[name]


@pytest.fixture
def site() -> Iterator[Served]:
    with served() as made:
        yield made


@pytest.fixture
def api(generated: Generated, site: Served) -> Any:
    return generated.operations()


@pytest.fixture
def models(generated: Generated) -> Any:
    return generated.models


@pytest.mark.behavior("A client that is generated from the OpenAPI document has every operation, with its body.")
def test_each_operation_is_generated_with_its_body(document: Any, generated: Generated) -> None:
    assert [each for each in generated.warnings if not _UNREAD_BODY.fullmatch(each or "")] == []
    declared = [operation for item in document["paths"].values() for operation in item.values()]
    assert sorted(generated.modules) == sorted(_snake_case(each["operationId"]) for each in declared)
    with_body = {name for name, module in generated.modules.items() if "body" in inspect.signature(module.sync_detailed).parameters}
    assert with_body == {_snake_case(each["operationId"]) for each in declared if "requestBody" in each}


def _snake_case(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def test_appended_lines_are_read_back(api: Any, models: Any) -> None:
    appended = api.append_log(FQN, RUN_ID, body=models.LogBatch(logs="one\ntwo\n"))
    assert (appended.sequence, appended.line, appended.lines, appended.repeated) == (0, 0, 2, False)
    assert api.append_log(FQN, RUN_ID, body="three").line == 2
    page = api.read_log(FQN, RUN_ID, after=1, limit=1)
    assert (page.logs, page.after, page.total, page.streaming) == ("two", "2", 3, True)
    assert api.read_log(FQN, RUN_ID, tail=1).logs == "three"
    assert api.close_run(FQN, RUN_ID).message == "Log stream closed successfully"
    assert api.download_log(FQN, RUN_ID) == "one\ntwo\nthree\n"


def test_runs_are_found(api: Any, models: Any, site: Served) -> None:
    api.append_log(FQN, RUN_ID, body="no such table\n")
    api.close_run(FQN, RUN_ID, body=models.RunEnd(models.RunEndOutcome.FAILED, exit_code=3))
    site.deliver()
    assert api.list_runs(FQN).runs == [RUN_ID]
    (pipeline,) = api.list_pipelines(prefix="shop.").pipelines
    assert (pipeline.fqn, pipeline.last.run_id, pipeline.last.outcome) == (FQN, RUN_ID, "failed")
    (recent,) = api.list_recent_runs(outcome=[models.ListRecentRunsOutcomeItem.FAILED]).runs
    assert (recent.fqn, recent.lines, recent.bytes_, recent.exit_code, recent.signal) == (FQN, 1, 14, 3, None)
    (match,) = api.grep_run(FQN, RUN_ID, q="such").matches
    assert (match.line, match.text, match.spans) == (0, "no such table", [[3, 7]])


def test_events_are_read_back(api: Any, models: Any, site: Served) -> None:
    rows = models.NewEvent("42 rows", id=0, step="load", level="INFO", data=models.NewEventData.from_dict({"table": "orders"}))
    accepted = api.append_events(FQN, RUN_ID, body=[rows, models.NewEvent("done", id=1)], writer="w")
    assert (accepted.accepted, accepted.first_line, accepted.errors) == (2, 0, [])
    site.deliver()
    first, second = api.browse_events(FQN, RUN_ID).events
    assert (first.message, first.step, first.severity, first.timestamp, first.data["table"]) == (
        "42 rows", "load", "INFO", START_MS, "orders",
    )  # fmt: skip
    assert (second.line, second.message, second.level) == (1, "done", None)
    (outlined,) = api.browse_events(FQN, RUN_ID, outline=True, step="load").events
    assert (type(outlined), outlined.has_data) == (models.EventOutline, True)
    (step,) = api.list_steps(FQN, RUN_ID).steps
    assert (step.step, step.lines, step.ended_ms) == ("load", 1, None)
    assert api.close_writer(FQN, RUN_ID, "w", body=models.WriterEnd(count=2)).count == 2
    (writer,) = api.get_completeness(FQN, RUN_ID).writers
    assert (writer.writer, writer.closed, writer.visible, writer.missing) == ("w", True, 2, [])


def test_records_of_an_agent_are_stored_or_refused(api: Any) -> None:
    answer = api.append_fluent_records(body=[{"message": "one", "runlake": {"fqn": FQN, "run_id": RUN_ID}}, {}])
    (refused,) = answer.errors
    assert (answer.accepted, refused.index, refused.code, refused.message) == (1, 1, 400, "the record is empty")
    assert api.read_log(FQN, RUN_ID).logs == "one"


def test_file_is_archived(api: Any, models: Any, site: Served) -> None:
    body = b"one\ntwo\n"
    file = models.NewFile(START_MS, "/a.log", "web-1", "syslog", None, hash_of(body), len(body))
    created = api.create_file(body=file)
    assert (type(created.upload), created.upload.method) == (models.PutUpload, "PUT")
    options = PutOptions({"datalake": created.upload.headers["x-amz-meta-datalake"]})
    site.world.archive_store.put(f"{created.id}/data", body, options, ABSENT)
    site.deliver()
    metadata = api.read_metadata(created.id)
    assert (metadata.id, metadata.path, metadata.start, metadata.end) == (created.id, "/a.log", START_MS, None)
    # The generator repeats a parameter for each element, whatever `explode` says.
    (record,) = api.list_files(what=["syslog", "nginx-*"], start="2026-01-01", end="now").records
    assert (record.size, record.metadata.work_id, record.metadata.start_iso.timestamp() * 1000) == (8, None, START_MS)
    assert api.read_file(created.id) == "one\ntwo\n"
    assert api.change_metadata(created.id, body=models.MetadataChange(work_id="w")).work_id == "w"


def test_quarantined_run_is_retried(api: Any, models: Any) -> None:
    (partition,) = api.list_partitions(models.ListPartitionsSource.COMPACTION).partitions
    assert (partition.key, partition.set_aside, partition.failures) == (ASIDE, True, 20)
    assert partition.failed_at.timestamp() * 1000 == START_MS
    retried = api.retry_partition(models.RetryPartitionSource.COMPACTION, *ASIDE.split("/"))
    assert (retried.status, retried.set_aside, retried.failures) == ("UNASSIGNED", False, 0)


def test_handler_of_a_pipeline_is_disabled(api: Any, models: Any) -> None:
    (handler,) = api.disable_pipeline("runlake", body=models.DisablePipelineBody("files")).handlers
    assert (handler.name, handler.state, handler.reason) == ("files", "disabled", "disabled by an operator")
    (pipeline,) = api.list_processing_pipelines().pipelines
    assert (pipeline.name, pipeline.handlers, pipeline.replay_from) == ("runlake", [handler], None)
    deletion = api.delete_pipeline_logs(namespace="shop")
    assert (deletion.state, deletion.files, deletion.runs) == ("deleted", 0, 0)


def test_dead_letter_is_listed_sent_again_and_dropped(site: Any, api: Any) -> None:
    dead_letter(site.world)
    (listed,) = api.list_dead_letters(fqn=RUN.fqn).letters
    one = {"fqn": listed.fqn, "run_id": listed.run_id, "handler": listed.handler, "line": listed.line}
    assert api.get_dead_letter(listed.pipeline, **one).event.message == "m"
    requested = api.resend_dead_letter(listed.pipeline, **one).requested_at
    assert api.get_dead_letter(listed.pipeline, **one).resend_requested_at == requested
    api.drop_dead_letter(listed.pipeline, **one)
    assert api.list_dead_letters(fqn=RUN.fqn).letters == []


def test_service_is_described(api: Any) -> None:
    assert api.get_health().status == "ok"
    assert api.get_open_api().info["title"] == "Runlake"
    assert api.get_configuration().browser == "runlog"
    assert api.get_viewer_config().auth == "none"


def test_errors_have_their_models(api: Any, models: Any) -> None:
    assert api.get_run(FQN, "run-2") == models.LogError(404, f"there is no such run run={FQN}/run-2")
    file_id = "0" * 32
    assert api.read_metadata(file_id) == models.ArchiveError("NoSuchFile", f"No file with id {file_id} exists")
