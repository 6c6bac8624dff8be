"""Wheels with handlers: only what was pinned is unpacked, it replaces nothing, and one wheel's fault concerns no other."""

from __future__ import annotations

import importlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZIP_BZIP2, ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidConfigurationError, ObjectNotFoundError, StoreUnavailableError
from chalicelib.pipelines import wheel_archive, wheels
from chalicelib.pipelines.wheel_archive import read_wheel
from chalicelib.pipelines.wheels import MAX_WHEELS, ImportableWheels, PinnedWheel, check_together, list_key, parse_list, sha256_of
from tests.support.wheels import fresh_process, stored_wheels, wheel_bytes, wheel_name

ENCRYPTED = bytearray(wheel_bytes({"a.py": ""}))
ENCRYPTED[ENCRYPTED.rfind(b"PK\1\2") + 8] |= 1
"""Its directory says that a member is encrypted."""
ONE, TWO = (
    (wheel_name(name), wheel_bytes({f"{name}/": "", f"{name}/__init__.py": f"NAME = {name!r}", f"{name}/data.txt": "data"}))
    for name in ("wheel_one", "wheel_two")
)


class Shelf:
    """The files next to those of pipelines; counts reads."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.reads = files, list[str]()

    def __call__(self, name: str, most: int) -> bytes:
        self.reads.append(name)
        if name not in self.files:
            raise ObjectNotFoundError(f"no such object key={name}")
        return self.files[name][:most]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path) -> Iterator[Path]:
    with fresh_process(tmp_path):
        yield tmp_path


def reasons(loaded: ImportableWheels) -> dict[str, str]:
    return {problem.wheel: problem.reason for problem in loaded.problems}


def can_import(name: str) -> bool:
    try:
        return bool(importlib.import_module(name))
    except ModuleNotFoundError:
        return False


def test_pinned_wheels_are_unpacked_once_to_a_private_folder_behind_all_others(scratch: Path) -> None:
    sha256, files = stored_wheels([ONE, TWO])
    shelf, loaded, before = Shelf(files), ImportableWheels(), [*sys.path]
    assert loaded.load(sha256, shelf) == loaded.load(sha256, shelf) == []
    assert sorted(shelf.reads) == sorted(files)
    assert sys.path[: len(before)] == before and len(sys.path) == len(before) + 2
    assert importlib.import_module("wheel_one").NAME == "wheel_one"
    (folder,) = scratch.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert Path(sys.path[-1], "wheel_two", "data.txt").read_text() == "data"


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (None, "StoreUnavailableError"),
        (b"", "the content is not what was pinned"),
        (TWO[1], "the content is not what was pinned"),
        ("gone", "not found: run runlake-pipelines upload"),
    ],
)
def test_one_wheel_that_is_not_what_was_pinned_concerns_no_other(lost: Any, reason: str) -> None:
    sha256, files = stored_wheels([ONE, TWO])
    key, body = PinnedWheel(ONE[0], sha256_of(ONE[1])).key, ONE[1]
    shelf, loaded = Shelf(files | {key: lost}), ImportableWheels()
    if lost == "gone":
        del shelf.files[key]

    def read(name: str, most: int) -> bytes:
        if name == key and lost is None:
            raise StoreUnavailableError("away" * 1000)
        return shelf(name, most)

    loaded.load(sha256, read)
    assert reasons(loaded).keys() == {ONE[0]} and reason in reasons(loaded)[ONE[0]][:400] == reasons(loaded)[ONE[0]]
    assert can_import("wheel_two") and not can_import("wheel_one")
    shelf.files[key] = body
    assert loaded.load(sha256, shelf) == [] and can_import("wheel_one")
    assert shelf.reads.count(PinnedWheel(TWO[0], sha256_of(TWO[1])).key) == 1


@given(st.data())
def test_nothing_is_imported_of_what_anyone_changed(data: st.DataObject) -> None:
    """Any change of one byte of the list or the wheel, and any other list under the pinned name."""
    sha256, files = stored_wheels([ONE])
    name = data.draw(st.sampled_from(sorted(files)))
    body = bytearray(files[name])
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    _, others = stored_wheels([TWO])
    planted = data.draw(st.sampled_from([bytes(body), next(b for key, b in others.items() if key.endswith(".sha256"))]))
    before, loaded = [*sys.path], ImportableWheels()
    assert len(loaded.load(sha256, Shelf(files | others | {name: planted}))) == 1
    assert sys.path == before


@pytest.mark.parametrize(
    "body", [b"x", b"\xff", b"0" * 64 + b"  a/b.whl\n", b"0" * 63 + b"  a.whl\n", b"0" * 64 + b"  a.whl\n\n", b"\n"]
)
def test_invalid_list_is_reported(body: bytes) -> None:
    loaded, key = ImportableWheels(), list_key(sha256_of(body))
    assert "each line must be" in loaded.load(sha256_of(body), Shelf({key: body}))[0].reason
    assert reasons(loaded).keys() == {key}


def test_list_that_is_missing_is_read_again() -> None:
    sha256, files = stored_wheels([ONE])
    loaded = ImportableWheels()
    assert [problem.wheel for problem in loaded.load(sha256, Shelf({}))] == [list_key(sha256)]
    assert loaded.load(sha256, Shelf(files)) == []


def test_lists_are_bounded() -> None:
    line = f"{'0' * 64} *{wheel_name('a')}\n".encode()
    assert len(parse_list(line * MAX_WHEELS)) == MAX_WHEELS
    with pytest.raises(InvalidConfigurationError, match="at most 16 wheels wheels=17"):
        parse_list(line * (MAX_WHEELS + 1))


@pytest.mark.parametrize(
    ("member", "taken"),
    [
        ("json/__init__.py", "json"),
        ("antigravity.py", "antigravity"),
        ("chalicelib/planted.py", "chalicelib"),
        ("glue_jobs.py", "glue_jobs"),
        ("yaml/__init__.py", "yaml"),
        ("google/planted.py", "google"),
        ("wheel_one/more.py", "wheel_one"),
        ("pytest.pyc", "pytest"),
        ("made_at_run_time.py", "made_at_run_time"),
    ],
)
def test_wheel_replaces_no_module(member: str, taken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the standard library, Runlake, its dependencies, packages in several parts and other wheels: the wheel is refused as a whole."""
    monkeypatch.setitem(sys.modules, "made_at_run_time", ModuleType("made_at_run_time"))
    name = wheel_name("wheel_three")
    sha256, files = stored_wheels([ONE, (name, wheel_bytes({member: "", "wheel_three.py": ""}))])
    loaded = ImportableWheels()
    loaded.load(sha256, Shelf(files))
    assert reasons(loaded)[name].endswith(f"modules exist already, and a wheel replaces none: {taken}")
    assert can_import("wheel_one") and not can_import("wheel_three")


