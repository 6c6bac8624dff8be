"""Decisive lines of the catalog, of ingestion and of the archive."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OVERTAKEN = "tests/faults/test_files_overtaken.py"
_FILES = "tests/contract/test_file_catalog.py"
_MENDING = "tests/unit/test_catalog_repair.py"
_MERGING = "tests/unit/test_catalog_merging.py"
_ITEMS = "tests/contract/test_run_items.py"
_UPLOADS = "tests/functional/test_archive_uploads.py"
_RUNS = "tests/contract/test_run_catalog.py"

MUTANTS = (
    # runs that were deleted
    *(
        Mutant(
            name,
            find="artifact.is_deleted" if "run_inspection" not in name else "self.logs.artifact.is_deleted",
            replace="False",
            tests=f"{_MENDING}::test_deleted_run_is_listed_by_nothing_while_its_last_objects_stay",
            why="a deleted run returns to lists while the objects that reject its late appends remain",
        )
        for name in (
            "glue_jobs.catalog.run_inspection:RunInspection.exists",
            "chalicelib.ingestion.run_objects:RunObjects._artifact",
            "chalicelib.ingestion.run_files:RunFiles.describe",
        )
    ),
    # files and their rows
    Mutant(
        "chalicelib.catalog.file_state:FileState.unchanged",
        find="((Clause(('revision',), '=', self.revision),),) if self.revision else ABSENT_ROW",
        replace="() if self.revision else ABSENT_ROW",
        tests=_OVERTAKEN,
        why="a writer whose read was overtaken must not write",
    ),
    Mutant(
        "chalicelib.catalog.file_state:FileState.next_row",
        find="self.revision + 1",
        replace="max(self.revision, 1)",
        tests=_OVERTAKEN,
        why="every update makes a new revision, even without a change",
    ),
    Mutant(
        "chalicelib.catalog.registration:_url_row",
        find="((Clause(('revision',), '=', name.revision),),) if name else ABSENT_ROW",
        replace="()",
        tests=_OVERTAKEN,
        why="updates of an odd key are ordered by revision",
    ),
    Mutant(
        "chalicelib.catalog.registration:FileCatalogWriter._plan",
        find="{state.id for state in was} - {description.record.id if description.record else None, ref.id}",
        replace="{state.id for state in was} - {description.id, ref.id}",
        tests=f"{_FILES}::test_rejected_copy_gives_the_file_back_to_its_original[memory]",
        why="a rejected copy must not hide the valid original",
    ),
    Mutant(
        "chalicelib.catalog.registration:FileCatalogWriter._plan",
        find="former_ids | (memory.pending_originals(ref) - settled)",
        replace="former_ids | memory.pending_originals(ref)",
        tests=f"{_FILES}::test_rewritten_odd_key_costs_the_same_each_time[memory]",
        why="settled sources leave the row, or it only grows",
    ),
    Mutant(
        "chalicelib.catalog.registration:FileCatalogWriter._update_one",
        find="frozenset() if is_original else memory.pending_originals(ref)",
        replace="frozenset()",
        tests=f"{_FILES}::test_rewritten_odd_key_costs_the_same_each_time[memory]",
        why="originals of former files are read, and then removed from the row",
    ),
    Mutant(
        "chalicelib.catalog.registration:FileCatalogWriter._apply",
        find="self._settle(source for plan in plans for source in plan.unsettled)",
        replace="None",
        tests=_OVERTAKEN,
        why="a latest file that a dead process left unsettled is settled by the next update",
    ),
    Mutant(
        "chalicelib.catalog.registration:FileCatalogWriter._apply",
        find="self._settle(record.source for record in lost)",
        replace="None",
        tests=f"{_FILES}::test_the_latest_file_falls_back_step_by_step[memory]",
        why="when the latest file is deleted, the next one replaces it",
    ),
    Mutant(
        "chalicelib.catalog.registration:_change",
        find="record is None and before and not state.is_at(ref.url)",
        replace="False",
        tests=f"{_FILES}::test_rejected_object_does_not_take_a_file_from_a_good_one[memory]",
        why="a rejected object does not replace a valid file",
    ),
    Mutant(
        "chalicelib.catalog.registration:_without_late_upload",
        find="record and description.by_presigned_url and memory.files[file_key(record.id)].is_late_upload(ref.url, record.create_time)",
        replace="False",
        tests=f"{_UPLOADS}::test_link_does_not_bring_a_deleted_file_back",
        why="a link for an upload does not bring a deleted file back",
    ),
    Mutant(
        "chalicelib.catalog.file_state:FileState.is_late_upload",
        find="created_ms < (gone_s + self.UPLOAD_WINDOW_S) * 1000",
        replace="True",
        tests=f"{_UPLOADS}::test_upload_that_is_restored_after_its_link_expired_is_listed",
        why="an upload restored from a backup is a file again",
    ),
    Mutant(
        "chalicelib.catalog.latest:_not_older",
        find="(same_start, Clause(_CREATED, '=', best.create_time))",
        replace="(same_start, Clause(_CREATED, '<', best.create_time))",
        tests=f"{_FILES}::test_files_of_one_source_and_the_same_times_are_all_listed[memory]",
        why="a file that is not newer than the latest verifies the latest",
    ),
    Mutant(
        "chalicelib.catalog.latest:LatestFiles.settle",
        find="Check(file_key(newest.id), is_listed)",
        replace="Check(file_key(newest.id), (*is_listed, (Clause(('key',), '=', f'file#{newest.id}'),), *_NONE))",
        tests=_OVERTAKEN,
        why="a successor that was removed meanwhile does not become the latest",
    ),
    # rows of runs
    Mutant(
        "glue_jobs.catalog.row_merging:merge_forward",
        find="_number(now, group[0]) > _number(item, group[0])",
        replace="False",
        tests=_MERGING,
        why="segments recorded while S3 was read must not be undone",
    ),
    Mutant(
        "glue_jobs.catalog.row_merging:merge_forward",
        find="_moved(group[0], seen, now) and _number(now, group[0]) > _number(item, group[0])",
        replace="_number(now, group[0]) > _number(item, group[0])",
        tests=f"{_MENDING}::test_row_of_a_run_with_continuous_appends_is_put_right",
        why="a group of attributes that is ahead of S3 and did not change is damaged",
    ),
    Mutant(
        "glue_jobs.catalog.row_merging:merge_forward",
        find="_moved('activity_shard', seen, now) and _number(now, 'segments') == _number(item, 'segments')",
        replace="False",
        tests=_MERGING,
        why="a run that the schedule released meanwhile stays released",
    ),
    Mutant(
        "glue_jobs.catalog.row_merging:merge_forward",
        find="_moved('alive_ms', seen, now)",
        replace="False",
        tests=_MERGING,
        why="a heartbeat recorded while S3 was read must not be undone",
    ),
    Mutant(
        "glue_jobs.catalog.run_inspection:RunInspection.expired_seal",
        find="max([*self.entries, *self.live], default=-1) > number",
        replace="False",
        tests=f"{_MENDING}::test_reopened_run_whose_segments_expired_has_no_end",
        why="a reopened run has not ended, although its first logs.txt exists",
    ),
    Mutant(
        "glue_jobs.catalog.run_inspection:RunInspection.expired_seal",
        find="base.artifact.end",
        replace="None",
        tests=f"{_MENDING}::test_run_whose_seal_expired_before_its_log_keeps_its_outcome",
        why="the rebuilt row of a failed run has the outcome unknown",
    ),
    Mutant(
        "chalicelib.triggers.schedules:_is_idle",
        find="row.last_sign_ms < now_ms - max(idle_ms, row.heartbeat_limit_ms)",
        replace="row.last_append_ms < now_ms - max(idle_ms, row.heartbeat_limit_ms)",
        tests="tests/functional/test_schedules.py",
        why="a run that is alive is not swept",
    ),
    Mutant(
        "chalicelib.triggers.schedules:_is_idle",
        find="max(idle_ms, row.heartbeat_limit_ms)",
        replace="idle_ms",
        tests="tests/functional/test_schedules.py",
        why="a run whose heartbeats are a day apart is swept before one is due",
    ),
    Mutant(
        "glue_jobs.catalog.run_items:DynamoDbRunItems.change_run",
        find="f'attribute_exists(#p) AND {condition}'",
        replace="'attribute_exists(#p)'",
        tests=f"{_ITEMS}::test_attributes_are_changed_only_while_unchanged[moto]",
        why="an attribute that changed since it was read is not overwritten",
    ),
    Mutant(
        "glue_jobs.catalog.run_items:DynamoDbRunItems.change_run",
        find="f'attribute_exists(#p) AND {condition}'",
        replace="condition",
        tests=f"{_ITEMS}::test_changing_a_row_that_is_gone_makes_none[moto]",
        why="changing a deleted row does not create it",
    ),
    Mutant(
        "glue_jobs.catalog.catalog_repair:RunRepairer._write_run",
        find="not is_ahead(now or {}, merged)",
        replace="True",
        tests=f"{_MENDING}::test_row_of_a_run_with_continuous_appends_is_put_right",
        why="segments recorded while the row was ahead were rejected, and are not delivered again",
    ),
    Mutant(
        "chalicelib.aws.run_catalog:DynamoDbRunCatalog.record_segment",
        find="'attribute_not_exists(#segments) OR #segments < :segments'",
        replace="'attribute_not_exists(#segments) OR #segments <> :segments'",
        tests=f"{_RUNS}::test_events_twice_and_in_any_order_end_in_the_same_row[moto-0]",
        why="a late notification reverts nothing",
    ),
    Mutant(
        "chalicelib.aws.run_catalog:read_cursor",
        find="is_sort_key(run_id)",
        replace="isinstance(run_id, str) and run_id",
        tests="tests/unit/test_cursor.py",
        why="a handmade cursor is a 400, not an error of the table",
    ),
    Mutant(
        "chalicelib.catalog.cursor:CursorSigner.read",
        find="fingerprint != _fingerprint(query)",
        replace="False",
        tests="tests/unit/test_cursor.py",
        why="a cursor is valid only for its own query",
    ),
    # the archive
    Mutant(
        "chalicelib.archive.archive:Archive.delete",
        find="file.store.delete(file.info.key, if_match=file.info.etag)",
        replace="file.store.delete(file.info.key)",
        tests=f"{_UPLOADS}::test_deletion_does_not_take_away_a_newer_version",
        why="a deletion removes the version that was read, and no other",
    ),
    Mutant(
        "chalicelib.archive.archive:Archive.delete",
        find="self._catalogue(file).record",
        replace="not self._catalogue(file)",
        tests=f"{_UPLOADS}::test_deletion_of_a_file_that_is_written_again_meanwhile_is_refused",
        why="a client that deletes a file learns that it was written again",
    ),
    Mutant(
        "chalicelib.archive.archive:Archive._locate",
        find="verified and ANNOUNCED_BYTES in info.metadata",
        replace="False",
        tests=f"{_UPLOADS}::test_an_upload_is_no_file_before_its_bytes_were_checked",
        why="an upload is no file before its hash is verified",
    ),
    Mutant(
        "chalicelib.archive.objects:ArchiveObjects._broken_promise",
        find="announced != str(info.size)",
        replace="False",
        tests=f"{_UPLOADS}::test_upload_with_a_wrong_size_is_not_hashed",
        why="an upload of the wrong size is not hashed",
    ),
    # ingestion
    Mutant(
        "chalicelib.ingestion.ingester:Ingester._publish_reports",
        find="failed.get(number, result)",
        replace="result",
        tests="tests/faults/test_ingest_every_call.py",
        why="a message whose report was not sent is delivered again",
    ),
    Mutant(
        "chalicelib.ingestion.run_objects:RunObjects._segment",
        find="self.index.put(parsed.run, [entry])",
        replace="None",
        tests="tests/functional/test_ingest.py",
        why="each segment has its row",
    ),
)
