"""What is installed, packaged and deployed is what was locked: pins, digests, the bill of materials."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from local import locks, sbom, wheels
from local.state import PROJECT, LocalError

pytestmark = pytest.mark.slow  # it starts processes

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;]+)", re.MULTILINE)


def pinned(path: Path) -> dict[str, str]:
    """Versions by normalized name, of a file and of those that it includes."""
    text = path.read_text()
    found = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in _PIN.findall(text)}
    for included in re.findall(r"^-r (\S+)$", text, re.MULTILINE):
        found |= pinned(path.parent / included)
    return found


@pytest.mark.parametrize("lock", locks.LOCKS)
def test_lock_has_every_pin_at_its_version_with_digests_and_nothing_else(lock: str) -> None:
    entries = locks.entries(lock)
    versions = {name: re.match(r"[^=]+==([^\s;]+)", block)[1] for name, block in entries.items()}  # type: ignore[index]
    assert versions == pinned(PROJECT / locks.pins_of(lock)), "run: make lock"
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in entries.values())


def test_every_file_of_pins_has_a_lock() -> None:
    folders = [PROJECT, PROJECT / "infra", *(PROJECT / "tests" / "integration").glob("*/")]
    found = {path for folder in folders for path in folder.glob("*.txt") if _PIN.search(path.read_text())}
    assert {path.relative_to(PROJECT).as_posix() for path in found} == {locks.pins_of(lock) for lock in locks.LOCKS}


def test_make_installs_from_locks_alone() -> None:
    makefile = (PROJECT / "Makefile").read_text().replace("\\\n", "")
    installs = re.findall(r"pip install ([^|]*)", makefile)
    as_users = [each for each in installs if "./client" in each]  # for other versions of Python, whose packages no lock has
    assert len(as_users) == 2 and len(installs) == 5
    assert all("$(HASHED) -r" in each for each in installs if each not in as_users)
    assert "HASHED := --disable-pip-version-check --require-hashes --no-deps" in makefile


def test_actions_of_workflows_are_pinned_by_commit() -> None:
    uses = [each for path in (PROJECT / ".github").rglob("*.yml") for each in re.findall(r"uses: (.+)", path.read_text())]
    assert uses and [each for each in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", each)] == []


def test_package_that_is_not_locked_is_refused() -> None:
    with pytest.raises(LocalError, match="packages=leftpad"):
        locks.hashed(locks.RUNTIME, ["leftpad", "regex"])


def test_wheel_with_another_digest_than_the_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index, or somebody on the way to it, would have to answer. Nothing leaves the machine."""
    index, into = tmp_path / "index", tmp_path / "into"
    index.mkdir()
    into.mkdir()
    monkeypatch.setattr(wheels.os, "environ", wheels.os.environ | wheels.offline(index))
    with ZipFile(index / "itsdangerous-2.2.0-py3-none-any.whl", "w") as planted:
        planted.writestr("itsdangerous.py", "import os")
        planted.writestr("itsdangerous-2.2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: itsdangerous\nVersion: 2.2.0\n")
        planted.writestr("itsdangerous-2.2.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        planted.writestr("itsdangerous-2.2.0.dist-info/RECORD", "")
    wheels.download("itsdangerous==2.2.0 --hash=sha256:" + _digest(index / "itsdangerous-2.2.0-py3-none-any.whl"), into, [])
    assert [path.name for path in into.iterdir()] == ["itsdangerous-2.2.0-py3-none-any.whl"]
    for path in into.iterdir():
        path.unlink()
    with pytest.raises(LocalError, match="could not download the locked packages"):
        wheels.download("itsdangerous==2.2.0 --hash=sha256:" + "0" * 64, into, [])
    assert list(into.iterdir()) == []


def test_package_without_a_digest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="could not download the locked packages"):
        wheels.download("itsdangerous==2.2.0", tmp_path, [])
    assert list(tmp_path.iterdir()) == []


def _digest(path: Path) -> str:
    from hashlib import sha256

    return sha256(path.read_bytes()).hexdigest()


def test_bill_of_materials_names_what_is_in_the_zips(tmp_path: Path) -> None:
    functions, jobs, wheel = tmp_path / "functions.zip", tmp_path / "jobs.zip", tmp_path / "b.whl"
    about = "Metadata-Version: 2.4\nName: {}\nVersion: {}\n{}\n"
    with ZipFile(functions, "w") as archive:
        archive.writestr("a_one-1.0.dist-info/METADATA", about.format("A.One", "1.0", "License-Expression: MIT"))
        archive.writestr("a_one/x.dist-info/METADATA", about.format("nested", "9", ""))
        archive.writestr("chalice/app.py", "")
    with ZipFile(wheel, "w") as archive:
        archive.writestr("b-2.dist-info/METADATA", about.format("b", "2", ""))
    with ZipFile(jobs, "w") as archive:
        archive.write(wheel, "wheels/b-2-py3-none-any.whl")
    target = tmp_path / "sbom.json"
    assert sbom.write(target, functions, jobs) == 3
    bill = json.loads(target.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    described = {
        each["purl"]: (each.get("licenses"), [part["value"] for part in each["properties"]]) for each in bill["components"]
    }
    assert described["pkg:pypi/a-one@1.0"] == ([{"license": {"name": "MIT"}}], ["functions"])
    assert described["pkg:pypi/b@2"] == (None, ["jobs"])
    assert [url.partition("@")[0] for url in described] == ["pkg:pypi/a-one", "pkg:pypi/b", "pkg:pypi/chalice"]
    assert sbom.document(functions, jobs) == bill, "the same zips give the same document"
