"""The configuration of browsers and outputs: validated, and visible without secrets."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest

from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.configuration import EventsConfiguration, parse_configuration, redact


def test_configuration_by_environment_and_yaml_is_validated() -> None:
    found = parse_configuration("browser: other\nbrowsers:\n  cloudwatch: {group: x}\n", "cloudwatch")
    assert (found.browser, found.browsers) == ("cloudwatch", {"cloudwatch": {"group": "x"}})
    assert parse_configuration('{"browser": "other"}').browser == "other"
    assert parse_configuration("") == EventsConfiguration()
    for document in (
        "- a",
        "{",
        "a: [",
        "browsr: files",
        "browser: 5",
        "browser: 'a b'",
        "browsers: [1]",
        "!!python/object:os.system {}",
        "outputs: [{kind: otlp, headers: {Authorization: hunter2}",
    ):
        with pytest.raises(InvalidConfigurationError, match="variable=RUNLAKE_EVENTS") as refused:
            parse_configuration(document)
        assert "hunter2" not in "".join(traceback.format_exception(refused.value)), "as the function's start logs it"


def test_secrets_of_a_configuration_are_hidden() -> None:
    document = {
        "url": "https://user:hunter2@host:9200/x", "api_key": "hunter2", "nested": [{"Password": "hunter2", "plain": "x"}],
        "tokens": ["hunter2"], "auth": {"client_secret": 5}, "apiKey": "hunter2", "on": True,
    }  # fmt: skip
    found = parse_configuration(json.dumps({"browsers": {"b": document}, "outputs": [document], "rules": [document]})).redacted()
    assert "hunter2" not in json.dumps(found)
    assert found["browsers"]["b"]["url"] == "https://***@host:9200/***" and found["browsers"]["b"]["nested"][0]["plain"] == "x"
    assert redact({"client_secret": 5}) == {"client_secret": "***"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://h/x?token=abc&q=1#frag", "https://h/***?token=***&q=***#***"),
        ("https://h/x?abc", "https://h/***?***"),
        ("//u:p@h/x", "//***@h/***"),
        ({"url": "https://h:1/inputs/TOKEN/tag/http/"}, {"url": "https://h:1/***"}),
        ("https://h/", "https://h/"),
        ("https://h", "https://h"),
        ("http://[broken/?token=abc", "***"),
        ("/var/log/runs", "/var/log/runs"),
        ("plain text? yes=no", "plain text? yes=no"),
        (
            {"headers": {"X-Honeycomb-Team": "abc", "Content-Type": "x"}, "headers_from": {"X-A": "ssm:/team/name"}},
            {"headers": {"X-Honeycomb-Team": "***", "Content-Type": "x"}, "headers_from": {"X-A": "***"}},
        ),
        (
            {"DD-API-KEY": "abc", "ingest_key": "abc", "auth": "abc", "sig": "abc"},
            dict.fromkeys(("DD-API-KEY", "ingest_key", "auth", "sig"), "***"),
        ),
    ],
)
def test_parameters_and_unusual_headers_are_hidden(given: Any, expected: Any) -> None:
    assert redact(given) == expected


@pytest.mark.parametrize(
    ("patterns", "locators", "outputs", "browsers", "rules"),
    [
        (["*"], ["hr.layoffs_*", "hr.[ab]", "ops.*", "?ales.*"], ["hr", "ops", "rest"], ["cloudwatch", "elasticsearch"], 3),
        (["ops.*"], ["ops.*"], ["ops"], [], 0),
        (["ops.a*"], ["ops.*"], ["ops"], [], 0),
        (["ops.a", "hr.a"], ["hr.[ab]", "ops.*"], ["hr", "ops"], ["cloudwatch"], 0),
        (["hr.*"], ["hr.layoffs_*", "hr.[ab]"], ["hr", "ops", "rest"], ["cloudwatch", "elasticsearch"], 1),
        (["hr.[*"], [], ["hr", "ops", "rest"], ["elasticsearch"], 0),
        (["sales.*"], [], ["hr", "ops", "rest"], ["elasticsearch"], 0),
        (["sales.a"], ["?ales.*"], [], ["elasticsearch"], 0),
        ([], [], [], [], 0),
    ],
)
def test_part_of_a_configuration_concerns_only_the_patterns(
    patterns: list[str], locators: list[str], outputs: list[str], browsers: list[str], rules: int
) -> None:
    document = {
        "browser": "elasticsearch",
        "browsers": {"cloudwatch": {"group": "x"}, "elasticsearch": {"url": "https://h", "index": "i"}},
        "rules": [
            {"fqn": "hr.{record.x}", "run_id": "{day}"},
            {"from": "tag", "as": "{fqn}/{run_id}"},
            {"fqn": "{a|b}", "run_id": "1"},
        ],
        "outputs": [{"kind": "logstash", "url": f"https://{name}", "name": name} for name in ("hr", "ops", "rest")],
        "locators": [
            {"pattern": "hr.layoffs_*", "outputs": ["hr"]},
            {"pattern": "hr.[ab]", "browser": "cloudwatch", "outputs": ["hr"]},
            {"pattern": "ops.*", "browser": "runlog", "outputs": ["ops"]},
            {"pattern": "?ales.*", "outputs": []},
        ],
    }
    part = parse_configuration(json.dumps(document)).part_for(patterns)
    assert [each.pattern for each in part.locators] == locators
    assert ([name for name, _ in part.named_outputs], list(part.browsers), len(part.rules)) == (outputs, browsers, rules)
