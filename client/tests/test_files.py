"""``runlake files``, against an archive in memory: what is stored and fetched, what is repeated, and each mistake with its next step."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from client.tests.fake_files import hash_of
from client.tests.fake_server import FakeServer
from client.tests.on_a_pty import on_a_pty
from client.tests.test_mistakes import error_of
from runlake import Archive, Files, RefusedError, RunlakeError, UnavailableError
from runlake.__main__ import runlake
from runlake.files import target_of, unzipped

BODY = b"".join(b"line %d\n" % number for number in range(500))
PUSH = ("push", "--what", "nginx", "--where", "webserver01", "--start", "2015-03-20T00:05:20.345Z")
SOURCE = str(Path(__file__).parents[1] / "src")
NO_WAIT: Callable[[float], object] = lambda seconds: None  # noqa: E731
METADATA = {
    "id": "i1",
    "what": "nginx",
    "where": "webserver01",
    "work_id": None,
    "start": 1426809920345,
    "end": None,
    "path": "/var/log/a",
}


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", str(tmp_path_factory.mktemp("spool")))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "nginx.log"
    path.write_bytes(BODY)
    return path


def call(server: FakeServer, *arguments: str | Path, stdin: bytes | str = b"") -> Result:
    return CliRunner().invoke(runlake, ["--url", server.url, "files", *map(str, arguments)], input=stdin, prog_name="runlake")


def answered(server: FakeServer, *arguments: str | Path, stdin: bytes | str = b"") -> str:
    result = call(server, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def sent(server: FakeServer, method: str) -> list[str]:
    return [path.partition("/store/files/")[2] for each, path, _ in server.requests if each == method and "/store/" in path]


# push


@pytest.mark.parametrize("part_bytes", [10_000, 1000], ids=["one piece", "parts"])
def test_pushed_file_is_verified_and_has_its_metadata(part_bytes: int, server: FakeServer, log: Path) -> None:
    server.files.part_bytes, server.files.unverified_asks, server.token = part_bytes, 1, "secret"
    told = json.loads(answered_with_token(server, *PUSH, "--end", "2015-03-20T23:59Z", "--work-id", "w-1", "--json", log))
    stored = server.files.files[told["id"]]
    assert stored.body == BODY
    expected = {
        "what": "nginx",
        "where": "webserver01",
        "start": 1426809920345,
        "end": 1426895940000,
        "work_id": "w-1",
        "version": 0,
    }
    assert stored.metadata == expected | {"path": str(log), "hash": hash_of(BODY), "id": told["id"]}
    assert told["metadata"] == stored.metadata and told["url"] == f"s3://archive/{told['id']}/data"
    assert (told["size"], told["verified"], told["existed"], told["warnings"]) == (len(BODY), True, False, [])
    assert len(sent(server, "PUT")) == (1 if part_bytes > len(BODY) else 5)


def answered_with_token(server: FakeServer, *arguments: str | Path) -> str:
    result = CliRunner().invoke(runlake, ["--url", server.url, "--token", "secret", "files", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("part_bytes", [10_000, 1000], ids=["one piece", "parts"])
def test_repeated_push_stores_no_second_file(part_bytes: int, server: FakeServer, log: Path) -> None:
    server.files.part_bytes = part_bytes
    assert answered(server, *PUSH, log).endswith(", 4.3 KiB, verified\n")
    (file_id,) = server.files.files
    assert answered(server, *PUSH, log) == f"{log}: {file_id}, 4.3 KiB, the archive has it already\n"
    assert list(server.files.files) == [file_id] and server.files.parts == {}
    answered(server, *PUSH, "--work-id", "other", log)
    assert len(server.files.files) == 2, "other metadata are another file"


def test_each_part_is_retried_alone(server: FakeServer, log: Path) -> None:
    server.files.part_bytes = 1000
    faults = {"part=2": ["500", "cut"], "part=4": ["lost"]}
    server.fault = lambda method, path: next((each.pop(0) for name, each in faults.items() if name in path and each), "")
    notices = list[str]()
    with Archive(server.url) as archive:
        pushed = Files(archive, NO_WAIT, notice=notices.append).push(log, what="nginx", where="w", start="now")
    assert server.files.files[pushed.record["id"]].body == BODY
    assert [each.endswith(": retrying") for each in notices] == [True, True]
    numbers = [url.partition("part=")[2][0] for url in sent(server, "PUT")]
    assert numbers == ["1", "2", "2", "2", "3", "4", "4", "5"]


@pytest.mark.parametrize("part_bytes", [10_000, 1000], ids=["one piece", "parts"])
def test_lost_answer_of_the_last_request_is_no_error(part_bytes: int, server: FakeServer, log: Path) -> None:
    server.files.part_bytes = part_bytes
    last, faults = ("PUT" if part_bytes > len(BODY) else "POST"), ["lost"]
    server.fault = lambda method, path: faults.pop() if faults and "/store/" in path and method == last else ""
    with Archive(server.url) as archive:
        assert Files(archive, NO_WAIT).push(log, what="nginx", where="w", start="now").verified
    assert len(server.files.files) == 1


@pytest.mark.parametrize(
    ("first_fault", "status", "code"), [("", 404, "NoSuchUpload"), ("500", 403, "AccessDenied")], ids=["unknown", "expired"]
)
def test_refused_end_of_an_upload_is_an_error(
    first_fault: str, status: int, code: str, server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a 404 after a lost answer may mean that the file is there."""
    server.files.part_bytes, faults, store = 1000, [first_fault], server.files.store
    server.fault = lambda method, path: faults.pop() if faults and method == "POST" and "/store/" in path else ""
    refused = status, f"<Error><Code>{code}</Code><Message>refused</Message></Error>".encode(), {}
    monkeypatch.setattr(server.files, "store", lambda method, *more: refused if method == "POST" else store(method, *more))
    with Archive(server.url) as archive, pytest.raises(RefusedError, match=f"code={code}"):
        Files(archive, NO_WAIT).push(log, what="nginx", where="w", start="now")


