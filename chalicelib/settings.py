"""Settings: environment variables ``RUNLAKE_…``, validated once at start.

Every field of OpenMetadata's log storage configuration keeps its name: ``bucketName`` is ``RUNLAKE_BUCKET_NAME``, or
``RUNLAKE_bucketName`` (case-insensitive). An empty variable counts as unset.

``python -m chalicelib.settings`` prints ``docs/configuration.md``; a test compares the two.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from chalicelib.errors import InvalidConfigurationError

ENV_PREFIX = "RUNLAKE_"
MIN_KEY_CHARS = 16
_MIB = 1024 * 1024
# Names in the seed's group ``awsConfig``.
_SEED_NAMES = {
    "aws_region": "awsConfig_awsRegion",
    "aws_endpoint_url": "awsConfig_endPointURL",
    "aws_access_key_id": "awsConfig_awsAccessKeyId",
    "aws_secret_access_key": "awsConfig_awsSecretAccessKey",
    "aws_session_token": "awsConfig_awsSessionToken",
}


def _seed_name(field: str) -> str:
    head, *rest = field.split("_")
    return _SEED_NAMES.get(field) or head + "".join(part.capitalize() for part in rest)


def _variables(field: str) -> tuple[str, str]:
    return ENV_PREFIX + field.upper(), ENV_PREFIX + _seed_name(field)


def _setting(default: Any, about: str, allowed: str, **limits: Any) -> Any:
    return Field(default, description=about, json_schema_extra={"allowed": allowed}, **limits)


def _minutes(default: int, about: str, most: int) -> Any:
    return _setting(default, about, f"a whole number of minutes, 1 to {most}", ge=1, le=most)


_OF_THE_STACK = "The template's parameter sets the schedule; changing the variable alone does nothing."


def _table(default: str, about: str) -> Any:
    return _setting(default, about, "a table's name", pattern=r"^[A-Za-z0-9_.-]{3,255}$")


_JWKS_URL = r"^(https://[^\s/@]+|http://(127\.0\.0\.1|localhost)(:[0-9]+)?)/\S*$"
_JSON_FIELDS = ("source_coordination", "jwt_more_issuers", "login", "pipeline_ids", "run_links", "target_hosts")
_AUDIENCE = r"[^,\s\x00-\x1f]"
"""At least one name: commas alone would accept any audience."""
# The host is literal: names of pipelines and runs are chosen by those who write logs.
LinkTemplate = Annotated[
    str, Field(max_length=1024, pattern=r"^https?://[A-Za-z0-9.:\[\]-]+/(?:[^\s{}\x00-\x1f\x7f]|\{(?:fqn|name|runId)\})*$")
]
TargetHost = Annotated[str, Field(pattern=r"^https://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?$", max_length=300)]
SecretReference = Annotated[str, Field(pattern=r"^(ssm|secretsmanager):\S+$", max_length=2400)]
PipelineId = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")]


class TokenIssuer(BaseModel):
    """A trusted issuer of tokens. ``prefix`` begins the names of its principals, so that those of different issuers never have the same name.
    ``audience``: names with commas between, or ``*``; ``claim``: the one with the permissions; ``scope_prefix``: begins each scope in it;
    ``groups``: the claim with the groups of a principal, or ""."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str = Field(min_length=1, max_length=512)
    audience: str = Field(pattern=_AUDIENCE, max_length=2048)
    jwks_url: str = Field(pattern=_JWKS_URL)
    claim: str = Field("runlake", min_length=1, max_length=256)
    scope_prefix: str = Field("", max_length=256)
    groups: str = Field("", max_length=256)
    prefix: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}:$")

    @property
    def audiences(self) -> tuple[str, ...]:
        """Accepted audiences; empty: any."""
        named = tuple(name.strip() for name in self.audience.split(",") if name.strip())
        return () if named == ("*",) else named


_ORIGIN = r"(https://[A-Za-z0-9.-]+(:[0-9]{1,5})?|http://(127\.0\.0\.1|localhost)(:[0-9]{1,5})?)"
_OF_THE_FLOW = frozenset({
    "client_id", "client_secret", "code", "code_challenge", "code_challenge_method", "code_verifier", "device_code", "grant_type", "nonce",
    "redirect_uri", "refresh_token", "request", "request_uri", "response_mode", "response_type", "scope", "state",
})  # fmt: skip
"""Parameters of a login that are not the operator's to choose."""


