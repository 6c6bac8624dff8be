"""Rebuild the tables of files from the buckets: remove rows without a file, and register every object again.

Only the archive's own registration writes, so concurrent changes to an object's rows are neither lost nor reverted (decision
0008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chalicelib.archive.objects import object_ref
from chalicelib.aws.dynamodb import Item, Table
from chalicelib.catalog.file_ids import is_file_id
from chalicelib.catalog.file_state import OBJECTS, FileState, file_key, file_state_of_row, url_state_of_row
from chalicelib.catalog.files import FILES, LATEST, FileRecord, latest_key, location_of
from chalicelib.catalog.listing import LISTING, directory_keys, listing_rows
from chalicelib.catalog.registration import Describe, Description, ObjectRef, RegistrationResult, admitted
from chalicelib.composition import Services, run_files
from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError, UnavailableError, WriteConflictError
from chalicelib.ports import Check, Clause, Delete, Key, Run
from glue_jobs.backfill import BATCH, Source, batches, catalog_batch
from glue_jobs.catalog.catalog_repair import EXTRA, MISSING, REPAIRED, WRONG
from glue_jobs.catalog.run_items import unchanged_condition
from glue_jobs.catalog.scan import scan_table
from glue_jobs.job_runtime.summary import error_text

READ_FIRST, CHECKED_LAST = (OBJECTS, LATEST, LISTING), (FILES, LISTING, LATEST)
"""Registration reads the first tables, so unreadable rows are removed from them before; rows without a file are removed
afterwards."""
_KEYS = {OBJECTS: ("key",), LATEST: ("what_where_key",), FILES: ("time_index_key", "range_key"), LISTING: ("partition", "at")}
_DIRECTORY = ("n#", "c#", "p#")
Result = dict[str, Any]
"""A row of ``transforms.catalog.RESULTS``."""


def register_logs(services: Services, runs: Sequence[Run], *, dry_run: bool) -> Iterator[Result]:
    """Register finalized logs as files. Reads each log completely, for its hash."""
    source = Source(services, services.store, services.settings.bucket_name, services.settings.prefix, is_run_logs=True)
    looker = run_files(services)
    yield from _registered(source, [looker.ref(services.layout.logs(run)) for run in runs], dry_run=dry_run)


def register_archive(services: Services, first: str, last: str, *, dry_run: bool) -> Iterator[Result]:
    """Register objects of the archive with ``first`` <= key < ``last`` (empty: no bound)."""
    bucket = services.settings.archive_bucket_name
    source = Source(services, services.archive_store, bucket, "", is_run_logs=False)
    for keys in _pages(services, first, last):
        yield from _registered(source, [object_ref(bucket, key) for key in keys], dry_run=dry_run)


def _pages(services: Services, first: str, last: str) -> Iterator[list[str]]:
    after = ""
    if first:  # start_after is exclusive, so an object with the first key itself needs its own request
        yield [listed.key for listed in services.archive_store.list(first, limit=1).objects if listed.key == first]
        after = first
    while True:
        page = services.archive_store.list("", start_after=after)
        yield [listed.key for listed in page.objects if not last or listed.key.encode() < last.encode()]
        if not page.truncated or (last and page.objects[-1].key.encode() >= last.encode()):
            return
        after = page.objects[-1].key


def _registered(source: Source, subjects: Sequence[ObjectRef], *, dry_run: bool) -> Iterator[Result]:
    describe = _careful(source.describe())
    for batch in batches(subjects):
        try:
            if dry_run:
                yield from [_compared(source.services, subject, describe) for subject in batch]
            else:
                yield from [_outcome_result(outcome) for outcome in catalog_batch(source, batch, describe, anew=True)]
        except Exception as error:  # a failed batch does not stop other batches
            yield _result({"file_failed": len(batch)}, [f"{error_text(error)} first={batch[0].key}"])


def _careful(describe: Describe) -> Describe:
    """Turns a failure to read an object into a problem; UnavailableError is raised, so that the object is tried again."""

    def look(subject: ObjectRef) -> Description:
        try:
            return describe(subject)
        except UnavailableError:
            raise
        except Exception as error:
            return Description(problem=f"{error_text(error)} key={subject.key}")

    return look


def _outcome_result(outcome: RegistrationResult) -> Result:
    description = outcome.description
    kind = "failed" if outcome.error else "files" if description.record else "refused" if description.problem else "gone"
    problem = str(outcome.error or description.problem)
    return _result({f"file_{kind}": 1}, [problem] if problem else [])


def _compared(services: Services, subject: ObjectRef, describe: Describe) -> Result:
    """What would be written of a file."""
    description = describe(subject)
    record = description.record
    if record is None:
        return _outcome_result(RegistrationResult(description))
    rows = {**record.file_rows(), **listing_rows(record)}
    directory = {key: {"partition": key.partition, "at": key.sort} for key in directory_keys(record)}
    object_key, source = file_key(record.id), latest_key(*record.source)
    there = services.database.get_many([*rows, *directory, object_key, source])
    state = _state(there.get(object_key))
    description = admitted(subject, description, state or FileState(record.id))
    if description.record is None:
        return _outcome_result(RegistrationResult(description))
    counts, differences = Counter({"file_files": 1}), []
    wrong = [key for key, row in (rows | directory).items() if there.get(key) != row]
    wrong += [object_key] if state is None or state.record != record else []
    wrong += [source] if source not in there else []
    for key in wrong:
        kind = WRONG if key in there else MISSING
        counts[f"{key.table}.{kind}"] += 1
        differences.append(f"{key.table} {kind}: {key.partition} {key.sort}".rstrip())
    return _result(counts, [], differences)


def check_rows(
    services: Services, client: Any, table: str, segment: int, of: int, *, is_last: bool, prune: bool, dry_run: bool
) -> Iterator[Result]:
    """Remove rows from a part of a table: unreadable ones, and with ``is_last`` those that differ from the file's own row; their
    files, if any, write them again. ``prune`` removes files whose objects are gone."""
    name = {OBJECTS: "objects_table", LATEST: "latest_table", FILES: "files_table", LISTING: "listing_table"}[table]
    physical = Table(client, getattr(services.settings, name))
    for rows in _batches(scan_table(client, getattr(services.settings, name), segment, of)):
        wrong = _unfounded(services, table, rows) if is_last else [row for row in rows if not _is_readable(table, row)]
        for row in wrong:
            if not dry_run:
                _remove(services, physical, table, row, is_last=is_last)
            difference = f"{table} {EXTRA}: {' '.join(str(row[key]) for key in _KEYS[table])}"
            yield _result({f"{table}.{EXTRA}": 1}, [], [difference])
        if table == LATEST and is_last and not dry_run:
            for row in rows:
                _settle(services, row)
        if table == OBJECTS and prune:
            yield from _gone(services, [row for row in rows if row not in wrong], dry_run=dry_run)


def _unfounded(services: Services, table: str, rows: Sequence[Item]) -> list[Item]:
    ids = {number: file_id for number, row in enumerate(rows) if (file_id := _file_of(table, row)) is not None}
    states = services.database.get_many([file_key(file_id) for file_id in set(ids.values())])
    return [row for number, row in enumerate(rows) if number in ids and not _is_of(table, row, states.get(file_key(ids[number])))]


def _is_readable(table: str, row: Item) -> bool:
    """Whether registration and queries can use the row."""
    try:
        if table == OBJECTS:
            return _is_memory(row)
        if table == LISTING and _file_of(table, row) is None:
            return True
        record = FileRecord.from_text(row["document"])
        return table != LATEST or row == record.latest_row()
    except Exception:  # a damaged document can raise any error
        return False


def _is_memory(row: Item) -> bool:
    kind = str(row.get("key", "")).partition("#")[0]
    if kind == "checkpoint":
        return True
    if type(row.get("revision")) is not int:
        return False
    if kind == "url":
        name = url_state_of_row(row)
        return all(is_file_id(each) for each in [name.id, *name.former_ids] if each)
    return _state(row) is not None


def _state(row: Any) -> FileState | None:
    """The file of a row; None if the row cannot be read or its document is of another file."""
    if row is None:
        return None
    try:
        state = file_state_of_row(Key(OBJECTS, row["key"]), row)
    except Exception:  # whatever a damaged document raises
        return None
    return state if state.record is None or state.record.id == state.id else None


def _file_of(table: str, row: Item) -> str | None:
    """The id of a row's file; None for a row without a file; empty if the id cannot be read."""
    if table == LISTING:
        return None if str(row["partition"]).startswith(_DIRECTORY) else str(row["at"]).partition("#")[2]
    if table == FILES:
        return str(row["range_key"]).partition(":")[2]
    try:
        return str(row["metadata"]["id"])
    except (KeyError, TypeError):
        return ""


