"""Where the client takes its settings from: variables, a file, options."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.datalake.client import Datalake, file_id, fingerprint, request
from tests.integration.stacks import Stack

MB = 1024 * 1024
DAY = {"start": "2021-05-05", "end": "2021-05-06"}


def bare(datalake: Datalake) -> dict[str, str]:
    """The client's variables without the two addresses."""
    return {name: value for name, value in datalake.environment.items() if not name.endswith(("STORAGE_URL", "HTTP_URL"))}


def test_a_settings_file_alone(stack: Stack, datalake: Datalake, what: str, tmp_path: Path) -> None:
    """With slashes at the ends of its addresses, and parts of 5 MB."""
    settings = tmp_path / "datalake.env"
    settings.write_text(
        f"DATALAKE_STORAGE_URL={datalake.storage_url}/\nDATALAKE_HTTP_URL={datalake.api_url}/\nDATALAKE_CHUNK_SIZE_MB=5\n"
    )
    content = bytes(12 * MB)
    path = tmp_path / "a.log"
    path.write_bytes(content)
    environment = bare(datalake) | {"DATALAKE_CONFIG": str(settings)}
    pushed = datalake.attempt("push", "--what", what, "--where", "a", "--start", "2021-05-05", path, environment=environment)
    assert pushed.code == 0, pushed.error
    [record] = datalake.listed(what=what, **DAY)
    assert record["metadata"]["hash"] == fingerprint(content) and record["size"] == len(content)
    with closing(stack.client("s3")) as s3:
        head = s3.head_object(Bucket=stack["archive_bucket"], Key=f"{file_id(record['url'])}/data")
    assert head["ETag"].strip('"').endswith("-3")
    listed = datalake.attempt("list", what, "--start", "2021-05-05", "--end", "2021-05-06", environment=environment)
    assert listed.text == record["url"] + "\n", listed.error
    fetched = datalake.attempt("fetch", record["http_url"], cwd=tmp_path, environment=environment)
    assert fetched.code == 0 and (tmp_path / fetched.text.strip()).read_bytes() == content, fetched.error


def test_options_of_the_command(datalake: Datalake, what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"a line\n")
    addresses = ["--storage-url", datalake.storage_url, "--http-url", datalake.api_url]
    command = ["push", "--what", what, "--where", "a", "--start", "2021-05-05", path]
    pushed = datalake.attempt(*addresses, *command, environment=bare(datalake))
    assert pushed.code == 0, pushed.error
    [record] = datalake.listed(what=what, **DAY)
    listed = datalake.attempt(*addresses, "list", what, *("--start", "2021-05-05", "--end", "now"), environment=bare(datalake))
    assert listed.text == record["url"] + "\n", listed.error


def test_the_api_tells_the_storage_url(datalake: Datalake) -> None:
    assert json.loads(request(f"{datalake.api_url}/v0/archive/")) == {"storage_url": datalake.storage_url}


@pytest.mark.parametrize("command", ["list", "latest"])
def test_without_the_address_of_the_api_the_client_says_so(datalake: Datalake, command: str) -> None:
    environment = bare(datalake) | {"DATALAKE_STORAGE_URL": datalake.storage_url}
    done = datalake.attempt(command, "what", *["where"] * (command == "latest"), environment=environment)
    assert done.code == 2 and "DATALAKE_HTTP_URL" in done.last_line, done