def test_verification_is_asked_for_again_for_as_long_as_the_caller_waits(server: FakeServer, log: Path) -> None:
    faults, pauses = ["503", "503"], list[float]()
    server.fault = lambda method, path: faults.pop() if faults and path.endswith("/metadata") else ""
    with Archive(server.url) as archive:
        assert Files(archive, NO_WAIT).push(log, what="nginx", where="w", start="now").verified
        server.files.unverified_asks = 1000
        pushed = Files(archive, pauses.append).push(log, what="nginx", where="other", start="now", patience_s=11)
    assert not pushed.verified and sum(pauses) == pytest.approx(11)


def test_pause_that_the_store_asks_for_is_made(server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files.part_bytes, store = 10_000, server.files.store
    answers, pauses = [(503, b"", {"Retry-After": "40"})], list[float]()
    monkeypatch.setattr(server.files, "store", lambda *asked: answers.pop() if answers else store(*asked))
    with Archive(server.url) as archive:
        Files(archive, pauses.append).push(log, what="nginx", where="w", start="now")
    assert pauses == [40]


def test_given_up_upload_is_deleted(server: FakeServer, log: Path) -> None:
    server.files.part_bytes = 1000
    server.fault = lambda method, path: "500" if "part=3" in path else ""
    with Archive(server.url) as archive, pytest.raises(Exception, match="status=500"):
        Files(archive, NO_WAIT).push(log, what="nginx", where="w", start="now")
    assert (server.files.files, server.files.parts) == ({}, {}) and len(sent(server, "DELETE")) == 1


def resumable(archive: Archive, folder: Path, **more: Any) -> Files:
    """As of a new process."""
    return Files(archive, NO_WAIT, uploads=folder, **more)


def away_from(server: FakeServer, number: int, fault: str) -> None:
    """Request ``number`` from now on ends in ``fault``, and no later one is answered."""
    begun = len(server.requests)
    server.fault = lambda method, path: ("", fault, "cut")[min(max(len(server.requests) - begun - number, 0), 2)]


def unfinished(server: FakeServer, archive: Archive, log: Path, folder: Path, number: int, fault: str = "cut") -> UnavailableError:
    """The error of a push that ends at request ``number``. Later ones are answered again."""
    away_from(server, number, fault)
    with pytest.raises(UnavailableError) as raised:
        resumable(archive, folder).push(log, what="nginx", where="w", start="now")
    server.fault = lambda method, path: ""
    return raised.value


def next_step_of(call: Callable[[], object]) -> str:
    """Of the error for which a call fails; "" if it does not."""
    try:
        call()
    except RunlakeError as error:
        return error.next_step
    return ""


@pytest.mark.parametrize("fault", ["cut", "lost"])
@pytest.mark.parametrize("number", range(9))
def test_push_that_ends_at_any_request_is_continued_by_a_repeat(number: int, fault: str, server: FakeServer, log: Path) -> None:
    """Announced, searched for, five parts, completed, verified."""
    server.files.part_bytes, folder = 1000, log.parent / "spool" / "uploads"
    with Archive(server.url) as archive:
        away_from(server, number, fault)
        advice = next_step_of(lambda: resumable(archive, folder).push(log, what="nginx", where="w", start=0, end=1, patience_s=0.1))
        stored = min(max(number - 2, 0) * 1000, len(BODY)) if number < 8 else 0
        assert (f"{stored} of its 4390 bytes are stored start=0 end=1" in advice) == bool(stored)
        server.fault = lambda method, path: ""
        pushed = resumable(archive, folder).push(log, what="nginx", where="w", start=0, end=1)
    assert pushed.verified and [each.body for each in server.files.files.values()] == [BODY]
    assert list(folder.iterdir()) == []
    if 3 <= number < 7:
        assert pushed.resumed_at == (number - 2) * 1000 and server.files.parts == {}


def forget_uploads(server: FakeServer, folder: Path) -> None:
    server.files.parts.clear()


def forget_a_part(server: FakeServer, folder: Path) -> None:
    for parts in server.files.parts.values():
        parts.pop(1, None)


def expire(server: FakeServer, folder: Path) -> None:
    server.files.expired = set(server.files.uploads)


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[FakeServer, Path], None]:
    def rewritten(server: FakeServer, folder: Path) -> None:
        (path,) = folder.iterdir()
        path.write_bytes(change(path.read_bytes()))

    return rewritten


