"""Settings in ``infra/template.yaml``: the names of their parameters and variables."""

from __future__ import annotations

from collections.abc import Collection

TABLES = (
    "runs_table", "segments_table", "files_table", "latest_table", "listing_table", "objects_table", "pipeline_files_table", "pipelines_table",
)  # fmt: skip
API_ROLES = [{"Ref": "ApiRole"}, {"Fn::If": ["HasJobUrl", {"Ref": "JobApiRole"}, {"Ref": "AWS::NoValue"}]}]
"""The roles of both functions of the API, as policies name them."""
NO_PARAMETER = {*TABLES, "report_topic_arn", "source_coordination"}
"""Settings whose values are the stack's own resources."""


def parameter_name(field: str) -> str:
    """bucket_name is BucketName."""
    return "".join(word.capitalize() for word in field.split("_"))


def variable_name(field: str) -> str:
    """bucket_name is RUNLAKE_BUCKET_NAME."""
    return f"RUNLAKE_{field.upper()}"


def what_to_add(field: str, parameters: Collection[str], variables: Collection[str]) -> str:
    """What the template lacks for a setting; empty if it lacks nothing."""
    has_parameter = field in NO_PARAMETER or parameter_name(field) in parameters
    lacking = [] if has_parameter else [f"parameter {parameter_name(field)}"]
    lacking += [] if variable_name(field) in variables else [f"variable {variable_name(field)}"]
    return f"add {' and '.join(lacking)} to infra/template.yaml" if lacking else ""
