"""Small text files of a job (rules, plans, summaries), addressed by a path, ``file://…`` or ``s3://…``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import boto3

from chalicelib.errors import InvalidInputError


def read_text(uri: str) -> str:
    """Read a small text file. Raises InvalidInputError if it cannot be read."""
    url = urlsplit(uri)
    try:
        if url.scheme in ("s3", "s3a"):
            return str(boto3.client("s3").get_object(**_object(url))["Body"].read().decode())
        return _path(url, uri).read_text()
    except Exception as error:  # any error of the disk or AWS: the address or the permission is wrong
        raise InvalidInputError(f"cannot be read uri={uri} error={error}") from error


def write_text(uri: str, text: str) -> None:
    """Write a small text file; see ``read_text`` for the addresses."""
    url = urlsplit(uri)
    if url.scheme in ("s3", "s3a"):
        boto3.client("s3").put_object(**_object(url), Body=text.encode())
        return
    path = _path(url, uri)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _object(url: SplitResult) -> dict[str, str]:
    return {"Bucket": url.netloc, "Key": url.path.lstrip("/")}


def _path(url: SplitResult, uri: str) -> Path:
    return Path(url.path if url.scheme == "file" else uri)
