"""Responses of the archive API: typed dictionaries, because a record is served as it is stored, also if another program damaged it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypeAliasType, TypedDict

from chalicelib.catalog.metadata import EndMs, HexText, Metadata
from chalicelib.catalog.search import MAX_PAGE
from chalicelib.routes.schemas import Count, DescribedBy, Moment, Uri

MIN_PART_BYTES = 5 * 1024**2
MAX_PARTS = 10_000
"""Bounds of S3's multipart uploads."""


class StorageLocation(TypedDict):
    """The storage location of files."""

    storage_url: Uri


class FileMetadata(Metadata):
    """Metadata of a file, with the times as ISO 8601 too. Additional keys are preserved."""

    end: EndMs
    start_iso: Moment = ""
    end_iso: Moment | None = None


MetadataDocument = Annotated[dict[str, Any], DescribedBy(FileMetadata)]


class FileEntry(TypedDict):
    """A file in the archive."""

    url: Annotated[
        str,
        Field(
            description="S3 URL of the file, `s3://`, bucket, `/` and key, without percent-encoding; for the log of a run, the same as "
            "`http_url`."
        ),
    ]
    s3_url: NotRequired[Annotated[Uri, Field(description="S3 URL of the log of a run.")]]
    http_url: Annotated[
        str,
        Field(description="HTTP URL of the contents, with the id percent-encoded; of a file with the id `.` or `..` the S3 URL."),
    ]
    create_time: Annotated[int, Field(description="Time of the last write, in ms since the epoch.")]
    size: Annotated[Count, Field(description="Size in bytes.")]
    metadata: MetadataDocument


class FileEntryPage(TypedDict):
    """A page of files. It may have fewer than 100 files and still have a `next`. No file is on two pages."""

    records: Annotated[list[FileEntry], Field(max_length=MAX_PAGE)]
    next: Annotated[Uri | None, Field(description="URL of the next page; null on the last page.")]


class FilePart(TypedDict):
    """One part of a file."""

    number: Annotated[int, Field(ge=1, le=MAX_PARTS)]
    url: Uri
    size: Annotated[Count, Field(description="Size in bytes.")]


class PutUpload(TypedDict):
    """PUT the contents to `url` with exactly these headers."""

    method: Literal["PUT"]
    url: Uri
    headers: dict[str, str]


class MultipartUpload(TypedDict):
    """PUT each part to its `url` and keep the ETag of the response; then POST S3's CompleteMultipartUpload document with all ETags to
    `complete_url`, or DELETE `abort_url` to cancel the upload."""

    method: Literal["MULTIPART"]
    part_size: Annotated[int, Field(ge=MIN_PART_BYTES, description="Size in bytes of every part except the last.")]
    parts: Annotated[list[FilePart], Field(min_length=1, max_length=MAX_PARTS)]
    complete_url: Uri
    abort_url: Uri


UploadSteps = TypeAliasType(
    "UploadSteps",
    Annotated[
        PutUpload | MultipartUpload,
        Field(
            discriminator="method",
            description="The requests of an upload: one PUT up to 100 MiB, a multipart upload above.",
        ),
    ],
)


class CreatedFile(TypedDict):
    """A prepared upload. The file is in the archive after its contents are uploaded and their hash is verified."""

    id: HexText
    url: Annotated[Uri, Field(description="S3 URL of the future file.")]
    http_url: Annotated[Uri, Field(description="HTTP URL of the future contents.")]
    metadata: MetadataDocument
    upload: UploadSteps
    expires_at: Annotated[Moment, Field(description="Time at which the URLs of the upload expire.")]


class ArchiveError(TypedDict):
    """An error."""

    code: Annotated[str, Field(description="Machine-readable code.")]
    message: Annotated[str, Field(description="Human-readable message, the same for all requests with this mistake.")]
    detail: NotRequired[Annotated[str, Field(description="What is wrong with this request, or what to do.")]]
