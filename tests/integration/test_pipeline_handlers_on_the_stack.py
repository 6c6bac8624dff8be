"""Handlers from wheels on the deployed stack, in the scheduled function and in the job: the page that says how to deploy one, followed to
the letter; and wheels that were changed, modules that are not listed and handlers that never return, which affect nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from chalicelib.pipelines.wheels import PinnedWheel, sha256_of
from local.deploy import BUCKET
from local.state import PROJECT
from tests.docs.shell_blocks import commands, shell_blocks
from tests.integration.stacks import COMMAND_S, PATIENCE_S, Stack, running_stack
from tests.integration.test_pipelines_on_the_stack import LOGS, QUIET, Lab
from tests.integration.test_workers_on_the_stack import tick
from tests.support.wheels import stored_wheels, wheel_bytes, wheel_name

PAGE = PROJECT / "docs" / "pipeline-handlers.md"
HANGS = """import time

class Handler:
    def __init__(self):
        pass

while True:
    time.sleep(1)
"""
OTHERS = {"changed_handlers": "import logging\n\nclass Handler(logging.NullHandler): ...\n", "hanging_handlers": HANGS}
MODULES = ",".join(("site_handlers", *OTHERS))


def pipeline_text(name: str, bad: str, arguments: str = "") -> str:
    """A pipeline with a handler of one class, and a sibling that writes files on S3."""
    return f"""
logging:
  version: 1
  handlers:
    theirs: {{class: {bad}{arguments}}}
    files: {{class: chalicelib.pipelines.files.handler.RollingS3Handler, base: pipeline-files/{name}, format: jsonl}}
  root: {{level: NOTSET, handlers: [theirs, files]}}