class Login(BaseModel):
    """How people log in with OpenID Connect. ``issuer``: a trusted one; empty: the first. ``client_id``: the page's client; ``cli_client_id``: that
    of the command line, by default the same. ``scopes``: with spaces between. ``parameters``: further ones of the authorization request, such as
    ``audience`` or ``resource``. ``origins``: further ones that the page connects to, where the issuer's endpoints have another than itself.
    ``cli_redirect``: the loopback address that is registered for the command line; without a port it takes any free one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Annotated[str, Field(pattern=rf"^({_ORIGIN}(/[^\s?#]*)?)?$", max_length=512)] = ""
    client_id: str = Field(min_length=1, max_length=256)
    cli_client_id: str = Field("", max_length=256)
    scopes: str = Field("openid", pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$", max_length=1024)
    parameters: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")], Annotated[str, Field(max_length=512)]] = Field(
        default_factory=dict, max_length=8
    )
    origins: tuple[Annotated[str, Field(pattern=f"^{_ORIGIN}$", max_length=300)], ...] = Field((), max_length=8)
    cli_redirect: str = Field(
        "http://127.0.0.1/callback", pattern=r"^http://(127\.0\.0\.1|localhost)(:[0-9]{1,5})?(/[A-Za-z0-9._/-]*)?$", max_length=256
    )

    @field_validator("parameters")
    @classmethod
    def _leave_the_flow(cls, value: dict[str, str]) -> dict[str, str]:
        if reserved := sorted(_OF_THE_FLOW & value.keys()):
            raise ValueError(f"the login itself chooses {', '.join(reserved)}")
        return value


class OpenMetadataPipeline(BaseModel):
    """A pipeline that OpenMetadata's older pages name by its id. ``type``: OpenMetadata's ``pipelineType``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fqn: str = Field(min_length=1, max_length=1024)
    type: Literal[
        "metadata", "usage", "lineage", "profiler", "autoClassification", "TestSuite", "dataInsight", "elasticSearchReindex", "dbt",
        "application", "policyAgent",
    ] = "metadata"  # fmt: skip


