"""``runlake grep``: its output is that of grep, at few requests, in one run and in many."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.tests.fake_server import FakeServer
from client.tests.on_a_pty import on_a_pty
from client.tests.test_commands import answered, call, filled
from runlake import Archive, RunName
from runlake.archive import Page
from runlake.commands import search as command
from runlake.errors import UnavailableError
from runlake.search import Search
from tests.sampling import examples

assert filled  # a fixture
RUN = RunName("p", "r")


class ArchiveOfLines:
    """Answers that are as short as the archive may make them. ``scan``: lines of a search; ``page_lines``: of a page."""

    def __init__(self, lines: list[str], scan: int = 1000, page_lines: int = 10_000) -> None:
        self.all, self.scan, self.page_lines = lines, scan, page_lines
        self.requests: Counter[str] = Counter()

    def grep(self, run: RunName, q: str, after: str, limit: int, **_: Any) -> dict[str, Any]:
        self.requests["grep"] += 1
        begin = int(after)
        end = min(begin + self.scan, len(self.all))
        matches = [{"line": at, "text": self.all[at], "spans": []} for at in range(begin, end) if q in self.all[at]][:limit]
        end = matches[-1]["line"] + 1 if len(matches) == limit else end
        return {"matches": matches, "after": str(end) if end < len(self.all) else None, "total": len(self.all)}

    def page(self, run: RunName, after: int, limit: int) -> Page:
        self.requests["page"] += 1
        end = min(after + min(limit, self.page_lines), len(self.all))
        return Page(self.all[after:end], end, len(self.all), end == len(self.all), streaming=False)


def searched(archive: ArchiveOfLines, **options: Any) -> list[str]:
    """The lines of grep -n."""
    lines = []
    for line in Search(archive, {"q": "x"}, **options).lines(RUN):  # type: ignore[arg-type]
        lines += ["--"] if line.begins_group and lines and (options.get("before") or options.get("after")) else []
        lines.append(f"{line.number + 1}{'-' if line.spans is None else ':'}{line.text}")
    return lines


@settings(max_examples=examples(100), deadline=None)
@given(
    lines=st.lists(st.sampled_from(["x", "", "a", "b", "c"]), max_size=40),
    before=st.integers(0, 4),
    after=st.integers(0, 4),
    max_count=st.none() | st.integers(1, 5),
    scan=st.integers(1, 12),
    page_lines=st.integers(1, 5),
)
def test_lines_around_matches_are_those_of_grep(
    lines: list[str], before: int, after: int, max_count: int | None, scan: int, page_lines: int
) -> None:
    found = searched(ArchiveOfLines(lines, scan, page_lines), before=before, after=after, max_count=max_count)
    options = [f"-B{before}", f"-A{after}"] if before or after else []
    options += [f"-m{max_count}"] if max_count else []
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(["grep", "-n", *options, "x"], input=text, capture_output=True, text=True, env={"LC_ALL": "C"})
    assert found == done.stdout.splitlines()


@pytest.mark.parametrize(
    ("matching", "before", "after", "pages"),
    [
        ([5], 2, 2, 1),
        ([5, 50, 250, 440], 2, 2, 1),  # near each other
        ([5, 1000, 5000], 2, 2, 3),
        (list(range(0, 6000, 10)), 4, 0, 1),
        (list(range(6000)), 3, 3, 0),  # nothing is between them
        ([0, 5999], 3, 0, 1),
        ([5999], 0, 3, 0),
        ([5, 6], 0, 0, 0),
        ([3000], 1000, 1000, 1),
    ],
)
def test_near_lines_are_read_by_one_request(matching: list[int], before: int, after: int, pages: int) -> None:
    archive = ArchiveOfLines(["x" if number in set(matching) else "" for number in range(6000)], scan=100_000)
    searched(archive, before=before, after=after)
    assert archive.requests["page"] == pages
    assert archive.requests["grep"] == -(-len(matching) // 1000)


class Dishonest(ArchiveOfLines):
    """Repeats the last of its answers. A page is one empty line before ``page_end``; by default the last of the lines that are asked for."""

    def __init__(self, *answers: tuple[list[int], Any, int], page_end: int | None = None) -> None:
        super().__init__([])
        self.answers, self.page_end = answers, page_end

    def grep(self, run: RunName, q: str, after: str, limit: int, **_: Any) -> dict[str, Any]:
        self.requests["grep"] += 1
        lines, end, total = self.answers[min(self.requests["grep"], len(self.answers)) - 1]
        return {"matches": [{"line": line, "text": "x", "spans": []} for line in lines], "after": end, "total": total}

    def page(self, run: RunName, after: int, limit: int) -> Page:
        self.requests["page"] += 1
        return Page([""], after + limit if self.page_end is None else self.page_end, 10**9, False, streaming=False)


@pytest.mark.parametrize(
    ("archive", "line", "requests"),
    [
        (Dishonest(([], "0", 9)), 0, 1),
        (Dishonest(([], "5", 9)), 5, 2),
        (Dishonest(([1], "5", 9), ([], "4", 9)), 5, 2),
        (Dishonest(([5], "5", 9)), 0, 1),
        (Dishonest(([10**9], "5", 10**12)), 0, 1),  # would wait for a response that is behind it
        (Dishonest(([5, 2], None, 9)), 0, 1),
        (Dishonest(([2, 2], None, 9)), 0, 1),
        (Dishonest(([-5], None, 9)), 0, 1),
        (Dishonest(([9], None, 9)), 0, 1),
        (Dishonest((list(range(1001)), None, 2000)), 0, 1),
        (Dishonest(([10**6], None, 10**9), page_end=7), 10**6 - 1000, 2),
        (Dishonest(([10**6], None, 10**9)), 10**6 - 1000, 2),
    ],
)
def test_answer_that_does_not_advance_is_an_error(archive: Dishonest, line: int, requests: int) -> None:
    with pytest.raises(UnavailableError, match=f"the server's answer does not advance line={line}$"):
        searched(archive, before=1000, after=1000)
    assert archive.requests.total() == requests


LOG = "start\nload A\nok\nError: disk\nok\nok\nload B\nerror\nok\nok\nok\nend"


@pytest.mark.parametrize(
    "options",
    [
        [], ["-i"], ["-v"], ["-v", "-c"], ["-vi", "-m", "2"], ["-c"], ["-m", "1"], ["-A", "1"], ["-B1", "-n"], ["-C", "1", "-i"],
        ["-C1", "-A0", "-in"], ["-C", "0", "-i"], ["-A", "9", "-m", "1"], ["-v", "-n", "-A", "1"], ["-c", "-A", "2"], ["-E", "-n"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_output_is_that_of_grep(options: list[str], server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG + "\n")
    server.add("p", "r", LOG.encode())
    pattern = "[Ee]rror|load [AB]" if "-E" in options else "rror" if "-C" in options else "error"
    expected = subprocess.run(["grep", *options, pattern, "log"], cwd=tmp_path, capture_output=True, text=True)
    result = call(server, "grep", *options, pattern, "p", "r")
    assert (result.stdout, result.exit_code, result.stderr) == (expected.stdout, expected.returncode, "")
    assert len(server.requests) == 1 + (
        bool({"-A", "-B1", "-C", "-C1"} & set(options)) and "-c" not in options and "0" not in options
    )


def test_json_of_lines_around_a_match(server: FakeServer) -> None:
    server.add("p", "r", LOG.encode())
    lines = [json.loads(line) for line in answered(server, "grep", "--json", "-A1", "disk", "p").splitlines()]
    assert lines == [{"line": 3, "text": "Error: disk", "spans": [[7, 11]]}, {"line": 4, "text": "ok", "context": True}]


@pytest.fixture
def shop(server: FakeServer) -> FakeServer:
    """Five runs of two pipelines; the fake server lists the last active ones by name."""
    for fqn in ("shop.a", "shop.b"):
        server.add(fqn, "1", b"ok\ndisk full\nend\n")
        server.add(fqn, "2", b"ok\n")
    server.add("shop.b", "3", b"disk\n\ndisk full\n")
    server.add("other", "1", b"disk\n")
    return server


@pytest.mark.parametrize(
    ("options", "stdout", "stderr", "code"),
    [
        (
            ["--runs", "9", "-n", "disk", "shop.*"],
            "shop.a/1:2:disk full\nshop.b/1:2:disk full\nshop.b/3:1:disk\nshop.b/3:3:disk full\n",
            "5 of 5 runs searched, 3 with matches",
            0,
        ),
        (["--runs", "2", "disk", "shop.b"], "shop.b/3:disk\nshop.b/3:disk full\n", "2 of 2 runs searched, 1 with matches", 0),
        (["--runs", "3", "-l", "disk", "*"], "other/1\nshop.a/1\n", "3 of 3 runs searched, 2 with matches", 0),
        (["--runs", "3", "-c", "disk", "*"], "other/1:1\nshop.a/1:1\nshop.a/2:0\n", "3 of 3 runs searched, 2 with matches", 0),
        (["--runs", "2", "nothing", "shop.*"], "", "2 of 2 runs searched, 0 with matches", 1),
        (
            ["--runs", "4", "-n", "-A1", "-m1", "disk", "shop.b"],
            "shop.b/3:1:disk\nshop.b/3-2-\n--\nshop.b/1:2:disk full\nshop.b/1-3-end\n",
            "3 of 3 runs searched, 2 with matches",
            0,
        ),
        (
            ["--runs", "2", "--json", "full", "shop.b"],
            '{"fqn": "shop.b", "runId": "3", "line": 2, "text": "disk full", "spans": [[5, 9]]}\n',
            "2 of 2 runs searched, 1 with matches",
            0,
        ),
        (["--runs", "1", "--json", "-c", "x", "shop.b"], '{"fqn": "shop.b", "runId": "3", "count": 0}\n', "1 of 1 runs searched, 0 with matches", 1),
        (["--runs", "1", "--json", "-l", "k", "shop.b"], '{"fqn": "shop.b", "runId": "3"}\n', "1 of 1 runs searched, 1 with matches", 0),
    ],
)  # fmt: skip
def test_newest_runs_are_searched(options: list[str], stdout: str, stderr: str, code: int, shop: FakeServer) -> None:
    result = call(shop, "grep", *options)
    assert (result.stdout, result.stderr, result.exit_code) == (stdout, f"runlake: {stderr}\n", code)


def test_run_that_fails_is_reported_at_the_end(shop: FakeServer) -> None:
    shop.fault = lambda method, path: "500" if "shop.a/runs/1/grep" in path else ""
    result = call(shop, "grep", "--runs", "9", "-l", "disk", "shop.*")
    assert (result.stdout, result.exit_code) == ("shop.b/1\nshop.b/3\n", 2)
    failure, *rest = result.stderr.splitlines()
    assert failure.startswith("runlake: shop.a/1: ")
    assert rest == [
        "runlake: 4 of 5 runs searched, 2 with matches",
        "runlake: not all runs could be searched",
        "next: is the server up, and the address right? `runlake config` shows it",
    ]


@pytest.mark.parametrize(
    ("fault", "most_requests", "reason", "requests"),
    [("500", 1000, "stopped after 3 runs without a response", 3), ("", 2, "stopped after 2 requests, in shop.b/1", 2)],
)
def test_search_of_many_runs_is_bounded(
    fault: str, most_requests: int, reason: str, requests: int, shop: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MAX_REQUESTS", most_requests)
    shop.fault = lambda method, path: fault if "/grep" in path else ""
    result = call(shop, "grep", "--runs", "9", "disk", "shop.*")
    assert result.exit_code == 2 and f"runlake: {reason}\nnext: " in result.stderr
    assert len([path for _, path, _ in shop.requests if "/grep" in path]) == requests


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--runs", "2", "x", "shop.a", "1"), "--runs searches the newest runs: leave RUN out"),
        (("x", "shop.*"), "'shop.*' is a pattern: add --runs N"),
        (("--runs", "2", "x", "nobody"), "the pipeline has no runs fqn='nobody'"),
        (("--runs", "2", "x", "nobody*"), "no run matches fqn='nobody*'"),
        (("--runs", "101", "x", "shop.*"), "is not in the range"),
        (("--runs", "2", "-E", "(", "shop.*"), "as the test requires"),
    ],
)
def test_search_that_cannot_be_is_an_error(arguments: tuple[str, ...], error: str, shop: FakeServer) -> None:
    shop.fault = lambda method, path: "400" if "q=%28" in path else ""
    result = call(shop, "grep", *arguments)
    assert (result.exit_code, result.stdout) == (2, "") and error in result.stderr and "\nnext: " in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_interrupted_search_says_how_far_it_came(shop: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    grep = Archive.grep

    def interrupted(archive: Archive, run: RunName, **query: Any) -> dict[str, Any]:
        if run.run_id == "2":
            raise KeyboardInterrupt
        return grep(archive, run, **query)

    monkeypatch.setattr(Archive, "grep", interrupted)
    result = call(shop, "grep", "--runs", "9", "disk", "shop.*")
    assert (result.stdout, result.exit_code) == ("shop.a/1:disk full\n", 130)
    assert result.stderr.strip() == "runlake: interrupted: 1 of 5 runs searched, 1 with matches"


@pytest.mark.slow
def test_progress_is_erased_before_a_match(shop: FakeServer) -> None:
    code, text = on_a_pty(["-m", "runlake", "--url", shop.url, "grep", "--runs", "9", "full", "shop.a"])
    assert code == 0
    progress, _, rest = text.partition("\r\x1b[K")
    assert progress == "\rsearching  run 1 of 2, 0 with matches\x1b[K"
    assert "\x1b[35mshop.a/1\x1b[0m:disk \x1b[1;31mfull\x1b[0m\r\n" in rest
    assert rest.endswith("runlake: 2 of 2 runs searched, 1 with matches\r\n")