"""


class Shop:
    """The folder in which the page's commands run, and the stack that pins what they upload."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.counts = folder, folder / "counts.json"
        for name in ("bin", "docs"):
            (folder / name).symlink_to(PROJECT / name)
        blocks = [block for block in shell_blocks(PAGE) if block.language == "sh" and not block.needs]
        self.packing, *self.trying, self.uploading = [line for block in blocks for line in commands(block.text)]
        self.run(self.packing)
        (wheel,) = (folder / "dist").iterdir()
        self.bodies = {wheel.name: wheel.read_bytes()}
        for module, code in OTHERS.items():
            self.bodies[wheel_name(module)] = wheel_bytes({f"{module}.py": code})
            (folder / "dist" / wheel_name(module)).write_bytes(self.bodies[wheel_name(module)])
        self.sha256, self.files = stored_wheels(self.bodies.items())

    def run(self, command: str) -> str:
        """Output of a command of the page."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command, shell=True, cwd=self.folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=COMMAND_S
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="module")
def stack(shop: Shop) -> Iterator[Stack]:
    """Its pipelines: one as on the page, and those of which something is wrong, each with a sibling that is well."""
    parameters = {"PipelinesConfig": f"s3://{BUCKET}/_pipelines", "PipelineModules": MODULES, "PipelineWheels": shop.sha256}
    with running_stack(**parameters, **QUIET) as made, closing(made.client("s3")) as s3:
        for name, text in {
            "site": pipeline_text("site", "site_handlers.CountingHandler", f", path: {shop.counts}"),
            "changed": pipeline_text("changed", "changed_handlers.Handler"),
            "hangs": pipeline_text("hangs", "hanging_handlers.Handler"),
            "disallowed": pipeline_text("disallowed", "os.system"),
        }.items():
            s3.put_object(Bucket=made["bucket"], Key=f"_pipelines/{name}.yaml", Body=text.encode())
        yield made


WELL = ("site", "changed", "hangs")


def siblings(stack: Stack, lab: Lab) -> dict[str, list[str]]:
    """What the siblings of all handlers wrote. The API knows a base once its handler was built."""
    path = f"{stack.api_url}/v1/pipeline-files?namespace={lab.namespace}&app=flow&base=pipeline-files"
    answers = {name: requests.get(f"{path}/{name}", timeout=PATIENCE_S) for name in WELL}
    return {name: [each["message"] for each in answer.json().get("events", ())] for name, answer in answers.items()}


def states(lab: Lab) -> dict[str, tuple[str, str]]:
    """State and reason of the handlers from wheels."""
    every = lab.pipelines()
    return {name: next((h["state"], h["reason"] or "") for h in every[name]["handlers"] if h["name"] == "theirs") for name in WELL}


def counts(shop: Shop) -> dict[str, int]:
    return dict(json.loads(shop.counts.read_text())) if shop.counts.exists() else {}


def work_until(stack: Stack, done: Any) -> None:
    """Invoke the function until a condition holds: each pipeline has an asynchronous invocation of its own."""
    give_up = time.monotonic() + PATIENCE_S
    while not done():
        tick(stack, "pipelines")
        assert time.monotonic() < give_up
        time.sleep(1)


def write(lab: Lab, run: str, *texts: str) -> None:
    lab.write(run, *(("ERROR", text) for text in texts))
    lab.ask("POST", f"{LOGS}/{lab.fqn}/{run}/close")


def plant(stack: Stack, shop: Shop) -> None:
    """Replace a wheel in the bucket, as somebody could who may write there."""
    name = wheel_name("changed_handlers")
    body = wheel_bytes({"changed_handlers.py": f"import pathlib\npathlib.Path({str(shop.folder / 'planted')!r}).touch()\n"})
    with closing(stack.client("s3")) as s3:
        key = f"_pipelines/{PinnedWheel(name, sha256_of(shop.bodies[name])).key}"
        assert s3.head_object(Bucket=stack["bucket"], Key=key)
        s3.put_object(Bucket=stack["bucket"], Key=key, Body=body)


@pytest.mark.sampled(default=1, group="handlers on the stack")
@pytest.mark.behavior(
    "A handler from a pinned wheel on S3 runs in the function and the job; damaged and hanging ones affect nobody else."
)
def test_handlers_from_wheels_in_the_function_and_the_job(stack: Stack, shop: Shop) -> None:
    for command in shop.trying:
        assert "problem" not in shop.run(command)
    wheels = " ".join(f"dist/{name}" for name in shop.bodies)
    printed = shop.run(f"{shop.uploading.replace('4566', str(stack['port']))} {wheels.partition(' ')[2]}")
    assert printed.splitlines()[-1] == f"RUNLAKE_PIPELINE_WHEELS={shop.sha256}"
    with closing(stack.client("s3")) as s3:
        listed = s3.list_objects_v2(Bucket=stack["bucket"], Prefix="_pipelines/lib/")["Contents"]
        assert {each["Key"] for each in listed} == {f"_pipelines/{name}" for name in shop.files}
    plant(stack, shop)
    lab = Lab(stack)
    write(lab, "run-1", "one", "two")

    work_until(
        stack, lambda: states(lab)["hangs"][0] == "disabled" and set(map(tuple, siblings(stack, lab).values())) == {("one", "two")}
    )
    assert counts(shop) == {"flow ERROR": 2}
    told = states(lab)
    assert told["site"] == ("enabled", "") and told["hangs"] == ("disabled", "blocked: it did not come back for 60 s")
    assert told["changed"][0] == "failed" and "the content is not what was pinned" in told["changed"][1]
    problems = {each["file"].rpartition("/")[2]: each["reason"] for each in lab.ask("GET", "/v1/pipelines")["problems"]}
    assert problems.keys() == {"disallowed.yaml"} and f"RUNLAKE_PIPELINE_MODULES={MODULES},os" in problems["disallowed.yaml"]

    shop.counts.unlink()
    write(lab, "run-2", "three")
    summary = run_job(stack)
    refused = {each.get("wheel") or each["file"].rpartition("/")[2] for each in summary["problems"]}
    assert refused == {wheel_name("changed_handlers"), "disallowed.yaml"}
    for name in WELL:
        left = set() if name == "site" else {"handlers that get no events: theirs"}
        assert set(summary["pipelines"][name]["problems"]) == left, summary
    assert siblings(stack, lab) == {name: ["one", "two", "three"] for name in WELL}
    assert counts(shop)["flow ERROR"] == 1
    assert {name: state for name, (state, _) in states(lab).items()} == {
        "site": "enabled",
        "changed": "failed",
        "hangs": "disabled",
    }
    assert not (shop.folder / "planted").exists()


def run_job(stack: Stack) -> Any:
    """Run the job in a separate process; returns its summary. It exits with 1: handlers without events are problems."""
    command = [sys.executable, "-m", "local", "job", "--port", str(stack["port"]), "run_pipelines", "--only", ",".join(WELL)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=COMMAND_S)
    assert done.returncode == 1, (done.stdout[-2000:], done.stderr[-4000:])
    return json.loads(done.stdout.splitlines()[-1])
