"""Blocks of shell in the documents.

A block that needs an account of AWS has the line ``<!-- needs: aws -->`` before it, a measurement or test run of minutes
``<!-- needs: minutes -->``. Every other block is executed by a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import PAGES, name_of

LANGUAGES = ("sh", "bash", "console")
EXECUTED_PAGES = {
    "sh": (
        "README.md",
        "docs/how-to.md",
        "docs/agents.md",
        "docs/pipeline-files.md",
        "docs/pipeline-handlers.md",
        "client/README.md",
    ),
    "bash": (),
    "console": ("docs/http-api.md", "docs/how-to.md"),
}
"""By language. Their blocks are executed in order; commands of ``ELSEWHERE`` are left out."""
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
_DEVELOPMENT = re.compile(
    r"(?:\S+=\S+ )*(bin/runlake forward|make job NAME=\w+|make [a-z-]+|(?:\S*/)?python -m local [a-z]+|(?:\S*/)?python -m [a-z_.]+)"
)
_BLOCK = re.compile(r"(?:^<!-- needs: ([a-z ,-]+) -->\n)?^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShellBlock:
    """``needs``: what a machine without anything else lacks, such as ``aws``; empty where a test executes the block."""

    page: str
    language: str
    text: str
    needs: str

    @property
    def is_development(self) -> bool:
        """Whether it has targets of make and modules of the project alone."""
        return all(development_command(line) for line in commands(self.text))


def shell_blocks(page: Path) -> list[ShellBlock]:
    """Of a page, in order."""
    matches = _BLOCK.findall(page.read_text())
    return [ShellBlock(name_of(page), language, text, needs) for needs, language, text in matches if language in LANGUAGES]


def all_blocks() -> Iterator[ShellBlock]:
    """Of every page."""
    for page in PAGES:
        yield from shell_blocks(page)


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
