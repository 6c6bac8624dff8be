"""The archive over HTTP in the protocol of the datalake's client: list, latest, contents, metadata; and uploads, changes, deletions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode

from chalice.app import Response

from chalicelib import __version__, composition
from chalicelib.access.grants import Scope
from chalicelib.archive.contents import Contents
from chalicelib.archive.uploads import PresignedMultipart, Upload
from chalicelib.catalog.file_ids import DOT_SEGMENTS
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.metadata import Metadata, is_slug
from chalicelib.catalog.search import FileQuery
from chalicelib.catalog.timestamps import DAY_MS, iso
from chalicelib.composition import Services
from chalicelib.errors import (
    InvalidCursorError,
    InvalidMetadataError,
    InvalidNameError,
    NoSuchFileError,
    NotChangeableError,
    RunlakeError,
    StoreConditionError,
    TooManyNamesError,
    UnavailableError,
    UploadTooLargeError,
)
from chalicelib.routes import gate
from chalicelib.routes.addresses import base_url
from chalicelib.routes.api_request import ApiRequest, View
from chalicelib.routes.archive_authorization import READ, archive_authorizer, authorize_create, find_visible
from chalicelib.routes.archive_models import (
    CreatedFile,
    FileEntry,
    FileEntryPage,
    FilePart,
    MultipartUpload,
    PutUpload,
    StorageLocation,
)
from chalicelib.routes.archive_queries import ArchiveErrorCode, ArchiveRequestError, file_query, lookback_days
from chalicelib.routes.cursors import decrypt_cursor, encrypt_cursor
from chalicelib.routes.json_bodies import parse_document
from chalicelib.routes.paths import ARCHIVE
from chalicelib.routes.responses import json_response
from chalicelib.routes.service_models import Build, Environment, EnvironmentData

_CODES: tuple[tuple[type[RunlakeError], ArchiveErrorCode, int], ...] = (
    (InvalidMetadataError, ArchiveErrorCode.INVALID_METADATA, 400),
    (TooManyNamesError, ArchiveErrorCode.TOO_MANY_NAMES, 400),
    (UploadTooLargeError, ArchiveErrorCode.TOO_LARGE, 413),
    (NoSuchFileError, ArchiveErrorCode.NO_SUCH_FILE, 404),
    (NotChangeableError, ArchiveErrorCode.NOT_CHANGEABLE, 409),
    (UnavailableError, ArchiveErrorCode.UNAVAILABLE, 503),
    (StoreConditionError, ArchiveErrorCode.UNAVAILABLE, 503),  # concurrent writers kept changing the object
)


def archive_view(view: View) -> View:
    """A view that returns errors with the archive's codes."""

    @wraps(view)
    def viewed(request: ApiRequest) -> Response:
        try:
            return view(request)
        except RunlakeError as error:
            known = next(((code, status) for kind, code, status in _CODES if isinstance(error, kind)), None)
            if known is None:
                raise
            code, status = known
            raise ArchiveRequestError(code, str(error), status, getattr(error, "reason", "")) from error

    return viewed


def archive(_: ApiRequest) -> Response:
    """The S3 address of the archive."""
    gate.allow_authenticated("the archive's address")
    return json_response(StorageLocation(storage_url=f"s3://{composition.services().settings.archive_bucket_name}"))


def environment(_: ApiRequest) -> Response:
    """The version of this build."""
    gate.allow_authenticated("the version")
    body = Environment(data=EnvironmentData(build=Build(version=__version__)))
    return json_response(body.model_dump())


