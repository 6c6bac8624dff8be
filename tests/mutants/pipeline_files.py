"""Mutants of pipeline files: what a file holds, who writes it, how it goes, and what a pipeline's file may name."""

from tests.mutants.mutant import Mutant

_FILES = "tests/unit/test_pipeline_files.py"
_LIFE = "tests/faults/test_pipeline_files_life.py"
_EVERY_CALL = "tests/faults/test_pipeline_files_every_call.py"
_READ = "tests/unit/test_pipeline_files_read.py"
_MODULES = "tests/unit/test_pl_allowed_modules.py"
_CONFIGURATION = "tests/unit/test_pl_configuration.py"
_SHARED = "tests/functional/test_access_openmetadata.py"
_HTTP = "tests/functional/test_http_pipeline_files.py"

MUTANTS = (
    Mutant(
        "chalicelib.pipelines.files.repair:Repair.findings",
        find="{each.key: each for each in listed if is_file_of(base.name, each.key)}",
        replace="{each.key: each for each in listed}",
        tests=f"{_HTTP}::test_repair_spares_the_files_of_a_nested_base",
        why="repair deletes every file of a base within this one",
    ),
    Mutant(
        "chalicelib.pipelines.files.repair:Repair.findings",
        find="found.last_modified_ms < before_ms",
        replace="True",
        nth=1,
        tests=f"{_LIFE}::test_repair_spares_what_is_young",
        why="an object that a handler is about to commit is deleted",
    ),
    Mutant(
        "chalicelib.pipelines.files.repair:Repair._cut",
        find="Condition(if_match=found.etag)",
        replace="Condition()",
        tests=f"{_LIFE}::test_repair_leaves_a_file_that_was_extended_meanwhile",
        why="a file that was extended meanwhile is cut back to what counted before",
    ),
    Mutant(
        "chalicelib.pipelines.files.removal:Removal.remove",
        find="not applied(self._database, self._clock, write)",
        replace="False",
        tests=f"{_LIFE}::test_a_removal_leaves_a_file_whose_row_was_changed",
        why="the object goes although another has changed the row",
    ),
    Mutant(
        "chalicelib.pipelines.files.removal:Removal._delete_object",
        find="self._store.delete(row.object_key, if_match=row.contents.etag)",
        replace="self._store.delete(row.object_key)",
        tests=f"{_LIFE}::test_a_deletion_that_is_applied_late_spares_the_file_that_took_the_number",
        why="a deletion that is applied late takes the file that took the number",
    ),
    Mutant(
        "chalicelib.pipelines.files.removal:Removal._delete_object",
        find="self._store.delete(row.object_key, if_match=self._store.head(row.object_key).etag)",
        replace="self._store.delete(row.object_key)",
        tests=f"{_LIFE}::test_a_removal_takes_an_object_that_goes_on_behind_its_row_and_spares_one_that_is_replaced",
        why="an object that another put in its place is deleted",
    ),
    Mutant(
        "chalicelib.pipelines.files.generations:Generations.end",
        find="(namespace, fqn or '') not in self._under_way()",
        replace="True",
        tests=f"{_LIFE}::test_a_repeated_deletion_spares_what_was_recreated_while_it_was_under_way",
        why="a repeated request deletes what was recreated in between",
    ),
    Mutant(
        "chalicelib.pipelines.files.generations:Generations.of_run",
        find="started_ms <= max(_deleted_ms(above), _deleted_ms(own))",
        replace="started_ms < max(_deleted_ms(above), _deleted_ms(own))",
        tests=f"{_LIFE}::test_a_run_that_began_with_the_deletion_is_of_the_dead_generation",
        why="a run that began in the millisecond of the deletion belongs to the new generation",
    ),
    Mutant(
        "chalicelib.pipelines.files.deletion:Deletion.delete",
        find="{each for each in listed if may(each)}",
        replace="listed",
        tests=f"{_HTTP}::test_a_namespace_is_deleted_as_far_as_the_principal_may",
        why="whoever may administer some pipelines of a namespace deletes all of them",
    ),
    Mutant(
        "chalicelib.pipelines.files.deletion:Deletion._mark",
        find="each.deleted_ms < before_ms",
        replace="True",
        tests=f"{_LIFE}::test_a_deletion_that_finds_nothing_at_first_is_looked_at_again",
        why="what a process writes after the first pass stays for good",
    ),
    Mutant(
        "chalicelib.pipelines.files.rows:FileRow.written",
        find="Put(self.row_key, changed.document(), self.unchanged)",
        replace="Put(self.row_key, changed.document())",
        tests=f"{_FILES}::test_a_deletion_holds_the_checkpoint_back_once",
        why="whoever was overtaken writes its row over another's",
    ),
    Mutant(
        "chalicelib.pipelines.files.rows:FileRows.is_committed",
        find="self._committed[staged.writer] >= staged.number",
        replace="True",
        tests=f"{_FILES}::test_staged_rows_count_only_when_their_commit_does",
        why="staged rows count before their transaction",
    ),
    Mutant(
        "chalicelib.pipelines.files.growing:GrowingFile._begin",
        find="store.put(key_of(self.sequence), body, self._options(), ABSENT)",
        replace="store.put(key_of(self.sequence), body, self._options())",
        tests=f"{_FILES}::test_a_number_that_is_taken_is_passed_over_and_nothing_is_listed",
        why="two writers share a number",
    ),
    Mutant(
        "chalicelib.pipelines.files.growing:GrowingFile._begin",
        find="fence()",
        replace="None",
        tests=f"{_FILES}::test_a_lost_lease_publishes_nothing",
        why="a worker that lost its lease publishes a file",
    ),
    Mutant(
        "chalicelib.pipelines.files.growing:GrowingFile._extend",
        find="Condition(if_match=self.contents.etag)",
        replace="Condition()",
        tests=f"{_EVERY_CALL}::test_a_file_that_another_extends_in_between_keeps_what_the_other_wrote",
        why="a writer that was overtaken replaces what another committed",
    ),
    Mutant(
        "chalicelib.pipelines.files.handler:RollingS3Handler.use",
        find="output in context.outputs",
        replace="False",
        tests=f"{_FILES}::test_two_handlers_of_a_worker_that_write_the_same_files_are_refused",
        why="two handlers continue each other's files",
    ),
    Mutant(
        "chalicelib.pipelines.files.handler:RollingS3Handler._alive",
        find="self._dead |= self._generations.dead_of(asked)",
        replace="pass",
        tests=f"{_FILES}::test_events_of_a_dead_generation_are_dropped_and_counted",
        why="events of a deleted pipeline are written",
    ),
    Mutant(
        "chalicelib.pipelines.files.retention:_is_written",
        find="row.state == OPEN or row.staged is not None",
        replace="False",
        tests=f"{_LIFE}::test_a_file_that_is_being_written_is_kept",
        why="a file that is being written is removed",
    ),
    Mutant(
        "chalicelib.pipelines.files.streams:chunks_of",
        find="range(first, size, CHUNK_BYTES)",
        replace="range(first, size + CHUNK_BYTES, CHUNK_BYTES)",
        tests=f"{_READ}::test_each_beginning_of_a_file_that_grows_can_be_read",
        why="what was never committed is read",
    ),
    Mutant(
        "chalicelib.pipelines.files.service:PipelineFiles.page",
        find="event_bytes > PAGE_BYTES",
        replace="False",
        tests=f"{_HTTP}::test_an_event_too_large_for_a_response_is_cut_and_says_so",
        why="one event makes a response that Lambda refuses",
    ),
    Mutant(
        "chalicelib.pipelines.files.service:PipelineFiles.page",
        find="size > PAGE_BYTES",
        replace="False",
        tests=f"{_HTTP}::test_a_page_is_bounded_in_bytes",
        why="a page is larger than a response",
    ),
    Mutant(
        "chalicelib.pipelines.allowed_modules:AllowedModules._attribute",
        find="value is None or isinstance(value, ModuleType)",
        replace="value is None",
        tests=_MODULES,
        why="logging.os.system is resolved",
    ),
    Mutant(
        "chalicelib.pipelines.allowed_modules:AllowedModules._attribute",
        find="isinstance(value, _CONSTANTS) or self._is_logging_class(value) or self._is_defined_in(module, value)",
        replace="True",
        tests=_MODULES,
        why="a listed module leads to what it imported from elsewhere",
    ),
    Mutant(
        "chalicelib.pipelines.context:_Pieces.configure_formatter",
        find="not named or '()' in config",
        replace="True",
        tests=_MODULES,
        why="the class of a formatter is resolved without the list",
    ),
    Mutant(
        "chalicelib.pipelines.configuration:_Loader._size",
        find="values > MAX_VALUES or characters > MAX_FILE_BYTES",
        replace="characters > MAX_FILE_BYTES",
        tests=f"{_CONFIGURATION}::test_the_work_for_aliases_is_bounded_by_the_file",
        why="aliases build more values than a file may have",
    ),
    Mutant(
        "chalicelib.pipelines.files.run_logs:StoredRunLogs._remove",
        find="not ended.all_spellings and self._is_shared(run, objects)",
        replace="False",
        tests=_SHARED,
        why="a log that may be another pipeline's is deleted",
    ),
    Mutant(
        "chalicelib.pipelines.files.run_logs:StoredRunLogs._is_shared",
        find="not self._begins_behind(run)",
        replace="False",
        tests=_SHARED,
        why="a log that OpenMetadata stored beside a run's own segments is deleted",
    ),
    Mutant(
        "chalicelib.pipelines.files.run_logs:StoredRunLogs._is_ended",
        find="self._is_legacy(self._layout.logs(run))",
        replace="False",
        tests=_SHARED,
        why="a deletion waits for ever for what finishes OpenMetadata's own log",
    ),
    Mutant(
        "chalicelib.pipelines.files.generations:Generations.dead",
        find="bool(row.get('all_spellings', False))",
        replace="True",
        tests=_SHARED,
        why="the schedule deletes what whoever asked for the deletion might not delete",
    ),
    Mutant(
        "chalicelib.pipelines.files.generations:Generations._ended",
        find="not each.all_spellings and covers(each.fqn)",
        replace="False",
        tests=_SHARED,
        why="who may delete every spelling is kept from it by whoever began the deletion",
    ),
    Mutant(
        "chalicelib.pipelines.files.deletion:Deletion.delete",
        find="any_spelling(name)",
        replace="name",
        tests=_SHARED,
        why="a permission of one name counts as one of all that are spelled like it",
    ),
)
