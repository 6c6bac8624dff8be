"""The start of the function: few imports, and invalid settings are reported at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts processes

PROJECT = Path(__file__).parents[2]
LAMBDA = {
    "AWS_LAMBDA_FUNCTION_NAME": "runlake-api",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "RUNLAKE_BUCKET_NAME": "bucket",
    "RUNLAKE_ARCHIVE_BUCKET_NAME": "archive",
    "RUNLAKE_POSITION_KEYS": "0123456789abcdef",
}


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter with only these settings."""
    clean = {name: value for name, value in os.environ.items() if not name.upper().startswith(("RUNLAKE_", "AWS_"))}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, env=clean | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("app", {"boto3", "pydantic_settings", "aws_xray_sdk.core"}),
        ("chalicelib.routes.dead_letters", {"chalicelib.pipelines.active_runs", "chalicelib.pipelines.delivery"}),
    ],
)
def test_an_import_brings_nothing_that_is_needed_later(module: str, absent: set[str]) -> None:
    done = run(f"import sys, {module}; print(sorted({absent} & set(sys.modules)))")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_on_lambda_everything_is_built_while_the_function_starts() -> None:
    done = run("import app; from chalicelib import composition; print(composition._services.settings.bucket_name)", **LAMBDA)
    assert (done.stdout.strip(), done.stderr) == ("bucket", "")


@pytest.mark.parametrize(
    ("handler", "starts"), [("app.app", False), ("app.job_api", False), ("app.compact", True), ("app.ingest", True)]
)
def test_only_the_api_needs_a_key_of_positions(handler: str, starts: bool) -> None:
    variables = {name: value for name, value in LAMBDA.items() if name != "RUNLAKE_POSITION_KEYS"}
    done = run("import app", **variables, _HANDLER=handler)
    assert (done.returncode == 0) is starts, done.stderr
    assert starts or "variable=RUNLAKE_POSITION_KEYS" in done.stderr


def test_on_lambda_an_invalid_setting_is_reported_at_the_start() -> None:
    done = run("import app", **LAMBDA, RUNLAKE_storageClass="COLD")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("chalicelib.errors.InvalidConfigurationError: invalid setting, allowed: STANDARD, STANDARD_IA")
    assert last.endswith("variable=RUNLAKE_STORAGE_CLASS value='COLD'")
