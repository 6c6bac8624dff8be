"""Settings: names, defaults, and one clear message for invalid values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chalicelib import settings
from chalicelib.errors import InvalidConfigurationError

REQUIRED = {
    "RUNLAKE_BUCKET_NAME": "logs-bucket",
    "RUNLAKE_ARCHIVE_BUCKET_NAME": "archive-bucket",
    "RUNLAKE_POSITION_KEYS": "0123456789abcdef",
}
SEED = {  # the configuration table of the seed, verbatim
    "bucketName": ("logs-bucket", "logs-bucket"),
    "prefix": ("a/b", "a/b"),
    "enableServerSideEncryption": ("false", False),
    "sseAlgorithm": ("AWS_KMS", "AWS_KMS"),
    "kmsKeyId": ("alias/logs", "alias/logs"),
    "storageClass": ("GLACIER_IR", "GLACIER_IR"),
    "expirationDays": ("7", 7),
    "streamTimeoutMinutes": ("15", 15),
    "cleanupIntervalMinutes": ("5", 5),
    "partialFlushIntervalMinutes": ("1", 1),
    "earlyFlushWatermarkBytes": ("100", 100),
    "pendingFlushAlertAfterFailures": ("3", 3),
    "maxConcurrentStreams": ("7", 7),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment with only the required variables."""
    for name in [name for name in os.environ if name.upper().startswith("RUNLAKE_")]:
        monkeypatch.delenv(name)
    for name, value in REQUIRED.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def test_the_seeds_defaults() -> None:
    loaded = settings.load()
    assert loaded.prefix == "pipeline-logs"
    assert loaded.enable_server_side_encryption is True
    assert loaded.sse_algorithm == "AES_256"
    assert loaded.kms_key_id is None
    assert loaded.storage_class == "STANDARD_IA"
    assert loaded.expiration_days == 30
    assert loaded.stream_timeout_minutes == 1440
    assert loaded.cleanup_interval_minutes == 60
    assert loaded.partial_flush_interval_minutes == 2
    assert loaded.early_flush_watermark_bytes == 5_242_880
    assert loaded.pending_flush_alert_after_failures == 10
    assert loaded.max_concurrent_streams == 100


@pytest.mark.behavior("Every setting of OpenMetadata's log storage is accepted under its own name.")
@pytest.mark.parametrize("spelling", ["own", "upper", "lower"])
def test_every_field_of_the_seed_under_every_spelling(environment: pytest.MonkeyPatch, spelling: str) -> None:
    environment.delenv("RUNLAKE_BUCKET_NAME")
    for name, (given, _) in SEED.items():
        spelled = {"own": name, "upper": snake(name).upper(), "lower": name.lower()}[spelling]
        environment.setenv(f"RUNLAKE_{spelled}", given)
    loaded = settings.load()
    assert {name: getattr(loaded, snake(name)) for name in SEED} == {name: value for name, (_, value) in SEED.items()}