def _is_of(table: str, row: Item, object_row: Any) -> bool:
    state = _state(object_row)
    if state is None or state.record is None:
        return False
    record: FileRecord = state.record
    if table == LATEST:
        return row == record.latest_row()
    rows = record.file_rows() if table == FILES else listing_rows(record)
    partition, sort = _KEYS[table]
    return rows.get(Key(table, row[partition], row[sort])) == row


def _remove(services: Services, physical: Table, table: str, row: Item, *, is_last: bool) -> None:
    """Remove a row if neither it nor its file's own row has changed; otherwise the concurrent writer's version stays."""
    if table in (OBJECTS, LATEST) or not is_last:
        condition, values, names = unchanged_condition(row, {}, _KEYS[table][0])
        physical.delete_if({key: row[key] for key in _KEYS[table]}, condition, values, ExpressionAttributeNames=names)
        return
    file_id = _file_of(table, row)
    object_key = file_key(file_id or "-")
    object_row = services.database.get_many([object_key]).get(object_key)
    if _is_of(table, row, object_row):
        return
    unchanged = ((Clause(("revision",), "=", object_row["revision"]),),) if object_row else ((Clause(("key",), "absent"),),)
    partition, sort = _KEYS[table]
    try:
        services.database.transact([Delete(Key(table, row[partition], row[sort])), Check(object_key, unchanged)])
    except (PreconditionFailedError, WriteConflictError):
        return


