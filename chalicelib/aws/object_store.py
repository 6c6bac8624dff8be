"""One bucket of S3, or of a store that speaks its language, behind ``ports.ObjectStore``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import quote

from chalicelib.aws.errors import translated
from chalicelib.errors import ObjectNotFoundError, OutcomeUnknownError, PreconditionFailedError, StoreUnavailableError
from chalicelib.ports import (
    ANY,
    Condition,
    Folders,
    ListedObject,
    Listing,
    ObjectInfo,
    PutOptions,
    SignedRequest,
    StoredObject,
    behind_folder,
)

_TOTAL = re.compile(r"/(\d+)$")
_MAX_DELETED = 1000


@dataclass(frozen=True, slots=True)
class Encryption:
    """What every write asks for: SSE-S3 ("AES256"), KMS ("aws:kms", with a key id or the account's own), or nothing (None)."""

    algorithm: str | None = "AES256"
    kms_key_id: str | None = None

    def arguments(self) -> dict[str, str]:
        """As boto3 wants it."""
        if self.algorithm is None:
            return {}
        key = {"SSEKMSKeyId": self.kms_key_id} if self.kms_key_id else {}
        return {"ServerSideEncryption": self.algorithm, **key}


class S3ObjectStore:
    """``client`` is a boto3 S3 client that threads may share; build it with ``chalicelib.aws.clients``.

    ``patient`` makes one that waits longer, for what S3 itself needs time for: copied parts and completions. It is asked once, when
    the first of them comes, so that a function that only appends never builds it. None: ``client`` serves there too.
    """

    def __init__(
        self, client: Any, bucket: str, encryption: Encryption = Encryption(), patient: Callable[[], Any] | None = None
    ) -> None:
        self._client, self._bucket = client, bucket
        self._encryption = encryption.arguments()
        self._make_patient, self._patient, self._making = patient, None if patient else client, Lock()

    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        """See the port. One PutObject."""
        try:
            with translated("put", key, write=True):
                answer = self._client.put_object(
                    Bucket=self._bucket, Key=key, Body=body, **self._stored(options), **_conditions(condition)
                )
        except ObjectNotFoundError as error:  # S3's answer to If-Match where there is no object
            raise PreconditionFailedError(str(error)) from error
        return _etag(answer)

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        """See the port. One GetObject; an answer that ends early is an error, never a short body."""
        arguments = _if_match(if_match)
        if start is not None or end is not None:
            arguments["Range"] = _range(start or 0, end)
        with translated("get", key, write=False):
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **arguments)
            body = _read(answer["Body"], key)
        total = _TOTAL.search(answer.get("ContentRange", ""))
        return StoredObject(_info(key, answer, int(total[1]) if total else len(body)), body)

    def head(self, key: str) -> ObjectInfo:
        """See the port. One HeadObject."""
        with translated("head", key, write=False):
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        return _info(key, answer, answer["ContentLength"])

    def list(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Listing:
        """See the port. One ListObjectsV2."""
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        with translated("list", prefix, write=False):
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=limit, **arguments)
        found = [
            ListedObject(row["Key"], row["Size"], row["ETag"].strip('"'), _ms(row["LastModified"]))
            for row in answer.get("Contents", ())
        ]
        return Listing(found, answer.get("IsTruncated", False))

    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = 1000) -> Folders:
        """See the port. One ListObjectsV2 with a delimiter."""
        arguments: dict[str, Any] = {"StartAfter": start_after} if start_after else {}
        with translated("list_folders", prefix, write=False):
            answer = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, Delimiter="/", MaxKeys=limit, **arguments)
        found = [row["Prefix"] for row in answer.get("CommonPrefixes", ())]
        ends = [*map(behind_folder, found[-1:]), *(row["Key"] for row in answer.get("Contents", ())[-1:])]
        base = prefix.rpartition("/")[0] + "/" if "/" in prefix else ""
        names = [name.removeprefix(base).removesuffix("/") for name in found]
        return Folders(names, max(ends, key=str.encode) if answer.get("IsTruncated") and ends else None)

    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """See the port. One DeleteObject."""
        try:
            with translated("delete", key, write=True):
                self._client.delete_object(Bucket=self._bucket, Key=key, **_if_match(if_match))
        except ObjectNotFoundError:
            return
        except PreconditionFailedError:
            if self._exists(key):  # some stores answer 412 for a key that is gone
                raise

    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port. One DeleteObjects. Raises OutcomeUnknownError when any key was refused: others are gone."""
        if not 0 < len(keys) <= _MAX_DELETED:
            raise ValueError(f"a request deletes 1 to 1,000 keys count={len(keys)}")
        objects = [{"Key": key} for key in keys]
        with translated("delete_many", keys[0], write=True):
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True})
        if failed := [row for row in answer.get("Errors", ()) if row.get("Code") != "NoSuchKey"]:
            raise OutcomeUnknownError(f"some keys were not deleted count={len(failed)} first={failed[0]['Key']}")

    def create_multipart(self, key: str, options: PutOptions) -> str:
        """See the port. One CreateMultipartUpload."""
        with translated("create_multipart", key, write=True):
            return str(self._client.create_multipart_upload(Bucket=self._bucket, Key=key, **self._stored(options))["UploadId"])

    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """See the port. One UploadPart."""
        with translated("upload_part", key, write=True):
            return _etag(self._client.upload_part(Bucket=self._bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=body))

    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        """See the port. One UploadPartCopy."""
        with translated("copy_part", source, write=True):
            answer = self._patient_client().upload_part_copy(
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
        with translated("complete_multipart", key, write=True):
            answer = self._patient_client().complete_multipart_upload(
                Bucket=self._bucket, Key=key, UploadId=upload_id, MultipartUpload=upload, **_conditions(condition)
            )
        return _etag(answer)

    def abort_multipart(self, key: str, upload_id: str) -> None:
        """See the port. One AbortMultipartUpload."""
        try:
            with translated("abort_multipart", key, write=True):
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)
        except ObjectNotFoundError:
            return

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        """See the port. Signed here, no request."""
        arguments = {"Key": key, "ResponseContentType": content_type}
        if filename:
            arguments["ResponseContentDisposition"] = attachment(filename)
        if content_encoding:
            arguments["ResponseContentEncoding"] = content_encoding
        return self._signed("get_object", arguments, expires_s)

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        """See the port. Signed here, no request; the bucket's own encryption applies."""
        arguments = {"Key": key, "Metadata": metadata, "ContentLength": size, "IfNoneMatch": "*"}
        headers = {f"x-amz-meta-{name}": value for name, value in metadata.items()} | {
            "If-None-Match": "*",
            "Content-Length": str(size),
        }
        return SignedRequest(self._signed("put_object", arguments, expires_s), headers)

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        """See the port. Signed here, no request."""
        arguments = {"Key": key, "UploadId": upload_id, "PartNumber": number, "ContentLength": size}
        return self._signed("upload_part", arguments, expires_s)

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port. Signed here, no request."""
        return self._signed("complete_multipart_upload", {"Key": key, "UploadId": upload_id}, expires_s)

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port. Signed here, no request."""
        return self._signed("abort_multipart_upload", {"Key": key, "UploadId": upload_id}, expires_s)

    def _signed(self, operation: str, arguments: Mapping[str, Any], expires_s: int) -> str:
        params = {"Bucket": self._bucket, **arguments}
        return str(self._client.generate_presigned_url(operation, Params=params, ExpiresIn=expires_s))

    def _patient_client(self) -> Any:
        """Parts are copied beside each other, and boto3 makes clients one at a time."""
        with self._making:
            if self._patient is None and self._make_patient:
                self._patient = self._make_patient()
            return self._patient

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
        return stored


