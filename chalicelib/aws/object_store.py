"""``ports.ObjectStore`` on one bucket of S3 or of an S3-compatible store."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import quote, urlencode

from chalicelib.aws.errors import translate_errors
from chalicelib.errors import ObjectNotFoundError, OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError
from chalicelib.ports import (
    ANY,
    Condition,
    Folders,
    ListedObject,
    Listing,
    ObjectInfo,
    ObjectVersion,
    OpenUpload,
    PutOptions,
    SignedRequest,
    StoredObject,
    after_folder,
)

_TOTAL = re.compile(r"/(\d+)$")
_MAX_DELETED = 1000


@dataclass(frozen=True, slots=True)
class Encryption:
    """Server-side encryption of all writes: SSE-S3 ("AES256"), KMS ("aws:kms", with a key id or the account's default key), or the
    bucket's default (None)."""

    algorithm: str | None = "AES256"
    kms_key_id: str | None = None

    def arguments(self) -> dict[str, str]:
        """Arguments for boto3."""
        if self.algorithm is None:
            return {}
        key = {"SSEKMSKeyId": self.kms_key_id} if self.kms_key_id else {}
        return {"ServerSideEncryption": self.algorithm, **key}


class S3ObjectStore:
    """``client`` is a thread-safe boto3 S3 client from ``chalicelib.aws.clients``.

    ``long_timeout_client`` creates a client with a longer read timeout, for copied parts and completions, which S3 takes time to process.
    Called once, on first use, so a function that only appends never creates it. None: ``client`` is used.
    """

    def __init__(
        self, client: Any, bucket: str, encryption: Encryption = Encryption(), long_timeout_client: Callable[[], Any] | None = None
    ) -> None:
        self._client, self._bucket = client, bucket
        self._encryption = encryption.arguments()
        self._make_long_timeout_client, self._making = long_timeout_client, Lock()
        self._long_timeout_client = None if long_timeout_client else client

    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        """See the port. One PutObject."""
        try:
            with translate_errors("put", key, write=True):
                answer = self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=body, **self._stored(options), **_conditions(condition)
                )
        except ObjectNotFoundError as error:  # S3's response to If-Match if there is no object
            raise PreconditionFailedError(str(error)) from error
        return _etag(answer)

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        """See the port. One GetObject; a truncated response raises and never returns a short body."""
        arguments = _if_match(if_match)
        if start is not None or end is not None:
            arguments["Range"] = _range(start or 0, end)
        with translate_errors("get", key, write=False):
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **arguments)
            body = _read(answer["Body"], key)
        total = _TOTAL.search(answer.get("ContentRange", ""))
        return StoredObject(_info(key, answer, int(total[1]) if total else len(body)), body)

    def head(self, key: str) -> ObjectInfo:
        """See the port. One HeadObject."""
        with translate_errors("head", key, write=False):
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        return _info(key, answer, answer["ContentLength"])

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Listing:
        """See the port. One ListObjectsV2."""
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        with translate_errors("list", prefix, write=False):
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=limit, **arguments)
        entries = [
            ListedObject(row["Key"], row["Size"], row["ETag"].strip('"'), _ms(row["LastModified"]))
            for row in answer.get("Contents", ())
        ]
        return Listing(entries, answer.get("IsTruncated", False))

    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Folders:
        """See the port. One ListObjectsV2 with a delimiter."""
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        with translate_errors("list_folders", prefix, write=False):
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, Delimiter="/", MaxKeys=limit, **arguments)
        entries = [row["Prefix"] for row in answer.get("CommonPrefixes", ())]
        ends = [*map(after_folder, entries[-1:]), *(row["Key"] for row in answer.get("Contents", ())[-1:])]
        base = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
        names = [name.removeprefix(base).removesuffix("/") for name in entries]
        return Folders(names, max(ends, key=str.encode) if answer.get("IsTruncated") and ends else None)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """See the port. One DeleteObject."""
        try:
            with translate_errors("delete", key, write=True):
                self._client.delete_object(Bucket=self._bucket, Key=key, **_if_match(if_match))
        except ObjectNotFoundError:
            return
        except PreconditionFailedError:
            if self._exists(key):  # some stores respond with 412 for a deleted key
                raise

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port. One DeleteObjects. Raises OutcomeUnknownError if any key was refused; others are deleted."""
        self._delete_objects([{"Key": key} for key in keys])

    def _delete_objects(self, objects: Sequence[Mapping[str, str]]) -> None:
        if not 0 < len(objects) <= _MAX_DELETED:
            raise ValueError(f"a request must delete 1 to 1,000 keys count={len(objects)}")
        with translate_errors("delete_many", objects[0]["Key"], write=True):
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
        if failed := [row for row in answer.get("Errors", ()) if row.get("Code") != "NoSuchKey"]:
            raise OutcomeUnknownError(f"some keys were not deleted count={len(failed)} first={failed[0]['Key']}")

    def old_versions(self, prefix: str, limit: int = 1000) -> Sequence[ObjectVersion]:
        """See the port. ListObjectVersions. Markers of a key that is not listed to its end are left for a later call."""
        versions: list[ObjectVersion] = []
        markers: list[ObjectVersion] = []
        place: dict[str, Any] = {}
        while True:
            with translate_errors("list_versions", prefix, write=False):
                answer = self._client.list_object_versions(Bucket=self._bucket, Prefix=prefix, **place)
            versions += _versions(row for row in answer.get("Versions", ()) if not row["IsLatest"])
            markers += _versions(answer.get("DeleteMarkers", ()))
            is_cut, last = answer.get("IsTruncated", False), answer.get("NextKeyMarker")
            found = versions + [each for each in markers if not (is_cut and each.key == last)]
            if not is_cut or len(found) >= limit:
                return found[:limit]
            place = {"KeyMarker": last, "VersionIdMarker": answer["NextVersionIdMarker"]}

    def delete_versions(self, versions: Sequence[ObjectVersion]) -> None:
        """See the port. One DeleteObjects."""
        self._delete_objects([{"Key": each.key, "VersionId": each.version_id} for each in versions])

    def open_uploads(self, prefix: str) -> Sequence[OpenUpload]:
        """See the port. ListMultipartUploads."""
        found: list[OpenUpload] = []
        place: dict[str, Any] = {}
        while True:
            with translate_errors("list_uploads", prefix, write=False):
                answer = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=prefix, **place)
            found += [OpenUpload(row["Key"], row["UploadId"]) for row in answer.get("Uploads", ())]
            if not answer.get("IsTruncated"):
                return found
            place = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer["NextUploadIdMarker"]}

    def create_multipart(self, key: str, options: PutOptions) -> str:
        """See the port. One CreateMultipartUpload."""
        with translate_errors("create_multipart", key, write=True):
            return str(self._client.create_multipart_upload(Bucket=self._bucket, Key=key, **self._stored(options))["UploadId"])

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """See the port. One UploadPart."""
        with translate_errors("upload_part", key, write=True):
            return _etag(self._client.upload_part(Bucket=self._bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body))

    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        """See the port. One UploadPartCopy."""
        with translate_errors("copy_part", source, write=True):
            answer = self._get_long_timeout_client().upload_part_copy(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload_id,
                PartNumber=number,
                CopySource={"Bucket": self._bucket, "Key": source},
                CopySourceRange=_range(start, end),
                CopySourceIfMatch=f'"{if_match}"',
            )
        return _etag(answer["CopyPartResult"])

    def complete_multipart(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition = ANY) -> str:
        """See the port. One CompleteMultipartUpload."""
        upload = {"Parts": [{"PartNumber": number, "ETag": f'"{etag}"'} for number, etag in parts]}
        with translate_errors("complete_multipart", key, write=True):
            answer = self._get_long_timeout_client().complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload_id, MultipartUpload=upload, **_conditions(condition)
            )
        return _etag(answer)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """See the port. One AbortMultipartUpload."""
        try:
            with translate_errors("abort_multipart", key, write=True):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)
        except ObjectNotFoundError:
            return

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        """See the port. Signed locally, no request."""
        arguments = {"Key": key, "ResponseContentType": content_type}
        if filename:
            arguments["ResponseContentDisposition"] = content_disposition(filename)
        if content_encoding:
            arguments["ResponseContentEncoding"] = content_encoding
        return self._signed("get_object", arguments, expires_s)

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        """See the port. Signed locally, no request; the bucket's default encryption applies."""
        arguments = {"Key": key, "Metadata": metadata, "ContentLength": size, "IfNoneMatch": "*"}
        headers = {f"x-amz-meta-{name}": value for name, value in metadata.items()} | {
            "If-None-Match": "*",
            "Content-Length": str(size),
        }
        return SignedRequest(self._signed("put_object", arguments, expires_s), headers)

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        """See the port. Signed locally, no request."""
        arguments = {"Key": key, "UploadId": upload_id, "PartNumber": number, "ContentLength": size}
        return self._signed("upload_part", arguments, expires_s)

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port. Signed locally, no request."""
        return self._signed("complete_multipart_upload", {"Key": key, "UploadId": upload_id}, expires_s)

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port. Signed locally, no request."""
        return self._signed("abort_multipart_upload", {"Key": key, "UploadId": upload_id}, expires_s)

    def _signed(self, operation: str, arguments: Mapping[str, Any], expires_s: int) -> str:
        params = {"Bucket": self._bucket, **arguments}
        return str(self._client.generate_presigned_url(operation, Params=params, ExpiresIn=expires_s))

    def _get_long_timeout_client(self) -> Any:
        """Locked: parts are copied by several threads, and boto3's client creation is not thread-safe."""
        with self._making:
            if self._long_timeout_client is None and self._make_long_timeout_client:
                self._long_timeout_client = self._make_long_timeout_client()
            return self._long_timeout_client

    def _exists(self, key: str) -> bool:
        try:
            self.head(key)
        except ObjectNotFoundError:
            return False
        return True

    def _stored(self, options: PutOptions) -> dict[str, Any]:
        stored: dict[str, Any] = {"Metadata": options.metadata, "ContentType": options.content_type, **self._encryption}
        if options.storage_class:
            stored["StorageClass"] = options.storage_class
        if options.tags:
            stored["Tagging"] = urlencode(options.tags)
        return stored


