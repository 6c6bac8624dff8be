"""Records the AWS calls of a process: Python imports this module at startup if this folder is on the path.

Every call of every botocore client, presigned links included, is appended to the file ``RECORDED_CALLS``: function, service,
operation, parameters without contents. What AWS bills is appended to the file ``RECORDED_USAGE``: each call with its status and what
it consumed, and each invocation of a function. ``RECORDED_AHEAD_S`` moves the clock of the process ahead. ``RECORDED_CONSTANTS``
overrides constants of modules when they are imported: ``{"package.module": {"NAME": value}}``.
"""

import contextlib
import importlib.machinery
import json
import os
import sys
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
        _append(path, row)
        return emit(client, api_params, operation_model, context)

    BaseClient._emit_api_params = recorded


def _record_usage(path: str) -> None:
    """Record what calls and invocations consume. DynamoDB is asked for the capacity of each call, by table and index."""
    from botocore.client import BaseClient
    from botocore.exceptions import ClientError

    call = BaseClient._make_api_call

    def metered(client, operation_name, api_params):
        model = client.meta.service_model.operation_model(operation_name)
        if "ReturnConsumedCapacity" in getattr(model.input_shape, "members", {}):
            api_params = {**api_params, "ReturnConsumedCapacity": "INDEXES"}
        row = {
            "by": os.environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            "service": client.meta.service_model.endpoint_prefix,
            "operation": operation_name,
            "class": api_params.get("StorageClass", "STANDARD"),
            "status": 0,
        }
        if row["service"] == "sns":
            row["bytes"] = len(json.dumps(api_params, default=repr))
        try:
            response = call(client, operation_name, api_params)
            row["status"] = response["ResponseMetadata"]["HTTPStatusCode"]
            if "ConsumedCapacity" in response:
                row["capacity"] = response["ConsumedCapacity"]
                row["bytes"] = _length(response)
            return response
        except ClientError as error:
            row["status"] = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise
        finally:
            _append(path, row)

    BaseClient._make_api_call = metered
    if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
        _meter_handler(path)


def _length(response) -> int:
    """Bytes of the returned rows, types and punctuation included."""
    rows = response.get("Items", response.get("Responses", response.get("Item", [])))
    return len(json.dumps(rows, default=repr)) if rows else 0


def _meter_handler(path: str) -> None:
    """Record each invocation of the handler of the module that the function's process imports first."""
    import importlib

    import_module = importlib.import_module

    def first(name, package=None):
        importlib.import_module = import_module
        return _Metered(import_module(name, package), path)

    importlib.import_module = first


class _Metered:
    """A module whose functions record their invocations."""

    def __init__(self, module, path: str) -> None:
        self._module, self._path = module, path

    def __getattr__(self, name: str):
        handler = getattr(self._module, name)

        def metered(event, context):
            began_ns = time.perf_counter_ns()
            answer = None
            try:
                answer = handler(event, context)
                return answer
            finally:
                ms = (time.perf_counter_ns() - began_ns) / 1e6
                _append(self._path, {"by": context.function_name, "invocation": _invocation(event, answer), "ms": ms})

        return metered


def _invocation(event, answer) -> dict:
    """Who called, and of a queue's batch the messages that came and those that the function gave back."""
    messages = event.get("Records") or []
    if messages and messages[0].get("eventSource") == "aws:sqs":
        back = answer.get("batchItemFailures", []) if isinstance(answer, dict) else messages
        sent = sum(each["attributes"].get("ApproximateReceiveCount", "1") == "1" for each in messages)
        return {"from": "queue", "received": len(messages), "sent": sent, "deleted": len(messages) - len(back)}
    if event.get("version") == "2.0":
        return {"from": "function URL"}
    return {"from": "gateway" if "httpMethod" in event and "type" not in event else "other"}  # an authorizer's event has a type


def _append(path: str, row: dict) -> None:
    # A line is small enough for an atomic append. The folder no longer exists if the recording command has ended.
    with contextlib.suppress(FileNotFoundError), open(path, "a") as file:
        file.write(json.dumps(row, default=repr) + "\n")


def _live_ahead(seconds: int) -> None:
    real_ns = time.time_ns
    time.time_ns = lambda: real_ns() + seconds * 1_000_000_000


class _ChangedModule(importlib.machinery.SourceFileLoader):
    """Loads a module and overrides its constants."""

    def exec_module(self, module):
        super().exec_module(module)
        vars(module).update(_constants[module.__name__])


class _FinderOfChanged:
    """Finds the modules with overridden constants."""

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name in _constants else None
        if spec and spec.origin:
            spec.loader = _ChangedModule(name, spec.origin)
        return spec


if _ahead_s := int(os.environ.get("RECORDED_AHEAD_S", "0")):
    _live_ahead(_ahead_s)
if _constants := json.loads(os.environ.get("RECORDED_CONSTANTS", "{}")):
    sys.meta_path.insert(0, _FinderOfChanged())
if _path := os.environ.get("RECORDED_CALLS"):
    _record(_path)
if _path := os.environ.get("RECORDED_USAGE"):
    _record_usage(_path)
