"""``ports.Workers`` as further invocations of the same Lambda function."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from chalicelib.aws.clients import make_client
from chalicelib.aws.errors import translate_errors


class LambdaWorkers:
    """Creates its client on first use, which is rare. The payload is an EventBridge event like that of the schedule, with the worker's
    number in its detail."""

    def __init__(self, function_name: str) -> None:
        self._function_name = function_name

    @cached_property
    def _client(self) -> Any:
        return make_client("lambda", region=None)

    def start(self, number: int) -> None:
        """See the port. One asynchronous Invoke."""
        event = {
            "version": "0", "id": f"worker-{number}", "source": "runlake.workers", "detail-type": "Worker", "account": "", "time": "",
            "region": "", "resources": [], "detail": {"worker": number},
        }  # fmt: skip
        with translate_errors("invoke", self._function_name, write=True):
            self._client.invoke(FunctionName=self._function_name, InvocationType="Event", Payload=json.dumps(event).encode())
