"""More invocations of the function that asks, behind ``ports.Workers``."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from chalicelib.aws.clients import make_client
from chalicelib.aws.errors import translated


class LambdaWorkers:
    """Its client is made when it is needed first, which is seldom. The event is one of EventBridge's, as the schedule's own is, with a
    number in its detail."""

    def __init__(self, function_name: str) -> None:
        self._function_name = function_name

    @cached_property
    def _client(self) -> Any:
        return make_client("lambda", region=None)

    def start(self, number: int) -> None:
        """See the port. One Invoke, which does not wait for what becomes of it."""
        event = {
            "version": "0", "id": f"worker-{number}", "source": "runlake.workers", "detail-type": "Worker", "account": "", "time": "",
            "region": "", "resources": [], "detail": {"worker": number},
        }  # fmt: skip
        with translated("invoke", self._function_name, write=True):
            self._client.invoke(FunctionName=self._function_name, InvocationType="Event", Payload=json.dumps(event).encode())