@archive_view
def list_files(request: ApiRequest) -> Response:
    """A page of files by what, where, work id and time, without files that the principal may not see."""
    asked = request.query_joining("what")
    gate.require_any_scope(asked.get("what", ""), Scope.ARCHIVE_READ, Scope.LOGS_READ)
    services, seen = composition.services(), archive_authorizer()
    now_ms = services.clock.now_ms()
    parameters = {name: str(now_ms) if name in ("start", "end") and value == "now" else value for name, value in asked.items()}
    query = _file_query(services, parameters, now_ms)  # "now" is the same on all pages
    page = services.search.page(query, whats=seen.may_contain)
    base = base_url(request)
    documents = [each for each in page.documents if seen.may_read(each)]
    gate.record_names(map(seen.name_of, documents))
    records = [_record(services, each, base) for each in documents]
    following = None
    if page.after:
        cursor = services.cursors.write(query, page.after)
        cursor = encrypt_cursor(cursor, READ, *_bound_to(parameters))
        following = f"{base}{ARCHIVE}/files/?" + urlencode(parameters | {"cursor": cursor})
    return json_response(FileEntryPage(records=records, next=following))


@archive_view
def begin_upload(request: ApiRequest) -> Response:
    """Validate the metadata of a new file, and return the address for its bytes."""
    services = composition.services()
    upload = services.uploads.begin(_body(request), authorize_create)
    return json_response(_created_file(services, upload, base_url(request)), 201)


@archive_view
def delete_file(request: ApiRequest) -> Response:
    """Delete a file permanently."""
    file_id, archive = _file_id(request), composition.services().archive
    find_visible(file_id, lambda: archive.delete(file_id, archive_authorizer().authorize_write))
    return Response("", status_code=204)


@archive_view
def get_metadata(request: ApiRequest) -> Response:
    """A file's metadata."""
    file_id, archive = _file_id(request), composition.services().archive
    return json_response(_described(find_visible(file_id, lambda: archive.metadata(file_id, archive_authorizer().authorize_read))))


@archive_view
def change_metadata(request: ApiRequest) -> Response:
    """Change a file's metadata."""
    file_id, archive, changes = _file_id(request), composition.services().archive, _body(request)
    changed = find_visible(
        file_id, lambda: archive.change(file_id, changes, archive_authorizer().authorize_write, authorize_create)
    )
    return json_response(_described(changed))


@archive_view
def get_contents(request: ApiRequest) -> Response:
    """A file's bytes."""
    file_id, archive = _file_id(request), composition.services().archive
    return _contents(find_visible(file_id, lambda: archive.contents(file_id, archive_authorizer().authorize_read)))


@archive_view
def latest(request: ApiRequest) -> Response:
    """The latest file of a source."""
    return json_response(_record(composition.services(), _latest(request).document(), base_url(request)))


@archive_view
def latest_contents(request: ApiRequest) -> Response:
    """The latest file's bytes."""
    file_id, archive = _latest(request).id, composition.services().archive
    return _contents(find_visible(file_id, lambda: archive.contents(file_id, archive_authorizer().authorize_read)))


def _file_id(request: ApiRequest) -> str:
    """The id in the path; "", the id of no file, for bytes that are not UTF-8: replaced, they would be the id of another file."""
    try:
        return request.names["id"]
    except InvalidNameError:
        return ""


def _bound_to(parameters: Mapping[str, str]) -> tuple[str, ...]:
    """The requested names, to which the encryption binds the cursor. Its signature binds it to the rest of the query."""
    return ("files", *(parameters.get(name, "") for name in ("what", "where", "work_id")))


def _file_query(services: Services, parameters: Mapping[str, str], now_ms: int) -> FileQuery:
    """Raises ArchiveRequestError."""
    cursor = parameters.get("cursor") or ""
    try:
        opened = {**parameters, "cursor": decrypt_cursor(cursor, READ, *_bound_to(parameters))} if cursor else parameters
        return file_query(opened, services.cursors, now_ms)
    except InvalidCursorError as error:
        message = f"Failed to decode cursor {cursor}"  # as it was sent: a decrypted one may name files that are hidden
        raise ArchiveRequestError(ArchiveErrorCode.INVALID_CURSOR, message, detail=str(error)) from error


