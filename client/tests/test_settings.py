"""Wrong settings: each is an error that names its origin, in Python and on the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import runlake
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


def test_binary_file_of_a_token_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="reason=it is not text"):
        Settings(token_file=str(tmp_path / "token")).bearer.value()