@pytest.mark.parametrize("taken", ["wheel_one", "json", "glue_jobs"])
def test_wheels_that_replace_a_module_anywhere_are_not_uploaded(taken: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"a wheel replaces none: {taken}$"):
        check_together([read_wheel(*ONE), read_wheel(wheel_name("wheel_three"), wheel_bytes({f"{taken}/__init__.py": ""}))])


def bzip2(tmp_path: Path) -> bytes:
    with ZipFile(tmp_path / "bzip2", "w", ZIP_BZIP2) as archive:
        archive.writestr("a.py", "x")
    return (tmp_path / "bzip2").read_bytes()


@pytest.mark.parametrize(
    ("name", "members", "reason"),
    [
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.whl", {"a.py": ""}, "py3-none-any"),
        ("../a-1-py3-none-any.whl", {"a.py": ""}, "py3-none-any"),
        ("a-1-py3-none-any.zip", {"a.py": ""}, "py3-none-any"),
        ("a-1-py3-none-any.whl/../a", {"a.py": ""}, "py3-none-any"),
        (wheel_name("a"), {"../a.py": ""}, "outside"),
        (wheel_name("a"), {"a/../../b.py": ""}, "outside"),
        (wheel_name("a"), {"/a.py": ""}, "outside"),
        (wheel_name("a"), {"a//b.py": ""}, "outside"),
        (wheel_name("a"), {"..\\a.py": ""}, "outside"),
        (wheel_name("a"), {"a.py": "", "a/fast.cpython-311-x86_64-linux-gnu.so": ""}, "only pure Python"),
        (wheel_name("a"), {"a.py": "", "a-1.data/purelib/a.py": ""}, "at the top"),
        (wheel_name("a"), {"a.py": "", "a-1.data/platlib/a.py": ""}, "at the top"),
        (
            wheel_name("a"),
            {"a-1.dist-info/METADATA": "", "a.libs/b.py": "", "README.txt": "", "not-a-name.py": "", "__pycache__/a.pyc": ""},
            "contain modules",
        ),
        (wheel_name("a"), b"PK no zip", "not a zip file"),
        (wheel_name("a"), bytes(ENCRYPTED), "is encrypted"),
        (wheel_name("a"), None, "another method"),
    ],
)
def test_wheel_that_cannot_be_used(name: str, members: Any, reason: str, scratch: Path) -> None:
    body = bzip2(scratch) if members is None else members if isinstance(members, bytes) else wheel_bytes(members)
    with pytest.raises(InvalidConfigurationError, match=reason):
        read_wheel(name, body)


