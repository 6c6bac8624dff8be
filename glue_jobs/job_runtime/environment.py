"""Settings of a deployed stack, for a job that runs elsewhere: the job gets the environment of the ingest function.

Spark's Python workers are separate processes, usually on other machines, so the driver passes them its settings.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import boto3

FUNCTION = "IngestFunctionName"
_HANDED_OVER = ("RUNLAKE_", "POWERTOOLS_", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "AWS_REGION")
_HERE_ONLY = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def use_stack(name: str) -> None:
    """Copy the environment of a stack's ingest function into this process, which keeps its own region and credentials. Raises
    LookupError."""
    stacks = boto3.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    outputs = {row["OutputKey"]: row["OutputValue"] for row in stacks[0].get("Outputs", ())}
    if FUNCTION not in outputs:
        raise LookupError(f"not a stack of Runlake, its outputs lack {FUNCTION} stack={name}")
    configuration = boto3.client("lambda").get_function_configuration(FunctionName=outputs[FUNCTION])
    # A function prints its metrics for each call. A job has a summary, and people read its output.
    os.environ.update(configuration["Environment"]["Variables"] | {"POWERTOOLS_METRICS_DISABLED": "true"})


def worker_environment() -> dict[str, str]:
    """The variables that a worker needs to build the same services. Credentials are included only if they come from the
    environment; a worker on Glue has those of its role."""
    names = [name for name in os.environ if name.startswith(_HANDED_OVER) or name in _HERE_ONLY]
    return {name: os.environ[name] for name in names}


def apply_environment(variables: Mapping[str, str]) -> None:
    """Set the driver's variables in a worker, before its services are built."""
    os.environ.update(variables)
