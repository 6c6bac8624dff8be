"""The emulator's queues keep what is sent while its poller removes messages: senders append to a list that stays the queue's."""

from __future__ import annotations

import json
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
