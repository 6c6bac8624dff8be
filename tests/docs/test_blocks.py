"""Every block of the documents is executed or checked. Blocks of shell: ``test_shell_blocks.py``. Others: by ``CHECKS``, or by the test
that ``ELSEWHERE`` names."""

from __future__ import annotations

import ast
import builtins
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import fields
from netrc import netrc
from pathlib import Path

import pytest
import yaml

from chalicelib.access.policy import Policy
from chalicelib.events.configuration import parse_configuration
from chalicelib.events.plugins import PROTOCOL
from chalicelib.events.targets.configuration import parsed_target
from chalicelib.pipelines.configuration import parse_pipeline_file
from chalicelib.pipelines.files.key_layout import is_file_of
from chalicelib.pipelines.files.path_template import is_templated_key
from chalicelib.pipelines.wheels import PinnedWheel
from chalicelib.settings import Settings
from deploy.stages import Stage
from docs import generate
from glue_jobs.transforms.retention_rules import read_rules
from runlake_forwarding import Forwarded
from tests.docs import other_systems
from tests.docs.pages import PAGES, PROJECT, Block, all_blocks, blocks, is_named, name_of
from tests.docs.references import problem
from tests.docs.shell_blocks import LANGUAGES
from tests.functional.gateway import call, get, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.unit.test_openapi import DOCUMENT, mistakes
from tests.world import World

BLOCKS = [block for page in PAGES for block in all_blocks(page) if block.language not in LANGUAGES]


def setting(name: str) -> Callable[[str], object]:
    """A check that a text is a value of a setting."""
    values = {"bucket_name": "logs", "archive_bucket_name": "archive", **JWT}
    return lambda text: Settings(**{name: text}, **values).check_auth(is_emulated=True)


def pipeline(text: str) -> None:
    parse_pipeline_file(text, "page")


def handlers(text: str) -> None:
    """A part of a pipeline's file."""
    part = yaml.safe_load(text)
    pipeline(yaml.safe_dump({"logging": {"version": 1, **part, "root": {"level": "INFO", "handlers": list(part["handlers"])}}}))


def stage(text: str) -> None:
    given = Stage.model_validate_json(text)
    assert given.parameters.keys() <= generate.template()["Parameters"].keys()


def deletion(text: str) -> None:
    assert mistakes(DOCUMENT["components"]["schemas"]["RunDeletion"], json.loads(text)) == []


def requests(text: str) -> None:
    assert [said for line in text.splitlines() if (said := problem(line))] == []


def netrc_file(text: str) -> None:
    Path("netrc").write_text(text)
    (login,) = netrc("netrc").hosts.values()
    assert login == ("token", "", "TOKEN")


def protocol(text: str) -> None:
    assert text == f"RUNLAKE_PROTOCOL = {PROTOCOL}\n"


def keys_of_files(text: str) -> None:
    form, key = text.splitlines()
    assert (is_templated_key if "{path" in form else is_file_of)("pipeline-files", key)


def keys_of_wheels(text: str) -> None:
    assert PinnedWheel("{name}", "{sha256 of the wheel}").key in text.splitlines()[1]


def grants_of_a_token(text: str) -> None:
    """Its scopes are those of the API: what it may write, read, and neither."""
    issuer = Issuer()
    token = bearer(issuer.token(**json.loads(text)))
    with installed(World(), keys=issuer.read, **JWT):
        written = [post(f"{fqn}/r", '"x"', token).status for fqn in ("svc_sales.a", "shared.a")]
        read = [get(f"{fqn}/r", headers=token).status for fqn in ("svc_sales.a", "shared.a", "svc_hr.a")]
    assert (written, read) == ([200, 403], [200, 200, 403])


def line_of_a_decision(text: str) -> None:
    """That of a refused append, except for times and the request."""
    shown, issuer = json.loads(text), Issuer()
    token = bearer(issuer.token(shown["principal"], jti=shown["token_id"], runlake={"logs:write": ["svc_sales.*"]}))
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    (handler,) = logging.getLogger("runlake-access").handlers
    old = handler.setStream(stream)  # type: ignore[attr-defined]
    try:
        with installed(World(), keys=issuer.read, **JWT):
            post(f"{shown['resource']}/r", '"x"', token | {"User-Agent": shown["user_agent"]})
    finally:
        handler.setStream(old)  # type: ignore[attr-defined]
    stream.seek(0)
    (line,) = map(json.loads, stream.read().splitlines())
    assert shown.keys() <= line.keys()
    assert {name: value for name, value in line.items() if shown.get(name, value) != value} == {"source_address": "127.0.0.1"}