def test_the_group_aws_config(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("RUNLAKE_awsConfig_endPointURL", "http://minio:9000")
    environment.setenv("RUNLAKE_AWS_REGION", "eu-central-1")
    environment.setenv("RUNLAKE_AWS_ACCESS_KEY_ID", "AKIA")
    environment.setenv("RUNLAKE_AWS_SECRET_ACCESS_KEY", "hush")
    loaded = settings.load()
    assert (loaded.aws_endpoint_url, loaded.aws_region, loaded.aws_access_key_id) == ("http://minio:9000", "eu-central-1", "AKIA")
    assert loaded.aws_secret_access_key and loaded.aws_secret_access_key.get_secret_value() == "hush"
    assert "hush" not in repr(loaded)


def test_an_empty_variable_counts_as_unset(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("RUNLAKE_KMS_KEY_ID", "")
    environment.setenv("RUNLAKE_EXPIRATION_DAYS", "")
    assert (settings.load().kms_key_id, settings.load().expiration_days) == (None, 30)


def test_several_keys_sign_and_verify(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("RUNLAKE_POSITION_KEYS", "new-0123456789abcdef, old-0123456789abcdef")
    assert settings.load().signing_keys == ("new-0123456789abcdef", "old-0123456789abcdef")


def test_cursors_have_keys_of_their_own_or_those_of_positions(environment: pytest.MonkeyPatch) -> None:
    assert settings.load().cursor_signing_keys == settings.load().signing_keys == ("0123456789abcdef",)
    environment.setenv("RUNLAKE_CURSOR_KEYS", "cursors-0123456789")
    assert (settings.load().cursor_signing_keys, settings.load().signing_keys) == (("cursors-0123456789",), ("0123456789abcdef",))
    environment.setenv("RUNLAKE_CURSOR_KEYS", "short")
    with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_CURSOR_KEYS"):
        settings.load()


def test_settings_without_keys_load_but_not_for_the_api(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("RUNLAKE_POSITION_KEYS")
    loaded = settings.load()
    assert (loaded.signing_keys, loaded.cursor_signing_keys) == ((), ())
    with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_POSITION_KEYS"):
        loaded.check_keys()


PIPELINE_ID = "0f1e2d3c-0000-4000-8000-00000000000a"
ISSUER = '{"issuer": "i", "audience": "a", "jwks_url": "https://i.test/keys", "prefix": "p:"}'
OTHER = ISSUER.replace('"i"', '"j"')


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("RUNLAKE_BUCKET_NAME", "No_Bucket", "3 to 63 lowercase"),
        ("RUNLAKE_PREFIX", "/logs", "no slash at either end"),
        ("RUNLAKE_PREFIX", "logs/../x", "no leading dots"),
        ("RUNLAKE_SSE_ALGORITHM", "AES256", "AES_256, or AWS_KMS"),
        ("RUNLAKE_STORAGE_CLASS", "DEEP_ARCHIVE", "STANDARD_IA"),
        ("RUNLAKE_EXPIRATION_DAYS", "0", "1 to 36500"),
        ("RUNLAKE_STREAM_TIMEOUT_MINUTES", "soon", "minutes, 1 to 525600"),
        ("RUNLAKE_MAX_CONCURRENT_STREAMS", "-1", "1 to 1000"),
        ("RUNLAKE_ENABLE_SERVER_SIDE_ENCRYPTION", "maybe", "true or false"),
        ("RUNLAKE_AWS_ENDPOINT_URL", "minio:9000", "http://"),
        ("RUNLAKE_REPORT_TOPIC_ARN", "topic", "a topic's ARN"),
        ("RUNLAKE_RUNS_TABLE", "a b", "a table's name"),
        ("RUNLAKE_PIPELINE_IDS", '{"mysql.ingest": {"fqn": "mysql.ingest"}}', "<uuid>"),
        ("RUNLAKE_PIPELINE_IDS", '{"0f1e2d3c-0000-4000-8000-00000000000a": {"fqn": "a", "type": "other"}}', "metadata"),
        *(
            ("RUNLAKE_RUN_LINKS", f'{{"*": "{template}"}}', "https://airflow.example/")
            for template in (
                "javascript:alert(1)//",
                "https://{fqn}/",
                "https://a.test",
                "https://a.test/{other}",
                "https://u@a.test/",
                "https://a/ b",
            )
        ),
        ("RUNLAKE_JWT_AUDIENCE", ",", "names"),
        ("RUNLAKE_JWT_AUDIENCE", " , ,\t", "names"),
        ("RUNLAKE_JWT_MORE_ISSUERS", "people", "JSON"),
        ("RUNLAKE_JWT_MORE_ISSUERS", "[" + ISSUER.replace('"a"', '" , "') + "]", "audience"),
        ("RUNLAKE_JWT_MORE_ISSUERS", '{"issuer": "i"}', "JSON"),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER.replace('p:', 'p')}]", '"prefix": "people:"'),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER.replace('https', 'http')}]", "jwks_url"),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER}, {ISSUER.replace('p:', 'q:')}]", "each issuer and prefix once"),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER}, {OTHER}]", "each issuer and prefix once"),
        *(
            ("RUNLAKE_LOGIN", f'{{"client_id": "page", {wrong}}}', '"client_id": …')
            for wrong in (
                '"client_id": ""',
                '"client_id": "other"',
                '"issuer": "http://login.test/"',
                '"issuer": "https://login.test/?a=b"',
                '"issuer": "https://login.test; script-src *"',
                '"origins": ["https://login.test/path"]',
                '"origins": ["https://login.test *"]',
                '"origins": ["*"]',
                '"origins": ["https://*.test"]',
                '"cli_redirect": "http://login.test/callback"',
                '"cli_redirect": "https://127.0.0.1/callback"',
                '"cli_redirect": "http://127.0.0.1/?x"',
                '"scopes": "a  b"',
                '"scopes": ""',
                '"parameters": {"redirect_uri": "https://evil.test/"}',
                '"parameters": {"code_challenge_method": "plain"}',
                '"parameters": {"a b": "c"}',
                '"parameters": {"a": 5}',
                '"more": 1',
            )
        ),
    ],
)
def test_message_names_invalid_settings(environment: pytest.MonkeyPatch, variable: str, value: str, allowed: str) -> None:
    environment.setenv(variable, value)
    with pytest.raises(InvalidConfigurationError) as caught:
        settings.load()
    assert str(caught.value).startswith("invalid setting, allowed: ")
    assert allowed in str(caught.value)
    assert str(caught.value).endswith(f"variable={variable} value={value!r}")


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("RUNLAKE_PIPELINE_IDS", "x", "Expecting value: line 1 column 1 (char 0)"),
        ("RUNLAKE_PIPELINE_IDS", f'{{"{PIPELINE_ID[1:]}": {{"fqn": "a"}}}}', f"{PIPELINE_ID[1:]}: String should match"),
        *(
            (
                "RUNLAKE_PIPELINE_IDS",
                f'{{"{PIPELINE_ID}": {{"fqn": "a"}}, "{other}": {{"fqn": "b"}}}}',
                f"a name is repeated name={PIPELINE_ID}",
            )
            for other in (PIPELINE_ID, PIPELINE_ID.upper())
        ),
        ("RUNLAKE_PIPELINE_IDS", f'{{"{PIPELINE_ID}": {{"fqn": ""}}}}', f"{PIPELINE_ID}.fqn: String should have at least 1"),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER.replace('p:', 'p')}]", "0.prefix: String should match"),
        ("RUNLAKE_JWT_MORE_ISSUERS", f"[{ISSUER}, {OTHER}]", "an issuer or prefix is repeated"),
        ("RUNLAKE_JWT_MORE_ISSUERS", "[{}]", "0.issuer: Field required; 0.audience: Field required; "),
    ],
)
def test_message_tells_once_what_is_wrong_within_json(
    environment: pytest.MonkeyPatch, variable: str, value: str, problem: str
) -> None:
    environment.setenv(variable, value)
    with pytest.raises(InvalidConfigurationError) as caught:
        settings.load()
    assert str(caught.value).count("invalid setting") == 1
    assert f" problem={problem}" in str(caught.value).replace('problem="', "problem=").replace("problem='", "problem=")


