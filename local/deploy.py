"""Deploys the packaged template to the emulator with one CloudFormation call, as ``aws cloudformation deploy`` would."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any

import boto3
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from local import gateway, package
from local.emulator import CREDENTIALS, REGION
from local.state import LocalError

STACK = "runlake"
BUCKET = "runlake-logs"
ARCHIVE_BUCKET = "runlake-archive"
_ARTIFACTS = "runlake-artifacts"
_DEPLOY_TIMEOUT_S = 600.0
_FUNCTIONS = {
    "api": "APIHandler",
    "authorize": "Authorize",
    "job_api": "JobApi",
    "ingest": "Ingest",
    "compact": "Compact",
    "sweep": "Sweep",
    "pipelines": "Pipelines",
}


def client(service: str, endpoint_url: str) -> Any:
    """A boto3 client of the emulator."""
    config = Config(retries={"total_max_attempts": 2}, read_timeout=900, s3={"addressing_style": "path"})
    return boto3.client(service, endpoint_url=endpoint_url, region_name=REGION, config=config, **CREDENTIALS)


def deploy(endpoint_url: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Create the stack and return its description. Raises LocalError with the reason of the first failure."""
    parameters = {
        "BucketName": BUCKET,
        "ArchiveBucketName": ARCHIVE_BUCKET,
        "Auth": "none",  # every client that reaches this machine has access
        "ArtifactsBucket": _ARTIFACTS,
        "JobsVersion": "none",  # the emulator's Glue runs no jobs: make job does
        "NightlyJobs": "false",
        **parameters,
    }
    s3 = client("s3", endpoint_url)
    s3.create_bucket(Bucket=_ARTIFACTS)
    template = _template(s3)
    s3.put_object(Bucket=_ARTIFACTS, Key="template.json", Body=json.dumps(template).encode())
    cloudformation = client("cloudformation", endpoint_url)
    try:
        cloudformation.create_stack(
            StackName=STACK,
            TemplateURL=f"{endpoint_url}/{_ARTIFACTS}/template.json",  # too large for an inline template
            Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    except ClientError as error:
        raise LocalError(f"CloudFormation refused the stack: reason={error.response['Error']['Message'][:300]!r}") from None
    outputs = _wait(cloudformation)
    names = _physical_names(cloudformation)
    _enable_expiry(client("dynamodb", endpoint_url), template["Resources"], names)
    gateway.complete(client("apigateway", endpoint_url), outputs["RestAPIId"], template["Resources"]["RestAPI"])
    return _describe(endpoint_url, outputs, names, parameters)


def _template(s3: Any) -> dict[str, Any]:
    """The packaged template with its CodeUri uploaded, as ``aws cloudformation package`` does.

    The emulator reads the binary media types only from the API's property, AWS from its definition.
    """
    code = package.ZIP.read_bytes()
    key = hashlib.sha256(code).hexdigest() + ".zip"
    s3.put_object(Bucket=_ARTIFACTS, Key=key, Body=code)
    template: dict[str, Any] = yaml.load(package.TEMPLATE.read_text(), yaml.CSafeLoader)
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            resource["Properties"]["CodeUri"] = f"s3://{_ARTIFACTS}/{key}"
    api = template["Resources"]["RestAPI"]["Properties"]
    api["BinaryMediaTypes"] = api["DefinitionBody"]["x-amazon-apigateway-binary-media-types"]
    return template


def _wait(cloudformation: Any) -> dict[str, str]:
    """Wait for the stack and return its outputs."""
    give_up = time.monotonic() + _DEPLOY_TIMEOUT_S
    while time.monotonic() < give_up:
        stack = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
        if stack["StackStatus"] == "CREATE_COMPLETE":
            return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        if not stack["StackStatus"].endswith("IN_PROGRESS"):
            raise LocalError(f"the stack was not created: {_first_failure(cloudformation, stack)}")
        time.sleep(0.2)
    raise LocalError(f"the stack was not created in time: timeout_s={_DEPLOY_TIMEOUT_S}")


def _first_failure(cloudformation: Any, stack: Mapping[str, Any]) -> str:
    events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
    failed = [event for event in events if event["ResourceStatus"].endswith("FAILED") and "ResourceStatusReason" in event]
    first = failed[-1] if failed else {"LogicalResourceId": STACK, "ResourceStatusReason": stack.get("StackStatusReason", "")}
    return f"resource={first['LogicalResourceId']} reason={first['ResourceStatusReason']!r}"


def _physical_names(cloudformation: Any) -> dict[str, str]:
    rows = cloudformation.describe_stack_resources(StackName=STACK)["StackResources"]
    return {row["LogicalResourceId"]: row["PhysicalResourceId"] for row in rows}


def _enable_expiry(dynamodb: Any, resources: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """The emulator's CloudFormation creates tables without their time to live."""
    for logical, resource in resources.items():
        if resource["Type"] == "AWS::DynamoDB::Table" and (expiry := resource["Properties"].get("TimeToLiveSpecification")):
            dynamodb.update_time_to_live(TableName=names[logical], TimeToLiveSpecification=expiry)


def _describe(
    endpoint_url: str, outputs: Mapping[str, str], names: Mapping[str, str], parameters: Mapping[str, str]
) -> dict[str, Any]:
    return {
        "stack_name": STACK,
        "aws_endpoint_url": endpoint_url,
        "region": REGION,
        **CREDENTIALS,
        "bucket": outputs["BucketName"],
        "archive_bucket": outputs["ArchiveBucketName"],
        "coordination_table": outputs["CoordinationTableName"],
        "files_table": outputs["FilesTableName"],
        "latest_table": outputs["LatestTableName"],
        "listing_table": outputs["ListingTableName"],
        "pipeline_files_table": outputs["PipelineFilesTableName"],
        "pipelines_table": outputs["PipelinesTableName"],
        "objects_table": outputs["ObjectsTableName"],
        "runs_table": outputs["RunsTableName"],
        "segments_table": outputs["SegmentsTableName"],
        "report_topic_arn": outputs["ReportTopicArn"],
        "ingest_queue_url": outputs["IngestQueueUrl"],
        "dead_letter_queue_url": outputs["DeadLetterQueueUrl"],
        "functions": {name: names[logical] for name, logical in _FUNCTIONS.items() if logical in names},
        "rest_api_id": outputs["RestAPIId"],
        "binary_types": client("apigateway", endpoint_url).get_rest_api(restApiId=outputs["RestAPIId"])["binaryMediaTypes"],
        "parameters": dict(parameters),
    }
