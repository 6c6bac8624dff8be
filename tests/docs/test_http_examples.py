"""The examples of docs/http-api.md and docs/how-to.md print what they say."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from chalicelib.ports import Run
from tests.docs.pages import DOCS, blocks
from tests.docs.served import served
from tests.docs.shell import Shell, examples, same
from tests.functional.gateway import LOGS, call, post


@pytest.mark.parametrize(("page", "least"), [("http-api.md", 20), ("how-to.md", 6)])
def test_examples_print_what_they_say(page: str, least: int) -> None:
    requests = 0
    with served() as world:
        shell = Shell(world.deliver)
        for block in blocks(DOCS / page, "console"):
            for example in examples(block.text):
                real = shell.run(example.command)
                assert same(example.printed, real) if example.printed or real else True, f"{example.command}\nprints\n{real}"
                requests += "curl" in example.command
    assert requests >= least


def test_a_difference_is_noticed() -> None:
    assert not same('{"line":0,"position":"…"}', '{"line":1,"position":"p"}')
    assert not same("one\ntwo\n", "one\nthree\n")
    assert same('{"line":0,"position":"…"}', '{"line":0,"position":"p"}')


def test_the_report_that_is_shown_is_a_real_one() -> None:
    (shown,) = [json.loads(block.text) for block in blocks(DOCS / "how-to.md", "json") if '"records"' in block.text]
    with served() as world:
        post(
            "mysql.ingest/run-1", json.dumps({"connectorId": "host-17", "logs": "one\ntwo\n"}), {"Content-Type": "application/json"}
        )
        world.deliver()
    (message, attributes), *_ = world.topic.messages
    assert json.loads(message) == shown
    assert attributes == {"status": shown["status"]}


def test_the_reader_that_is_shown_reads_to_the_end() -> None:
    """Lines come while it reads, an empty one among them, and the run is closed under it."""
    (block,) = blocks(DOCS / "how-to.md", "python")
    names: dict[str, Any] = {}
    exec(block.text, names)
    with served() as world:
        coming = [["", "two"], [], ["three"]]

        def urlopen(url: str) -> io.StringIO:
            answer = call("GET", url)
            if not answer.json["logs"]:
                if coming:
                    lines = coming.pop(0)
                    post("a/b", "".join(f"{line}\n" for line in lines), {"Content-Type": "text/plain"})
                else:
                    post("a/b/close")
            return io.StringIO(answer.body)

        post("a/b", "one\n", {"Content-Type": "text/plain"})
        names["urlopen"] = urlopen
        assert list(names["follow"](f"{LOGS}/a/b")) == ["one", "", "two", "three"]
        assert world.world.body("logs.txt", Run("a", "b")) == b"one\n\ntwo\nthree\n"
