"""Records the calls of AWS that a process makes: Python imports this module at its start where this folder is on the path.

Each call of each client of botocore, signed links among them, is appended to the file that ``RECORDED_CALLS`` names: function, service,
operation, parameters without contents. ``RECORDED_AHEAD_S`` moves the clock of the process ahead.
"""

import contextlib
import json
import os
import time

_CONTENTS = ("Body", "Payload", "MetricData", "Message")


def _record(path: str) -> None:
    from botocore.client import BaseClient

    emit = BaseClient._emit_api_params

    def recorded(client, api_params, operation_model, context):
        row = {
            "by": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            "service": client.meta.service_model.endpoint_prefix,
            "operation": operation_model.name,
            "parameters": {name: value for name, value in api_params.items() if name not in _CONTENTS},
        }
        # A line is small enough to be appended as one. The folder is gone where the command that recorded has ended.
        with contextlib.suppress(FileNotFoundError), open(path, "a") as file:
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