def answer_to_an_agent(text: str) -> None:
    """The second of three records is of a pipeline that the token may not write."""
    issuer = Issuer()
    headers = bearer(issuer.token("etl", runlake={"logs:write": ["sales.*"]})) | {"Content-Type": "application/json"}
    records = [{"message": "x", "runlake_fqn": fqn, "runlake_run_id": "r"} for fqn in ("sales.a", "hr.pay", "sales.a")]
    with installed(World(), keys=issuer.read, **JWT):
        assert call("POST", "/v1/agents/fluent", json.dumps(records), headers).json == json.loads(text)


def answer_to_a_wrong_request(text: str) -> None:
    with installed(World()):
        paths = ("/v1/catalog?limit=0", "/v0/archive/files/?what=a&start=yesterday&end=now")
        assert json.loads(text) in [call("GET", path).json for path in paths]


def fields_of_a_request(text: str) -> None:
    """The query's fields are in what an append prints, which CloudWatch Logs keeps."""
    with installed(World()), redirect_stdout(io.StringIO()) as printed:
        post("mysql.ingest/r", '"x"')
    line = json.loads(printed.getvalue().splitlines()[-1])
    assert set(re.findall(r"(?<!@)\b[a-z_]+(?=,| =| \|)", text)) <= line.keys() and line["fqn"] == "mysql.ingest"


def counts_of_a_forwarded_run(text: str) -> None:
    printed = re.findall(r"(\w+)=\d+", text.splitlines()[-1])
    assert printed == [each.name for each in fields(Forwarded)][: len(printed)]


CHECKS: dict[tuple[str, str, str], Callable[[str], object]] = {
    ("docs/agents.md", "yaml", "rules:"): parse_configuration,
    ("docs/agents.md", "json", "accepted"): answer_to_an_agent,
    ("docs/agents.md", "yaml", "HttpEndpointDestinationConfiguration:"): other_systems.firehose_destination,
    ("docs/agents.md", "yaml", "output.elasticsearch:"): other_systems.yaml_of("Filebeat"),
    ("docs/agents.md", "yaml", "otlphttp/runlake:"): other_systems.yaml_of("OpenTelemetry collector"),
    ("docs/agents.md", "text", "[OUTPUT]"): other_systems.words_of("Fluent Bit"),
    ("docs/agents.md", "text", "[FILTER]"): other_systems.words_of("Fluent Bit"),
    ("docs/agents.md", "text", "<match"): other_systems.words_of("Fluentd"),
    ("docs/agents.md", "text", "output {"): other_systems.words_of("Logstash"),
    ("docs/agents.md", "text", "filter {"): other_systems.words_of("Logstash"),
    ("docs/agents.md", "text", "omhttp"): other_systems.words_of("rsyslog"),
    ("docs/deletion.md", "text", "DELETE"): requests,
    ("docs/deletion.md", "json", "deletedBy"): deletion,
    ("docs/events.md", "yaml", ""): parse_configuration,
    ("docs/events.md", "python", "RUNLAKE_PROTOCOL"): protocol,
    ("docs/forwarding.md", "yaml", "logging:"): pipeline,
    ("docs/forwarding.md", "yaml", "outputs:"): parse_configuration,
    ("docs/forwarding.md", "yaml", "browsers:"): parse_configuration,
    ("docs/forwarding.md", "json", '"kind"'): parsed_target,
    ("docs/forwarding.md", "json", "otel.example.com"): setting("target_hosts"),
    ("docs/how-to.md", "json", '"type"'): setting("pipeline_ids"),
    ("docs/how-to.md", "text", "machine"): netrc_file,
    ("docs/http-api.md", "json", '{"code": '): answer_to_a_wrong_request,
    ("docs/identities.md", "yaml", "steps:"): other_systems.yaml_of("GitHub Actions"),
    ("docs/login.md", "json", "client_id"): setting("login"),
    ("docs/operations.md", "json", '"stack"'): stage,
    ("docs/operations.md", "text", "fields @timestamp"): fields_of_a_request,
    ("docs/operations.md", "json", "RolesOfTheStack"): other_systems.statements,
    ("docs/pipeline-files.md", "yaml", "logging:"): pipeline,
    ("docs/pipeline-files.md", "yaml", "by_level:"): handlers,
    ("docs/pipeline-files.md", "yaml", "role:"): handlers,
    ("docs/pipeline-files.md", "text", "{base}"): keys_of_files,
    ("docs/pipeline-handlers.md", "text", "_pipelines/lib"): keys_of_wheels,
    ("docs/pipelines.md", "yaml", "logging:"): pipeline,
    ("docs/retention.md", "json", "rules"): read_rules,
    ("docs/security.md", "json", "jwks_url"): setting("jwt_more_issuers"),
    ("docs/security.md", "json", "lambda:InvokeFunctionUrl"): other_systems.statements,
    ("docs/security.md", "json", '"sub"'): grants_of_a_token,
    ("docs/security.md", "json", '"principals"'): Policy.parse,
    ("docs/security.md", "json", '"outcome"'): line_of_a_decision,
}
"""By page, language, and a text in the block."""
ELSEWHERE = {
    "client/tests/test_login.py": [("docs/login.md", "text", "$ runlake login")],
    "client/tests/test_readme.py": [("client/README.md", language, "") for language in ("python", "text", "toml")],
    "tests/docs/test_contributing.py": [("CONTRIBUTING.md", language, "") for language in ("python", "diff")],
    "tests/docs/test_http_examples.py": [
        ("docs/how-to.md", "python", "def "),
        ("docs/how-to.md", "json", '"records"'),
    ],
    "tests/docs/test_identities_page.py": [("docs/identities.md", "json", "")],
    "tests/docs/test_masking_page.py": [("docs/masking.md", "json", "")],
    "tests/docs/test_proxy.py": [("docs/how-to.md", "nginx", "")],
    "tests/integration/openmetadata/test_unmodified_client.py": [("docs/how-to.md", "yaml", "ingestionPipelineFQN")],
    "tests/integration/test_agents_on_the_stack.py": [("docs/agents.md", "text", "destination d_runlake")],
    "tests/integration/test_shell_blocks_on_the_stack.py": [
        ("docs/agents.md", "python", ""),
        ("README.md", "python", "runlake.run"),
    ],
    "tests/spark/test_queries.py": [
        ("docs/dataset.md", "python", ""),
        ("docs/dataset.md", "sql", ""),
        ("docs/dataset.md", "text", "_ledger"),
    ],
    "tests/spark/test_rows.py": [("docs/spark.md", "python", ""), ("README.md", "python", "spark_session")],
    "tests/unit/test_lines_page.py": [("docs/log-formats.md", "python", "")],
}
"""The test that executes a block, or compares it with what the code does."""
NOT_CHECKED = {
    ("README.md", "", "connector, agent"): "a drawing",
    ("docs/security.md", "text", "the internet"): "a drawing",
    ("docs/dataset.md", "sql", "-- Athena\n"): "Athena is on AWS alone",
}


