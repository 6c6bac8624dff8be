"""The unmodified datalake client for tests: each command is forked from a process of .venv-datalake that has imported the client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.integration.preloaded import Done, Preloaded, preloaded_command
from tests.integration.stacks import PATIENCE_S, Stack
from tests.prerequisites import DATALAKE, require

BIN = Path(__file__).parents[3] / ".venv-datalake" / "bin"
DRIVER = Path(__file__).with_name("driver.py")
INHERITED_NOT = ("AWS_", "DATALAKE_", "PYTHON")
T = TypeVar("T")
_GIVE_UP_S = 300.0
_POLL_S = 0.2


class Datalake:
    """The client with the settings of one stack; ``home`` is the folder for them."""

    def __init__(self, stack: Stack, home: Path) -> None:
        require(DATALAKE)
        self._preloaded = Preloaded(BIN / "python", ["datalake.scripts.cli"])
        self.api_url = stack.api_url
        self.storage_url = f"s3://{stack['archive_bucket']}"
        self.home = home
        self.environment = _environment(stack, home) | {
            "DATALAKE_STORAGE_URL": self.storage_url,
            "DATALAKE_HTTP_URL": self.api_url,
        }

    def as_command(self, path: Path) -> AbstractContextManager[None]:
        """While it is open, the file runs the client, for a shell."""
        return preloaded_command(self._preloaded, BIN / "datalake", path)

    def attempt(
        self,
        *arguments: str | Path,
        stdin: str = "",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Run one ``datalake`` command that may fail. ``environment`` replaces the client's own."""
        return self._finish([BIN / "datalake", *arguments], stdin, cwd, environment)

    def run(self, *arguments: str | Path, stdin: str = "", cwd: Path | None = None, **settings: str) -> str:
        """Output of a command that must succeed; ``settings`` are environment variables."""
        done = self.attempt(*arguments, stdin=stdin, cwd=cwd, environment=self.environment | settings)
        assert done.code == 0, f"datalake {arguments} exit code {done.code}\n{done.error}"
        return done.text

    def call(self, operation: str, **arguments: Any) -> Any:
        """Result of an operation of driver.py, which uses the client's Python interface."""
        done = self._finish([DRIVER, operation, json.dumps(arguments)])
        assert done.code == 0, f"{operation} exit code {done.code}\n{done.error}"
        return json.loads(done.text)

    def start(self, operation: str, **arguments: Any) -> subprocess.Popen[str]:
        """Start an operation of driver.py; the caller ends the process."""
        command = [BIN / "python", DRIVER, operation, json.dumps(arguments)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=self.home, env=self.environment
        )

    def push(self, path: Path, **metadata: str) -> str:
        """Push a file; returns its S3 URL, as the client prints it."""
        printed = self.run("push", *options(**metadata), path)
        match = re.fullmatch(r"Pushed (.+) to (s3://\S+/([0-9a-f]{32})/data)\n", printed)
        assert match and match[1] == str(path), printed
        return match[2]

    def http_url(self, s3_url: str) -> str:
        """URL of a pushed file's contents in the API."""
        return f"{self.api_url}/v0/archive/files/{file_id(s3_url)}/data"

    def listing(self, what: str, *arguments: str, **filters: str) -> list[str]:
        """Lines that ``datalake list`` prints."""
        return self.run("list", what, *options(**filters), *arguments).splitlines()

    def records(self, **query: str) -> list[dict[str, Any]]:
        """All pages of a query over plain HTTP."""
        url = f"{self.api_url}/v0/archive/files/?{urlencode(query)}"
        found: list[dict[str, Any]] = []
        while url:
            page = json.loads(request(url))
            found += page["records"]
            url = page["next"]
        return found

    def listed(self, count: int = 1, **query: str) -> list[dict[str, Any]]:
        """Waits until a query has this many records: ingestion follows the push."""
        return wait_for(
            lambda: found if len(found := self.records(**query)) >= count else None, f"{count} files listed for {query}"
        )

    def _finish(
        self,
        command: list[str | Path],
        stdin: str = "",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        given = self.environment if environment is None else environment
        return self._preloaded.run(command, stdin=stdin.encode(), folder=cwd or self.home, environment=given)


def options(**values: str) -> list[str]:
    """``work_id="a"`` as ``--work-id a``."""
    return [text for name, value in values.items() for text in ("--" + name.replace("_", "-"), value)]


def file_id(s3_url: str) -> str:
    """The id in the URL of a pushed file."""
    return s3_url.split("/")[-2]


def fingerprint(content: bytes) -> str:
    """The hash in datalake's metadata."""
    return blake2b(content, digest_size=16).hexdigest()


def wait_for(condition: Callable[[], T | None], description: str) -> T:
    """Waits for a condition that returns a value other than None. The only waiting in these tests."""
    give_up = time.monotonic() + _GIVE_UP_S
    while (value := condition()) is None:
        assert time.monotonic() < give_up, f"not within {_GIVE_UP_S} s: {description}"
        time.sleep(_POLL_S)
    return value


def request(url: str, body: bytes | None = None, **headers: str) -> bytes:
    """GET, or POST with a body; fails with the body of a response other than 200."""
    try:
        with urlopen(Request(url, body, headers), timeout=PATIENCE_S) as answer:
            content: bytes = answer.read()
            return content
    except HTTPError as error:
        with error:
            raise AssertionError(f"{url} answered {error.code}: {error.read()[:1000]!r}") from None


def _environment(stack: Stack, home: Path) -> dict[str, str]:
    """Excludes the caller's settings. A region in a variable would send the client to Amazon's S3, so it is in a file."""
    aws, settings = home / "aws.ini", home / "datalake.env"
    aws.write_text(f"[default]\nregion = {stack['region']}\n")
    settings.write_text("")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_NOT)}
    return inherited | {
        "HOME": str(home),
        "AWS_CONFIG_FILE": str(aws),
        "AWS_ENDPOINT_URL": stack["aws_endpoint_url"],
        "AWS_ACCESS_KEY_ID": stack["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": stack["aws_secret_access_key"],
        "DATALAKE_CONFIG": str(settings),
    }
