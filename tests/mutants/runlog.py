"""Decisive lines of a run's log: appending, compacting, ending, retiring, reading."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_WRITER = "tests/unit/test_writer.py"
_OVERTAKEN = "tests/faults/test_overtaken.py"
_COMPACTION = "tests/unit/test_compaction_and_finalization.py"
_RETIREMENT = "tests/unit/test_retirement.py"
_READER = "tests/unit/test_reader.py"
_PLAN = "tests/unit/test_plan.py"
_SHARED = "tests/functional/test_access_openmetadata.py"
_RENEWAL = "tests/unit/test_renewal.py"
_LARGE = "tests/unit/test_large_logs.py"
_ATTEMPTS = "tests/unit/test_attempts.py"
_SUMMARY = "tests/unit/test_workflow_summary.py"
_LINES = "tests/unit/test_lines_events.py"
_HISTOGRAM = "tests/unit/test_histogram.py"
_EXPIRED = "tests/unit/test_expired_segments.py"

MUTANTS = (
    # errors
    Mutant(
        "chalicelib.lines.events:events",
        find="is_lower and begins_trace(raw)",
        replace="False",
        tests=_LINES,
        why="a trace after INFO is no error",
    ),
    Mutant(
        "chalicelib.lines.events:_is_exception",
        find='rest and last.startswith(b"Caused by: ") and before.startswith(FRAMES)',
        replace="False",
        tests=_LINES,
        why="each cause in a stack trace is a separate error",
    ),
    Mutant(
        "chalicelib.lines.errors:level_of_text",
        find="is_error(level) or not count_errors(message)",
        replace="True",
        tests="tests/spark/test_error_definition.py",
        why="an event with a stack trace after its first line is an error for all readers",
    ),
    Mutant(
        "chalicelib.lines.errors:_traces",
        find="_record_before(body, start, done, read)",
        replace="start",
        tests=_HISTOGRAM,
        why="the trace of an error is counted again",
    ),
    # the outcome of a run that reports none
    Mutant(
        "chalicelib.runlog.end_finder:EndFinder.find_abandoned",
        find="not is_started and (entry.is_keyed or entry.events)",
        replace="entry.is_keyed or entry.events",
        tests="tests/functional/test_http_outcomes.py",
        why="a command that was started and is gone is lost",
    ),
    Mutant(
        "chalicelib.lines.workflow_summary:_end_of_summary",
        find="fatal or failed_step or has_table or states_failures or float(success[1]) < 100",
        replace="fatal or states_failures",
        tests=_SUMMARY,
        why="errors of a later step are printed as counts only",
    ),
    Mutant(
        "chalicelib.runlog.end_finder:EndFinder._last_bytes",
        find="size <= limit",
        replace="True",
        tests=_SUMMARY,
        why="the end of a large segment is not its beginning",
    ),
    # times of lines
    Mutant(
        "chalicelib.lines.timestamps:is_plausible",
        find="appended_ms + _MAX_AHEAD_MS",
        replace="1000 * appended_ms",
        tests="tests/unit/test_lines_time_search.py",
        why="a line that states the year 9999 spoils the histogram",
    ),
    Mutant(
        "chalicelib.runlog.histogram:_times_ms",
        find="max(now_ms, begin_ms)",
        replace="begin_ms",
        tests=_HISTOGRAM,
        why="lines of a clock that is behind come before those before them",
    ),
    Mutant(
        "chalicelib.runlog.since:SinceSearch.line",
        find="last.end_line if clock == LINES else arrived",
        replace="last.end_line",
        tests="tests/unit/test_reader.py",
        why="lines of a clock that is behind are hidden from who reads the last minutes",
    ),
    Mutant(
        "chalicelib.runlog.delays:Delays.has",
        find="self.least_ms <= least_ms and most_ms <= self.most_ms",
        replace="True",
        tests=_HISTOGRAM,
        why="one line that begins with another date puts all others into one bar",
    ),
    Mutant(
        "chalicelib.runlog.since:SinceSearch.line",
        find="row.line == line and delays.has(row) and row.shown_ms[0] < since_ms",
        replace="False",
        tests=_READER,
        why="a time inside of a segment leads to the segment's first line",
    ),
    # appending
    Mutant(
        "chalicelib.runlog.writer:Writer._put",
        find="put_settled(self._store, key, body, options, ABSENT)",
        replace="self._store.put(key, body, options)",
        tests=_WRITER,
        why="two writers must not take one number",
    ),
    Mutant(
        "chalicelib.runlog.writer:Author.wrote",
        find="same and (self.base is None or entry.base == self.base)",
        replace="same",
        tests=_WRITER,
        why="equal text from another position is a batch of its own",
    ),
    Mutant(
        "chalicelib.runlog.writer:Author.wrote",
        find="entry.session != self.session or entry.kind != DATA",
        replace="entry.kind != DATA",
        tests=_WRITER,
        why="equal text of another session is a batch of its own",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._data_entry",
        find="tail.seal == CLOSED",
        replace="False",
        tests=_WRITER,
        why="a closed run takes no more lines",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._data_entry",
        find="tail.epoch + 1 if tail.seal == ABANDONED else tail.epoch",
        replace="tail.epoch",
        tests=_WRITER,
        why="a reopened run has the next epoch",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._answer",
        find="entry.appended_ms if repeated else self._clock.now_ms()",
        replace="self._clock.now_ms()",
        tests=f"{_WRITER} {_OVERTAKEN}",
        why="a late repeat must not make an old number young",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._look_once",
        find="own or self._own_retired(run, author, lower, A)",
        replace="own",
        tests=_WRITER,
        why="a repeat finds its own segment after it was retired",
    ),
    # a listing and a read of what it listed
    Mutant(
        "chalicelib.runlog.tail:TailFinder.find",
        find="retry_on_change(A)",
        replace="self._find(run)",
        tests=_OVERTAKEN,
        why="a segment that is retired between a listing and its HEAD is no damage",
    ),
    Mutant(
        "chalicelib.runlog.conflicts:retry_on_change",
        find="str(error) == str(last)",
        replace="True",
        tests=_OVERTAKEN,
        why="only a log whose listing does not change is damaged",
    ),
    Mutant(
        "chalicelib.runlog.tail:TailFinder._without_segments",
        find="max(artifact.epoch, A)",
        replace="FIRST_EPOCH",
        tests=_EXPIRED,
        why="a reopened run whose segments have expired keeps its writer epoch",
    ),
    Mutant(
        "chalicelib.runlog.retirement:_fits",
        find="after is None or A",
        replace="True",
        tests=_RETIREMENT,
        why="a row that ends elsewhere than the next one begins is not that of the segment",
    ),
    Mutant(
        "chalicelib.runlog.tail:TailFinder._find",
        find="self.list_segments(run, known.sequence)",
        replace="self.list_segments(run, known.sequence + 1)",
        tests="tests/unit/test_request_budgets.py",
        why="a listing that begins behind the last segment finds nothing and costs another one",
    ),
    # attempts
    Mutant(
        "chalicelib.runlog.attempts:Attempts._take",
        find="not tail.seal",
        replace="True",
        tests=_ATTEMPTS,
        why="a closed log takes no lines: its run starts no attempt again",
    ),
    Mutant(
        "chalicelib.runlog.attempts:Attempts._take",
        find="ABSENT",
        replace="Condition()",
        tests=_ATTEMPTS,
        why="of two starts at once one gets the number",
    ),
    Mutant(
        "chalicelib.runlog.attempts:Attempts._own",
        find="stored is None or (stored.start_id, stored.first_run_id) != (start.start_id, start.first_run_id)",
        replace="True",
        tests=_ATTEMPTS,
        why="a start that is repeated gets its attempt again",
    ),
    Mutant(
        "chalicelib.runlog.attempts:Attempts._take",
        find="(start.attempt == 1 or not tail.exists)",
        replace="True",
        tests=_ATTEMPTS,
        why="an attempt that is asked for by number takes no log of another run",
    ),
    Mutant(
        "chalicelib.runlog.attempts:Attempts._starts",
        find="stored is not None and stored.first_run_id == first.run_id",
        replace="stored is not None",
        tests=_ATTEMPTS,
        why="a run is an attempt by its start, never by its name",
    ),
    Mutant(
        "chalicelib.runlog.attempts:Attempts._first_attempt",
        find="replace(run, run_id=stored.first_run_id) if stored else run",
        replace="run",
        tests=_ATTEMPTS,
        why="the next attempt of R~2 is R~3",
    ),
    Mutant(
        "chalicelib.runlog.finalization:Finalizer.abandon",
        find="tail.appended_ms if tail.exists else self._registered_ms(run)",
        replace="tail.appended_ms",
        tests=_ATTEMPTS,
        why="a started run without a line is swept",
    ),
    Mutant(
        "chalicelib.catalog.dynamodb_runs:DynamoDbRunCatalog.started",
        find="'attribute_not_exists(last_append_ms)'",
        replace="'attribute_exists(fqn) OR attribute_not_exists(fqn)'",
        tests="tests/contract/test_run_catalog.py",
        why="a start that is notified late sets back neither times nor activity",
    ),
    # outcome
    Mutant(
        "chalicelib.runlog.finalization:Finalizer.close",
        find="self._writer.seal(run, CLOSED, tail, found)",
        replace="self._writer.seal(run, CLOSED, tail)",
        tests="tests/functional/test_http_outcomes.py",
        why="the outcome is stored with the close",
    ),
    Mutant(
        "chalicelib.catalog.dynamodb_runs:DynamoDbRunCatalog.segment_landed",
        find="[f'#{name}' for name in END_ATTRIBUTES if name not in ending]",
        replace="[]",
        tests="tests/contract/test_run_catalog.py",
        why="a running run has no outcome, and is in no list of ended ones",
    ),
    Mutant(
        "chalicelib.catalog.recent:RecentRuns.page",
        find="run in rows and rows[run].outcome_at(now_ms) in query.outcomes",
        replace="run in rows",
        tests="tests/unit/test_recent_runs.py",
        why="an index is behind its table",
    ),
    Mutant(
        "chalicelib.catalog.runs:newest_of",
        find="part.places and not part.is_whole",
        replace="False",
        tests="tests/unit/test_recent_runs.py",
        why="what comes behind the last place that was read of one outcome would be listed before it",
    ),
    Mutant(
        "chalicelib.routes.catalog:_one",
        find="row.lacks_its_seal",
        replace="False",
        tests="tests/functional/test_http_outcomes.py",
        why="whoever waits for the end sees it without its outcome, and asks no more",
    ),
    # compaction
    Mutant(
        "chalicelib.runlog.compaction:Compactor.write",
        find="Condition(if_match=seen.etag) if seen else ABSENT",
        replace="Condition()",
        tests=_OVERTAKEN,
        why="an unconditional write puts an old partial.txt over a newer one",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.compact_seen",
        find="self.index_pending(run, state)",
        replace="None",
        tests=_COMPACTION,
        why="rows are there before their segments may go",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.compact_seen",
        find="self._drop_if_finalized(run, written.etag, last)",
        replace="None",
        tests=_OVERTAKEN,
        why="a first partial.txt that a finalizer overtook is taken away",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.last_pending",
        find="numbers[0] != first or numbers[-1] - first + 1 != len(numbers)",
        replace="False",
        tests=_COMPACTION,
        why="a gap is never compacted over",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.last_pending",
        find="last.end_byte != state.extent.bytes + state.pending_bytes",
        replace="False",
        tests=_COMPACTION,
        why="damage is reported, not copied",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.retire",
        find="segments[:-1]",
        replace="segments",
        tests=f"{_COMPACTION} {_RETIREMENT}",
        why="the highest number is never deleted",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.retire",
        find="self.layout.sequence_of(run, found.key) < below and found.last_modified_ms <= before_ms",
        replace="self.layout.sequence_of(run, found.key) < below",
        tests=_COMPACTION,
        why="a segment is deleted twenty minutes after it was written at the earliest",
    ),
    Mutant(
        "chalicelib.runlog.assembly:Assembler._read_span",
        find="len(body) != span.size",
        replace="False",
        tests=_COMPACTION,
        why="a short read is not written as if it were all",
    ),
    # uploads that go on in the next pass
    Mutant(
        "chalicelib.runlog.assembly:Assembler._send_all",
        find="keep and len(done) >= KEEP_PARTS",
        replace="False",
        tests=_LARGE,
        why="a log whose copy takes longer than a pass would never advance",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor.write",
        find="begun and begun.plan != plan",
        replace="False",
        tests=_LARGE,
        why="parts of another plan make other bytes",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor._as_begun",
        find="self.layout.sequence_of(run, found.key) <= begun.through",
        replace="True",
        tests=_LARGE,
        why="lines that come between passes must not make the upload begin anew",
    ),
    Mutant(
        "chalicelib.runlog.unfinished:plan_id",
        find="s.etag",
        replace="''",
        tests=_LARGE,
        why="the plan is of one version of partial.txt",
    ),
    Mutant(
        "chalicelib.runlog.unfinished:plan_id",
        find="s.start",
        replace="0",
        tests=_LARGE,
        why="parts that were cut elsewhere hold other bytes",
    ),
    Mutant(
        "chalicelib.runlog.unfinished:plan_id",
        find="s.end",
        replace="0",
        tests=_LARGE,
        why="parts that were cut elsewhere hold other bytes",
    ),
    # retirement
    Mutant(
        "chalicelib.runlog.retirement:Retirement.retire",
        find="self.keep(run, self._entries(run, going))",
        replace="None",
        tests=_RETIREMENT,
        why="entries are stored before their segments go",
    ),
    Mutant(
        "chalicelib.runlog.retirement:_fits",
        find="row is None or row.bytes != size",
        replace="row is None",
        tests=_RETIREMENT,
        why="a row of another size is not this segment's",
    ),
    # finalization
    Mutant(
        "chalicelib.runlog.finalization:Finalizer._remove_partial",
        find="self._store.delete(A, if_match=seen.etag)",
        replace="self._store.delete(A)",
        tests=_OVERTAKEN,
        why="a reopened run's partial.txt is not the one that was read",
    ),
    Mutant(
        "chalicelib.runlog.finalization:Finalizer.abandon",
        find="0 < last_ms < idle_before_ms",
        replace="True",
        tests="tests/functional/test_acceptance.py tests/functional/test_schedules.py",
        why="a run that is written to is not abandoned",
    ),
    # renewal
    Mutant(
        "chalicelib.runlog.finalization:Finalizer.settle",
        find="self._renewal.is_due(state.oldest)",
        replace="False",
        tests=_RENEWAL,
        why="what is beside a long-open run must not expire before its log",
    ),
    Mutant(
        "chalicelib.runlog.finalization:Finalizer._finalize_seen",
        find="self._renewal.is_due_at_end(state.oldest)",
        replace="False",
        tests=_RENEWAL,
        why="nor before the finished log",
    ),
    Mutant(
        "chalicelib.runlog.finalization:Finalizer._is_little",
        find="self._renewal.is_due_at_end(state.oldest)",
        replace="False",
        tests=_RENEWAL,
        why="a close does not wait for thousands of objects",
    ),
    Mutant(
        "chalicelib.runlog.renewal:Renewal._renew",
        find="put_settled(self.store, A, B, C, Condition(if_match=found.etag))",
        replace="self.store.put(A, B, C)",
        tests=_RENEWAL,
        why="an object that changed meanwhile is not set back",
    ),
    Mutant(
        "chalicelib.runlog.renewal:Renewal._young_ms",
        find="min(DAY_MS, self.expiration_ms // 4)",
        replace="DAY_MS",
        tests=_RENEWAL,
        why="an expiration of a day leaves no day to wait",
    ),
    Mutant(
        "chalicelib.runlog.renewal:Renewal.renew",
        find="found.key != sign.key",
        replace="True",
        tests=_RENEWAL,
        why="the object by which it was due is the sign that work is left, so it goes last",
    ),
    Mutant(
        "chalicelib.runlog.conflicts:put_settled",
        find="range(ATTEMPTS)",
        replace="range(1)",
        tests=_RENEWAL,
        why="a conflicting write says nothing of the object: it is to be repeated",
    ),
    Mutant(
        "chalicelib.runlog.renewal:Renewal._renew",
        find="suppress(ObjectNotFoundError, PreconditionFailedError)",
        replace="suppress(ObjectNotFoundError, PreconditionFailedError, StoreUnavailableError)",
        tests=_RENEWAL,
        why="an object that could not be written is not renewed",
    ),
    # the end of a log
    Mutant(
        "chalicelib.runlog.artifact:furthest",
        find="artifact.next_segment",
        replace="0",
        tests=_EXPIRED,
        why="logs.txt of a reopened run is behind its partial.txt",
    ),
    Mutant(
        "chalicelib.runlog.tail:TailFinder._own_artifact",
        find="furthest(A, partial)",
        replace="A or partial",
        tests=_EXPIRED,
        why="the next line goes behind the artifact that reaches furthest",
    ),
    Mutant(
        "chalicelib.runlog.view:Viewer._after_abandoned",
        find="None if is_last else A",
        replace="A if listed[1:] else None",
        tests=_EXPIRED,
        why="without any segment partial.txt may hold more than logs.txt",
    ),
    Mutant(
        "chalicelib.runlog.view:Viewer._following",
        find="segments and self.layout.sequence_of(run, segments[0].key) != first",
        replace="False",
        tests=_OVERTAKEN,
        why="a view that a compaction tore is taken again",
    ),
    # places in a log
    Mutant(
        "chalicelib.runlog.reader:Reader._chunks_from",
        find="head.startswith(before)",
        replace="True",
        tests=_READER,
        why="a remembered place may be of an earlier log of the same name",
    ),
    Mutant(
        "chalicelib.runlog.reader:Reader._chunks_from",
        find="place.etag in ('', etag)",
        replace="True",
        tests=_READER,
        why="a segment that ends at the same byte may be another one",
    ),
    # OpenMetadata's objects
    Mutant(
        "chalicelib.runlog.legacy:find_shared",
        find="covers is None or not covers(any_spelling(run.fqn))",
        replace="False",
        tests=_SHARED,
        why="a shared folder is not for who may read one of its names",
    ),
    Mutant(
        "chalicelib.runlog.legacy:find_legacy",
        find="logs and logs.is_legacy",
        replace="logs",
        tests=_SHARED,
        why="the finished log of another pipeline, spelled alike, would be shown",
    ),
    Mutant(
        "chalicelib.runlog.legacy:find_legacy",
        find="partial and partial.is_legacy",
        replace="partial",
        tests=_SHARED,
        why="the open log of another pipeline, spelled alike, would be shown",
    ),
    Mutant(
        "chalicelib.runlog.legacy:check_own",
        find="covers and is_shared and not covers(A)",
        replace="False",
        tests=_SHARED,
        why="an FQN that is a spelling leads to the same folder",
    ),
    Mutant(
        "chalicelib.runlog.view:Viewer._legacy_beginning",
        find="legacy and self.tails.listed_segment(run, 0).byte",
        replace="legacy",
        tests=_READER,
        why="a log that began at byte 0 has no other beginning",
    ),
    Mutant(
        "chalicelib.runlog.compaction:Compactor._look",
        find="last.end_byte != A",
        replace="True",
        tests=_READER,
        why="compaction puts nothing in front of a log that began at byte 0",
    ),
    Mutant(
        "chalicelib.routes.gate:Visit.covers",
        find="self.scope is not None and self.principal.may(self.scope, name)",
        replace="True",
        tests=_SHARED,
        why="the caller's own permission decides",
    ),
    # plans
    Mutant(
        "chalicelib.runlog.plan:plan_parts",
        find="len(parts := _planned(spans, scale)) > MAX_PARTS",
        replace="not (parts := _planned(spans, scale)) and bool(spans)",
        tests=_PLAN,
        why="S3 takes 10,000 parts",
    ),
    Mutant(
        "chalicelib.runlog.plan:_planned",
        find="min(MAX_COPY_BYTES * scale, MAX_COPY_PART_BYTES)",
        replace="MAX_COPY_BYTES * scale",
        tests=_PLAN,
        why="S3 copies 5 GiB a part",
    ),
    Mutant(
        "chalicelib.runlog.plan:_fill",
        find="not gathered.spans or missing <= 0",
        replace="True",
        tests=_PLAN,
        why="every part but the last has 5 MiB",
    ),
)
