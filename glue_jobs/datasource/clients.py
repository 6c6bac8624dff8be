"""AWS clients of the jobs. They retry for longer than the functions' clients, because a failed task is repeated completely."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import boto3
from botocore import handlers
from botocore.config import Config

from chalicelib.aws.dynamodb import Table
from chalicelib.aws.errors import translate_errors
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.ports import ObjectStore, SegmentIndex
from glue_jobs.datasource.objects import Listed
from glue_jobs.datasource.options import Options
from glue_jobs.job_runtime.request_counts import count_request

THREADS = 16
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S, _ATTEMPTS = 5, 60, 10
_DAY_S = 86_400
_ERRORS_IN_200 = getattr(handlers, "_handle_200_error", None)
"""botocore's handler that searches every 200 response for an error. Only copies and completed uploads need it; jobs read."""
_COLUMNS = [
    re.compile(pattern)
    for pattern in (
        rb"<Key>([^<]*)</Key>",
        rb"<Size>(\d+)</Size>",
        rb"<ETag>([^<]*)</ETag>",
        rb"<LastModified>([^<]*)</LastModified>",
    )
]


@lru_cache(maxsize=4)
def clients_of(options: Options) -> tuple[Bucket, Catalog]:
    """Cached for each process: making a client takes longer than a small task, and Spark's workers run many."""
    return Bucket(options), Catalog(options)


def make_client(service: str, options: Options) -> Any:
    """A client to share among threads. A custom endpoint means an S3-compatible store: addressed by path."""
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        max_pool_connections=2 * THREADS,
        response_checksum_validation="when_required",
        tcp_keepalive=True,
        s3={"addressing_style": "path"} if options.endpoint else {},
    )
    session = boto3.session.Session(region_name=options.region, **options.credentials())
    client = session.client(service, endpoint_url=options.endpoint, config=config)
    client.meta.events.register("before-send", count_request)
    if service == "s3":
        client.meta.events.register("before-parse.s3.ListObjectsV2", _read_listing)
        if _ERRORS_IN_200:
            client.meta.events.unregister("before-parse.s3.*", _ERRORS_IN_200)
    return client


class Bucket:
    """The logs' bucket: a store to read from, and listings that are fast for millions of keys."""

    def __init__(self, options: Options) -> None:
        self._client, self._name = make_client("s3", options), options.bucket
        self.store: ObjectStore = S3ObjectStore(self._client, options.bucket)

    def page(self, prefix: str, after: str, limit: int = 1000) -> tuple[Sequence[Listed], bool]:
        """Up to 1,000 objects after a key, ascending, and whether there are more. One LIST."""
        answer = self._list(prefix, after, MaxKeys=limit)
        objects = [
            Listed(row["Key"], row["Size"], row["ETag"].strip('"'), _milliseconds(row["LastModified"]))
            for row in answer.get("Contents", ())
        ]
        return objects, bool(answer.get("IsTruncated"))

    def folders(self, prefix: str, after: str = "") -> list[str]:
        """Common prefixes up to the next slash after ``prefix``, ascending. One LIST for 1,000."""
        prefixes: list[str] = []
        while True:
            answer = self._list(prefix, after, Delimiter="/")
            prefixes += [row["Prefix"] for row in answer.get("CommonPrefixes", ())]
            if not answer.get("IsTruncated"):
                return prefixes
            # After all keys of the last folder: "0" is the character after the slash.
            last = max(prefixes[-1:] + [row["Key"] for row in answer.get("Contents", ())[-1:]])
            after = last[:-1] + "0" if last.endswith("/") else last

    def _list(self, prefix: str, after: str, **arguments: Any) -> dict[str, Any]:
        start = {"StartAfter": after} if after else {}
        with translate_errors("list", prefix, write=False):
            answer: dict[str, Any] = self._client.list_objects_v2(Bucket=self._name, Prefix=prefix, **start, **arguments)
        return answer


class Catalog:
    """The configured tables: an index of the bucket's content, never the source of truth."""

    def __init__(self, options: Options) -> None:
        named = options.runs_table or options.segments_table
        client = make_client("dynamodb", options) if named else None
        # A reader never writes, so the rows' time to live doesn't matter here.
        self.runs = DynamoDbRunCatalog(Table(client, options.runs_table), _DAY_S) if options.runs_table else None
        self.segments: SegmentIndex | None = (
            DynamoDbSegmentIndex(Table(client, options.segments_table), _DAY_S) if options.segments_table else None
        )


def _read_listing(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parses the objects of a listing page. botocore takes 50 ms for 1,000 objects and blocks other threads meanwhile; this takes
    a tenth. The rest of the page goes to botocore, and so does a complete page in another form than S3's."""
    body: bytes = response_dict["body"]
    first, end = body.find(b"<Contents>"), body.rfind(b"</Contents>") + len(b"</Contents>")
    if response_dict["status_code"] >= 300 or first < 0:
        return
    rows = body[first:end]
    columns = [pattern.findall(rows) for pattern in _COLUMNS]
    if {rows.count(b"<Contents>")} != set(map(len, columns)) or b"<CommonPrefixes>" in rows:
        return
    customized_response_dict["Contents"] = [
        {"Key": _text(key), "Size": int(size), "ETag": etag.replace(b"&quot;", b"").decode(), "LastModified": _moment(modified)}
        for key, size, etag, modified in zip(*columns, strict=True)
    ]
    response_dict["body"] = body[:first] + body[end:]


def _text(raw: bytes) -> str:
    return html.unescape(raw.decode()) if b"&" in raw else raw.decode()


@lru_cache(maxsize=10_000)
def _moment(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode())


@lru_cache(maxsize=10_000)
def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
