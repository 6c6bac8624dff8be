"""Files of the archive: push, find, fetch and read them with the token alone. Their bytes go directly to and from the object store, by links
that the server signs for one file each."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from string import Formatter
from typing import IO, Any, Optional
from urllib.parse import unquote

from runlake.archive import Archive
from runlake.errors import (
    AccessError,
    IncompleteError,
    NoAddressError,
    NotFoundError,
    RefusedError,
    RunlakeError,
    TargetError,
    UnavailableError,
    advise,
)
from runlake.fetching import RANGE_NOT_SATISFIABLE, check_regular, continued_by_a_repeat, part_of
from runlake.pacing import TRIES, Backoff, retried
from runlake.terminal import UNPRINTABLE
from runlake.uploadstate import UploadState, upload_state

DEFAULT_TEMPLATE = "{id}"
"""The name of a fetched file, as the datalake's client has it."""
PATIENCE_S = 60.0
"""How long a push waits until the archive has verified the file."""
MAX_SLUG_CHARS = 256
SLUG = re.compile(rf"[a-z0-9_-]{{1,{MAX_SLUG_CHARS}}}")
"""A ``what``, ``where`` or ``work_id``, as the archive accepts it."""
_BLOCK_BYTES = 256 * 1024
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_WINDOW = 31
_IN_A_NAME = re.compile(rf"[/\\\t{UNPRINTABLE}]")
_DATA = re.compile(r"/v0/archive/files/([^/?#]+)/(?:data|metadata)")
_KEY = re.compile(r"s3://[^/]+/(.+)/data", re.DOTALL)
_DIFFERS = "differs from the announced one"
"""In the server's reason for an upload that it will never list."""
NOT_CHECKED = "is not checked yet"
"""In that for an upload that it may list soon."""
_NOT_FOUND = 404
_PRECONDITION_FAILED = 412
Json = dict[str, Any]
Progress = Callable[[int, Optional[int]], None]
"""Gets the bytes so far and in total."""


@dataclass(frozen=True)
class PushedFile:
    """A file in the archive. ``record``: ``id``, ``url``, ``http_url`` and ``metadata``; ``size``: in bytes. ``existed``: the archive had this file
    before. ``verified``: the archive has compared the hash, and lists the file; False if it has not yet, or the token may not read.
    ``warnings``: discouraged names. ``resumed_at``: how many of the bytes an earlier call had stored."""

    record: Json
    size: int
    existed: bool
    verified: bool
    warnings: tuple[str, ...] = ()
    resumed_at: int = 0


@dataclass(frozen=True)
class FetchedFile:
    """A file on disk, of ``size`` bytes. ``resumed_at``: how many of them an earlier call had fetched. ``existed``: it was there before, and
    nothing was fetched. ``verified``: its hash is that of the archive; None for the log of a run over 4 GiB, of which the archive has no
    hash."""

    path: Path
    id: str
    size: int
    resumed_at: int
    existed: bool
    verified: bool | None


