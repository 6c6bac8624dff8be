"""Masking: one implementation, applied to every field, and to whatever the process says."""

from tests.mutants.mutant import Mutant

_FIELDS = "tests/unit/test_masking_fields.py"
_LEAVES = "tests/functional/test_no_secret_leaves.py"
_LEAVES_BY_PLACE = f"{_LEAVES}::test_secret_in_any_place_of_an_operation_leaks_nowhere"

MUTANTS = (
    Mutant(
        "chalicelib.masking.fields:FieldMask.value",
        find="[self.value(each, name) for each in value]",
        replace="[self.value(each) for each in value]",
        tests=_FIELDS,
        why="the items of a list under a secret name are stored",
    ),
    Mutant(
        "chalicelib.masking.fields:FieldMask.value",
        find="self._named(self.text(value), name)",
        replace="self.text(value)",
        tests=_FIELDS,
        why="a text under a secret name is stored",
    ),
    Mutant(
        "chalicelib.masking.fields:FieldMask.masked_object",
        find="_unused(self.text(name), masked, numbers)",
        replace="_unused(name, masked, numbers)",
        tests=_FIELDS,
        why="a secret in the name of a field is stored",
    ),
    Mutant(
        "chalicelib.masking.fields:FieldMask.masked_object",
        find="_unused(self.text(name), masked, numbers)",
        replace="self.text(name)",
        tests=_FIELDS,
        why="of two names that become equal one field is lost",
    ),
    Mutant(
        "chalicelib.masking.fields:_texts",
        find="yield key",
        replace="None",
        tests=_FIELDS,
        why="the single look misses names, so a batch with a secret passes",
    ),
    Mutant(
        "chalicelib.events.masking:details",
        find="[event.level, A, B]",
        replace="[None, A, B]",
        tests=_LEAVES_BY_PLACE,
        why="a secret in a level is stored",
    ),
    Mutant(
        "chalicelib.events.masking:masked_details",
        find='changes["step"] = A',
        replace='changes["step"] = event.step',
        tests=_FIELDS,
        why="a secret in a step is stored",
    ),
    Mutant(
        "chalicelib.events.masking:masked_name",
        find="MARKERS[CONFIGURED].decode()",
        replace="name",
        tests=_FIELDS,
        why="a step that is too long once it is masked is stored as it came",
    ),
    Mutant(
        "chalicelib.masking.offsets:Offsets._shifted",
        find="byte < self._edits[before - 1].end",
        replace="False",
        tests="tests/unit/test_event_writing.py::test_annotations_stay_at_what_they_are_about",
        why="an annotation within a secret moves beyond its marker",
    ),
    Mutant(
        "chalicelib.masking.masker:Masker.check_names",
        find="rule.is_for(fqn)",
        replace="rule.is_for('')",
        tests=_FIELDS,
        why="rules of other pipelines decide about a name",
    ),
    Mutant(
        "chalicelib.masking.masker:Masker.refresh",
        find="self._retry_ms[name] = A",
        replace="None",
        tests=_FIELDS,
        why="each request waits for a parameter that is away",
    ),
    Mutant(
        "chalicelib.masking.masker:Masker.redact",
        find="self._known_lines(rule)",
        replace="self._lines(rule)",
        tests=_FIELDS,
        why="a log line makes a request",
    ),
    Mutant(
        "chalicelib.masking.masker:Masker._read_again",
        find="return now_ms + _RETRY_MS, self._known[name][1]",
        replace="raise",
        tests="tests/unit/test_masking.py",
        why="a parameter that is away ends masking by the value that was read before",
    ),
    Mutant(
        "chalicelib.masking.mask:mask",
        find="secret in _MARKED",
        replace="False",
        tests="tests/unit/test_masking.py tests/unit/test_masking_values.py",
        why="what is masked already is masked and counted again",
    ),
    Mutant(
        "chalicelib.routes.secrets:check",
        find="if any(redacted(text) != text for text in _address(request)): ...",
        replace="if False: ...",
        tests=_LEAVES_BY_PLACE,
        why="a secret in an address reaches answers",
    ),
    Mutant(
        "chalicelib.routes.secrets:",
        find="MASKED = A",
        replace="MASKED = (*A, '/v0/archive/files/{file_id}')",
        tests=_LEAVES_BY_PLACE,
        why="a secret in changed metadata of a file is stored",
    ),
    Mutant(
        "chalicelib.routes.secrets:_body",
        find="yield from _texts(json.loads(text))",
        replace="None",
        tests=_LEAVES_BY_PLACE,
        why="an escaped secret in an upload's metadata is stored",
    ),
    Mutant(
        "chalicelib.observability:note",
        find="_redacted_document(value) if _redact else value",
        replace="value",
        tests="tests/functional/test_http_masking.py::test_note_beside_metrics_holds_no_secret",
        why="a run id with a secret stands beside the metrics",
    ),
    Mutant(
        "chalicelib.observability:_log_line",
        find="_redacted_document(document) if _redact else document",
        replace="document",
        tests="tests/functional/test_http_masking.py::test_log_line_of_an_error_holds_no_secret",
        why="an error that repeats a name is logged with its secret",
    ),
    Mutant(
        "chalicelib.routes.answers:error_answer",
        find="redacted(message)",
        replace="message",
        tests=_LEAVES_BY_PLACE,
        why="an error repeats a secret",
    ),
    Mutant(
        "chalicelib.routes.logs:_masked",
        find="replace(batch, connector=A)",
        replace="batch",
        tests=_LEAVES_BY_PLACE,
        why="a secret in a connector id is in a segment's metadata",
    ),
)