class Settings(BaseSettings):
    """The operator's settings. Immutable; each field has a description."""

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda field: AliasChoices(*_variables(field))),
        populate_by_name=True,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    bucket_name: str = _setting(
        ...,
        "S3 bucket of the logs.",
        "a bucket's name: 3 to 63 lowercase letters, digits, dots, hyphens",
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    )
    prefix: str = _setting(
        "pipeline-logs",
        "Key prefix within the bucket.",
        "1 to 200 of A-Z a-z 0-9 . _ - and /, no slash at either end, no leading dots",
        max_length=200,
        pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$",
    )
    enable_server_side_encryption: bool = _setting(True, "Ask S3 to encrypt on every write.", "true or false")
    sse_algorithm: Literal["AES_256", "AWS_KMS"] = _setting("AES_256", "How S3 encrypts.", "AES_256, or AWS_KMS (with kmsKeyId)")
    kms_key_id: str | None = _setting(None, "KMS key of AWS_KMS.", "id, ARN or alias of a key", min_length=1, max_length=2048)
    storage_class: Literal["STANDARD", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"] = _setting(
        "STANDARD_IA",
        "Storage class of finalized logs (logs.txt). Segments and partial.txt are STANDARD.",
        "STANDARD, STANDARD_IA, ONEZONE_IA, INTELLIGENT_TIERING or GLACIER_IR: classes that are read without a restore",
    )
    expiration_days: int = _setting(
        30,
        "Days until the bucket's lifecycle removes a log, and the catalog its rows.",
        "1 to 36500; at least 7 is wise",
        ge=1,
        le=36500,
    )
    stream_timeout_minutes: int = _minutes(
        1440, "The sweep ends a run that gave no sign of life (line, heartbeat or start) for this long.", 525_600
    )
    viewer_idle_minutes: int = _minutes(
        60, "A run without a line for this long is idle: our own viewers stop following it.", 525_600
    )
    stream_max_bytes: int = _setting(
        0,
        "Bytes of a log after which the live stream ends on OpenMetadata's page, which then reads pages. 0: no limit.",
        "a whole number of bytes",
        ge=0,
        le=1 << 40,
    )
    cleanup_interval_minutes: int = _minutes(60, f"How often the sweep runs. {_OF_THE_STACK}", 1440)
    partial_flush_interval_minutes: int = _minutes(
        2, f"How often running runs are compacted into partial.txt. {_OF_THE_STACK}", 1440
    )
    early_flush_watermark_bytes: int = _setting(
        5 * _MIB,
        "A run whose log has grown by this is compacted at once, out of turn.",
        "a whole number of bytes, at least 1",
        ge=1,
        le=1 << 40,
    )
    pending_flush_alert_after_failures: int = _setting(
        10, "Consecutive failed compactions of a run before it is reported.", "1 to 1000", ge=1, le=1000
    )
    set_aside_after_failures: int = _setting(
        20,
        "Consecutive failures after which a run is set aside until an operator requests a retry.",
        "1 to 1000, more than pending_flush_alert_after_failures",
        ge=1,
        le=1000,
    )
    max_workers: int = _setting(
        8, "Invocations of a schedule that share its work if one alone would not finish in time.", "1 to 100", ge=1, le=100
    )
    max_concurrent_streams: int = _setting(
        100, "Runs that one worker works on at once. More than 4 has no further effect.", "1 to 1000", ge=1, le=1000
    )

    aws_region: str | None = _setting(
        None, "Region. Default: the SDK's (AWS_REGION).", "a region's name", pattern=r"^[a-z0-9-]{2,32}$"
    )
    aws_endpoint_url: str | None = _setting(
        None, "Endpoint of an S3-compatible store.", "an http:// or https:// address", pattern=r"^https?://[^\s/]+/?$"
    )
    aws_access_key_id: str | None = _setting(
        None, "Static credentials. Default: the role of the function.", "with aws_secret_access_key"
    )
    aws_secret_access_key: SecretStr | None = _setting(None, "Static credentials.", "with aws_access_key_id")
    aws_session_token: SecretStr | None = _setting(None, "Static, temporary credentials.", "with the two above")

    auth: Literal["jwt", "iam", "none"] = _setting(
        "jwt",
        "How callers of the API authenticate: by token, by AWS signature (SigV4), or not at all.",
        "jwt (with jwt_issuer, jwt_audience and jwt_jwks_url), iam (with policy_parameter), or none, where AWS is emulated on this machine",
    )
    jwt_issuer: str | None = _setting(None, "Accepted token issuer; must equal a token's `iss`.", "any text", max_length=512)
    jwt_audience: str | None = _setting(
        None,
        "Accepted audiences; a token's `aud` must contain one of them.",
        "names with commas between; * where the issuer writes no aud",
        pattern=_AUDIENCE,
        max_length=2048,
    )
    jwt_jwks_url: str | None = _setting(
        None,
        "Address of the issuer's public keys (JWKS).",
        "an https:// address, or an http:// one of this machine",
        pattern=_JWKS_URL,
    )
    jwt_leeway_seconds: int = _setting(
        60, "Tolerated difference between the issuer's clock and this one, for `exp` and `nbf`.", "0 to 300", ge=0, le=300
    )
    jwt_max_lifetime_seconds: int = _setting(
        0,
        "The longest time from a token's `iat` to its `exp`; tokens that are valid for longer are refused.",
        "0 (any) to 31536000",
        ge=0,
        le=31_536_000,
    )
    jwt_claim: str = _setting(
        "runlake", "The claim with the permissions of a token: scopes with patterns of names.", "a claim's name", max_length=256
    )
    jwt_more_issuers: Annotated[tuple[TokenIssuer, ...], NoDecode] = _setting(
        (),
        "Further issuers of tokens: the names of their principals begin with `prefix`, a name and a colon. Default: none.",
        'JSON: [{"issuer": …, "audience": …, "jwks_url": …, "prefix": "people:", "claim": …, "scope_prefix": …, "groups": …}, …], at most 8, '
        "each issuer and prefix once",
        max_length=8,
    )
    jwt_scope_prefix: str = _setting(
        "",
        "What begins each scope in that claim, such as `runlake/` before `logs:read`; other scopes then grant nothing.",
        "any text",
        max_length=256,
    )
    jwt_groups_claim: str = _setting(
        "",
        "The claim with the groups of a principal, which [the policy](security.md) grants permissions.",
        "a claim's name",
        max_length=256,
    )
    login: Annotated[Login | None, NoDecode] = _setting(
        None,
        "How people [log in](login.md) on the page and with `runlake login`, with OpenID Connect. Default: they need a token.",
        'JSON: {"client_id": …, "cli_client_id": …, "issuer": …, "scopes": "openid …", "parameters": {"audience": …}, "origins": […], '
        '"cli_redirect": …}',
    )
    policy_parameter: str | None = _setting(
        None,
        "SSM parameter of the policy with the permissions of principals. Default: the permissions in their tokens.",
        "a parameter's name",
        pattern=r"^[A-Za-z0-9_./-]{1,1011}$",
    )

    pipeline_ids: Annotated[dict[PipelineId, OpenMetadataPipeline], NoDecode] = _setting(
        {},
        "Pipelines whose newest log OpenMetadata's older pages read by the pipeline's id. Default: none.",
        'JSON: {"<uuid>": {"fqn": …, "type": "metadata"}, …}, each UUID once, in either case',
    )
    run_links: Annotated[dict[str, LinkTemplate], NoDecode] = _setting(
        {},
        "Addresses of runs in their orchestrator, which the viewer links, by [patterns of FQNs](security.md); the first one that matches "
        "counts. `{runId}` is the id of attempt 1, `{name}` the FQN behind its last dot. Default: none.",
        'JSON: {"shop.*": "https://airflow.example/dags/{name}/grid?dag_run_id={runId}", …}, with {fqn}, {name} and {runId} behind the host, '
        "at most 32",
        max_length=32,
    )
    runs_table: str = _table("runlake-runs", "DynamoDB table of runs.")
    segments_table: str = _table("runlake-segments", "DynamoDB table of segments.")
    archive_bucket_name: str = _setting(
        ...,
        "S3 bucket of the archive's files.",
        "a bucket's name, another than the logs'",
        pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
    )
    files_table: str = _table("runlake-files", "DynamoDB table of files by day and by work id, in the datalake's layout.")
    latest_table: str = _table("runlake-latest", "DynamoDB table of the latest file of each source.")
    listing_table: str = _table("runlake-listing", "DynamoDB table of files in the order of queries.")
    pipeline_files_table: str = _table(
        "runlake-pipeline-files", "DynamoDB table of the files that processing pipelines write, and of generations."
    )
    objects_table: str = _table("runlake-objects", "DynamoDB table of the object versions that files' rows were derived from.")
    pipelines_table: str = _table("runlake-pipelines", "DynamoDB table of processing pipelines: checkpoints and desired states.")
    pipelines_config: str | None = _setting(
        None,
        "Location of the configuration files of [processing pipelines](pipelines.md). Default: only the built-in pipeline.",
        "a folder, or s3://bucket/prefix in the bucket of the logs or of the archive",
        min_length=1,
        max_length=1024,
    )
    built_in_pipeline: bool = _setting(
        False,
        "Whether the built-in [processing pipeline](pipelines.md), which writes a second copy of each event, runs until an operator enables "
        "or disables it.",
        "true or false",
    )
    pipeline_modules: str | None = _setting(
        None,
        "Python modules that files of processing pipelines may name, besides `logging`, `logging.handlers` and Runlake's own.",
        "modules with commas between; `package.*` for a package with all its modules",
        pattern=r"^[A-Za-z0-9_.*, ]+$",
        max_length=4096,
    )
    pipeline_wheels: str | None = _setting(
        None,
        "SHA-256 of the list of [wheels with handlers](pipeline-handlers.md) of processing pipelines. Default: no wheels.",
        "64 hexadecimal digits, which `runlake-pipelines upload` prints",
        pattern=r"^[0-9a-f]{64}$",
    )
    pipeline_roles: str | None = _setting(
        None,
        "Roles that handlers of [processing pipelines](pipeline-files.md#a-bucket-in-another-account) may assume for their buckets.",
        "ARNs of roles with commas between",
        pattern=r"^[A-Za-z0-9:/+=.@_, -]+$",
        max_length=4096,
    )
    target_hosts: Annotated[dict[TargetHost, tuple[SecretReference, ...]], NoDecode] = _setting(
        {},
        "Where [targets](forwarding.md#targets-of-pipelines-files) in files of processing pipelines may be, and the secrets of "
        "`headers_from` for each. Default: nowhere. Outputs of `RUNLAKE_EVENTS` and targets of kind `cloudwatch` need no entry.",
        'JSON: {"https://es.example.com:9200": ["ssm:/runlake/es"], …}; a secret with each of its fields, or with one as `…#field`',
        max_length=100,
    )
    pipeline_event_delay_ms: int = _setting(
        2000, "How long events of running runs are buffered for ordering.", "0 to 3600000 ms", ge=0, le=3_600_000
    )
    pipeline_buffer_bytes: int = _setting(
        0, "The ordering buffer of each pipeline.", "bytes; 0: 70 % of the memory, shared by the pipelines", ge=0, le=1 << 40
    )
    pipeline_checkpoint_interval_ms: int = _setting(
        10_000, "How often a pipeline stores its checkpoint.", "100 to 3600000 ms", ge=100, le=3_600_000
    )
    pipeline_fetch_bytes: int = _setting(_MIB, "Bytes per read of a run.", "1024 to 67108864 bytes", ge=1024, le=64 * _MIB)
    pipeline_logger_cache_size: int = _setting(
        1000, "Size of the cache of loggers' handlers, in names.", "1 to 1000000", ge=1, le=1_000_000
    )
    pipeline_logger_cache_ttl_ms: int = _setting(
        300_000, "Lifetime of an entry in the cache of loggers' handlers.", "1000 to 86400000 ms", ge=1000, le=86_400_000
    )
    source_coordination: Annotated[dict[str, Any], NoDecode] = _setting(
        {},
        "Store of source coordination, as Data Prepper's `source_coordination`. Default: in memory, for one process.",
        'JSON: {"partition_prefix": …, "store": {"dynamodb": {"table_name": …, "region": …}}}',
    )
    report_topic_arn: str | None = _setting(
        None,
        "SNS topic of the ingestion's reports. Default: none are sent.",
        "a topic's ARN",
        pattern=r"^arn:[a-z-]+:sns:[^:]*:[^:]*:.+$",
    )
    position_keys: SecretStr | None = _setting(
        None,
        "Secrets that sign positions: the first signs, all verify. Required by the API, not by schedules and jobs.",
        f"comma-separated, {MIN_KEY_CHARS} or more characters each",
    )
    cursor_keys: SecretStr | None = _setting(
        None,
        "Secrets that sign and encrypt cursors of lists: the first is used, all are accepted. Default: `position_keys`.",
        f"comma-separated, {MIN_KEY_CHARS} or more characters each",
    )
    masking: SecretStr | None = _setting(
        None,
        "Rules of [masking](masking.md) before a line is stored. Default: all known shapes, as in pipelines that no rule matches.",
        'off, or JSON: [{"fqn": "pattern", "shapes": […], "without": […], "values": […], "values_from": […], "retired": …}, …]',
    )
    log_browser: str | None = _setting(
        None,
        "Where new runs are [read](events.md#which-requests-use-the-browser): the name of a log browser. Default: the one in `events`, else the "
        "run log.",
        "runlog, elasticsearch, opensearch, cloudwatch, or an installed one",
        pattern=r"^[A-Za-z0-9_.-]{1,100}$",
    )
    events: SecretStr | None = _setting(
        None,
        "Browsers and outputs by the names of pipelines, and the rules that assign agents' records to runs: "
        "[events](events.md#configuration). Default: none.",
        "YAML or JSON",
    )
    instance_id: str = _setting(
        "runlake",
        "Name of the installation: `instanceId` of events.",
        "1 to 200 of A-Z a-z 0-9 . _ : / -",
        pattern=r"^[A-Za-z0-9._:/-]{1,200}$",
    )
    events_lost_after_seconds: int = _setting(
        300,
        "Seconds after a writer's last sign of life until its missing events count as lost; before, as on their way.",
        "1 to 604800",
        ge=1,
        le=604_800,
    )
    max_expanded_bytes: int = _setting(
        64 * _MIB, "Largest expanded size of a gzip body.", "1048576 to 268435456 bytes", ge=_MIB, le=256 * _MIB
    )

    @field_validator(*_JSON_FIELDS, mode="before")
    @classmethod
    def _is_json(cls, value: Any) -> Any:
        return json.loads(value, object_pairs_hook=_without_repeats) if isinstance(value, str) else value

    @field_validator("position_keys", "cursor_keys")
    @classmethod
    def _keys_are_long(cls, value: SecretStr | None) -> SecretStr | None:
        if any(len(key) < MIN_KEY_CHARS for key in _keys(value)):
            raise ValueError("too short")
        return value

    @field_validator("pipeline_ids")
    @classmethod
    def _ids_are_lower_case(cls, value: dict[str, OpenMetadataPipeline]) -> dict[str, OpenMetadataPipeline]:
        return _without_repeats([(name.lower(), pipeline) for name, pipeline in value.items()])

    @field_validator("jwt_more_issuers")
    @classmethod
    def _issuers_are_different(cls, value: tuple[TokenIssuer, ...]) -> tuple[TokenIssuer, ...]:
        if any(len(set(names)) < len(value) for names in ([each.issuer for each in value], [each.prefix for each in value])):
            raise ValueError("an issuer or prefix is repeated")
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.archive_bucket_name == self.bucket_name:
            raise InvalidConfigurationError(_message("archive_bucket_name", self.bucket_name, "another bucket than the logs'"))
        if self.sse_algorithm == "AWS_KMS" and not self.kms_key_id:
            raise InvalidConfigurationError(_message("kms_key_id", "", "required when RUNLAKE_SSE_ALGORITHM=AWS_KMS"))
        if (self.aws_access_key_id is None) != (self.aws_secret_access_key is None):
            missing = "aws_secret_access_key" if self.aws_access_key_id else "aws_access_key_id"
            raise InvalidConfigurationError(_message(missing, "", "an access key's id and secret go together"))
        if self.aws_session_token and not self.aws_access_key_id:
            raise InvalidConfigurationError(_message("aws_access_key_id", "", "required with RUNLAKE_AWS_SESSION_TOKEN"))
        return self

    def check_auth(self, *, is_emulated: bool) -> None:
        """Validate the settings of authentication. Only for the API: schedules and jobs authenticate nobody. Raises
        InvalidConfigurationError."""
        if self.auth == "none" and not is_emulated:
            raise InvalidConfigurationError(
                _message("auth", "none", "jwt or iam: none disables authentication and is only for an emulator of AWS")
            )
        needed = {"jwt": ("jwt_issuer", "jwt_audience", "jwt_jwks_url"), "iam": ("policy_parameter",), "none": ()}[self.auth]
        problems = [_message(name, "", f"required when RUNLAKE_AUTH={self.auth}") for name in needed if not getattr(self, name)]
        if any(each.issuer == self.jwt_issuer for each in self.jwt_more_issuers):
            problems.append(_message("jwt_more_issuers", str(self.jwt_issuer), "other issuers than RUNLAKE_JWT_ISSUER"))
        if self.login and (problem := self._problem_of_login()):
            problems.append(_message("login", self.login_issuer or self.login.client_id, problem))
        if problems:
            raise InvalidConfigurationError("; ".join(problems))

    def _problem_of_login(self) -> str:
        if self.auth != "jwt":
            return "only with RUNLAKE_AUTH=jwt"
        if self.login_issuer not in {each.issuer for each in self.issuers}:
            return "an issuer of RUNLAKE_JWT_ISSUER or RUNLAKE_JWT_MORE_ISSUERS"
        return "" if re.fullmatch(rf"{_ORIGIN}(/[^\s?#]*)?", self.login_issuer) else "an issuer that is an https:// address"

    @property
    def login_issuer(self) -> str:
        """The issuer where people log in; "" without a login."""
        return (self.login.issuer or self.jwt_issuer or "") if self.login else ""

    @property
    def issuers(self) -> tuple[TokenIssuer, ...]:
        """Trusted issuers; the names of principals of the first one have no prefix."""
        first: dict[str, Any] = {"issuer": self.jwt_issuer, "audience": self.jwt_audience, "jwks_url": self.jwt_jwks_url}
        grants: dict[str, Any] = {"claim": self.jwt_claim, "scope_prefix": self.jwt_scope_prefix, "groups": self.jwt_groups_claim}
        return TokenIssuer.model_construct(**first, **grants, prefix=""), *self.jwt_more_issuers

    def check_keys(self) -> None:
        """Check that positions can be signed. Only for the API: schedules and jobs issue none. Raises InvalidConfigurationError."""
        if not self.position_keys:
            raise InvalidConfigurationError(
                _message("position_keys", "", _extra(Settings.model_fields["position_keys"])["allowed"])
            )

    @property
    def pipeline_role_arns(self) -> frozenset[str]:
        """The roles that handlers may assume."""
        return frozenset(each.strip() for each in (self.pipeline_roles or "").split(","))

    @property
    def signing_keys(self) -> tuple[str, ...]:
        """Secrets of positions: the first signs. Empty in processes that issue no positions."""
        return _keys(self.position_keys)

    @property
    def cursor_signing_keys(self) -> tuple[str, ...]:
        """Secrets of cursors: the first signs and encrypts."""
        return _keys(self.cursor_keys or self.position_keys)


