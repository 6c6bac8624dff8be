"""Random days of programs that log: kills, signals, forks, a disk that refuses, and outages, all from one seed. Afterwards each line is stored
once and in order, or counted, and no end is invented.

``python -m client.tests.random_days --seeds 200`` runs them against a server, by default a local stack of its own.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from client.tests.mortal_program import NEVER, Mortal, Program, mortal_programs
from runlake import Archive, NotFoundError, RunName, Settings
from runlake.draining import drain_folder
from runlake.spool import folders_in

FQN = "p"
_LINES = 30
_GAP = re.compile(r"\[runlake\] (\d+) lines are missing here|\[runlake\] lines may be missing here, (\d+) at most")


class Weather:
    """A way to a server, as a TCP proxy: in bad weather it refuses connections, cuts requests, or loses responses that the server sent."""

    def __init__(self, url: str, chance: random.Random) -> None:
        self._to = urlsplit(url)
        self._chance = chance
        self.badness = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{self._to.path}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Ends the thread that accepts, too: it would take the next connection to whatever listens at the number of the closed file."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._chance.random() < self.badness / 2:
                client.close()
            else:
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        """Requests and responses in turn, until either side closes or the weather cuts."""
        with suppress(OSError), client, socket.create_connection((self._to.hostname, self._to.port)) as server:
            upward = threading.Thread(target=self._pump, args=(client, server), daemon=True)
            upward.start()
            while data := server.recv(65536):
                if self._chance.random() < self.badness / 2:
                    break
                client.sendall(data)
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._chance.random() < self.badness / 4:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def weather(url: str, chance: random.Random) -> Iterator[Weather]:
    made = Weather(url, chance)
    try:
        yield made
    finally:
        made.close()


class Day:
    """One run id, which an orchestrator tries several times, and what became of each program."""

    def __init__(self, seed: int, url: str, program: Program, spool_dir: str) -> None:
        self._chance, self._url, self._program, self._spool_dir = random.Random(seed), url, program, spool_dir
        self._run = RunName(FQN, f"day-{seed}-{Path(spool_dir).name}")
        self._ended: dict[str, dict[str, Any] | None] = {}
        self._diskless: set[str] = set()

    def check(self) -> str:
        """Live the day; returns what happened. Raises AssertionError."""
        with weather(self._url, random.Random(self._chance.random())) as way:
            for number in range(self._chance.randint(1, 3)):
                way.badness = self._chance.choice([0, 0, 0.3, 0.6, 1])
                mortal = self._mortal(f"try{number}", way.url)
                with ThreadPoolExecutor(3) as threads:
                    drains = [threads.submit(self._drain, way.url) for _ in range(2)] if number else []
                    self._ended[mortal.tag] = self._program(mortal)
                    for each in drains:
                        each.result()
            way.badness = 0
            self._drain(way.url, patience_s=5)
            left = list(Path(self._spool_dir).glob("*/state"))
        with Archive(self._url) as archive:
            return self._judge(archive, left)

    def _mortal(self, tag: str, url: str) -> Mortal:
        chance = self._chance
        fails_from = chance.randint(0, 20) if chance.random() < 0.3 else NEVER
        self._diskless |= {tag} if fails_from < NEVER else set()
        return Mortal(
            url, self._spool_dir, self._run.run_id, lines=_LINES, parts=chance.choice([1, 2, 3]), tag=tag,
            flushes=chance.random() < 0.5, has_child=chance.random() < 0.4, exit_s=chance.choice([0.02, 1]),
            kill_at=chance.randint(0, 30) if chance.random() < 0.7 else NEVER, halfway=chance.random() < 0.3,
            fails_from=fails_from, memory_bytes=400 if chance.random() < 0.2 else 8 << 20, signal=chance.choice([signal.SIGKILL, signal.SIGTERM]),
        )  # fmt: skip

    def _drain(self, url: str, patience_s: float = 0.05) -> None:
        settings = Settings(url=url, spool_dir=self._spool_dir, timeout_s=5)
        with suppress(FileNotFoundError):
            for folder in folders_in(Path(self._spool_dir)):
                with suppress(FileNotFoundError):  # the other drain has it
                    drain_folder(folder, settings, patience_s)

    def _judge(self, archive: Archive, left: list[Path]) -> str:
        attempts = list(self._attempts(archive))
        for tag, counts in self._ended.items():
            homes = [(run, lines) for run, lines in attempts if any(line.startswith(f"{tag} ") for line in lines)]
            assert len(homes) <= 1, f"{tag} is in {[str(run) for run, _ in homes]}"
            lines = homes[0][1] if homes else []
            numbers = _numbers(lines, tag)
            assert numbers == sorted(set(numbers)), f"{tag}: {numbers}"
            missing = sorted(set(range(max(numbers, default=-1) + 1)) - set(numbers))
            gaps = sum(int(match[1] or match[2]) for line in lines if (match := _GAP.match(line)))
            assert len(missing) <= gaps, f"{tag}: {missing} are missing without a notice"
            if counts is not None:
                of_lines = {name: counts[f"{name}_lines"] for name in ("stored", "dropped", "refused", "kept")}
                assert sum(of_lines.values()) == _LINES, f"{tag}: {of_lines}"
                least = counts["stored_lines"] + counts["kept_lines"]
                most = least + (
                    counts["dropped_lines"] if tag in self._diskless else 0
                )  # a response was lost, and no disk had the batch
                assert left or least <= len(numbers) <= most, f"{tag}: {of_lines}, {len(numbers)} stored"
        for run, lines in attempts:
            children = _numbers(lines, "child")
            assert children == sorted(set(children)) or len(self._ended) > 1, f"{run}: children {children}"
            if not archive.page(run, tail=1).streaming:
                self._check_end(archive, run)
        killed = sum(counts is None for counts in self._ended.values())
        return f"{len(attempts)} attempts, {killed} of {len(self._ended)} killed, {len(left)} folders left"

    def _attempts(self, archive: Archive) -> Iterator[tuple[RunName, list[str]]]:
        for number in itertools.count(1):
            run = self._run if number == 1 else replace(self._run, run_id=f"{self._run.run_id}~{number}")
            try:
                with archive.download(run) as (_, pieces):
                    yield run, b"".join(pieces).decode().splitlines()
            except NotFoundError:
                if number > 2 * len(self._ended):
                    return

    def _check_end(self, archive: Archive, run: RunName) -> None:
        from tests.integration.stacks import eventually

        facts = eventually(lambda: archive.facts(run), lambda found: found["outcome"] not in ("running", "unknown"), what=f"{run}")
        assert (facts["outcome"], facts["exitCode"]) == ("failed", 3), facts


def _numbers(lines: list[str], tag: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(f"{tag} ")]


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    if url:
        yield url
        return
    from tests.integration.stacks import shared_stack

    with shared_stack() as stack:
        yield stack.api_url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    with _server(options.url) as url, mortal_programs() as program:
        for seed in range(options.first, options.first + options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    print(
                        f"seed {seed}: {Day(seed, url, program, f'{folder}/spool-{random.randrange(1 << 40)}').check()}", flush=True
                    )
                except AssertionError as error:
                    failed += 1
                    print(f"seed {seed}: WRONG {error}", flush=True)
    print(f"{options.seeds} seeds, {failed} wrong")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
