"""Records the AWS calls of a process: Python imports this module at startup if this folder is on the path.

Every call of every botocore client, presigned links included, is appended to the file ``RECORDED_CALLS``: function, service,
operation, parameters without contents. ``RECORDED_AHEAD_S`` moves the clock of the process ahead. ``RECORDED_CONSTANTS`` overrides
constants of modules when they are imported: ``{"package.module": {"NAME": value}}``.
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
        # A line is small enough for an atomic append. The folder no longer exists if the recording command has ended.
        with contextlib.suppress(FileNotFoundError), open(path, "a") as file:
            file.write(json.dumps(row, default=repr) + "\n")
        return emit(client, api_params, operation_model, context)

    BaseClient._emit_api_params = recorded


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