def content_disposition(filename: str) -> str:
    """A Content-Disposition header that saves the file as ``filename``, for any characters (RFC 6266)."""
    plain = re.sub(r"[^A-Za-z0-9 !#$&+.^_`|~-]", "_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _conditions(condition: Condition) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if condition.if_none_match else _if_match(condition.if_match)


def _versions(rows: Iterable[Mapping[str, Any]]) -> list[ObjectVersion]:
    return [ObjectVersion(row["Key"], row["VersionId"]) for row in rows]


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"IfMatch": f'"{etag}"'}


def _range(start: int, end: int | None) -> str:
    """S3 ignores an invalid range and returns the complete object, so an invalid range raises."""
    if start < 0 or (end is not None and end <= start):
        raise ValueError(f"a range must contain at least one byte start={start} end={end}")
    return f"bytes={start}-{end - 1 if end is not None else ''}"


def _read(stream: Any, key: str) -> bytes:
    try:
        return bytes(stream.read())
    except (OSError, ValueError) as error:
        raise StoreUnavailableError(f"response was truncated key={key} error={type(error).__name__}") from error


def _info(key: str, answer: Mapping[str, Any], size: int) -> ObjectInfo:
    return ObjectInfo(
        key, size, _etag(answer), _ms(answer["LastModified"]), answer.get("Metadata", {}), answer.get("ContentType", "")
    )


def _etag(answer: Mapping[str, Any]) -> str:
    return str(answer["ETag"]).strip('"')


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
