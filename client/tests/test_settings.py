"""Wrong settings: each is an error that names its origin, in Python and on the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import runlake
from client.tests.fake_server import FakeServer
from runlake import RunlogHandler, Settings, SettingsError
from runlake.__main__ import runlake as command_line
from runlake.settings import load_settings, settings_path

URL = "http://127.0.0.1:1/api"
OUT_OF_RANGE: list[tuple[str, Any]] = [
    ("timeout_s", 0), ("timeout_s", -1.0), ("timeout_s", math.nan), ("timeout_s", math.inf), ("exit_s", -1), ("interval_s", math.nan),
    ("spool_bytes", -1), ("memory_bytes", 0), ("batch_bytes", 0), ("batch_bytes", -5), ("heartbeat_s", 9), ("heartbeat_s", -1),
    ("heartbeat_s", 86_401),
]  # fmt: skip


def error_of(arguments: dict[str, Any], environ: dict[str, str]) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(arguments, environ)
    return caught.value


def test_misspelt_option_is_an_error() -> None:
    with pytest.raises(SettingsError, match="there is no such option or setting: spool_byts") as caught:
        runlake.run("a.b", url=URL, spool_byts=1)
    assert caught.value.next_step == "correct the argument's name: `runlake config` lists the settings"


@pytest.mark.parametrize("name", ["spool_byts", "timeout_s"])
def test_option_next_to_settings_is_an_error(name: str) -> None:
    with pytest.raises(SettingsError, match=f"settings= excludes single settings: {name}"):
        RunlogHandler("a.b", settings=Settings(url=URL), **{name: 1})


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_number_out_of_range_names_its_origin(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"{name} = {value}\n")
    of_file = error_of({}, {"RUNLAKE_CONFIG": str(path)})
    assert f"{name} must be " in str(of_file) and str(of_file).endswith(f"not {type(of_default(name))(value)!r} origin={path}")
    assert of_file.next_step == f"correct {path}, or name another file with RUNLAKE_CONFIG"
    of_environment = error_of({}, {f"RUNLAKE_{name.upper()}": str(value)})
    assert "origin=environment" in str(of_environment)
    assert of_environment.next_step == f"correct RUNLAKE_{name.upper()}"
    of_argument = error_of({name: value}, {})
    assert "origin=argument" in str(of_argument) and of_argument.next_step == f"correct the argument {name}"
    with pytest.raises(SettingsError, match="origin=argument"):
        Settings(**{name: value})


def of_default(name: str) -> Any:
    return getattr(Settings(), name)


@pytest.mark.parametrize(
    "text", ["spool_bytes = 1.5", "spool_bytes = inf", "spool_bytes = true", "timeout_s = true", "exit_s = [1]"]
)
def test_value_of_another_type_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    assert f"origin={path}" in str(error_of({}, {"RUNLAKE_CONFIG": str(path)}))


def test_numbers_in_range_are_taken() -> None:
    settings = load_settings({"spool_bytes": 0, "interval_s": "0"}, {"RUNLAKE_EXIT_S": "1e3", "RUNLAKE_BATCH_BYTES": "1"})
    assert (settings.spool_bytes, settings.interval_s, settings.exit_s, settings.batch_bytes) == (0, 0.0, 1000.0, 1)


def test_file_that_is_named_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    result = CliRunner().invoke(command_line, ["config"], env={"RUNLAKE_CONFIG": str(missing)})
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"runlake: the settings cannot be read path={missing} reason=No such file or directory",
        f"next: correct {missing}, or name another file with RUNLAKE_CONFIG",
    ]


def test_usual_file_need_not_exist(tmp_path: Path) -> None:
    for environ in ({"XDG_CONFIG_HOME": str(tmp_path)}, {"XDG_CONFIG_HOME": str(tmp_path), "RUNLAKE_CONFIG": ""}):
        assert load_settings({}, environ).origins == {}


def test_home_of_the_named_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings_path({"RUNLAKE_CONFIG": "~/own.toml"}) == tmp_path / "own.toml"


PROFILES = """
default_profile = "test"
interval_s = 2
token_file = "top"
[profiles.test]
url = "https://user:password@test/api"
token = "of-the-test"
exit_s = 3
[profiles.prod]
url = "https://prod/api"
interval_s = 4
[profiles.slow]
timeout_s = 90
[profiles.jobs]
url = "https://abc.lambda-url.eu-central-1.on.aws"
"""


def profile_file(folder: Path, text: str = PROFILES, mode: int = 0o600) -> dict[str, str]:
    """The environment that names it."""
    (folder / "profiles.toml").write_text(text)
    (folder / "profiles.toml").chmod(mode)
    return {"RUNLAKE_CONFIG": str(folder / "profiles.toml")}


@pytest.mark.parametrize(
    ("arguments", "environ", "expected"),
    [
        (
            {},
            {},
            {"profile": "test", "url": "https://user:password@test/api", "token": "of-the-test", "interval_s": 2, "exit_s": 3},
        ),
        ({"profile": "prod"}, {}, {"profile": "prod", "url": "https://prod/api", "token": "", "token_file": "", "interval_s": 4}),
        ({}, {"RUNLAKE_PROFILE": "prod"}, {"profile": "prod", "url": "https://prod/api"}),
        ({"profile": "slow"}, {"RUNLAKE_PROFILE": "prod"}, {"profile": "slow", "url": "", "token_file": "top", "timeout_s": 90}),
        ({"profile": "prod", "url": "http://x"}, {"RUNLAKE_EXIT_S": "9"}, {"url": "http://x", "exit_s": 9, "interval_s": 4}),
        ({}, {"RUNLAKE_TOKEN_COMMAND": "c"}, {"profile": "test", "token": "", "token_command": "c", "token_file": ""}),
        ({"profile": ""}, {"RUNLAKE_PROFILE": "prod"}, {"profile": "", "url": "", "token_file": "top", "interval_s": 2}),
    ],
)
def test_options_and_environment_override_the_profile(
    arguments: dict[str, Any], environ: dict[str, str], expected: dict[str, Any], tmp_path: Path
) -> None:
    settings = load_settings(arguments, profile_file(tmp_path) | environ)
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "chosen", "error", "following"),
    [
        (
            PROFILES,
            "prd",
            "there is no profile 'prd': the profiles are: jobs, prod, slow, test",
            "choose another with --profile or RUNLAKE_PROFILE",
        ),
        ("", "prod", "there is no profile 'prod': the file has no profiles", "add [profiles.prod] to"),
        ("default_profile = 'x'", "", "there is no profile 'x': the file has no profiles", "choose another"),
        ("default_profile = 1", "", "default_profile must be the name of a profile, not 1", "correct"),
        ("profiles = 1", "", "profiles must be tables, as [profiles.test]", "correct"),
        ("[profiles]\nprod = 1", "", "profiles must be tables", "correct"),
        ("[profiles.prod]\nurls = 'x'", "prod", "there is no such setting: urls", "correct"),
        ("[profiles.prod]\nprofile = 'x'", "prod", "there is no such setting: profile", "correct"),
        ("profile = 'x'", "", "there is no such setting: profile", "correct"),
        ("auth = 'jwt'", "", "auth must be iam or token, not 'jwt'", "correct"),
        ("[profiles.prod]\nexit_s = 'x'", "prod", "exit_s must be a number from 0 to", "correct"),
    ],
)
def test_wrong_profile_is_an_error(text: str, chosen: str, error: str, following: str, tmp_path: Path) -> None:
    caught = error_of({"profile": chosen} if chosen else {}, profile_file(tmp_path, text))
    assert str(caught).startswith(error) and str(tmp_path / "profiles.toml") in str(caught)
    assert following in caught.next_step


@pytest.mark.parametrize(
    ("arguments", "environ", "mode", "notices"),
    [
        ({}, {}, 0o640, ["other users can read the secrets in {path}: chmod 600 it"]),
        ({"profile": "prod"}, {}, 0o604, ["other users can read the secrets in {path}: chmod 600 it"]),
        ({"profile": "prod"}, {"RUNLAKE_TOKEN": "x", "RUNLAKE_EXIT_S": "1"}, 0o600, []),
        (
            {"profile": "test", "exit_s": 5},
            {"RUNLAKE_TOKEN_FILE": "x", "RUNLAKE_EXIT_S": "1", "RUNLAKE_INTERVAL_S": "1"},
            0o600,
            ["RUNLAKE_TOKEN_FILE is not used: the profile 'test' has a token of its own"],
        ),
        (
            {"profile": "test"},
            {"RUNLAKE_EXIT_S": "1"},
            0o600,
            ["RUNLAKE_EXIT_S overrides the profile 'test': unset it to use the profile's"],
        ),
    ],
)
def test_notices_name_an_exposed_token_and_what_overrides_the_profile(
    arguments: dict[str, Any], environ: dict[str, str], mode: int, notices: list[str], tmp_path: Path
) -> None:
    settings = load_settings(arguments, profile_file(tmp_path, mode=mode) | environ)
    assert list(settings.notices) == [each.format(path=tmp_path / "profiles.toml") for each in notices]


OWNERS = """
url = "https://top/api"
token = "of-top"
[profiles.own]
url = "https://own/api"
token_command = "of-own"
[profiles.open]
url = "https://open/api"
[profiles.none]
url = "https://none/api"
token = ""
[profiles.inheriting]
token = "of-inheriting"
"""
NOT_SENT = "the token of {} is not sent to {}: it belongs to {}"
NOT_USED = "RUNLAKE_TOKEN{} is not used: the profile {!r} has a token of its own"


@pytest.mark.parametrize(
    ("default", "arguments", "environ", "token", "notices"),
    [
        ("own", {}, {}, "of-own", []),
        ("own", {"url": "HTTPS://user@OWN:443/api/"}, {}, "of-own", []),
        ("own", {"url": "http://x"}, {}, "", [NOT_SENT.format("the profile 'own'", "http://x", "https://own/api")]),
        ("own", {}, {"URL": "http://x/"}, "", [NOT_SENT.format("the profile 'own'", "http://x", "https://own/api")]),
        ("own", {"url": "https://own/other"}, {}, "", [NOT_SENT.format("the profile 'own'", "https://own/other", "https://own/api")]),
        ("own", {"url": "https://own:x"}, {}, "", [NOT_SENT.format("the profile 'own'", "https://own:x", "https://own/api")]),
        ("", {"profile": "own", "url": "http://own/api"}, {}, "", [NOT_SENT.format("the profile 'own'", "http://own/api", "https://own/api")]),
        ("own", {"url": "http://x", "token": "typed"}, {}, "typed", []),
        ("own", {"token": "typed"}, {"TOKEN": "exported"}, "typed", []),
        ("own", {}, {"TOKEN": "exported"}, "exported", []),
        ("own", {"url": "http://x"}, {"TOKEN": "exported"}, "exported", []),
        ("", {"profile": "own"}, {"TOKEN": "exported"}, "of-own", [NOT_USED.format("", "own")]),
        ("", {}, {"PROFILE": "own", "TOKEN_FILE": "exported"}, "of-own", [NOT_USED.format("_FILE", "own")]),
        ("", {}, {"PROFILE": "own", "URL": "http://x", "TOKEN": "exported"}, "exported", []),
        ("", {"profile": "none"}, {"TOKEN": "exported"}, "", [NOT_USED.format("", "none")]),
        ("", {"profile": "open"}, {"TOKEN": "exported"}, "exported", []),
        ("", {"profile": "open", "url": "http://x"}, {}, "", []),
        ("", {}, {}, "of-top", []),
        ("", {}, {"URL": "http://x"}, "", [NOT_SENT.format("PATH", "http://x", "https://top/api")]),
        ("", {"profile": "inheriting"}, {}, "of-inheriting", []),
        ("", {"profile": "inheriting", "url": "http://x"}, {}, "", [NOT_SENT.format("the profile 'inheriting'", "http://x", "https://top/api")]),
    ],
)  # fmt: skip
def test_token_is_sent_only_to_its_server(
    default: str, arguments: dict[str, str], environ: dict[str, str], token: str, notices: list[str], tmp_path: Path
) -> None:
    named = profile_file(tmp_path, (f"default_profile = '{default}'\n" if default else "") + OWNERS)
    settings = load_settings(arguments, named | {f"RUNLAKE_{name}": value for name, value in environ.items()})
    assert settings.token + settings.token_file + settings.token_command == token
    assert [each.replace(named["RUNLAKE_CONFIG"], "PATH") for each in settings.notices if "overrides" not in each] == notices


def test_token_of_a_file_without_an_address_goes_to_any(tmp_path: Path) -> None:
    named = profile_file(tmp_path, "token = 'of-top'")
    assert load_settings({"url": "http://x"}, named).token == "of-top"
    assert load_settings({}, named | {"RUNLAKE_URL": "http://x"}).token == "of-top"


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_profiles_are_listed_without_secrets(arguments: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(command_line, ["--profile", "prod", "profiles", *arguments], env=profile_file(tmp_path, mode=0o644))
    assert "of-the-test" not in result.output and "password" not in result.output
    if arguments:
        assert json.loads(result.stdout.splitlines()[1]) == {
            "profile": "prod",
            "active": True,
            "url": "https://prod/api",
            "auth": "",
            "token": "",
        }
    else:
        assert result.stdout == "test\t-\thttps://test/api\tvalue\nprod\tactive\thttps://prod/api\t-\nslow\t-\t-\t-\n" + (
            "jobs\t-\thttps://abc.lambda-url.eu-central-1.on.aws\tiam\n"
        )
    assert result.stderr == f"runlake: other users can read the secrets in {tmp_path / 'profiles.toml'}: chmod 600 it\n"
    (tmp_path / "profiles.toml").write_text("")
    none = CliRunner().invoke(command_line, ["profiles", *arguments], env=profile_file(tmp_path, ""))
    assert (none.exit_code, none.stdout) == (0, "") and ("there are no profiles" in none.stderr) == (not arguments)


def test_child_process_has_the_profile_of_its_parent(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = profile_file(tmp_path, f"[profiles.own]\nurl = '{server.url}'\nspool_dir = '{tmp_path}'")
    monkeypatch.setenv("RUNLAKE_CONFIG", environ["RUNLAKE_CONFIG"])
    with runlake.run("p", "r", profile="own") as run:
        assert run.handler.environment["RUNLAKE_PROFILE"] == "own"
        run.write("stored")
    assert server.lines("p", "r") == [b"stored"]


def test_binary_file_of_a_token_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="reason=it is not text"):
        Settings(token_file=str(tmp_path / "token")).bearer.value()