@pytest.mark.parametrize(
    ("change", "later", "resumed_at", "begun", "left"),
    [
        (lambda server, folder: None, {}, 2000, 1, 0),
        (lambda server, folder: None, {"clock_s": lambda: 2.0**32}, 0, 2, 0),
        (lambda server, folder: None, {"where": "other"}, 0, 2, 1),
        (lambda server, folder: None, {"start": "2026-11-21"}, 0, 2, 1),
        (lambda server, folder: (folder.parents[1] / "nginx.log").write_bytes(BODY[::-1]), {}, 0, 2, 1),
        (rewrite(lambda data: data[:-3]), {}, 1000, 1, 0),
        (rewrite(lambda data: b"\xff" + data), {}, 0, 2, 0),
        (rewrite(lambda data: b""), {}, 0, 2, 0),
        (rewrite(lambda data: data[: data.index(b"\n") + 1]), {}, 0, 2, 0),
        (rewrite(lambda data: b"[]\n" * 3), {}, 0, 2, 0),
        (rewrite(lambda data: data.replace(b'"format": 1', b'"format": 2')), {}, 0, 2, 0),
        (rewrite(lambda data: data.replace(b'"complete_url"', b'"url"')), {}, 0, 2, 0),
        (forget_uploads, {}, 0, 2, 0),
        (forget_a_part, {}, 0, 2, 0),
        (expire, {}, 0, 2, 0),
    ],
    ids=[
        "unchanged", "expired", "other metadata", "other time", "other contents", "cut line", "no text", "empty", "no part",
        "no state", "other format",
        "other fields", "unknown to the store", "lost part", "refused",
    ],
)  # fmt: skip
def test_upload_is_continued_only_if_it_is_the_same(
    change: Callable[[FakeServer, Path], None],
    later: dict[str, Any],
    resumed_at: int,
    begun: int,
    left: int,
    server: FakeServer,
    log: Path,
) -> None:
    server.files.part_bytes, folder = 1000, log.parent / "spool" / "uploads"
    later = {"where": "w", "start": "now", "clock_s": time.time} | later
    with Archive(server.url) as archive:
        unfinished(server, archive, log, folder, 4)
        (state,) = folder.iterdir()
        assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(state.stat().st_mode)) == (0o700, 0o600)
        change(server, folder)
        done = list[int]()
        files = resumable(archive, folder, clock_s=later.pop("clock_s"))
        pushed = files.push(log, what="nginx", **later, progress=lambda at, total: done.append(at))
    assert (pushed.resumed_at, pushed.verified) == (resumed_at, True)
    assert [each.body for each in server.files.files.values()] == [log.read_bytes()]
    assert (len(server.files.uploads), len(list(folder.iterdir()))) == (begun, left), "a state of another push stays"
    assert done[-1] == len(BODY) and (resumed_at == 0 or done[0] == resumed_at)


def test_push_is_continued_twice_after_a_cut_line(server: FakeServer, log: Path) -> None:
    """The first line after a line that is not whole is a line of its own."""
    server.files.part_bytes, folder, resumed = 1000, log.parent / "spool", list[int]()
    with Archive(server.url) as archive:
        for number, cut_bytes in ((4, 3), (2, 0), (99, 0)):
            away_from(server, number, "cut")
            with suppress(UnavailableError):
                resumed.append(resumable(archive, folder).push(log, what="nginx", where="w", start="now").resumed_at)
            for path in folder.iterdir():
                os.truncate(path, path.stat().st_size - cut_bytes)
    assert resumed == [2000] and [each.body for each in server.files.files.values()] == [BODY]


@pytest.mark.parametrize("may_read", [True, False])
def test_upload_that_an_earlier_process_completed_is_not_stored_again(may_read: bool, server: FakeServer, log: Path) -> None:
    """It is not listed yet, and S3 has no such upload any more. A token that may not read cannot know."""
    server.files.part_bytes, folder = 1000, log.parent / "spool"
    with Archive(server.url) as archive:
        unfinished(server, archive, log, folder, 7, "lost")
        server.files.unverified_asks, server.files.may_read = 3 * may_read, may_read
        pushed = resumable(archive, folder).push(log, what="nginx", where="w", start="now")
    assert (pushed.resumed_at, pushed.verified) == ((len(BODY), True) if may_read else (0, False))
    assert len(server.files.files) == (1 if may_read else 2)


def test_two_pushes_of_a_file_at_once_do_not_share_an_upload(server: FakeServer, log: Path) -> None:
    server.files.part_bytes, folder, others = 1000, log.parent / "spool", list[Any]()
    with Archive(server.url) as archive:

        def push() -> Any:
            return resumable(archive, folder).push(log, what="nginx", where="w", start="now")

        def second(method: str, path: str) -> str:
            if "part=3" in path and not others:
                others.append(None)
                others.append(push())
            return ""

        server.fault = second
        pushes = [push(), others[1]]
    assert [(each.verified, each.resumed_at) for each in pushes] == [(True, 0)] * 2
    assert [each.body for each in server.files.files.values()] == [BODY, BODY] and list(folder.iterdir()) == []


def open_on_a_full_disk(file: int, mode: str, **more: Any) -> IO[bytes]:
    if mode == "ab":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return open(file, mode, **more)


class ShortWrite(io.FileIO):
    """The disk is full within a line."""

    def write(self, data: Any) -> int:
        return super().write(data[:-9])


def open_on_a_nearly_full_disk(file: int, mode: str, **more: Any) -> IO[bytes]:
    return ShortWrite(file, mode, closefd=False) if mode == "ab" else open(file, mode, **more)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", ["a file", "of all", "a link", "full", "nearly full", "deleted"])
