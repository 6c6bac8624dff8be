"""What a deployment says at its end: the addresses, where people log in, and the next command."""

from __future__ import annotations

import pytest

from deploy.next_steps import next_steps

API = "https://abcdefghij.execute-api.ap-southeast-1.amazonaws.com/api"
URL = f"https://{'u' * 32}.lambda-url.ap-southeast-1.on.aws/api"
POLICY = "arn:aws:iam::111122223333:policy/runlake-prod-JobUrlPolicy-ABCDEFGHIJKL"
OUTPUTS = {"ApiUrl": API, "PageUrl": f"{API}/v1/ui/"}
WITH_URL = OUTPUTS | {"JobApiUrl": URL, "JobUrlPolicyArn": POLICY}
LOGIN = '{"client_id": "page", "cli_redirect": "http://localhost:8401/callback"}'
ELSEWHERE = '{"client_id": "page", "issuer": "https://people.example.com"}'
ISSUER = "https://id.example.com/"


@pytest.mark.parametrize(
    ("outputs", "parameters", "expected"),
    [
        (OUTPUTS, {}, [API, "JobUrl=iam", f"{API}/v1/ui/", "Nobody can log in there yet: set Login", f'make smoke TOKEN="$TOKEN" URL={API}']),
        (WITH_URL, {"Login": LOGIN}, [API, URL, POLICY, f"{API}/v1/ui/", ISSUER, "http://localhost:8401/callback", "make smoke"]),
        (WITH_URL, {"Login": ELSEWHERE}, [API, "https://people.example.com", "http://127.0.0.1/callback", "make smoke"]),
        (OUTPUTS, {"Auth": "iam"}, ["sign", API, "the page cannot be used", f"RUNLAKE_AUTH=iam RUNLAKE_URL={API} runlake exec"]),
        (OUTPUTS, {"Auth": "none"}, [API, f"{API}/v1/ui/", "make smoke"]),
    ],
)  # fmt: skip
def test_end_of_a_deployment(outputs: dict[str, str], parameters: dict[str, str], expected: list[str]) -> None:
    lines = next_steps(outputs, {"Auth": "jwt", "JwtIssuer": ISSUER} | parameters)
    told = iter(lines)
    for words in expected:
        assert any(words in line for line in told), (words, lines)
    assert [line for line in lines[:-1] if len(line) > 80 and " " in line.strip()] == []
    assert any("log in" in line for line in lines) == (parameters.get("Auth", "jwt") == "jwt")
