"""The command that runs the datalake's own tests, with a checkout of ours: it has tests of the same form, one of which must fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.integration.stacks import COMMAND_S, Stack

SUITE = """
import pytest
from conftest import YEAR_2010, get_client
from datalake.common import DatalakeRecord
from datalake_api.querier import MAX_RESULTS
import simplejson as json


def listed(what):
    res = get_client().get(f'/v0/archive/files/?what={what}&start={YEAR_2010}&end={YEAR_2010 + 9}')
    assert res.status_code == 200
    return json.loads(res.get_data())['records']


def test_a_file_is_listed(record_maker, table_maker):
    records = record_maker(start=YEAR_2010, end=YEAR_2010 + 9, what='made-up-suite', id='0' * 32)
    table_maker(records)
    assert len(listed('made-up-suite')) == 1 <= MAX_RESULTS


def test_it_is_gone_after_its_test():
    assert listed('made-up-suite') == []


def test_contents_are_those_that_were_stored(client, s3_file_maker, random_metadata):
    random_metadata.update(id='1' * 32, path='/a/x.json.gz')
    s3_file_maker('some-bucket', '1' * 32 + '/data', b'\\x1f\\x8b\\x08 packed', random_metadata)
    res = client.get('/v0/archive/files/' + '1' * 32 + '/data')
    assert (res.status_code, res.get_data()) == (200, b'\\x1f\\x8b\\x08 packed')
    assert (res.content_type, res.content_encoding) == ('application/json', 'gzip')


def test_a_redirect_of_the_datalakes_own_is_not_followed(client):
    assert client.get('/').status_code == 302


@pytest.mark.parametrize('querier', ['archive-latest', 'http-latest'])
def test_a_class_is_not_called(querier):
    assert querier == 'http-latest'


def test_an_unexpected_failure():
    assert False
"""


def checkout(folder: Path) -> Path:
    """A repository with the suite."""
    tests = folder / "api" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_suite.py").write_text(SUITE)
    (tests / "conftest.py").write_text("raise RuntimeError('it has to be replaced')\n")
    author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message=suite"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)
    return folder


def test_the_command_tells_what_passes_and_what_does_not(stack: Stack, tmp_path: Path) -> None:
    description = tmp_path / "stack.json"
    description.write_text(json.dumps(stack.description))
    command = [sys.executable, "-m", "tests.integration.datalake.upstream", "--upstream", str(checkout(tmp_path / "checkout"))]
    environment = os.environ | {"RUNLAKE_STACK": str(description)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    told = done.stdout.partition("planetlabs/datalake at ")[2].splitlines()[1:]
    assert told == [
        "5 of 6 tests of the datalake's API pass",
        "not passed: test_suite.py::test_an_unexpected_failure: UNEXPECTED",
        "not run: 1 tests: calls ArchiveQuerier, a class of the datalake's server",
    ], done.stdout + done.stderr
