"""Masking on a deployed stack: the setting passes through the template, and values are read from their parameters."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import requests

from tests.integration.stacks import PATIENCE_S, running_stack
from tests.support.template import API_ROLES

LOGS = "/v1/services/ingestionPipelines/logs"
RULES = [{"fqn": "svc_sales.*", "values_from": ["ssm:/sales/password", "secretsmanager:sales/db#password"]}]
NAMES = ("ssm:GetParameter", "secretsmanager:GetSecretValue")


def test_values_of_a_parameter_and_of_a_secret_never_reach_the_store() -> None:
    arns = "arn:aws:ssm:us-east-1:000000000000:parameter/sales/password"
    with running_stack(Masking=json.dumps(RULES), MaskingSecretArns=arns) as stack:
        line = "parameter hush-one secret hush-two token=hush-three"
        url = f"{stack.api_url}{LOGS}/svc_sales.erp/run-1"
        assert requests.post(url, json=line, timeout=PATIENCE_S).status_code == 503, (
            "nothing is stored while a value was never read"
        )
        with closing(stack.client("ssm")) as ssm, closing(stack.client("secretsmanager")) as secrets:
            ssm.put_parameter(Name="/sales/password", Value="hush-one", Type="SecureString")
            secrets.create_secret(Name="sales/db", SecretString=json.dumps({"password": "hush-two"}))
        assert requests.post(url, json=line, timeout=PATIENCE_S).status_code == 200
        requests.post(f"{stack.api_url}{LOGS}/svc_other/run-1", json=line, timeout=PATIENCE_S).raise_for_status()
        assert requests.get(url, timeout=PATIENCE_S).json()["logs"] == (
            "parameter ***configured-value*** secret ***configured-value*** token=***password***"
        )
        with closing(stack.client("s3")) as s3:
            found = s3.list_objects_v2(Bucket=stack["bucket"], Prefix="pipeline-logs/svc_sales.erp/")["Contents"]
            bodies = [s3.get_object(Bucket=stack["bucket"], Key=each["Key"])["Body"].read() for each in found]
        assert bodies and not any(b"hush" in body for body in bodies)
        assert requests.get(f"{stack.api_url}{LOGS}/svc_other/run-1", timeout=PATIENCE_S).json()["logs"] == line.replace(
            "hush-three", "***password***"
        )


def test_the_api_function_may_read_what_is_named_and_only_then(template: dict[str, Any]) -> None:
    policy = template["Resources"]["MaskingPolicy"]
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert policy["Condition"] == "ReadsMaskingSecrets" and policy["Properties"]["Roles"] == API_ROLES
    assert tuple(statement["Action"]) == NAMES and statement["Resource"] == {"Ref": "MaskingSecretArns"}
    assert template["Parameters"]["MaskingSecretArns"]["Default"] == template["Parameters"]["Masking"]["Default"] == ""