def test_all_that_is_wrong_is_named_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("RUNLAKE_BUCKET_NAME")
    environment.setenv("RUNLAKE_EXPIRATION_DAYS", "never")
    wanted = r"missing setting.*RUNLAKE_BUCKET_NAME.*; invalid setting.*RUNLAKE_EXPIRATION_DAYS"
    with pytest.raises(InvalidConfigurationError, match=wanted):
        settings.load()


def test_message_hides_secrets(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("RUNLAKE_POSITION_KEYS", "0123456789abcdef,short")
    with pytest.raises(InvalidConfigurationError) as caught:
        settings.load()
    assert "short" not in str(caught.value)
    assert str(caught.value).endswith("variable=RUNLAKE_POSITION_KEYS value='***'")


@pytest.mark.parametrize(
    ("given", "variable"),
    [
        ({"RUNLAKE_SSE_ALGORITHM": "AWS_KMS"}, "RUNLAKE_KMS_KEY_ID"),
        ({"RUNLAKE_AWS_ACCESS_KEY_ID": "AKIA"}, "RUNLAKE_AWS_SECRET_ACCESS_KEY"),
        ({"RUNLAKE_AWS_SECRET_ACCESS_KEY": "hush"}, "RUNLAKE_AWS_ACCESS_KEY_ID"),
        ({"RUNLAKE_AWS_SESSION_TOKEN": "token"}, "RUNLAKE_AWS_ACCESS_KEY_ID"),
    ],
)
def test_dependent_settings(environment: pytest.MonkeyPatch, given: dict[str, str], variable: str) -> None:
    for name, value in given.items():
        environment.setenv(name, value)
    with pytest.raises(InvalidConfigurationError, match=f"variable={variable}"):
        settings.load()


def test_the_page_of_the_settings_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "configuration.md"
    assert page.read_text() == settings.document(), "run: python -m chalicelib.settings > docs/configuration.md"