def matches(row: tuple[str, str, str], block: Block) -> bool:
    page, language, text = row
    return (block.page, block.language) == (page, language) and text in block.text


def is_generated(block: Block) -> bool:
    """Whether it stands in what ``docs.generate`` writes, which a test compares."""
    return re.findall(r"<!-- generated: ([a-z-]+) -->", block.above)[-1:] not in ([], ["end"])


def test_every_block_is_executed_or_checked() -> None:
    rows = [*CHECKS, *NOT_CHECKED, *(row for rows in ELSEWHERE.values() for row in rows)]
    alone = [block for block in BLOCKS if not is_generated(block) and not any(matches(row, block) for row in rows)]
    assert not alone, "\n".join(f"{block.page}: add a row to CHECKS for\n{block.text}" for block in alone)
    assert [row for row in rows if not any(matches(row, block) for block in BLOCKS)] == []


def test_names_are_bound_or_named_before_they_are_used() -> None:
    unbound = [f"{name_of(page)}: {name} in\n{block.text}" for page in PAGES for name, block in unbound_names(page)]
    assert not unbound, "\n".join(unbound)


def unbound_names(page: Path) -> Iterator[tuple[str, Block]]:
    """Names that no block of Python before binds, each with its block, unless the text before it names them."""
    known = set(dir(builtins))
    for block in blocks(page, "python"):
        nodes = list(ast.walk(ast.parse(block.text)))
        known |= {name for node in nodes for name in _bound(node)}
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        yield from ((name, block) for name in sorted(used - known) if not is_named(name, block))


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(each.asname or each.name).partition(".")[0] for each in node.names]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    return [node.arg] if isinstance(node, ast.arg) else []


def test_test_that_checks_a_block_reads_its_page() -> None:
    """By the page's file name."""
    unread = [
        (path, page) for path, rows in ELSEWHERE.items() for page, *_ in rows if Path(page).name not in (PROJECT / path).read_text()
    ]
    assert unread == []


def test_checked_blocks_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for row, check in CHECKS.items():
        for block in filter(lambda each: matches(row, each), BLOCKS):
            try:
                check(block.text)
            except Exception as error:
                wrong.append(f"{block.page}: {error!r}\n{block.text}")
    assert not wrong, "\n".join(wrong)
