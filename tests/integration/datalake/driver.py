"""Operations of the client's Python interface that the datalake command lacks. Runs unmodified in .venv-datalake without Runlake.

The command line is the operation and its arguments as JSON; the result is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from hashlib import blake2b
from typing import Any

from datalake import Archive, File, Uploader


def push_many(files: list[dict[str, Any]]) -> list[str]:
    """Push files by their metadata in one process; returns their URLs."""
    archive = Archive()
    return [archive.push(File.from_filename(each.pop("filename"), **each)) for each in files]


def list_records(**query: Any) -> list[dict[str, Any]]:
    """The records of a query, as the client yields them across pages."""
    return list(Archive().list(**query))


def fetch(urls: list[str]) -> list[dict[str, Any]]:
    """Fetch each file as a whole, as a stream and by lines; returns hashes of contents and metadata."""
    return [_fetched(Archive(), url) for url in urls]


def _fetched(archive: Archive, url: str) -> dict[str, Any]:
    whole, streamed, lines = archive.fetch(url), archive.fetch(url, stream=True), archive.fetch(url, stream=True)
    contents = (whole.read(), b"".join(streamed.iter_content()), b"".join(lines.readlines()))
    return {"contents": [_hash(each) for each in contents], "metadata": [each.metadata for each in (whole, streamed, lines)]}


def upload(queue_dir: str) -> None:
    """Push queued files until the process is ended; prints a line for each file."""
    Uploader(Archive(), queue_dir, callback=lambda filename: print(filename, flush=True)).listen(timeout=600)


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def main() -> None:
    """Print the operation's result as JSON."""
    operations = {each.__name__: each for each in (push_many, list_records, fetch, upload)}
    print(json.dumps(operations[sys.argv[1]](**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
