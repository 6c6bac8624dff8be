"""Records what a process asks of AWS: Python imports this at its start where ``tests/recording`` is on the path.

Each call of each client of botocore, links that are only signed among them, is appended to the file that ``RECORDED_CALLS`` names: who
(the function, if it is one's), service, operation, parameters without contents. ``RECORDED_AHEAD_S`` lets a process live so much later.
"""

import json
import os
import time

_CONTENTS = ("Body", "Payload", "MetricData", "Message")


def _record(path: str) -> None:
    from botocore.client import BaseClient

    emit = BaseClient._emit_api_params

    def recorded(client, api_params, operation_model, context):  # type: ignore[no-untyped-def]
        row = {
            "by": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            "service": client.meta.service_model.endpoint_prefix,
            "operation": operation_model.name,
            "parameters": {name: value for name, value in api_params.items() if name not in _CONTENTS},
        }
        with open(path, "a") as file:  # small enough to be appended as one
            file.write(json.dumps(row, default=repr) + "\n")
        return emit(client, api_params, operation_model, context)

    BaseClient._emit_api_params = recorded


def _live_ahead(seconds: int) -> None:
    real_ns = time.time_ns
    time.time_ns = lambda: real_ns() + seconds * 1_000_000_000


if _ahead_s := int(os.environ.get("RECORDED_AHEAD_S", "0")):
    _live_ahead(_ahead_s)
if _path := os.environ.get("RECORDED_CALLS"):
    _record(_path)
