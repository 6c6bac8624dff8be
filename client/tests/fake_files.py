"""The archive's files in memory: announced, uploaded by presigned links in one piece or several, listed once their hash is verified."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any
from urllib.parse import quote, urlencode

from chalicelib.catalog.metadata import Metadata, metadata_of
from chalicelib.catalog.timestamps import parse_time_ms
from chalicelib.errors import InvalidMetadataError, InvalidTimeError

Json = dict[str, Any]
Answer = tuple[int, Json | bytes, dict[str, str]]
StoreAnswer = tuple[int, bytes, dict[str, str]]
NOW_MS = 1_800_000_000_000
_PART = re.compile(rb"<PartNumber>(\d+)</PartNumber><ETag>([^<]*)</ETag>")


@dataclass
class StoredFile:
    """A file that is listed, or an upload that is not, with the reason."""

    metadata: Json
    body: bytes
    problem: str = ""


@dataclass
class StoredFiles:
    """``unverified_asks``: how often an upload's metadata are asked for before it is verified, and listed."""

    files: dict[str, StoredFile] = field(default_factory=dict)
    uploads: dict[str, Metadata] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    expired: set[str] = field(default_factory=set)
    part_bytes: int = 1000
    page_files: int = 2
    unverified_asks: int = 0
    may_read: bool = True
    ids: Any = field(default_factory=lambda: (f"{number:032x}" for number in itertools.count(1)))

    def add(self, body: bytes = b"one\ntwo\n", **fields: Any) -> str:
        """A file that is listed. Returns its id."""
        known = {"version": 0, "start": 1_426_809_920_345, "end": None, "path": "/var/log/nginx.log", "work_id": None,
                 "where": "webserver01", "what": "nginx", "id": next(self.ids), "hash": hash_of(body)}  # fmt: skip
        metadata = known | fields
        self.files[metadata["id"]] = StoredFile(metadata, body)
        return str(metadata["id"])

    def answer(self, base: str, method: str, path: list[str], query: Mapping[str, str], body: bytes) -> Answer:
        """A response of the API: status, document or the file's bytes, and headers."""
        try:
            match (method, *path):
                case ("GET", "files", *_) if not self.may_read and path[-1:] != ["data"]:
                    return 403, {"code": 403, "message": "the scope archive:read is missing"}, {}
                case ("POST", "files"):
                    return self._begin(base, json.loads(body))
                case ("GET", "files"):
                    return self._page(base, query)
                case ("GET", "files", file_id, "metadata"):
                    return 200, self._found(file_id).metadata, {}
                case ("GET", "files", file_id, "data"):
                    return 200, self._found(file_id).body, {}
                case ("GET", "latest", what, where):
                    matching = [each for each in self._matching({"what": what, "where": where}) if "*" not in what]
                    if not matching:
                        raise LookupError(f'No "{what}" files found in last {query.get("lookback", 14)} days from "{where}"')
                    return 200, self._record(base, matching[-1]), {}
        except LookupError as error:
            return 404, {"code": "NoSuchFile", "message": error.args[0]} | ({"detail": error.args[1]} if error.args[1:] else {}), {}
        except (InvalidMetadataError, InvalidTimeError) as error:
            return 400, {"code": "Invalid", "message": str(error)}, {}
        return 404, {"code": 404, "message": "there is no such path"}, {}

    def store(self, method: str, file_id: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> StoreAnswer:
        """A response of S3 to a presigned request."""
        parts = self.parts.get(file_id)
        if file_id in self.expired:
            return 403, _error("AccessDenied", "Request has expired"), {}
        match method:
            case "PUT" if "part" in query and parts is not None:
                assert int(query["size"]) == len(body)
                parts[int(query["part"])] = body
                return 200, b"", {"ETag": f'"{hash_of(body)}"'}
            case "PUT" if "part" not in query:
                assert headers["x-amz-meta-datalake"] == self.uploads[file_id].text() and headers["if-none-match"] == "*"
                if file_id in self.files:
                    return 412, _error("PreconditionFailed", "At least one of the pre-conditions you specified did not hold"), {}
                return self._finish(file_id, body)
            case "POST" if parts is not None:
                named = [(int(number), etag.decode()) for number, etag in _PART.findall(body)]
                if named != [(number, f'"{hash_of(part)}"') for number, part in sorted(parts.items())]:
                    return 400, _error("InvalidPart", "One or more of the specified parts could not be found"), {}
                del self.parts[file_id]
                return self._finish(file_id, b"".join(part for _, part in sorted(parts.items())))
            case "DELETE" if self.parts.pop(file_id, None) is not None:
                return 204, b"", {}
        return 404, _error("NoSuchUpload", "The specified upload does not exist"), {}

    def _finish(self, file_id: str, body: bytes) -> StoreAnswer:
        metadata = self.uploads[file_id]
        wrong = "" if hash_of(body) == metadata.hash else "the upload's hash differs from the announced one"
        self.files[file_id] = StoredFile(metadata.document(), body, wrong)
        return 200, b"<CompleteMultipartUploadResult/>", {}

    def _begin(self, base: str, fields: Json) -> Answer:
        size, file_id = int(fields.pop("size")), next(self.ids)
        metadata = metadata_of({"version": 0, **fields, "id": file_id}, NOW_MS)
        self.uploads[file_id] = metadata
        link = f"{base}/store/files/{file_id}?"
        if size <= self.part_bytes:
            headers = {"x-amz-meta-datalake": metadata.text(), "If-None-Match": "*", "Content-Length": str(size)}
            upload: Json = {"method": "PUT", "url": link, "headers": headers}
        else:
            self.parts[file_id] = {}
            sizes = [min(self.part_bytes, size - begin) for begin in range(0, size, self.part_bytes)]
            parts = [{"number": at, "url": f"{link}part={at}&size={part}", "size": part} for at, part in enumerate(sizes, 1)]
            upload = {"method": "MULTIPART", "part_size": self.part_bytes, "parts": parts, "complete_url": link, "abort_url": link}
        about = {"id": file_id, "url": f"s3://archive/{file_id}/data", "http_url": f"{base}/v0/archive/files/{file_id}/data"}
        expires_at = datetime.fromtimestamp(time.time() + 3600, UTC).isoformat()
        more = {"expires_at": expires_at, "warnings": metadata.warnings()}
        return 201, about | {"metadata": metadata.document(), "upload": upload} | more, {}

    def _page(self, base: str, query: Mapping[str, str]) -> Answer:
        if "work_id" in query and "start" in query and query.get("combine") != "true":
            return 400, {"code": "InvalidWorkInterval", "message": "You must provide only work_id or start/end. Not both."}, {}
        if ("start" in query) != ("end" in query):
            return 400, {"code": "InvalidWorkInterval", "message": "start and end must always be provided together."}, {}
        matching, begin = self._matching(query), int(query.get("cursor", 0))
        page, end = matching[begin : begin + self.page_files], begin + self.page_files
        following = f"https://elsewhere.example/api/v0/archive/files/?{urlencode({**query, 'cursor': end})}"
        return 200, {"records": [self._record(base, each) for each in page], "next": following if end < len(matching) else None}, {}

    def _matching(self, query: Mapping[str, str]) -> list[StoredFile]:
        start, end = (parse_time_ms(query.get(name, default), NOW_MS) for name, default in (("start", 0), ("end", "now")))
        listed = sorted((each for each in self.files.values() if not each.problem), key=lambda each: int(each.metadata["start"]))
        if self.unverified_asks:
            return []
        return [
            each
            for each in listed
            if any(fnmatchcase(each.metadata["what"], what) for what in query["what"].split(","))
            and fnmatchcase(each.metadata["where"], query.get("where", "*"))
            and query.get("work_id", each.metadata["work_id"]) == each.metadata["work_id"]
            and (each.metadata["start"] if each.metadata["end"] is None else each.metadata["end"]) >= start
            and each.metadata["start"] <= end
        ]

    def _record(self, base: str, stored: StoredFile) -> Json:
        file_id = quote(stored.metadata["id"], safe="")
        urls = {"url": f"s3://archive/{stored.metadata['id']}/data", "http_url": f"{base}/v0/archive/files/{file_id}/data"}
        return {**urls, "metadata": stored.metadata, "create_time": NOW_MS, "size": len(stored.body)}

    def _found(self, file_id: str) -> StoredFile:
        missing = f"No file with id {file_id} exists"
        if file_id not in self.files:
            raise LookupError(missing)
        if self.unverified_asks:
            self.unverified_asks -= 1
            raise LookupError(missing, "its upload is not checked yet")
        if problem := self.files[file_id].problem:
            raise LookupError(missing, problem)
        return self.files[file_id]


def hash_of(body: bytes) -> str:
    """The datalake's hash."""
    return blake2b(body, digest_size=16).hexdigest()


def _error(code: str, message: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
