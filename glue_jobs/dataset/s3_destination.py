"""A dataset on S3. The bucket's default encryption applies, also to Spark's files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, Any

import boto3
from botocore.config import Config

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError, WriteConflictError
from glue_jobs.dataset.files import ListedFile

_ATTEMPTS, _CREATIONS = 10, 5
_READ_TIMEOUT_S = 120
_MAX_DELETED = 1000


def s3_files(scheme: str, bucket: str, prefix: str) -> S3Files:
    """Uses a new client of boto3's default session, whose requests are counted."""
    config = Config(
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        read_timeout=_READ_TIMEOUT_S,  # S3 copies a file while the client waits
        max_pool_connections=32,
        response_checksum_validation="when_required",
        tcp_keepalive=True,
    )
    return S3Files(boto3.client("s3", config=config), bucket, prefix, scheme)


class S3Files:
    """Objects below a prefix. ``scheme``: Spark's name for S3, s3 on Glue and s3a elsewhere."""

    def __init__(
        self, client: Any, bucket: str, prefix: str, scheme: str = "s3", sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client, self._bucket, self._root, self._scheme, self._sleep = client, bucket, prefix + "/", scheme, sleep

    @property
    def uri(self) -> str:
        """See the port."""
        return f"{self._scheme}://{self._bucket}/{self._root}".rstrip("/")

    def list(self, prefix: str) -> Iterator[ListedFile]:
        """See the port. A LIST for each 1,000."""
        after: dict[str, str] = {}
        while True:
            with translate_errors("list", prefix, write=False):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._root + prefix, **after)
            rows = page.get("Contents", ())
            yield from (ListedFile(row["Key"].removeprefix(self._root), row["Size"]) for row in rows)
            if not page.get("IsTruncated"):
                return
            after = {"StartAfter": rows[-1]["Key"]}

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """See the port. One GET."""
        bounds = {} if start == 0 and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        with translate_errors("get", name, write=False):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._root + name, **bounds)
            return bytes(answer["Body"].read())

    def create(self, name: str, body: bytes) -> bool:
        """See the port. One conditional PUT; more after a conflict with a concurrent write or a lost response."""
        for attempt in range(_CREATIONS):
            try:
                with translate_errors("put", name, write=True):
                    self._client.put_object(Bucket=self._bucket, Key=self._root + name, Body=body, IfNoneMatch="*")
                return True
            except PreconditionFailedError:
                return False
            except (WriteConflictError, OutcomeUnknownError):
                self._sleep(0.1 * 2**attempt)
        raise StoreUnavailableError(f"a file could not be created name={name}")

    def put(self, name: str, body: bytes) -> None:
        """See the port. One PUT."""
        with translate_errors("put", name, write=True):
            self._client.put_object(Bucket=self._bucket, Key=self._root + name, Body=body)

    def upload(self, name: str, body: IO[bytes]) -> None:
        """See the port. One PUT, of up to 5 GB; a retry reads the file again."""
        with translate_errors("put", name, write=True):
            self._client.put_object(Bucket=self._bucket, Key=self._root + name, Body=body)

    def move(self, source: str, target: str) -> None:
        """See the port. One CopyObject, which takes up to 5 GB."""
        with translate_errors("copy", source, write=True):
            origin = {"Bucket": self._bucket, "Key": self._root + source}
            self._client.copy_object(Bucket=self._bucket, Key=self._root + target, CopySource=origin)

    def delete(self, names: Iterable[str]) -> None:
        """See the port. One request for each 1,000. Raises OutcomeUnknownError when some were refused."""
        remaining = iter(names)
        while batch := [{"Key": self._root + name} for name in islice(remaining, _MAX_DELETED)]:
            with translate_errors("delete", batch[0]["Key"], write=True):
                answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True})
            if failed := [row for row in answer.get("Errors", ()) if row.get("Code") != "NoSuchKey"]:
                raise OutcomeUnknownError(f"some files were not deleted count={len(failed)} first={failed[0]['Key']}")

    def clear(self, folder: str) -> None:
        """See the port."""
        self.delete([listed.name for listed in self.list(folder)])