def _keys(value: SecretStr | None) -> tuple[str, ...]:
    return tuple(key.strip() for key in value.get_secret_value().split(",")) if value else ()


def load() -> Settings:
    """Read the settings from the environment. Raises InvalidConfigurationError, which lists each invalid variable with its
    value and the allowed ones."""
    try:
        return Settings()
    except ValidationError as error:
        raise InvalidConfigurationError("; ".join(_explained(error.errors(include_url=False), os.environ))) from None


def _explained(errors: Iterable[ErrorDetails], environment: Mapping[str, str]) -> list[str]:
    """A message for each wrong variable; of one in JSON it tells what is wrong within."""
    problems: dict[str, list[str]] = {}
    for error in errors:
        field = next(name for name in Settings.model_fields if error["loc"][0] in (name, *_variables(name)))
        place = ".".join(str(each) for each in error["loc"][1:] if each != "[key]")
        problems.setdefault(field, []).append(": ".join(filter(None, [place, error["msg"].removeprefix("Value error, ")])))
    variables = {name.upper(): value for name, value in environment.items()}
    messages = []
    for field, found in problems.items():
        value = next((variables[name.upper()] for name in _variables(field) if variables.get(name.upper())), "")
        problem = f" problem={'; '.join(found)!r}" if field in _JSON_FIELDS else ""
        messages.append(_message(field, value, _extra(Settings.model_fields[field])["allowed"] + problem))
    return messages


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError if a name is repeated, of which Python would silently use the last."""
    names = [name for name, _ in pairs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"a name is repeated name={repeated[0]}")
    return dict(pairs)


def _message(field: str, value: str, allowed: str) -> str:
    display = "***" if value and _is_secret(Settings.model_fields[field]) else value
    return f"{'invalid' if value else 'missing'} setting, allowed: {allowed} variable={_variables(field)[0]} value={display!r}"


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in (field.annotation, *getattr(field.annotation, "__args__", ()))


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    return extra if isinstance(extra, dict) else {}


_HEAD = """# Configuration

Environment variables of the functions, which `infra/template.yaml` sets from parameters: `RUNLAKE_BUCKET_NAME` is `BucketName`. It has
[further parameters](operations.md#template-parameters). Made by `.venv/bin/python -m chalicelib.settings > docs/configuration.md`.

Each variable is also read under the field's own spelling (`RUNLAKE_bucketName`); upper and lower case do not matter, an empty one
counts as unset. They are checked when a function starts: one message names each wrong variable, its value and what is allowed.

| variable | field | default | allowed | meaning |
|---|---|---|---|---|
"""


def document() -> str:
    """``docs/configuration.md``."""
    return _HEAD + "".join(_row(name, field) for name, field in Settings.model_fields.items())


def _row(name: str, field: FieldInfo) -> str:
    seed = _seed_name(name).replace("awsConfig_", "awsConfig.")
    value = str(field.default).lower() if isinstance(field.default, bool) else field.default
    default = "(required)" if field.is_required() else "" if value is None else f"`{value}`"
    return f"| `{_variables(name)[0]}` | `{seed}` | {default} | {_extra(field)['allowed']} | {field.description} |\n"


if __name__ == "__main__":
    print(document(), end="")