def attachment(filename: str) -> str:
    """A Content-Disposition that saves under ``filename``, whatever letters it has (RFC 6266)."""
    plain = re.sub(r"[^A-Za-z0-9 !#$&+.^_`|~-]", "_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


def _conditions(condition: Condition) -> dict[str, str]:
    return {"IfNoneMatch": "*"} if condition.if_none_match else _if_match(condition.if_match)


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"IfMatch": f'"{etag}"'}


def _range(start: int, end: int | None) -> str:
    """S3 answers a range that makes no sense with the whole object: never ask for one."""
    if start < 0 or (end is not None and end <= start):
        raise ValueError(f"a range has a byte at least start={start} end={end}")
    return f"bytes={start}-{end - 1 if end is not None else ''}"


def _read(stream: Any, key: str) -> bytes:
    try:
        return bytes(stream.read())
    except (OSError, ValueError) as error:
        raise StoreUnavailableError(f"answer broke off what={key} error={type(error).__name__}") from error


def _info(key: str, answer: Mapping[str, Any], size: int) -> ObjectInfo:
    return ObjectInfo(
        key, size, _etag(answer), _ms(answer["LastModified"]), answer.get("Metadata", {}), answer.get("ContentType", "")
    )


def _etag(answer: Mapping[str, Any]) -> str:
    return str(answer["ETag"]).strip('"')


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