def test_push_needs_no_folder_for_its_state(kind: str, server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not promise to continue. ``deleted``: by another process, before it is locked."""
    server.files.part_bytes, folder = 1000, log.parent / "spool"
    if kind == "a file":
        folder = log / "uploads"
    elif kind == "of all":
        folder.mkdir()
        folder.chmod(0o777)
    elif kind == "a link":
        folder.symlink_to(log.parent)
    elif kind == "deleted":
        monkeypatch.setattr("fcntl.flock", lambda *_: [path.unlink() for path in folder.iterdir()])
    else:
        opener = open_on_a_full_disk if kind == "full" else open_on_a_nearly_full_disk
        monkeypatch.setattr("runlake.uploadstate.open", opener, raising=False)
    with Archive(server.url) as archive:
        assert "push it again" not in unfinished(server, archive, log, folder, 5).next_step
        pushed = resumable(archive, folder).push(log, what="nginx", where="w", start="now")
    assert pushed.verified and pushed.resumed_at == 0


def test_expired_states_of_other_pushes_are_deleted(server: FakeServer, log: Path) -> None:
    server.files.part_bytes, folder = 1000, log.parent / "spool"
    with Archive(server.url) as archive:
        unfinished(server, archive, log, folder, 4)
        (folder / ("0" * 32 + ".upload")).touch()
        (folder / "of-the-user.json").touch()
        for clock_s, left in ((time.time, 2), (lambda: 2.0**32, 1)):
            resumable(archive, folder, clock_s=clock_s).push(log, what="nginx", where="other", start="now")
            assert len(list(folder.iterdir())) == left
    assert [path.name for path in folder.iterdir()] == ["of-the-user.json"]


def test_killed_push_of_stdin_is_continued(server: FakeServer) -> None:
    server.files.part_bytes = 1000
    running = list[subprocess.Popen[bytes]]()

    def kill(method: str, path: str) -> str:
        if "part=3" in path and running:
            running.pop().kill()
        return ""

    server.fault = kill
    command = [sys.executable, "-m", "runlake", "--url", server.url, "files", *PUSH]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SOURCE}) as process:
        assert process.stdin
        running.append(process)
        process.stdin.write(BODY)
    assert process.returncode == -signal.SIGKILL
    assert json.loads(answered(server, *PUSH, "--json", stdin=BODY))["resumedAt"] == 2000
    assert [each.body for each in server.files.files.values()] == [BODY]


def test_interrupted_push_says_how_to_continue(server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files.part_bytes = 1000

    def interrupted(line: Any, done: int, total: int) -> None:
        if done > 2000:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("runlake.commands.output.ProgressLine.update", interrupted)
        result = call(server, *PUSH, log)
    assert result.exit_code == 130 and result.stderr.splitlines()[-2] == "runlake: interrupted"
    assert "2000 of its 4390 bytes are stored start=2015-03-20T00:05:20.345Z" in result.stderr.splitlines()[-1]
    assert json.loads(answered(server, *PUSH, "--json", log))["resumedAt"] == 2000


def test_stdin_is_pushed(server: FakeServer) -> None:
    for number, arguments in enumerate([(), ("-",)]):
        assert answered(server, *PUSH, "--work-id", f"w{number}", *arguments, stdin=b"piped\n").startswith("stdin: ")
    assert {(each.body, each.metadata["path"]) for each in server.files.files.values()} == {(b"piped\n", "/dev/stdin")}
    assert answered(server, *PUSH, stdin=b"").endswith(", 0 B, verified\n"), "an empty file is a file"


def test_pipe_with_a_name_is_pushed(server: FakeServer, tmp_path: Path) -> None:
    """As of a shell's ``<(command)``: it can be read once, and has no size."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Thread(target=pipe.write_bytes, args=[BODY], daemon=True).start()
    answered(server, *PUSH, pipe)
    assert [(each.body, each.metadata["path"]) for each in server.files.files.values()] == [(BODY, str(pipe))]


def test_discouraged_names_are_warnings(server: FakeServer, log: Path) -> None:
    names = ("push", "--what", "job", "--where", "localhost", "--start", "now")
    result = call(server, *names, log)
    where, what = result.stderr.splitlines()
    assert result.exit_code == 0 and where.startswith("runlake: warning: where is 'localhost'") and "what is 'job'" in what


@pytest.mark.parametrize(
    "date", ["Thu Nov 26 16:31:20 UTC 2026", "Thu 26 Nov 2026 04:31:20 PM UTC", "Thu, 26 Nov 2026 16:31:20 +0000"]
)
def test_file_follows_an_unquoted_date(date: str, server: FakeServer, log: Path) -> None:
    answered(server, "push", "--what", "nginx", "--where", "webserver01", "--start", *date.split(), "nginx.log")
    (stored,) = server.files.files.values()
    assert stored.metadata["path"] == str(log) and stored.metadata["start"] == 1_795_710_680_000


def test_file_that_is_not_verified_is_to_be_waited_for(server: FakeServer, log: Path) -> None:
    server.files.unverified_asks = 100
    file_id = json.loads(answered(server, *PUSH, "--patience", "0", "--json", "nginx.log"))["id"]
    assert "next: try again in a few seconds" in error_of(call(server, "cat", file_id))


def test_detail_continues_the_message(server: FakeServer) -> None:
    detail = {
        "code": "InvalidTime",
        "message": "start must be milliseconds since the epoch.",
        "detail": "or ISO 8601: not a time: 'soon'",
    }
    server.fault, server.replacement, server.replacement_status = (lambda method, path: ""), json.dumps(detail).encode(), 400
    assert "since the epoch, or ISO 8601: not a time: 'soon'" in error_of(call(server, "list", "nginx", "--start", "soon"))


def test_token_that_may_only_write_pushes_without_verification(server: FakeServer, log: Path) -> None:
    server.files.may_read = False
    result = call(server, *PUSH, log)
    assert result.stdout.endswith(", not verified yet\n") and "lists the file once it is verified" in result.stderr
    assert [path for method, path, _ in server.requests if "metadata" in path] == []


# list, latest


def test_list_prints_a_row_of_each_file_over_all_pages(server: FakeServer) -> None:
    ids = [server.files.add(start=1426809920345 + number) for number in range(5)]
    rows = [line.split("\t") for line in answered(server, "list", "nginx", "--start", "2015-03-20").splitlines()]
    assert [row[0] for row in rows] == ids
    assert rows[0][1:] == ["2015-03-20T00:05:20Z", "8", "nginx", "webserver01"]
    limited = call(server, "list", "--what", "nginx", "--start", "2015-03-20", "-n", "3", "--format", "s3")
    assert limited.stdout.splitlines() == [f"s3://archive/{each}/data" for each in ids[:3]]
    assert limited.stderr == "runlake: there are more than these 3: -n 15 lists more\n"
    http = answered(server, "list", "nginx", "--start", "2015-03-20", "--format", "http").splitlines()
    assert http[0] == f"{server.url}/v0/archive/files/{ids[0]}/data"
    (record, *_) = map(json.loads, answered(server, "list", "nginx", "--start", "2015-03-20", "--json").splitlines())
    assert record["metadata"]["id"] == ids[0] and record["size"] == 8


def test_files_are_chosen_by_their_names_time_and_work_id(server: FakeServer) -> None:
    a = server.files.add(what="syslog", work_id="w-1")
    b = server.files.add(what="foobar", where="webserver02", work_id="w-1", start=1426896320345)

    def ids(*arguments: str) -> list[str]:
        return [line.partition("\t")[0] for line in answered(server, "list", *arguments).splitlines()]

    assert ids("--what", "syslog,foobar", "--work-id", "w-1") == [a, b]
    assert ids("--what", "sys*", "--start", "2015-03-20", "--end", "now") == [a]
    assert ids("--what", "*", "--where", "webserver02", "--start", "2015-03-20") == [b]
    assert ids("--what", "*", "--work-id", "w-1", "--start", "2015-03-21") == [b]


def test_row_fits_80_columns(server: FakeServer) -> None:
    server.files.add(b"x" * 1_234_567)
    code, shown = on_a_pty(["-m", "runlake", "--url", server.url, "files", "list", "nginx", "--start", "2015-03-20"])
    assert code == 0 and max(map(len, shown.splitlines())) <= 80, shown
    assert "2015-03-20T00:05Z  1.2 MiB  nginx  webserver01" in shown


def test_latest_file(server: FakeServer) -> None:
    server.files.add(start=1426809920000)
    newest = server.files.add()
    for names in (("nginx", "webserver01"), ("--what", "nginx", "--where", "webserver01", "--lookback", "9")):
        assert answered(server, "latest", *names).startswith(newest + "\t")
    piped = answered(server, "latest", "nginx", "webserver01", "--format", "json")
    assert answered(server, "cat", stdin=piped) == "one\ntwo\n"


# fetch, cat


@pytest.mark.parametrize("links_above_bytes", [1 << 30, 1], ids=["direct", "link"])
def test_fetched_files_have_names_by_the_template(links_above_bytes: int, server: FakeServer, tmp_path: Path) -> None:
    server.links_above_bytes = links_above_bytes
    file_id = server.files.add(BODY)
    assert answered(server, "fetch", file_id) == f"{file_id}\n"
    named = "logs/nginx-webserver01-2015-03-20T00:05:20.345-None.log"
    template = "logs/{what}-{where}-{start_iso}-{end}.log"
    assert answered(server, "fetch", "--filename-template", template, f"s3://archive/{file_id}/data") == f"{named}\n"
    assert [(tmp_path / each).read_bytes() for each in (file_id, named)] == [BODY, BODY]
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted([file_id, "logs", Path(named).name])


@pytest.mark.parametrize("form", ["table", "json", "http", "s3"])
def test_lines_of_a_list_are_fetched_at_once(form: str, server: FakeServer, tmp_path: Path) -> None:
    ids = [server.files.add(b"%d\n" % number, id=name) for number, name in enumerate(["a b", "ü#?%", "c"])]
    lines = answered(server, "list", "nginx", "--start", "2015-03-20", "--format", form)
    assert answered(server, "fetch", stdin=lines).splitlines() == ids
    assert [(tmp_path / name).read_bytes() for name in ids] == [b"0\n", b"1\n", b"2\n"]
    assert answered(server, "cat", stdin=lines) == "0\n1\n2\n"
    assert answered(server, "cat", "--what", "nginx", "--start", "2015-03-20") == "0\n1\n2\n"


@pytest.mark.parametrize("command", ["fetch", "cat"])
def test_line_without_an_address_does_not_stop_the_others(command: str, server: FakeServer) -> None:
    first, second = server.files.add(b"1\n"), server.files.add(b"2\n")
    result = call(server, command, stdin=f"{first}\n..\ns3://archive/a/b.txt\n{second}\n")
    assert result.exit_code == 2 and result.stdout == (f"{first}\n{second}\n" if command == "fetch" else "1\n2\n")
    assert ["id='..'" in result.stderr, "url='s3://archive/a/b.txt'" in result.stderr] == [True, True]


def test_partial_file_is_continued_and_compared(server: FakeServer, tmp_path: Path) -> None:
    server.links_above_bytes, server.link_cuts = 1, [100, 200]
    file_id = server.files.add(BODY)
    (tmp_path / "log.part").write_bytes(BODY[:50])
    result = call(server, "fetch", "--filename-template", "log", "--json", file_id)
    told = json.loads(result.stdout)
    assert [line.endswith(": retrying") for line in result.stderr.splitlines()] == [True, True]
    assert told == {"id": file_id, "path": "log", "bytes": len(BODY), "resumedAt": 50, "existed": False, "verified": True}
    assert [headers["range"] for _, path, headers in server.requests if "/store/" in path] == [
        "bytes=50-",
        "bytes=150-",
        "bytes=350-",
    ]
    assert (tmp_path / "log").read_bytes() == BODY


def test_tries_are_counted_from_the_last_byte_on(server: FakeServer, tmp_path: Path) -> None:
    server.links_above_bytes, server.link_cuts = 1, [100] * 12
    file_id = server.files.add(BODY)
    with Archive(server.url) as archive:
        assert b"".join(Files(archive, NO_WAIT).read(file_id)) == BODY
        server.link_cuts, pauses, notices = [100, *[0] * 20], list[float](), list[str]()
        with pytest.raises(UnavailableError) as raised:
            Files(archive, pauses.append, notice=notices.append).fetch(file_id)
    assert f"to continue: {file_id}.part stays bytes=100" in raised.value.next_step
    assert len(pauses) == 7 and [each.endswith(": retrying") for each in notices] == [True], "one for each outage"


@pytest.mark.parametrize("part", [b"x" * 50, b"x" * 9000, BODY], ids=["other", "longer", "whole"])
def test_part_of_another_file_is_replaced(part: bytes, server: FakeServer, tmp_path: Path) -> None:
    server.links_above_bytes = 1
    file_id = server.files.add(BODY)
    (tmp_path / f"{file_id}.part").write_bytes(part)
    told = json.loads(answered(server, "fetch", "--json", file_id))
    assert told["resumedAt"] == (len(BODY) if part == BODY else 0)
    assert [path.name for path in tmp_path.iterdir()] == [file_id] and (tmp_path / file_id).read_bytes() == BODY


def test_part_of_a_file_that_cannot_be_served_from_a_byte_on_is_continued(server: FakeServer, tmp_path: Path) -> None:
    """A file of the API's own response begins at byte 0, and arrives in many pieces."""
    body = bytes(range(251)) * 4000
    file_id = server.files.add(body)
    (tmp_path / f"{file_id}.part").write_bytes(body[:700_000])
    server.requests.clear()
    assert json.loads(answered(server, "fetch", "--json", file_id))["resumedAt"] == 700_000
    assert (tmp_path / file_id).read_bytes() == body
    assert [path.endswith("/data") for _, path, _ in server.requests].count(True) == 1


def test_file_that_is_there_is_not_fetched_again(server: FakeServer, tmp_path: Path) -> None:
    file_id = server.files.add(BODY)
    answered(server, "fetch", file_id)
    server.requests.clear()
    again = call(server, "fetch", file_id)
    assert again.stdout == f"{file_id}\n" and again.stderr == f"runlake: it was there already path={file_id}\n"
    assert [path for _, path, _ in server.requests if path.endswith("/data")] == []
    (tmp_path / file_id).write_bytes(b"other")
    assert "another file has this name" in error_of(call(server, "fetch", file_id))
    assert (tmp_path / file_id).read_bytes() == b"other"
    answered(server, "fetch", "--overwrite", file_id)
    assert (tmp_path / file_id).read_bytes() == BODY


def test_wrong_bytes_are_not_kept(server: FakeServer, tmp_path: Path) -> None:
    file_id = server.files.add(BODY, hash=hash_of(b"other"))
    assert "the bytes differ" in error_of(call(server, "fetch", file_id))
    assert list(tmp_path.iterdir()) == []
    shown = call(server, "cat", file_id)
    assert shown.exit_code == 2 and shown.stdout_bytes == BODY and "the bytes differ" in shown.stderr


def test_hash_that_is_not_of_the_bytes_is_not_compared(server: FakeServer) -> None:
    file_id = server.files.add(BODY, hash=hash_of(b"key"), hash_of="identity")
    assert "the archive has no hash" in call(server, "fetch", file_id).stderr
    assert answered(server, "cat", file_id).encode() == BODY


def test_cat_decompresses_gzip_unless_raw(server: FakeServer) -> None:
    packed = gzip.compress(BODY) + gzip.compress(b"second member\n")
    ids = [server.files.add(packed), server.files.add(BODY), server.files.add(b"\xff\x00"), server.files.add(b"")]
    server.links_above_bytes = 100
    assert call(server, "cat", *ids).stdout_bytes == BODY + b"second member\n" + BODY + b"\xff\x00"
    assert call(server, "cat", "--raw", *ids).stdout_bytes == packed + BODY + b"\xff\x00"


@given(st.lists(st.binary(max_size=400), max_size=4), st.integers(1, 50), st.integers(0, 5))
@examples(max_examples=100, deadline=None)
def test_unzipped_members_in_pieces_of_any_length(members: list[bytes], length: int, padding: int) -> None:
    packed = b"".join(map(gzip.compress, members)) + b"\0" * (padding if members else 0)
    pieces = [packed[begin : begin + length] for begin in range(0, len(packed), length)]
    assert b"".join(unzipped(pieces)) == b"".join(members)


def test_decompression_is_bounded_in_memory() -> None:
    sizes = [len(piece) for piece in unzipped([gzip.compress(b"\0" * 50_000_000)])]
    assert sum(sizes) == 50_000_000 and max(sizes) <= 256 * 1024


@given(st.dictionaries(st.sampled_from(["id", "what", "work_id", "path", "note"]), st.text(max_size=8) | st.text("./", max_size=3)))
@example({"note": ""})
@example({"note": "."})
@example({"note": ".."})
def test_values_of_a_template_never_leave_the_folder(changed: dict[str, str]) -> None:
    path = target_of("folder/{id}.log", METADATA | changed)
    assert path.parent == Path("folder") and path.name.endswith(".log")
    for name in METADATA | changed:
        assert target_of(f"{{{name}}}", METADATA | changed).parent == Path()
        for template in (f"{{{name}}}/x", f".{{{name}}}/x"):
            in_a_folder = target_of(template, METADATA | changed)
            assert not in_a_folder.is_absolute() and len(in_a_folder.parts) == 2 and ".." not in in_a_folder.parts


# the datalake's examples


@pytest.mark.slow
def test_examples_of_the_datalake_run_as_printed(server: FakeServer, log: Path, tmp_path: Path) -> None:
    """Its README, with ``datalake`` replaced. A backslash is missing at the end of its first line, its second push has no file, which is
    stdin here, and a start that is no time."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "runlake"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m runlake "$@"\n')
    command.chmod(0o755)

    def shell(script: str) -> subprocess.CompletedProcess[str]:
        own = {"RUNLAKE_URL": server.url, "PYTHONPATH": SOURCE, "PATH": f"{command.parent}:{os.environ['PATH']}", "LC_ALL": "C"}
        script = script.replace("/path/to/nginx.log", str(log))
        return subprocess.run(
            ["sh", "-c", script],
            input="lines\n",
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    pushed = shell(r"""runlake files push --start 2015-03-20T00:05:32.345Z \
--end 2015-03-20T23:59.114Z \
--where webserver01 --what nginx /path/to/nginx.log""")
    assert pushed.returncode == 0 and ", verified\n" in pushed.stdout, pushed
    blappo = r"""runlake files push --start 2015-03-20T00:00:05:32.345Z \
--end 2015-03-20T00:00:34.114Z \
--what blappo-etl --where backend01 \
--work-id blappo-14321359"""
    refused = shell(blappo)
    assert refused.returncode == 2 and "not a time: '2015-03-20T00:00:05:32.345Z'" in refused.stderr
    assert "next: correct what the message names; a time is 2026-11-21" in refused.stderr
    assert shell(blappo.replace("05:32.345Z", "05.345Z")).returncode == 0
    for what in ("syslog", "foobar"):
        server.files.add(what=what)
    listed = shell("""runlake files list --where webserver01 --start 2015-03-20 --end `date -u` \\
--what syslog,foobar""")
    assert sorted(line.split("\t")[3] for line in listed.stdout.splitlines()) == ["foobar", "syslog"], listed
    ids = {server.files.add(what=what, work_id="blappo-14321359") for what in ("gather", "etl", "cleanup")}
    fetched = shell("runlake files fetch --what gather,etl,cleanup --work-id blappo-14321359")
    assert set(fetched.stdout.splitlines()) == ids and all((tmp_path / each).exists() for each in ids)


# mistakes


@pytest.mark.parametrize(
    ("arguments", "problem", "following"),
    [
        ((*PUSH, "no/such.log"), "No such file or directory: no/such.log", "check the path"),
        ((*PUSH, "."), "Is a directory: .", "check the path"),
        ((*PUSH, "nginx.log", "--work-id"), "option '--work-id' requires an argument", "`runlake files push --help`"),
        (("push", "--where", "w", "--start", "now", "nginx.log"), "missing option '--what'", "`runlake files push --help`"),
        (("push", "--what", "w", "--start", "now", "nginx.log"), "missing option '--where'", "`runlake files push --help`"),
        (("push", "--what", "w", "--where", "w", "nginx.log"), "missing option '--start'", "`runlake files push --help`"),
        ((*PUSH, ""), "missing argument 'FILE'", "`runlake files push --help`"),
        (("push", "--what", "a" * 257, "--where", "w", "--start", "now", "nginx.log"), "257 characters, more than 256", "push --help`"),
        (("push", "--what", "Nginx.log", "--where", "w", "--start", "now", "nginx.log"), "lower-case letters", "push --help`"),
        (("push", "--what", "w", "--where", "w", "--start", "yesterday", "nginx.log"), "not a time: 'yesterday'", "a time is 2026-11-21"),
        ((*PUSH, "--end", "2014-01-01", "nginx.log"), '"end" must not be before "start"', "correct what"),
        ((*PUSH, "--end", "2016-01-01", "nginx.log"), "at most 30 days", "correct what"),
        ((*PUSH, "--work-id", "null", "nginx.log"), 'not the text "null"', "correct what"),
        ((*PUSH, "--patience", "nan", "nginx.log"), "is not in the range", "push --help`"),
        (("list", "--start", "1d"), "missing option '--what'", "`runlake files list --help`"),
        (("list", "nginx"), "missing option '--start' or '--work-id'", "`runlake files list --help`"),
        (("list", "nginx", "--work-id", "w", "--end", "now"), "--end needs --start", "`runlake files list --help`"),
        (("list", "nginx", "--start", "soon"), "not a time: 'soon'", "a time is 2026-11-21"),
        (("list", "nginx", "--start", "1d", "-n", "0"), "is not in the range", "`runlake files list --help`"),
        (("list", "nginx", "--what", "other", "--start", "1d"), "give WHAT or --what, not both", "`runlake files list --help`"),
        (("latest", "nginx", "w", "--where", "w"), "give WHERE or --where, not both", "`runlake files latest --help`"),
        (("cat", ""), "a file's id is empty", "by its id"),
        (("cat", ".."), "no address of a file with this id id='..'", "--format s3"),
        (("latest", "nginx"), "missing option '--where'", "`runlake files latest --help`"),
        (("latest", "no", "where"), 'No "no" files found', "a larger --lookback"),
        (("fetch",), "no file is named", "lines of `runlake files list` on stdin"),
        (("cat",), "no file is named", "lines of `runlake files list` on stdin"),
        (("fetch", "--what", "no", "--start", "1d"), "no file matches", "an earlier --start finds more"),
        (("fetch", "--what", "nginx", "--start", "1d", "an-id"), "not both", "`runlake files fetch --help`"),
        (("fetch", "an-id"), "No file with id an-id exists", "`runlake files list"),
        (("cat", "an-id"), "No file with id an-id exists", "`runlake files list"),
        (("fetch", "https://elsewhere.example/api/v0/archive/files/an-id/data"), "not the address of a file of this archive", "by its id"),
        (("fetch", "s3://archive/webserver01/nginx.log"), "not the address of a file", "by its id"),
        (("fetch", "--filename-template", "{nope}.log", "{id}"), "no such field in the template field='nope'", "use one of end, end_iso"),
        (("fetch", "--filename-template", "{what", "{id}"), "the template is invalid: expected '}'", "{what}-{where}-{start_iso}.log"),
        (("fetch", "--filename-template", "{what.__class__}", "{id}"), "is not the name of a field", "{what}-{where}"),
        (("fetch", "--filename-template", "{}", "{id}"), "is not the name of a field", "{what}-{where}"),
        (("fetch", "--filename-template", "{start:d}", "{id}"), "has a format", "{what}-{where}"),
        (("fetch", "--filename-template", "{what!r}", "{id}"), "has a format", "{what}-{where}"),
        (("fetch", "--filename-template", "logs/", "{id}"), "makes no file name", "--filename-template"),
        (("fetch", "--filename-template", "nginx.log", "{id}"), "another file has this name path=nginx.log", "--overwrite replaces it"),
        (("fetch", "--filename-template", "nginx.log/x", "{id}"), "nginx.log", "check the path"),
        (("fetch", "--filename-template", "folder", "{id}"), "another file has this name", "{id} in --filename-template"),
        (("fetch", "--overwrite", "--filename-template", "folder", "{id}"), "another file has this name", "next: {id} in"),
        (("fetch", "--filename-template", "{what}", "{id}"), "exists and is not a regular file: nginx.part", "check the path"),
        (("cat", "{damaged}"), "the gzip data is damaged", "--raw gives the bytes"),
        (("cat", "{cut}"), "the gzip data is damaged: it is incomplete", "--raw gives the bytes"),
        (("lst",), "no such command 'lst'", "`runlake files --help`"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_mistake_has_a_next_step(
    arguments: tuple[str, ...], problem: str, following: str, server: FakeServer, log: Path, tmp_path: Path
) -> None:
    for folder in ("folder", "nginx.part"):
        (tmp_path / folder).mkdir()
    packed = gzip.compress(BODY)
    known = {
        "{id}": server.files.add(),
        "{damaged}": server.files.add(packed[:20] + b"x" * 20),
        "{cut}": server.files.add(packed[:-20]),
    }
    result = call(server, *(known.get(each, each) for each in arguments))
    if arguments[0] == "cat":
        result.stdout_bytes = b""  # what was before the damage
    error, next_step = error_of(result).splitlines()
    assert problem in error and following in next_step
    assert len(server.files.files) == 3 and sorted(path.name for path in tmp_path.iterdir()) == [
        "folder",
        "nginx.log",
        "nginx.part",
    ]


COMMANDS: dict[str, tuple[Any, ...]] = {
    "push": (*PUSH, "nginx.log"), "list": ("list", "nginx", "--start", "2015-03-20"), "latest": ("latest", "nginx", "webserver01"),
    "fetch": ("fetch", "an-id"), "cat": ("cat", "an-id"),
}  # fmt: skip


def test_every_command_is_here() -> None:
    assert COMMANDS.keys() == runlake.commands["files"].commands.keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_server_away_or_token_refused_is_an_error(command: str, server: FakeServer, log: Path) -> None:
    server.token = "secret"
    assert "next: log in" in error_of(call(server, *COMMANDS[command]))
    server.down()
    assert "next: is the server up" in error_of(call(server, *COMMANDS[command]))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_page_of_others_is_an_error(command: str, server: FakeServer, log: Path) -> None:
    server.fault = lambda method, path: "page"
    assert "is there a proxy in between" in error_of(call(server, *COMMANDS[command]))
    server.fault, server.replacement = (lambda method, path: ""), b"{}"
    error_of(call(server, *COMMANDS[command]))


def test_nothing_found_is_no_error_of_a_list(server: FakeServer) -> None:
    result = call(server, *COMMANDS["list"])
    assert (result.exit_code, result.stdout) == (0, "") and result.stderr.startswith("runlake: no file matches\n")


def test_full_disk_leaves_a_part_to_continue(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file_id = server.files.add(BODY)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path / file_id))

    with monkeypatch.context() as patch:
        patch.setattr("runlake.commands.output.ProgressLine.update", full)
        error = error_of(call(server, "fetch", file_id))
    assert "No space left on device" in error and f"the space on its disk; repeat it to continue: {file_id}.part stays" in error
    assert [path.name for path in tmp_path.iterdir()] == [f"{file_id}.part"]
    answered(server, "fetch", file_id)


def test_upload_that_the_archive_rejects_is_an_error(server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("client.tests.fake_files.StoredFiles._finish", _damaged)
    assert "differs from the announced one\nnext: push it again" in error_of(call(server, *PUSH, log))


def _damaged(files: Any, file_id: str, body: bytes) -> Any:
    files.files[file_id] = type(
        "Stored", (), {"problem": "the upload's hash differs from the announced one", "metadata": {"start": 0}}
    )
    return 200, b"", {}


@pytest.mark.parametrize("part_bytes", [10_000, 1000], ids=["one piece", "parts"])
def test_expired_addresses_and_short_files_are_errors(
    part_bytes: int, server: FakeServer, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files.part_bytes = part_bytes
    expired = 403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>", {}
    with monkeypatch.context() as patch:
        patch.setattr("client.tests.fake_files.StoredFiles.store", lambda *_: expired)
        error = error_of(call(server, *PUSH, log))
        assert "Request has expired code=AccessDenied status=403" in error and "valid for an hour" in error

    def shorten(method: str, path: str) -> str:
        log.write_bytes(b"short")
        return ""

    server.fault = shorten
    assert "the file became shorter while it was sent" in error_of(call(server, *PUSH, log))
