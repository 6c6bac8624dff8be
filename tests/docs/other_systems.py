"""Configurations of other systems in the documents, against what their own documents or models say: names of options, and of AWS's operations.

These systems do not run here. Each check takes a block's text, and raises AssertionError or another error.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import botocore.session
import yaml
from botocore.exceptions import UnknownServiceError
from botocore.validate import ParamValidator
from jsonschema import Draft202012Validator

from tests.permissions import listed

OPTIONS = {
    "Fluent Bit": (
        r"^ +([A-Z]\w*) ",
        # https://docs.fluentbit.io/manual/pipeline/outputs/http and …/filters/modify; names in any case
        """name match host port tls uri format compress header_tag header retry_limit add""",
    ),
    "Fluentd": (
        r"^ +(@?\w+) ",
        # https://docs.fluentd.org/output/http, …/configuration/inject-section, …/configuration/buffer-section
        """@type endpoint headers json_array retryable_response_codes time_key time_type time_format utc flush_interval
        chunk_limit_size chunk_limit_records""",
    ),
    "Logstash": (
        r'(?<!")\b(\w+) =>',
        # https://www.elastic.co/docs/reference/logstash/plugins/plugins-outputs-http and …/plugins-filters-mutate
        "url http_method format http_compression headers add_field",
    ),
    "rsyslog": (
        r'\b([\w.]+)=["\[]',
        # https://www.rsyslog.com/doc/configuration/modules/omhttp.html, …/configuration/actions.html, …/templates.html
        """load name type string server serverport usehttps restpath template batch batch.format batch.maxsize httpcontenttype httpheaders
        retry action.resumeretrycount""",
    ),
}
"""By system: the pattern of an option's name, and its documented options, as far as the pages use them."""


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _step(action: str, *inputs: str) -> dict[str, Any]:
    properties = {"uses": {"pattern": f"^{action}@v[0-9]+$"}, "with": _closed(**{name: {"type": "string"} for name in inputs})}
    return _closed(**properties) | {"required": ["uses"]}


_FREE: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_ATTRIBUTE = _closed(key={}, value={}, action={"enum": ["insert", "update", "upsert", "delete"]})
SCHEMAS = {
    # https://www.elastic.co/docs/reference/beats/filebeat/elasticsearch-output and …/add-fields
    "Filebeat": _closed(
        **{
            "output.elasticsearch": _closed(hosts={"type": "array"}, headers=_FREE, bulk_max_size={"type": "integer"}),
            "setup.ilm.enabled": {"type": "boolean"},
            "setup.template.enabled": {"type": "boolean"},
            "processors": {"type": "array", "items": _closed(add_fields=_closed(target={"type": "string"}, fields=_FREE))},
        }
    ),
    # exporter/otlphttpexporter, processor/batchprocessor of opentelemetry-collector; resourceprocessor, sigv4authextension of …-contrib
    "OpenTelemetry collector": _closed(
        exporters=_closed(
            **{
                "otlphttp/runlake": _closed(
                    logs_endpoint={"type": "string"}, compression={"enum": ["gzip", "none"]}, headers=_FREE, auth=_closed(authenticator={})
                )
            }
        ),
        processors=_closed(
            batch=_closed(send_batch_size={"type": "integer"}, send_batch_max_size={"type": "integer"}),
            resource=_closed(attributes={"type": "array", "items": _ATTRIBUTE}),
        ),
        extensions=_closed(sigv4auth=_closed(region={"type": "string"}, service={"enum": ["lambda", "execute-api"]})),
        service=_closed(extensions={"type": "array", "items": {"const": "sigv4auth"}}),
    ),
    # https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax, inputs of the two actions' action.yml
    "GitHub Actions": _closed(
        permissions=_closed(**{"id-token": {"const": "write"}, "contents": {"const": "read"}}),
        steps={
            "type": "array",
            "items": {
                "oneOf": [
                    _closed(run={"type": "string"}, env=_FREE) | {"required": ["run"]},
                    _step("aws-actions/configure-aws-credentials", "role-to-assume", "aws-region"),
                    _step("actions/checkout", "repository", "path", "ref"),
                ]
            },
        },
    ),
}  # fmt: skip
_NO_OPERATIONS = frozenset({"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"})
"""Actions of IAM that are no operation of the API by that name."""


def words_of(system: str) -> Callable[[str], None]:
    """A check that every option of a block is one of the system's."""
    pattern, known = OPTIONS[system]

    def check(text: str) -> None:
        found = [name.lower() for name in re.findall(pattern, text, re.MULTILINE)]
        assert found and set(found) <= set(known.split()), set(found) - set(known.split())

    return check


def yaml_of(system: str) -> Callable[[str], None]:
    """A check that a block has the system's fields."""

    def check(text: str) -> None:
        errors = Draft202012Validator(SCHEMAS[system]).iter_errors(yaml.safe_load(text))
        assert [f"{error.json_path}: {error.message}" for error in errors] == []

    return check


@cache
def service_model(service: str) -> Any:
    """botocore's model of a service; None if there is no such service."""
    try:
        return botocore.session.get_session().get_service_model(service)
    except UnknownServiceError:
        return None


def firehose_destination(text: str) -> None:
    """Of a template: its fields are those of the API, which also requires a bucket for what is refused."""
    (given,) = yaml.safe_load(text).values()
    shape = service_model("firehose").shape_for("HttpEndpointDestinationConfiguration")
    bucket = {"RoleARN": "arn:aws:iam::111122223333:role/firehose", "BucketARN": "arn:aws:s3:::refused"}
    report = ParamValidator().validate(given | {"S3Configuration": bucket}, shape)
    assert not report.has_errors(), report.generate_report()


def statements(text: str) -> None:
    """Of a policy: their elements are those of IAM, and their actions operations of the services."""
    given = json.loads(text)
    for statement in given["Statement"] if isinstance(given, dict) else given:
        assert statement.keys() <= {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}, statement
        assert statement["Effect"] in ("Allow", "Deny")
        for action in listed(statement["Action"]):
            assert action in _NO_OPERATIONS or any(_operations(action)), action
        for operator in statement.get("Condition", {}):
            assert re.fullmatch(r"(String|Arn)(Not)?(Equals|Like)(IfExists)?|Bool", operator), operator


def _operations(action: str) -> Iterator[str]:
    service, _, pattern = action.partition(":")
    yield from fnmatch.filter(service_model(service).operation_names, pattern)
