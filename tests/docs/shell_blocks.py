"""Blocks of shell in the documents.

A block that needs an account of AWS has the line ``<!-- needs: aws -->`` before it, a measurement or test run of minutes
``<!-- needs: minutes -->``. Every other block is executed by a test.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import Block, all_blocks, is_named

LANGUAGES = ("sh", "bash", "console")
EXECUTED_PAGES = {
    "sh": (
        "README.md",
        "docs/how-to.md",
        "docs/first-pipeline.md",
        "docs/agents.md",
        "docs/identities.md",
        "docs/pipeline-files.md",
        "docs/pipeline-handlers.md",
        "client/README.md",
    ),
    "bash": (),
    "console": ("docs/http-api.md", "docs/how-to.md"),
}
"""By language. Their blocks are executed in order; commands of ``ELSEWHERE`` are left out."""
WITH_AWS = "docs/first-pipeline.md"
"""The page whose calls of AWS are executed too: ``tests/integration/test_first_pipeline.py``."""
ELSEWHERE = {
    "make demo": "tests/integration/test_demo.py",
    "make test": ".ci/run",
    "make up": "tests/integration/test_stack.py",
    "make job NAME=backfill": "tests/integration/test_backfill_job.py",
    "make job NAME=build_dataset": "tests/integration/test_build_dataset_job.py",
    "make job NAME=bulk_compact": "tests/integration/test_bulk_compact_job.py",
    "make job NAME=rebuild_catalog": "tests/integration/test_rebuild_catalog_job.py",
    "make job NAME=retention": "tests/integration/test_retention_job.py",
    "make job NAME=run_pipelines": "tests/integration/test_pipelines_on_the_stack.py",
    "make deploy": "tests/integration/test_deploy_command.py",
    "python -m deploy": "tests/unit/test_deploy_command_line.py",
    "make diff": "tests/integration/test_deploy_command.py",
    "make smoke": "tests/integration/test_deploy_command.py",
    "make upstream": "tests/integration/datalake/test_upstream.py",
    "bin/runlake forward": "tests/integration/test_forwarding_over_http.py",
}
"""Commands of those who develop or operate Runlake, whose arguments ``references.py`` checks, and what runs them."""
_OF_EVERY_SHELL = frozenset({"HOME", "PWD"})
_DEVELOPMENT = re.compile(
    r"(?:\S+=\S+ )*(bin/runlake forward|make job NAME=\w+|make [a-z-]+|(?:\S*/)?python -m local [a-z]+|(?:\S*/)?python -m [a-z_.]+)"
)


def shell_blocks(page: Path) -> list[Block]:
    """Of a page, in order."""
    return [block for block in all_blocks(page) if block.language in LANGUAGES]


def is_development(block: Block) -> bool:
    """Whether a block has targets of make and modules of the project alone."""
    return all(development_command(line) for line in commands(block.text))


def commands(text: str) -> list[str]:
    """The commands of a block, without comments; lines that go on, also behind a pipe, are joined. Of a console those behind ``$``,
    without what is printed."""
    joined = re.sub(r"\\\n\s*", "", text)
    if joined.startswith("$ "):
        return [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]
    lines = (re.sub(r"(^|\s)#\s.*$", "", line).strip() for line in joined.splitlines())
    return re.sub(r"(\||&&)\n", r"\1 ", "\n".join(line for line in lines if line)).splitlines()


def development_command(line: str) -> str | None:
    """The target of make or the module of the project that a command runs, as ``ELSEWHERE`` names it."""
    matched = _DEVELOPMENT.match(line)
    return re.sub(r"\S*/python", "python", matched[1]) if matched else None


def unset_variables(page: Path) -> list[tuple[str, str]]:
    """Each command of a page with a variable that no command before it sets, and that the text before it does not name: ``NAME``, or as an
    output of the stack ``Name``."""
    found, known = [], set(_OF_EVERY_SHELL)
    for block in shell_blocks(page):
        for line in commands(block.text):
            for name in sorted(_used(line) - known):
                if not (is_named(name, block) or is_named(name.title().replace("_", ""), block)):
                    found.append((name, line))
            known |= set(re.findall(r"(?:^|[\s;(])([A-Za-z_]\w*)=", line))
    return found


def _used(line: str) -> set[str]:
    return set(re.findall(r"(?<!\\)\$\{?([A-Za-z_]\w*)", re.sub(r"\$?'[^']*'", "", line)))