class Files:
    """The files of one archive. Memory: one block of 256 KiB; requests one after the other.

    ``uploads``: a folder of the user's own for the states of unfinished uploads, such as ``Settings.uploads_folder``; None: a push that fails
    is not continued. ``notice`` gets a message when a transfer begins to retry."""

    def __init__(
        self,
        archive: Archive,
        pause: Callable[[float], object] = time.sleep,
        *,
        uploads: Path | None = None,
        notice: Callable[[str], object] = lambda text: None,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._archive, self._pause, self._uploads, self._notice, self._clock_s = archive, pause, uploads, notice, clock_s

    def find(
        self,
        what: str,
        *,
        where: str | None = None,
        work_id: str | None = None,
        start: str | int | None = None,
        end: str | int | None = None,
    ) -> Iterator[Json]:
        """Records of files, the oldest first: by work id, by time, or both. ``what``: several by commas, ``*`` for any characters. ``start`` and
        ``end``: ms since the epoch, ISO 8601 or ``now``; ``end`` defaults to now. A record has ``url``, ``http_url``, ``size`` in bytes,
        ``create_time`` in ms, and ``metadata``. One request for each 100 files. Raises RefusedError, AccessError, UnavailableError."""
        has_time = start is not None or end is not None
        query = {
            "what": what,
            "where": where,
            "work_id": work_id,
            "start": start,
            "end": "now" if has_time and end is None else end,
            "combine": "true" if has_time and work_id is not None else None,
        }
        return self._archive.files(**{name: value for name, value in query.items() if value is not None})

    def latest(self, what: str, where: str, lookback_days: int | None = None) -> Json:
        """The record of the file with the latest start, by default of the last 14 days, as ``find`` has it. Raises NotFoundError, AccessError,
        UnavailableError."""
        return self._archive.latest_file(what, where, lookback_days)

    def push(
        self,
        source: Path | IO[bytes],
        *,
        what: str,
        where: str,
        start: str | int,
        end: str | int | None = None,
        work_id: str | None = None,
        progress: Progress = lambda done, total: None,
        patience_s: float = PATIENCE_S,
    ) -> PushedFile:
        """Store a file, and wait for at most ``patience_s`` until the archive has verified it. A stream is first copied to a temporary file.

        Safe to repeat: a file that the archive lists with the same contents and metadata is not stored again. Two pushes at the same time, or
        with a token that may not read, store it twice. After a failure nothing is listed. Each part of a large file is retried on its own. With
        a folder of ``uploads``, a repeat of the same arguments and contents skips the stored parts, until the links to them expire, an hour
        after the first call; then, or if the store refuses the others, it starts from the beginning. The error, or a note of one of Python's,
        says so. Without a folder, or without any part, the upload is deleted.

        Raises OSError, RefusedError (invalid metadata, more than 5 GiB), AccessError, IncompleteError (the file changed meanwhile),
        UnavailableError.
        """
        with _opened(source) as (path, file):
            size, digest = _measured(file)
            about = {"what": what, "where": where, "start": start, "end": end, "work_id": work_id, "path": path}
            announced = about | {"hash": digest, "size": size}
            with upload_state(self._uploads, announced | {"archive": self._archive.url}, self._clock_s) as state:
                is_resumed = state.created is not None
                try:
                    pushed, may_read = self._upload(announced, file, state, progress)
                except RefusedError:
                    if not is_resumed:
                        raise
                    pushed, may_read = self._upload(announced, file, state, progress)
        if pushed.existed or not may_read:
            return pushed
        return replace(pushed, verified=self._is_verified(str(pushed.record["id"]), patience_s))

    def fetch(
        self,
        file_id: str,
        template: str = DEFAULT_TEMPLATE,
        *,
        overwrite: bool = False,
        progress: Progress = lambda done, total: None,
    ) -> FetchedFile:
        """Store a file under the name that ``template`` gives it, after its hash is verified. Folders are created.

        Safe to repeat: a complete file is not fetched again, and ``NAME.part``, which an interrupted call leaves, is continued. Raises
        TargetError (the template is wrong, or another file has the name), NotFoundError, OSError, IncompleteError (wrong bytes, which are
        deleted), UnavailableError after retries.
        """
        metadata = self._metadata(file_id)
        path = target_of(template, metadata)
        digest = None if metadata.get("hash_of") == "identity" else str(metadata["hash"])
        if path.exists() and not (overwrite and path.is_file()):
            return _existing(path, file_id, digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(path)
        check_regular(part)
        resumed_at = part.stat().st_size if part.exists() else 0
        with continued_by_a_repeat(part):
            size, found = self._fetch_part(file_id, part, progress)
        if resumed_at and digest not in (None, found):  # it was the part of another file
            part.unlink()
            resumed_at = 0
            size, found = self._fetch_part(file_id, part, progress)
        if digest not in (None, found):
            part.unlink()
            raise IncompleteError(f"the bytes differ from the archive's hash={found} expected={digest} id={file_id}")
        part.replace(path)
        return FetchedFile(path, file_id, size, resumed_at, existed=False, verified=None if digest is None else True)

    def read(self, file_id: str) -> Iterator[bytes]:
        """The bytes of a file as they are stored; after the last one, raises IncompleteError if they differ from its hash. Also raises
        NotFoundError, and UnavailableError after retries from where it was."""
        metadata = self._metadata(file_id)
        digest = _digest()
        for piece, _ in self._pieces(file_id, 0):
            digest.update(piece)
            yield piece
        if metadata.get("hash_of") != "identity" and digest.hexdigest() != metadata["hash"]:
            raise IncompleteError(
                f"the bytes differ from the archive's hash={digest.hexdigest()} expected={metadata['hash']} id={file_id}"
            )

    def id_of(self, named: str) -> str:
        """The id in a file's URL or in a line of ``runlake files list`` in any format; any other text is an id. Raises TargetError for the URL
        of another archive, or of an object that is not named by its id (a NoAddressError)."""
        if named.startswith("{"):
            with suppress(ValueError, KeyError, TypeError):
                return str(json.loads(named)["metadata"]["id"])
        if named.startswith("s3://"):
            found = _KEY.fullmatch(named)
        elif re.match(r"https?://", named):
            found = _DATA.fullmatch(named.removeprefix(self._archive.url))
        else:
            return named.partition("\t")[0]
        if not found:
            raise NoAddressError(
                f"this is not the address of a file of this archive url={named!r} archive={self._archive.url}",
                next_step="name the file by its id, as `runlake files list` prints it",
            )
        return found[1] if named.startswith("s3://") else unquote(found[1])

    def _metadata(self, file_id: str) -> Json:
        """Raises TargetError for an id that no path of a URL can hold."""
        if not file_id:
            raise TargetError("a file's id is empty", next_step="name the file by its id, as `runlake files list` prints it")
        if file_id in (".", ".."):
            raise NoAddressError(
                f"the API has no address of a file with this id id={file_id!r}",
                next_step="get it from its address on S3, which `runlake files list --format s3` prints, with AWS credentials",
            )
        return self._archive.file_metadata(file_id)

    def _known(self, what: str, where: str, metadata: Json) -> tuple[bool, Json | None]:
        """Whether the token may list such files; and the record of one with the same contents and metadata, None if there is none."""
        same = {name: value for name, value in metadata.items() if name != "id"}
        at = _iso(metadata["start"]) + "Z"
        try:
            for record in self.find(what, where=where, start=at, end=at):
                if same.items() <= record["metadata"].items():
                    return True, _summary(record)
        except AccessError:
            return False, None
        return True, None

    def _upload(self, announced: Json, file: IO[bytes], state: UploadState, progress: Progress) -> tuple[PushedFile, bool]:
        """Store what is not stored yet of a file, unless the archive lists it; and whether the token may list files. An error leaves a state
        that can be continued, and says so, or none and no parts."""
        size, resumed_at = announced["size"], state.stored_bytes
        created = state.created or self._archive.begin_upload(announced)
        record = {name: created[name] for name in ("id", "url", "http_url", "metadata")}
        warnings = tuple(map(str, created["warnings"]))
        try:
            may_read, known = self._known(announced["what"], announced["where"], created["metadata"])
            if known is not None:
                self._give_up(created, state)
                return PushedFile(known, size, existed=True, verified=True, warnings=warnings), may_read
            self._send(created, file, size, state, progress)
        except BaseException as error:
            if not (_is_gone(error) and self._is_stored(str(created["id"]))):
                self._leave(created, state, announced, error)
                raise
        state.forget()
        return PushedFile(record, size, existed=False, verified=False, warnings=warnings, resumed_at=resumed_at), may_read

    def _send(self, created: Json, file: IO[bytes], size: int, state: UploadState, progress: Progress) -> None:
        upload = created["upload"]
        if upload["method"] == "PUT":
            self._send_part(str(upload["url"]), file, 0, size, size, progress, upload["headers"])
            return
        etags, begin = dict(state.etags), 0
        if etags:
            progress(state.stored_bytes, size)
        for part in upload["parts"]:
            number, length = int(part["number"]), int(part["size"])
            if number not in etags:
                headers = {"Content-Length": str(length)}
                etags[number] = self._send_part(str(part["url"]), file, begin, length, size, progress, headers)
                state.record(created, number, etags[number])
            begin += length
        self._complete(str(upload["complete_url"]), etags)

    def _send_part(
        self, url: str, file: IO[bytes], begin: int, length: int, total: int, progress: Progress, headers: Mapping[str, str]
    ) -> str:
        """Send ``length`` bytes from ``begin`` on; repeated alone if there is no answer. Returns the ETag."""
        try:
            return retried(
                lambda: self._archive.put_object(url, _blocks(file, begin, length, total, progress), headers),
                self._pause,
                self._notice,
            )
        except RefusedError as error:
            if error.status != _PRECONDITION_FAILED:
                raise
            return ""  # stored by an earlier try whose answer was lost: the address is ours alone

    def _complete(self, url: str, etags: Mapping[int, str]) -> None:
        """Join the parts. S3 forgets an upload once it is complete, so a try after a lost answer may get a 404: whether the file is there, the
        verification tells."""
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            self._archive.complete_upload(url, etags)

        try:
            retried(attempt, self._pause, self._notice)
        except RefusedError as error:
            if tries == 1 or error.status != _NOT_FOUND:
                raise

    def _is_stored(self, file_id: str) -> bool:
        """Whether an upload that S3 has no more is complete: an earlier process got no answer. False too if the token may not read."""
        try:
            retried(lambda: self._archive.file_metadata(file_id), self._pause, self._notice)
        except NotFoundError as error:
            return NOT_CHECKED in str(error) or _DIFFERS in str(error)
        except AccessError:
            return False
        return True

    def _leave(self, created: Json, state: UploadState, announced: Json, error: BaseException) -> None:
        """After an error: parts that a repeat can continue stay, and the error says how; others are deleted."""
        if isinstance(error, (RefusedError, IncompleteError)) or not state.can_continue:
            self._give_up(created, state)
            return
        times = " ".join(f"{name}={announced[name]}" for name in ("start", "end") if announced[name] is not None)
        stored = f"{state.stored_bytes} of its {announced['size']} bytes are stored"
        advise(
            error, f"push it again before {_iso(state.expires_s * 1000)[:19]}Z to continue, with the same options: {stored} {times}"
        )

    def _give_up(self, created: Json, state: UploadState) -> None:
        """Delete the parts of an upload. What cannot be deleted is, by the bucket's lifecycle, after a day."""
        state.forget()
        if created["upload"]["method"] == "MULTIPART":
            with suppress(RunlakeError):
                self._archive.abort_upload(str(created["upload"]["abort_url"]))

    def _is_verified(self, file_id: str, patience_s: float) -> bool:
        """Ask until the file is listed. False if the patience ends. Raises IncompleteError if it never will be."""
        backoff, waited_s = Backoff(first_s=0.25, most_s=5.0), 0.0
        while waited_s < patience_s:
            try:
                return bool(self._archive.file_metadata(file_id))
            except NotFoundError as error:
                if _DIFFERS in str(error):
                    raise IncompleteError(
                        str(error),
                        next_step="push it again: the file changed while it was sent, or its bytes were damaged on the way",
                    ) from error
            except (AccessError, UnavailableError):
                pass
            wait_s = min(backoff.next_s(), patience_s - waited_s)
            self._pause(wait_s)
            waited_s += wait_s
        return False

    def _fetch_part(self, file_id: str, part: Path, progress: Progress) -> tuple[int, str]:
        """Append what is missing to a part. Returns the size and hash of the whole."""
        with open(part, "ab") as file:
            for piece, total in self._pieces(file_id, file.tell()):
                file.write(piece)
                progress(file.tell(), total)
        with open(part, "rb") as file:
            return _measured(file)

    def _pieces(self, file_id: str, at: int) -> Iterator[tuple[bytes, int | None]]:
        """The bytes from ``at`` on, with the size of the file if it is known. After a failure it continues where it was, until ``TRIES`` tries
        in a row got nothing."""
        backoff, left = Backoff(), TRIES
        while True:
            try:
                for piece, total in self._pieces_of_one_response(file_id, at):
                    yield piece, total
                    at += len(piece)
                    backoff.reset()
                    left = TRIES
                return
            except UnavailableError as error:
                if left == TRIES:
                    self._notice(f"{error}: retrying")
                left -= 1
                if not left:
                    raise
                self._pause(backoff.next_s(error.retry_after_s))
            except RefusedError as error:
                if error.status != RANGE_NOT_SATISFIABLE:
                    raise
                return  # nothing after these bytes: the hash decides what they are

    def _pieces_of_one_response(self, file_id: str, at: int) -> Iterator[tuple[bytes, int | None]]:
        with self._archive.file_contents(file_id, at) as (first, total, pieces):
            surplus = at - first
            for piece in pieces:
                if piece[surplus:]:
                    yield piece[surplus:], total
                surplus = max(surplus - len(piece), 0)


def target_of(template: str, metadata: Mapping[str, Any]) -> Path:
    """The path of a fetched file: ``template`` with fields of its metadata in braces, and ``start_iso`` and ``end_iso``, as the datalake's
    client has them. Only the template's own slashes make folders: in values they become ``_``. Raises TargetError."""
    values = {name: _in_name(str(value)) for name, value in metadata.items()}
    values |= {f"{name}_iso": _iso(metadata.get(name)) for name in ("start", "end")}
    for name in fields_of(template):
        if name not in values:
            raise TargetError(
                f"there is no such field in the template field={name!r}", next_step=f"use one of {', '.join(sorted(values))}"
            )
    path = template.format_map(values)
    if Path(path).name in ("", ".", "..") or path.endswith("/"):
        raise TargetError(f"the template makes no file name template={template!r} path={path!r}")
    return Path(path)


def fields_of(template: str) -> list[str]:
    """The fields of a template. Raises TargetError if it is not one."""
    try:
        found = list(Formatter().parse(template))
    except ValueError as error:
        raise _invalid(template, str(error).lower()) from error
    for _, name, specification, conversion in found:
        if name == "" or (name and not name.isidentifier()):
            raise _invalid(template, f"{{{name}}} is not the name of a field")
        if specification or conversion:
            raise _invalid(template, f"{{{name}}} has a format")
    return [name for _, name, _, _ in found if name]


def unzipped(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a gzip file decompressed, all its members; those of any other file unchanged. Raises IncompleteError for damaged ones."""
    left, head = iter(pieces), b""
    for piece in left:
        head += piece
        if len(head) >= len(_GZIP_MAGIC):
            break
    whole = chain([head], left)
    if not head.startswith(_GZIP_MAGIC):
        yield from whole
        return
    try:
        yield from _inflated(whole)
    except zlib.error as error:
        raise IncompleteError(f"the gzip data is damaged: {error}", next_step="--raw gives the bytes as they are stored") from error


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    for piece in pieces:
        while True:
            if inflater.eof:
                piece = piece.lstrip(b"\0")  # padding after a member
                if not piece:
                    break
                inflater = zlib.decompressobj(_GZIP_WINDOW)
            data = inflater.decompress(piece, _BLOCK_BYTES)
            if data:
                yield data
            piece = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if not data and not piece:
                break
    if not inflater.eof:
        raise zlib.error("it is incomplete")


def _existing(path: Path, file_id: str, digest: str | None) -> FetchedFile:
    if path.is_file() and digest is not None:
        with open(path, "rb") as file:
            size, found = _measured(file)
        if found == digest:
            return FetchedFile(path, file_id, size, 0, existed=True, verified=True)
    replacing = "--overwrite replaces it, and " if path.is_file() else ""
    raise TargetError(
        f"another file has this name path={path} id={file_id}",
        next_step=replacing + "{id} in --filename-template makes names unique",
    )


@contextmanager
def _opened(source: Path | IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """A file's absolute path, and the file; what is not a regular file is copied to one that is deleted afterwards."""
    if not isinstance(source, Path):
        with _copied(source) as copy:
            yield "/dev/stdin", copy
        return
    with open(source, "rb") as file:
        path = os.path.abspath(source)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            yield path, file
            return
        with _copied(file) as copy:
            yield path, copy


@contextmanager
def _copied(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream, copy, _BLOCK_BYTES)
        yield copy


def _measured(file: IO[bytes]) -> tuple[int, str]:
    """Size and hash of a file."""
    file.seek(0)
    size, digest = 0, _digest()
    while block := file.read(_BLOCK_BYTES):
        size += len(block)
        digest.update(block)
    return size, digest.hexdigest()


def _blocks(file: IO[bytes], begin: int, length: int, total: int, progress: Progress) -> Iterator[bytes]:
    """``length`` bytes of a file from ``begin`` on. Raises IncompleteError if it has fewer."""
    file.seek(begin)
    at, end = begin, begin + length
    while at < end:
        block = file.read(min(_BLOCK_BYTES, end - at))
        if not block:
            raise IncompleteError("the file became shorter while it was sent", next_step="push it again once no program writes it")
        yield block
        at += len(block)
        progress(at, total)


def _is_gone(error: BaseException) -> bool:
    """Whether S3 has no such upload: it is complete, or was deleted."""
    return isinstance(error, RefusedError) and error.status == _NOT_FOUND


def _digest() -> blake2b:
    """The datalake's hash."""
    return blake2b(digest_size=16)


def _summary(record: Json) -> Json:
    metadata = record["metadata"]
    return {"id": metadata["id"], "url": record["url"], "http_url": record["http_url"], "metadata": metadata}


def _in_name(value: str) -> str:
    """A value as a part of a file name: nothing in it makes a folder or leaves one. An empty one would make ``{note}/x`` an absolute path."""
    shown = _IN_A_NAME.sub("_", value)
    return "_" * max(len(shown), 1) if shown in ("", ".", "..") else shown


def _iso(at_ms: Any) -> str:
    """ISO 8601 in UTC with milliseconds and without a zone."""
    if at_ms is None:
        return "None"
    return datetime.fromtimestamp(int(at_ms) / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def _invalid(template: str, reason: str) -> TargetError:
    return TargetError(
        f"the template is invalid: {reason} template={template!r}",
        next_step="write it as {what}-{where}-{start_iso}.log; {{ and }} are braces",
    )
