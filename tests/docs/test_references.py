"""What the documents name in inline code and in blocks of shell exists in the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, PROJECT, name_of, spans
from tests.docs.references import FOREIGN, command_problem, problem
from tests.docs.shell_blocks import commands, shell_blocks


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_names_exists(page: Path) -> None:
    assert [f"`{span}`: {said}" for span in dict.fromkeys(spans(page)) if (said := problem(span))] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_shell_blocks_are_accepted_by_their_parsers(page: Path) -> None:
    lines = [line for block in shell_blocks(page) for line in commands(block.text)]
    assert [f"{line}: {said}" for line in lines if (said := command_problem(line))] == []


def test_pages_of_the_client_and_of_security_are_checked() -> None:
    assert {PROJECT / "client" / "README.md", PROJECT / "SECURITY.md", PROJECT / "README.md"} <= set(PAGES)


@pytest.mark.parametrize(
    "wrong",
    [
        "chalicelib/runlog/writers.py",
        "tests/unit/test_writer.py::test_nothing_of_the_kind",
        "infra/stage/prod.json",
        "build/deploy.yaml",
        "chalicelib.settings.Setings",
        "make deplyo",
        "make deploy STAGEE=prod",
        "make job NAME=backfill ARGS=--anow",
        'make job NAME=retention ARGS="--rules r.json --aply plan"',
        'make bench-live ARGS="--wirte"',
        "python -m bench.lines",
        "TOKEN=x python -m local forward FQN RUN --target target.json",
        ".venv/bin/python -m bench.nothing",
        ".venv/bin/python -m bench.pipelines --event 5",
        ".venv/bin/python -m local up --ports 4566",
        "runlake tial FQN",
        "runlake tail --folow FQN",
        "bin/runlake-pipelines validate --configs DIR",
        "GET /v1/pipeline",
        "DELETE /v1/pipelines",
        "POST …/logs/{fqn}/{runId}/{x}/y/z/a/b/c/d/e/f/g",
        "/v1/agents/fluentd",
        "$API/v2/ui/",
        "logs:append",
        "om_streamable_logs_send",
        "om_streamable_logs_masked_secrets_pasword",
        "RUNLAKE_BUCKET",
        "streamTimeoutMinute",
        "PartialFlushIntervalMinute",
        "RUNLAKE_AUTHS=jwt",
        "JwtIssuers",
    ],
)
def test_wrong_reference_is_noticed(wrong: str) -> None:
    assert problem(wrong)


@pytest.mark.parametrize(
    "good",
    [
        "chalicelib/runlog/writer.py",
        "infra/stages/NAME.json",
        "build/sam.yaml",
        "make deploy STAGE=prod",
        'make job NAME=retention ARGS="--apply plan.jsonl"',
        ".venv/bin/python -m docs.generate",
        ".venv/bin/python -m bench.pipelines --events 100000",
        "runlake tail -f nightly.orders",
        "runlake exec nightly.orders -- ./load.sh --all",
        "GET $API/v1/coordination/compaction",
        "GET /v1/pipeline-files?namespace=mysql",
        "logs:read",
        "streamTimeoutMinutes",
        "RUNLAKE_AUTH=jwt | iam | none",
        "application/gzip",
        "s3://bucket/key",
        "{id}/data",
        "logs.txt",
    ],
)
def test_good_reference_passes(good: str) -> None:
    assert problem(good) is None


def test_foreign_words_are_all_used() -> None:
    """A word that no page has is deleted from the list."""
    text = "\n".join(span for page in PAGES for span in spans(page))
    assert [word for words in FOREIGN.values() for word in words.split() if word not in text] == []
