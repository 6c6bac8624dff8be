"""The settings of a deployed stack, for a job that runs somewhere else: what its ingest function has, the job has too."""

from __future__ import annotations

import os

import boto3

FUNCTION = "IngestFunctionName"


def use_stack(name: str) -> None:
    """Take over the environment of a stack's ingest function. Region and credentials are this process's own. Raises LookupError."""
    stacks = boto3.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    outputs = {row["OutputKey"]: row["OutputValue"] for row in stacks[0].get("Outputs", ())}
    if FUNCTION not in outputs:
        raise LookupError(f"not a stack of Runlake, its outputs lack {FUNCTION} stack={name}")
    configuration = boto3.client("lambda").get_function_configuration(FunctionName=outputs[FUNCTION])
    os.environ.update(configuration["Environment"]["Variables"])
