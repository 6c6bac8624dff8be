"""Mutants of events: intake, storage, and forwarding."""

from tests.mutants.mutant import Mutant

_REJECTED = "tests/unit/test_events_rejected.py"
_WRITING = "tests/unit/test_event_writing.py"
_LOG = "tests/unit/test_events_log.py"
_TARGETS = "tests/unit/test_event_targets.py"
_DEEP = "tests/functional/test_http_deep_records.py"
_AGENTS = "tests/functional/test_http_agents.py"
_SHARING = "tests/functional/test_http_agents_sharing.py"
_INTAKE = "tests/unit/test_intake.py"
_BOUNDED = "tests/unit/test_events_bounded.py"
_FIELDS = "tests/unit/test_masking_fields.py"

MUTANTS = (
    Mutant(
        "chalicelib.events.validation:checked_level",
        find="level_of_name(name) is None",
        replace="False",
        tests=_REJECTED,
        why="an event of an unknown level is stored, and no reader finds it by its level",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._data_entry",
        find="batch.errors is None",
        replace="True",
        tests=_LOG,
        why="the histogram shows no errors of agents that state levels",
    ),
    Mutant(
        "chalicelib.events.sinks:BatchSink._settle",
        find="self._waiting.clear()",
        replace="None",
        tests=_REJECTED,
        why="a batch that was sent is sent again",
    ),
    Mutant(
        "chalicelib.events.sinks:BatchSink._settle",
        find="self._rejection = A",
        replace="None",
        tests=_REJECTED,
        why="rejected events vanish without an error",
    ),
    Mutant(
        "chalicelib.events.sinks:BatchSink.flush",
        find="rejection, self._rejection = self._rejection, None",
        replace="rejection = self._rejection",
        tests=_REJECTED,
        why="one rejection makes every flush fail, and the close",
    ),
    Mutant(
        "chalicelib.events.writing:SinkWriter._complete",
        find="checked_event(event, self._loggable)",
        replace="event",
        tests=_REJECTED,
        why="an invalid event is accepted, and costs its id",
    ),
    Mutant(
        "chalicelib.events.writing:SinkWriter.write_event",
        find="self._count += 1",
        replace="None",
        tests=_WRITING,
        why="two events have one id",
    ),
    Mutant(
        "chalicelib.events.run_method:_Appends.send",
        find="self._position = accepted.position",
        replace="None",
        tests=_REJECTED,
        why="each later batch reads the log's end, and an old position is used again",
    ),
    Mutant(
        "chalicelib.events.run_method:_Appends.send",
        find="self._position is None",
        replace="False",
        tests=_REJECTED,
        why="the first batch, whose answer is lost, is stored twice",
    ),
    Mutant(
        "chalicelib.events.well_formed:well_formed",
        find="depth >= MAX_DEPTH",
        replace="False",
        tests=f"{_DEEP} {_REJECTED}",
        why="a deep record ends in a recursion error",
    ),
    Mutant(
        "chalicelib.events.well_formed:well_formed_text",
        find="_SURROGATE.sub(A, B)",
        replace="B",
        tests=_REJECTED,
        why="a lone surrogate blocks its writer",
    ),
    Mutant(
        "chalicelib.events.codecs.json_text:elements",
        find="_end_of(text, place)",
        replace="len(text)",
        tests=_DEEP,
        why="the records behind a deep one are lost",
    ),
    Mutant(
        "chalicelib.events.batch:_checked",
        find="counts and event.id is None",
        replace="False",
        tests=_LOG,
        why="an event of a counting writer has its line as id, and ids collide",
    ),
    Mutant(
        "chalicelib.events.batch:_as_sent",
        find='b", ".join(documents)',
        replace='b""',
        tests=_LOG,
        why="other events with the same position are taken for a repeat",
    ),
    Mutant(
        "chalicelib.events.run_event_log:RunEventLog._put_sidecar",
        find="put_retrying_conflicts(self._store, key, body, _PACKED, ABSENT)",
        replace="None",
        tests=_LOG,
        why="events keep only their text",
    ),
    Mutant(
        "chalicelib.events.run_event_log:RunEventLog.append",
        find="appended.repeated and entry.bytes != len(ready.batch.body)",
        replace="False",
        tests=_LOG,
        why="positions of a retry under other rules differ from those of the stored bytes",
    ),
    Mutant(
        "local.forward_run:forward",
        find="added = forwarder.added",
        replace="added = forwarder.done",
        tests=_WRITING,
        why="a position is saved before its events are settled",
    ),
    Mutant(
        "local.forward_run:forward",
        find="unsaved[0][0] <= forwarder.done",
        replace="True",
        tests=_WRITING,
        why="a position is saved while its events wait in the batch",
    ),
    Mutant(
        "chalicelib.events.forwarding:Forwarder.flush",
        find="self._batch.events[: len(part)] = left",
        replace="self._batch.events[: len(part)] = []",
        tests=_TARGETS,
        why="events that the target deferred are lost",
    ),
    Mutant(
        "chalicelib.events.forwarding:Forwarder.flush",
        find="together = len(part) // 2",
        replace="together = 0",
        tests=_TARGETS,
        why="a bad event rejects the good ones of its request, or is not identified",
    ),
    Mutant(
        "chalicelib.events.intake:idempotency_key_of",
        find="all(item.is_unique for item in items)",
        replace="True",
        tests=_AGENTS,
        why="equal lines of two requests are stored once",
    ),
    Mutant(
        "chalicelib.events.intake:Intake._groups",
        find="self._check_run(run)",
        replace="None",
        tests="tests/functional/test_no_secret_leaves.py tests/functional/test_http_masking.py",
        why="a secret in a run's name is in a message before the append rejects it",
    ),
    Mutant(
        "chalicelib.events.writers:Writers._key",
        find="self._masker.check_names(A, B, C, D)",
        replace="None",
        tests="tests/functional/test_http_masking.py",
        why="a writer's name with a secret becomes a key",
    ),
    Mutant(
        "chalicelib.events.intake:Intake._decoded",
        find="self._limits.count_shared(item.shared_bytes)",
        replace="None",
        tests=f"{_INTAKE} {_SHARING}",
        why="a request of 433 bytes takes 530 MiB",
    ),
    Mutant(
        "chalicelib.events.intake:_batches",
        find="shared_bytes + item.shared_bytes > MAX_BATCH_SHARED_BYTES",
        replace="False",
        tests=_INTAKE,
        why="one sidecar has all that a request's items share",
    ),
    Mutant(
        "chalicelib.events.codecs.firehose:_of_cloudwatch",
        find="weight(shared)",
        replace="0",
        tests=_SHARING,
        why="the size of a log group does not count",
    ),
    Mutant(
        "chalicelib.events.codecs.otlp:_Shared.with_scope",
        find="self.bytes + weight(A)",
        replace="self.bytes",
        tests=_SHARING,
        why="the size of a scope does not count",
    ),
    Mutant(
        "chalicelib.events.sidecar:decode_sidecar",
        find="size <= MAX_PARSED_BYTES",
        replace="True",
        tests=_BOUNDED,
        why="a sidecar of 600 KB takes 600 MiB",
    ),
    Mutant(
        "chalicelib.events.sidecar:decode_sidecar",
        find="tuple(events) if A else _PackedEvents(body, count)",
        replace="tuple(events)",
        tests=_BOUNDED,
        why="a large sidecar loses its last events",
    ),
    Mutant(
        "chalicelib.events.batch:_checked",
        find="details_bytes > MAX_DETAILS_BYTES",
        replace="False",
        tests=_BOUNDED,
        why="a sidecar has any size",
    ),
    Mutant(
        "chalicelib.events.sinks:BatchSink._is_full",
        find="self._details_bytes >= BATCH_DETAILS_BYTES",
        replace="False",
        tests=_BOUNDED,
        why="a writer's batch of a thousand events has 64 MiB of data",
    ),
    Mutant(
        "chalicelib.events.tail:EventTails.read",
        find="end = sidecar.sequence",
        replace="None",
        tests=_BOUNDED,
        why="withheld events are taken for the end, and a step's log loses lines",
    ),
    Mutant(
        "chalicelib.pipelines.run_event_reader:RunEventReader._read_events",
        find="data_bytes >= MAX_DATA_BYTES",
        replace="False",
        tests=_BOUNDED,
        why="a pipeline holds all data of a piece of text",
    ),
    Mutant(
        "chalicelib.events.masking:BatchMask._find",
        find="field.value is value",
        replace="True",
        tests=_FIELDS,
        why="an event is stored with the data of the one before",
    ),
)
