"""Every block of shell is executed, or says what it needs that a test cannot have. ``tests/integration/test_shell_blocks_on_the_stack.py``
and ``test_http_examples.py`` execute them."""

from __future__ import annotations

import re

import pytest

from tests.docs.aws_commands import aws_commands, aws_problem
from tests.docs.pages import PAGES, PROJECT, name_of, spans
from tests.docs.shell_blocks import (
    ELSEWHERE,
    EXECUTED_PAGES,
    WITH_AWS,
    commands,
    development_command,
    is_development,
    shell_blocks,
    unset_variables,
)

BLOCKS = [block for page in PAGES for block in shell_blocks(page)]
NEEDS = {"aws", "minutes"}


def test_blocks_that_are_not_executed_say_what_they_need() -> None:
    listed = {(block.page, commands(block.text)[0]) for block in BLOCKS if block.needs}
    assert {block.needs for block in BLOCKS if block.needs} == NEEDS
    for page, first in sorted(listed):
        print(f"not executed: {page}: {first}")
    assert all(re.search(r"\baws ", block.text) for block in BLOCKS if block.needs == "aws"), "it could be executed"
    assert all(is_development(block) for block in BLOCKS if block.needs == "minutes"), "it could be executed"


def test_blocks_with_calls_of_aws_are_marked() -> None:
    """The emulator answers ``aws s3`` in console blocks, whose commands test_http_examples.py executes."""
    calls = [block for block in BLOCKS if block.language != "console" and re.search(r"(^|\$\()aws ", block.text, re.MULTILINE)]
    unmarked = [block for block in calls if block.needs != "aws" and block.page != WITH_AWS]
    assert [f"{block.page}: put <!-- needs: aws --> before\n{block.text}" for block in unmarked] == []


def test_variables_are_set_or_named_before_they_are_used() -> None:
    pages = [page for page in PAGES if name_of(page) != WITH_AWS]  # which is executed where each variable must be set
    assert [f"{name_of(page)}: {name} in {line}" for page in pages for name, line in unset_variables(page)] == []


def test_commands_of_aws_are_those_of_its_models() -> None:
    lines = [line for block in BLOCKS if block.language != "console" for line in commands(block.text)]
    lines += [span for page in PAGES for span in spans(page) if re.match(r"aws \S+ \S+ ", span)]
    wrong = [f"aws {' '.join(words)}: {said}" for line in lines for words in aws_commands(line) if (said := aws_problem(words))]
    assert wrong == []


@pytest.mark.parametrize(
    "wrong",
    [
        "aws snss subscribe --topic-arn a",
        "X=$(aws sns subscribed --topic-arn a)",
        "aws sns subscribe --topic-arn a --protocol sqs --atributes {}",
        "aws sns subscribe --topic-arn a",
        "make package && aws glue start-job-run --job-name a --arguments '[]'",
        "aws s3 cp a b --recursiv",
    ],
)
def test_wrong_command_of_aws_is_noticed(wrong: str) -> None:
    assert any(aws_problem(words) for words in aws_commands(wrong))


def test_every_other_block_is_of_a_page_that_a_test_executes() -> None:
    missing = [
        f"{block.page}: add the page to EXECUTED_PAGES, or put <!-- needs: aws --> before\n{block.text}"
        for block in BLOCKS
        if not block.needs and not is_development(block) and block.page not in EXECUTED_PAGES[block.language]
    ]
    assert missing == []


def test_development_commands_are_run_by_tests() -> None:
    names = {development_command(line) for block in BLOCKS if not block.needs for line in commands(block.text)} - {None}
    assert names == set(ELSEWHERE), "say in ELSEWHERE which test runs it"
    assert [path for path in ELSEWHERE.values() if not (PROJECT / path).exists()] == []


def test_marker_and_commands_of_a_block_are_read() -> None:
    assert commands("make up   # starts it\ncurl \\\n    -s x#y\n\n# only a comment\n") == ["make up", "curl -s x#y"]
    assert commands("$ jq .\n{}\n") == ["jq ."]
