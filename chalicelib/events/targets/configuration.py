"""The configuration of a target: a JSON object whose ``kind`` decides its other fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, TypeAdapter, ValidationError, field_validator

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.ports import Target
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.otlp import OtlpTarget
from chalicelib.events.targets.shippers import Shape, ShipperTarget, fluentd_record, logstash_record
from chalicelib.events.targets.transport import Transport
from chalicelib.masking.rules import SecretName

ReadSecret = Callable[[SecretName], str]
_REGION = r"^[a-z0-9-]{2,32}$"


class _Configuration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class OverHttp(_Configuration):
    """``headers`` are sent with each request; ``headers_from`` are read from SSM or Secrets Manager (``ssm:…``,
    ``secretsmanager:…``)."""

    url: str = Field(pattern=r"^https?://[^\s/@]+(/\S*)?$")
    headers: Mapping[str, SecretStr] = {}
    headers_from: Mapping[str, str] = {}

    @field_validator("headers_from")
    @classmethod
    def _are_names(cls, names: Mapping[str, str]) -> Mapping[str, str]:
        for name in names.values():
            SecretName.parse(name)
        return names

    def all_headers(self, read: ReadSecret) -> dict[str, str]:
        """All headers with their values; secrets without the newline that a file ends in. Raises UnavailableError."""
        given = {name: value.get_secret_value() for name, value in self.headers.items()}
        return given | {name: read(SecretName.parse(where)).strip() for name, where in self.headers_from.items()}


class Elasticsearch(OverHttp):
    """Elasticsearch or OpenSearch: an index, an alias or a data stream. ``sign``: requests are signed with the process's
    credentials, for an Amazon OpenSearch Service domain (``es``) or a serverless collection (``aoss``) in ``region``."""

    kind: Literal["elasticsearch", "opensearch"]
    index: str = Field(min_length=1, max_length=255)
    sign: Literal["es", "aoss"] | None = None
    region: str | None = Field(None, pattern=_REGION)


class Fluentd(OverHttp):
    """Fluentd or Fluent Bit; the path of ``url`` is the tag."""

    kind: Literal["fluentd"]
    shape: Shape = "json_batch"


class Logstash(OverHttp):
    """Logstash's HTTP input."""

    kind: Literal["logstash"]
    shape: Shape = "json_batch"


class Otlp(OverHttp):
    """An OTLP receiver over HTTP; ``url`` without ``/v1/logs``."""

    kind: Literal["otlp"]


class CloudWatchLogs(_Configuration):
    """A log group, written with the process's credentials."""

    kind: Literal["cloudwatch"]
    group: str = Field(pattern=r"^[\.\-_/#A-Za-z0-9]{1,512}$")
    shape: Literal["json", "text"] = "json"
    region: str | None = Field(None, pattern=_REGION)


TargetConfiguration = Annotated[Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs, Field(discriminator="kind")]
_CONFIGURATION: TypeAdapter[Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs] = TypeAdapter(TargetConfiguration)
_KINDS = "cloudwatch,elasticsearch,fluentd,logstash,opensearch,otlp"


def parsed_target(text: str) -> Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs:
    """Parse a JSON document. Raises InvalidConfigurationError, whose message has no values."""
    return _checked(lambda: _CONFIGURATION.validate_json(text))


def target_of(document: JsonValue) -> Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs:
    """Validate a part of a parsed configuration. Raises InvalidConfigurationError, whose message has no values."""
    return _checked(lambda: _CONFIGURATION.validate_python(document))


def _checked(
    validate: Callable[[], Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs],
) -> Elasticsearch | Fluentd | Logstash | Otlp | CloudWatchLogs:
    try:
        return validate()
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, wrong["loc"])) or "kind"
        message = wrong["msg"]
        about = f"no such kind known={_KINDS}" if wrong["type"].startswith("union_tag") else message[:1].lower() + message[1:]
        raise InvalidConfigurationError(f"invalid target, {about} field={where}") from None


def target_over_http(configuration: Elasticsearch | Fluentd | Logstash | Otlp, transport: Transport, read: ReadSecret) -> Target:
    """Create the target. Raises UnavailableError if a header cannot be read."""
    url, headers = configuration.url, configuration.all_headers(read)
    if isinstance(configuration, Elasticsearch):
        return ElasticsearchTarget(transport, url, configuration.index, headers)
    if isinstance(configuration, Otlp):
        return OtlpTarget(transport, url, headers)
    record = fluentd_record if isinstance(configuration, Fluentd) else logstash_record
    return ShipperTarget(transport, url, record, headers, configuration.shape)