def _latest(request: ApiRequest) -> FileRecord:
    services, seen = composition.services(), archive_authorizer()
    what, where = request.lossy_name("what"), request.lossy_name("where")
    if not seen.may_contain(what):
        gate.require_scope(Scope.ARCHIVE_READ, what)  # raises
    days, now_ms = lookback_days(request.query), services.clock.now_ms()
    record = services.latest.find(what, where, now_ms, seen.may_read) if is_slug(what) and is_slug(where) else None
    gate.record_decision(Scope.ARCHIVE_READ, f"{what}/{where}", True, "the latest visible file")
    if record is None or record.metadata.last_ms // DAY_MS < now_ms // DAY_MS - days:
        raise ArchiveRequestError(ArchiveErrorCode.NO_SUCH_FILE, f'No "{what}" files found in last {days} days from "{where}"', 404)
    gate.record_names([seen.name_of(record.document())])
    return record


def _record(services: Services, document: Mapping[str, Any], base: str) -> FileEntry:
    """A record in a response. The client fetches only from the archive's bucket, so for a run's log ``url`` is an address of this API and
    ``s3_url`` the one on S3."""
    metadata = document["metadata"]
    http_url = _http_url(base, str(metadata["id"]), document["url"])
    is_own = document["url"].startswith(f"s3://{services.settings.archive_bucket_name}/")
    entry: FileEntry = {
        "url": document["url"] if is_own else http_url,
        "metadata": _with_iso(metadata),
        "http_url": http_url,
        "create_time": document["create_time"],
        "size": document["size"],
    }
    if not is_own:
        entry["s3_url"] = document["url"]
    return entry


def _http_url(base: str, file_id: str, s3_url: str) -> str:
    """The address of a file's contents, with the id percent-encoded as one segment of the path. Clients resolve ``.`` and ``..`` in a path in
    any encoding, so the address of these is on S3."""
    encoded = quote(file_id, safe="", errors="replace")
    return s3_url if file_id in DOT_SEGMENTS else f"{base}{ARCHIVE}/files/{encoded}/data"


def _described(metadata: Metadata) -> dict[str, Any]:
    return _with_iso(metadata.document())


def _with_iso(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A metadata document with its times as ISO 8601 too. Keys of these names in the stored document are not returned."""
    end = metadata.get("end")
    return {**metadata, "end": end, "start_iso": iso(metadata["start"]), "end_iso": None if end is None else iso(end)}


def _contents(contents: Contents) -> Response:
    if contents.text is None:
        return json_response({"location": contents.link}, 307, Location=contents.link)
    # A browser must not run the file in this origin.
    return Response(contents.text, headers={"Content-Type": contents.content_type, "Content-Security-Policy": "sandbox"})


def _created_file(services: Services, upload: Upload, base: str) -> CreatedFile:
    metadata, url = upload.metadata, f"s3://{services.settings.archive_bucket_name}/{upload.key}"
    return {
        "id": metadata.id,
        "url": url,
        "http_url": _http_url(base, metadata.id, url),
        "metadata": metadata.document(),
        "upload": _upload_steps(upload),
        "expires_at": iso(upload.expires_ms),
        "warnings": metadata.warnings(),
    }


def _upload_steps(upload: Upload) -> PutUpload | MultipartUpload:
    request = upload.request
    if not isinstance(request, PresignedMultipart):
        return {"method": "PUT", "url": request.url, "headers": dict(request.headers)}
    parts: list[FilePart] = [{"number": part.number, "url": part.url, "size": part.size} for part in request.parts]
    return {
        "method": "MULTIPART",
        "part_size": parts[0]["size"],
        "parts": parts,
        "complete_url": request.complete_url,
        "abort_url": request.abort_url,
    }


def _body(request: ApiRequest) -> dict[str, Any]:
    try:
        body = parse_document(request.body or b"null")
    except ValueError as error:
        raise InvalidMetadataError(f"the body is not json reason={str(error)[:200]!r}") from error
    if not isinstance(body, dict):
        raise InvalidMetadataError("the body must be a JSON object of metadata fields")
    return body
