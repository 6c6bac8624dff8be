"""Decisive lines of request bodies, limits and cursors over HTTP."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BUDGETS = "tests/functional/test_http_budgets.py"
_BODIES = "tests/unit/test_http_bodies.py"
_INTAKE = "tests/unit/test_intake.py"
_LISTS = "tests/functional/test_access_lists.py"
_LOGS = "tests/functional/test_http_logs.py"
_RESPONSES = "tests/functional/test_http_response_limits.py"

MUTANTS = (
    Mutant(
        "chalicelib.events.intake:Intake._decoded",
        find="len(known) > self._limits.items",
        replace="False",
        tests=_INTAKE,
        why="bodies over the limit must be rejected before anything is stored",
    ),
    Mutant(
        "chalicelib.events.intake:Intake._groups",
        find="streams.add((run, item.writer))",
        replace="streams.add((run, None))",
        tests=_INTAKE,
        why="each writer of a run costs an append",
    ),
    Mutant(
        "chalicelib.routes.allowance:Allowance.gunzip",
        find="self._members_left < 0",
        replace="False",
        tests=f"{_BUDGETS}::test_gzip_with_many_members_is_refused",
        why="empty gzip members cost time and have no content",
    ),
    Mutant(
        "chalicelib.routes.allowance:Allowance._member",
        find="len(unpacked) > self._bytes_left",
        replace="False",
        tests=_BODIES,
        why="a small gzip body unpacks into gigabytes",
    ),
    Mutant(
        "chalicelib.routes.allowance:Allowance.spend",
        find="size_bytes > self._bytes_left",
        replace="False",
        tests=f"{_BUDGETS}::test_a_body_that_the_gateway_unpacked_has_the_limits_of_what_was_sent",
        why="bytes that the gateway decompressed count as well",
    ),
    Mutant(
        "chalicelib.routes.budgets:Growth.of",
        find="max(self.floor, int(self.per_byte * received_bytes))",
        replace="max(self.limit, int(self.per_byte * received_bytes))",
        tests=f"{_BUDGETS}::test_growth",
        why="a small body must not cause the work of a large one",
    ),
    Mutant(
        "chalicelib.routes.budgets:Budget.check_request",
        find="body_bytes > self.body_bytes",
        replace="False",
        tests=f"{_BUDGETS}::test_body_over_the_limit_is_refused",
        why="operations without a body accept none",
    ),
    Mutant(
        "chalicelib.routes.elasticsearch:_check_response",
        find="size > RESPONSE_BYTES",
        replace="False",
        tests=f"{_BUDGETS}::test_bulk_with_names_too_long_for_its_response_is_refused_before_anything_is_stored",
        why="a response that Lambda drops makes a client store everything again",
    ),
    Mutant(
        "chalicelib.routes.handler:respond",
        find="_check_request(request)",
        replace="None",
        tests=f"{_BUDGETS}::test_body_over_the_limit_is_refused",
        why="limits hold for every operation",
    ),
    Mutant(
        "chalicelib.routes.event_bodies:_check_count",
        find="items > body.allowance.items",
        replace="False",
        tests=f"{_BUDGETS}::test_items_of_a_small_body_have_a_lower_limit",
        why="a packed body of many small events must be refused before they are validated",
    ),
    Mutant(
        "chalicelib.routes.cursors:decrypt_cursor",
        find="not cursor or (principal.may_all(*scopes) and (not cipher.is_encrypted(cursor)))",
        replace="not cipher.is_encrypted(cursor)",
        tests=_LISTS,
        why="a handmade cursor probes for hidden names",
    ),
    Mutant(
        "chalicelib.routes.logs:session_cookie",
        find="headers.get('x-forwarded-proto', '').partition(',')[0].strip() == 'https'",
        replace="True",
        tests=_LOGS,
        why="a client that connects over plain http must return its cookie",
    ),
    Mutant(
        "chalicelib.routes.events:_listed",
        find="documents[begin : begin + limit]",
        replace="documents[begin:]",
        tests="tests/functional/test_http_events.py",
        why="a run of many steps has a response that Lambda drops",
    ),
    Mutant(
        "chalicelib.routes.event_bodies:Items.error_documents",
        find="truncated(redacted(each.reason), room_bytes)",
        replace="redacted(each.reason)",
        tests=f"{_BUDGETS}::test_long_reasons_of_many_events_are_shortened_to_what_fits",
        why="the errors of many events make a response that Lambda drops",
    ),
    Mutant(
        "chalicelib.masking.fields:_unused",
        find="numbers[name] = number",
        replace="None",
        tests="tests/unit/test_masking_fields.py::test_many_equal_names_are_numbered_in_linear_time",
        why="10 KB of names that masking makes equal take 9 s",
    ),
    Mutant(
        "chalicelib.routes.handler:_check_request",
        find="_check_unicode(target)",
        replace="None",
        tests="tests/functional/test_http_bad_names.py::test_query_parameter_is_taken_or_refused",
        why="a lone surrogate anywhere is an error of the client",
    ),
    Mutant(
        "chalicelib.routes.operations:match",
        find="all(names.values())",
        replace="True",
        tests="tests/unit/test_http_paths.py",
        why="an empty name addresses another run, or the folder of all runs",
    ),
    Mutant(
        "chalicelib.routes.operations:_rank",
        find="(sum(literal), len(parts), literal)",
        replace="(sum(literal), literal, len(parts))",
        tests="tests/unit/test_http_paths.py",
        why="a run whose id is a word of the API is taken for another operation",
    ),
    Mutant(
        "chalicelib.routes.gate:_check_declared",
        find="set(scopes) - set(_authenticated.get().declared)",
        replace="set()",
        tests="tests/functional/test_access_authenticators.py::test_view_with_a_wrong_permission_check_answers_nothing",
        why="the documented scopes of an operation are not the ones that it requires",
    ),
    Mutant(
        "chalicelib.routes.chalice_adapter:_prefix",
        find="text.strip('/')",
        replace="text.rstrip('/')",
        tests="tests/unit/test_http_paths.py::test_prefix_of_a_stage_or_domain",
        why="a redirect to a path that begins with two slashes leads to another host",
    ),
    Mutant(
        "chalicelib.runlog.layout:checked_run",
        find="is_short = A",
        replace="is_short = True",
        tests="tests/unit/test_layout.py",
        why="a name too long for a key reaches the store, which rejects it",
    ),
    Mutant(
        "chalicelib.response_size:",
        find="RESPONSE_BYTES - 64 * 1024",
        replace="RESPONSE_BYTES",
        tests=f"{_RESPONSES}::test_line_of_just_the_size_of_a_page_is_read",
        why="a line of just the size of a response is never read",
    ),
    Mutant(
        "chalicelib.response_size:text_bytes",
        find="sum(map(text.count, _SEPARATORS))",
        replace="0",
        tests=f"{_RESPONSES}::test_stream_that_waited_measures_a_frame_too",
        why="the stream escapes line separators once more",
    ),
    Mutant(
        "chalicelib.runlog.grep:GrepResult.add_match",
        find="document_bytes([self.line, text, spans]) + _FRAME_BYTES",
        replace="document_bytes(text)",
        tests=f"{_RESPONSES}::test_matches_of_an_allowed_request_fit_with_their_places",
        why="the response also contains the positions of matches",
    ),
    Mutant(
        "chalicelib.routes.events:_listed",
        find='[page, [each.get("writer") for each in page]]',
        replace="page",
        tests=f"{_RESPONSES}::test_names_of_lost_writers_count_for_their_page",
        why="the response also contains the names of lost writers",
    ),
    Mutant(
        "chalicelib.events.codecs.items:",
        find="(ValueError, TypeError, OverflowError, RecursionError)",
        replace="(ValueError, TypeError, RecursionError)",
        tests="tests/functional/test_http_agent_numbers.py::test_packed_numbers",
        why="one infinite number rejects the whole batch",
    ),
)
