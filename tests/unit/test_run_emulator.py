"""The emulator's queues keep what is sent while its poller removes messages: senders append to a list that stays the queue's. Functions' code
that an emulator uses stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ministack.services import sqs

from local.run_emulator import keep_messages


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """A queue with a message that was received once too often, and one that was not; its dead-letter queue."""
    for name in ("_dlq_sweep", "_delete_messages_for_esm"):
        monkeypatch.setattr(sqs, name, getattr(sqs, name))
    keep_messages()
    messages = [
        {"id": str(count), "receive_count": count, "visible_at": 0.0, "receipt_handle": f"handle-{count}"} for count in (3, 1)
    ]
    policy = json.dumps({"maxReceiveCount": 3, "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead"})
    queue, dead = {"attributes": {"RedrivePolicy": policy}, "messages": messages}, {"messages": []}
    monkeypatch.setattr(sqs, "_queue_by_arn", lambda _: dead)
    monkeypatch.setattr(sqs, "_get_q", lambda _: queue)
    return queue, dead


def ids(queue: dict[str, Any]) -> list[str]:
    return [message["id"] for message in queue["messages"]]


def test_a_sweep_moves_messages_and_keeps_the_list(queues: tuple[dict[str, Any], dict[str, Any]]) -> None:
    queue, dead = queues
    senders = queue["messages"]
    sqs._dlq_sweep(queue)
    senders.append({"id": "sent meanwhile"})
    assert (ids(queue), ids(dead)) == (["1", "sent meanwhile"], ["3"])


def test_a_deletion_keeps_the_list(queues: tuple[dict[str, Any], dict[str, Any]]) -> None:
    queue, _ = queues
    senders = queue["messages"]
    sqs._delete_messages_for_esm("queue", {"handle-1", "handle-9"})
    senders.append({"id": "sent meanwhile"})
    assert ids(queue) == ["3", "sent meanwhile"]


_USE = """
import sys
from pathlib import Path
from local.run_emulator import SharedZipFile

for path in sys.argv[1:]:
    (target := Path(path).parent / Path(path).stem / "code").mkdir(parents=True)
    SharedZipFile(path).extractall(target)
    print((target / "name").read_text(), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_code_in_use_stays_and_the_newest_of_the_rest(tmp_path: Path) -> None:
    zips = [tmp_path / f"{number}.zip" for number in range(6)]
    for path in zips:
        with zipfile.ZipFile(path, "w") as made:
            made.writestr("name", path.stem)
    environment = os.environ | {"RUNLAKE_SHARED_CODE": str(tmp_path / "shared"), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", _USE, str(zips[0])]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as emulator:
        assert emulator.stdout and emulator.stdout.readline() == "0\n"
        for path in zips[1:]:
            subprocess.run([*command[:3], str(path)], env=environment, stdin=subprocess.DEVNULL, check=True)
        assert (tmp_path / "0" / "code" / "name").read_text() == "0"
        assert sum(path.is_dir() for path in (tmp_path / "shared").iterdir()) == 1 + 3 + 1, (
            "the last one prunes before it is unused"
        )
