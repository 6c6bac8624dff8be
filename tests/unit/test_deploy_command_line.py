"""The command line of ``python -m deploy``, and what the smoke test says."""

from __future__ import annotations

import argparse
from email.message import Message

import pytest

from deploy.__main__ import _account, main
from deploy.errors import DeployError
from deploy.smoke import Response, Smoke


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-1"),
    ],
)
def test_region_comes_from_the_environment_as_for_the_aws_command(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], region: str
) -> None:
    _clear(monkeypatch)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _account(argparse.Namespace(profile="")).session.region_name == region


def test_missing_region_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _clear(monkeypatch)
    with pytest.raises(DeployError, match="set AWS_REGION"):
        _account(argparse.Namespace(profile=""))


def _clear(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")


def test_smoke_test_that_wrote_nothing_names_no_leftovers(monkeypatch: pytest.MonkeyPatch) -> None:

    def refused(*_: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr("deploy.smoke._ask", refused)
    printed: list[str] = []
    assert not Smoke("https://nobody.example/api", "", printed.append).run()
    assert printed and not [line for line in printed if "remaining until" in line]


@pytest.mark.parametrize("token", ["", "secret"])
def test_failed_smoke_test_says_that_it_had_no_token(
    token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKEN", token)
    monkeypatch.setattr("deploy.smoke._ask", lambda *_: Response(401, b"", Message()))
    assert main(["smoke", "--url", "https://nobody.example/api"]) == 1
    assert ("no TOKEN was sent" in capsys.readouterr().out) == (not token)


@pytest.mark.parametrize("command", ["deploy", "diff", "destroy"])
def test_missing_stage_is_said_before_an_account_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    _clear(monkeypatch)
    assert main([command, "--stage", "nowhere"]) == 1
    assert capsys.readouterr().err.startswith("runlake: no such stage, known stages are ")


@pytest.mark.parametrize("command", ["deploy", "diff"])
def test_wrong_parameter_is_said_before_an_account_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    _clear(monkeypatch)
    assert main([command, "--stage", "prod", "--parameter", "Auth"]) == 1
    assert capsys.readouterr().err == "runlake: not NAME=VALUE: Auth\n"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        (("Events=browser: runlog",), ""),
        (("LogBrowser=elasticsearch",), ""),
        (("Events=browser: third-party\nbrowsers: {third-party: {any: option}}",), ""),
        (("Events=browser: [hunter2]",), "field=browser"),
        (("Events=rules: [{fqn: 5}]",), "field=rules.0"),
        (("Events=browsers: {cloudwatch: {group: hunter2 x}}",), "field=cloudwatch.group browser=cloudwatch"),
        (("Events={}", "LogBrowser=elasticsearch"), "field=elasticsearch.url browser=elasticsearch"),
        (("Events=method: hunter2",), "field=method"),
        (('Login={"client_id": "page"}',), ""),
        (('Login={"client_id": ""}',), "invalid parameter Login: String should have at least 1 character field=client_id"),
        (("Login=hunter2",), "invalid parameter Login: Invalid JSON"),
        (("Events=outputs: [{kind: otlp, url: 'hunter2', name: copy}]",), "field=otlp.url output=copy"),
    ],
)
def test_invalid_events_and_logins_are_refused_before_an_account_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], parameters: tuple[str, ...], problem: str
) -> None:
    _clear(monkeypatch)
    options = ["--stage", "prod", *(word for each in parameters for word in ("--parameter", each))]
    assert main(["check", *options]) == bool(problem)
    checked = capsys.readouterr().err
    assert problem in checked and "hunter2" not in checked
    assert main(["diff", *options]) == 1
    assert (capsys.readouterr().err == checked) == bool(problem)


def test_missing_credentials_come_with_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _clear(monkeypatch)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert main(["destroy", "--stage", "prod"]) == 1
    assert capsys.readouterr().err.startswith(
        "runlake: Unable to locate credentials: name a profile (PROFILE=…, --profile), or set "
    )