def test_sizes_are_bounded_before_anything_is_written(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of zeros is a thousandth of its size in the archive."""
    bomb = wheel_bytes({"a.py": "", "a.txt": bytes(10_000)})
    with monkeypatch.context() as patched:
        patched.setattr(wheel_archive, "MAX_WHEEL_BYTES", len(bomb) - 1)
        with pytest.raises(InvalidConfigurationError, match="at most"):
            read_wheel(wheel_name("a"), bomb)
    for limit, most in (("MAX_UNPACKED_BYTES", 19_999), ("MAX_WHEEL_FILES", 3)):
        with monkeypatch.context() as patched:
            patched.setattr(wheel_archive, limit, most)
            patched.setattr(sys, "path", [*sys.path])
            other = wheel_bytes({"wheel_three.py": "", "b.txt": bytes(10_000)})
            sha256, files = stored_wheels([(wheel_name("a"), bomb), (wheel_name("wheel_three"), other)])
            loaded = ImportableWheels()
            loaded.load(sha256, Shelf(files))
            assert "wheels together may have" in reasons(loaded)[wheel_name("wheel_three")] and len(loaded.problems) == 1
            assert not list(scratch.rglob("b.txt"))
            with pytest.raises(InvalidConfigurationError, match="wheels together may have"):
                check_together([read_wheel(wheel_name("a"), bomb), read_wheel(wheel_name("b"), other)])


def test_member_that_is_larger_than_the_directory_states_is_not_written_to_its_end(scratch: Path) -> None:
    """The archive states 10 bytes for a member that has 10,000."""
    body = wheel_bytes({"a.py": bytes(10_000)})
    lying = body.replace((10_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lying != body
    with pytest.raises(InvalidConfigurationError, match="cannot be unpacked"):
        read_wheel(wheel_name("a"), lying).unpack(scratch / "a")
    assert (scratch / "a" / "a.py").stat().st_size <= 10
    sha256, files = stored_wheels([(wheel_name("a"), lying)])
    loaded, before = ImportableWheels(), [*sys.path]
    assert "cannot be unpacked" in loaded.load(sha256, Shelf(files))[0].reason
    assert sys.path == before and [path.name for path in scratch.glob("runlake-wheels-*/*")] == []


def test_folders_of_ended_processes_are_removed_and_those_of_others_are_not(scratch: Path) -> None:
    sha256, files = stored_wheels([ONE])
    other = wheels._private_folder()
    leftover = Path(tempfile.mkdtemp(prefix="runlake-wheels-"))
    (leftover / "m.py").touch()
    (scratch / "runlake-wheels-file").touch()
    ImportableWheels().load(sha256, Shelf(files))
    assert other.is_dir() and not leftover.exists() and (scratch / "runlake-wheels-file").exists()


def test_folders_of_other_users_are_not_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may remove them."""
    leftover = Path(tempfile.mkdtemp(prefix="runlake-wheels-"))
    monkeypatch.setattr(os, "getuid", lambda: leftover.stat().st_uid + 1)
    wheels._private_folder()
    assert leftover.is_dir()


def test_folder_that_another_process_removes_before_it_is_locked_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, removed = wheels._lock, list[Path]()

    def overtaken(folder: Path) -> int | None:
        descriptor = lock(folder)
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return descriptor

    monkeypatch.setattr(wheels, "_lock", overtaken)
    assert wheels._private_folder().is_dir() and removed