def _settle(services: Services, row: Item) -> None:
    what, _, where = str(row["what_where_key"]).partition(":")
    try:
        services.latest.settle(what, where)
    except WriteConflictError:
        return


def _gone(services: Services, rows: Iterable[Item], *, dry_run: bool) -> Iterator[Result]:
    """Registered files whose objects are gone."""
    states = [state for row in rows if str(row["key"]).startswith("file#") and (state := _state(row)) and state.is_known]
    for state in states:
        bucket, key = location_of(state.url)
        is_run_logs = bucket == services.settings.bucket_name
        if not key or (not is_run_logs and bucket != services.settings.archive_bucket_name):
            continue  # not in our buckets: its file is written again, if there is one
        source = Source(services, services.store if is_run_logs else services.archive_store, bucket, "", is_run_logs)
        if _exists(source, key):
            continue
        if dry_run:
            yield _result({"file_gone": 1}, [], [f"{OBJECTS} {EXTRA}: {state.key.partition}"])
            continue
        outcomes = services.registration.update(source.subjects([key]), source.describe())
        yield from map(_outcome_result, outcomes.values())


def _exists(source: Source, key: str) -> bool:
    try:
        source.store.head(key)
    except ObjectNotFoundError:
        return False
    return True


def _result(counts: dict[str, int] | Counter[str], problems: list[str], differences: list[str] | None = None) -> Result:
    return {"outcome": REPAIRED, "runs": 0, "counts": counts, "problems": problems, "differences": differences or []}


def _batches(rows: Iterator[Item]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
