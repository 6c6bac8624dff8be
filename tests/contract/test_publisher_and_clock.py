"""Contracts of ``ports.Publisher`` and ``ports.Clock``, for all implementations."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.publisher import SnsPublisher
from chalicelib.ports import Clock, Message, Publisher
from tests.contract.conftest import client_of
from tests.support.clock import ManualClock
from tests.support.publisher import InMemoryPublisher

MESSAGES: list[tuple[str, dict[str, str]]] = [
    ('{"status": "success", "what": "ünï"}', {"status": "success"}),
    ("x" * 200_000, {"status": "error", "bucket": "b"}),
]


def publish_all(publisher: Publisher) -> None:
    assert publisher.publish([Message(body, attributes) for body, attributes in MESSAGES]) == [None] * len(MESSAGES)


def test_subscribers_get_messages_and_attributes(endpoint_url: str | None) -> None:
    if endpoint_url is None:
        kept = InMemoryPublisher()
        publish_all(kept)
        assert kept.messages == MESSAGES
        return
    with closing(client_of("sns", endpoint_url)) as sns, closing(client_of("sqs", endpoint_url)) as sqs:
        topic = sns.create_topic(Name="reports")["TopicArn"]
        queue = sqs.create_queue(QueueName="subscriber")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
        publish_all(SnsPublisher(sns, topic))
        got: list[tuple[str, dict[str, str]]] = []
        while len(got) < len(MESSAGES):
            (found,) = sqs.receive_message(QueueUrl=queue, MessageAttributeNames=["All"], MaxNumberOfMessages=1, WaitTimeSeconds=3)[
                "Messages"
            ]
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=found["ReceiptHandle"])
            got.append((found["Body"], {name: value["StringValue"] for name, value in found["MessageAttributes"].items()}))
    assert sorted(got) == sorted(MESSAGES)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock(1_790_000_000_000)], ids=["system", "manual"])
def test_a_clock_goes_forward_by_what_it_sleeps(clock: Clock) -> None:
    before_ms, before_s = clock.now_ms(), clock.monotonic_s()
    clock.sleep(0.05)
    assert clock.monotonic_s() - before_s >= 0.049
    assert clock.now_ms() - before_ms >= 49


def test_the_systems_clock_is_the_systems() -> None:
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 1000


def test_a_manual_clock_stands_still() -> None:
    clock = ManualClock(5)
    assert [clock.now_ms() for _ in range(3)] == [5, 5, 5]
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic_s()) == (1505, 1.5)
