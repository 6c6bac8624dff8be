"""Mutants of the client: terminal output, lines on disk, repeated requests, the end of a command."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TERMINAL = "client/tests/test_terminal.py"
_HOSTILE = "client/tests/test_hostile_server.py"
_MISTAKES = "client/tests/test_mistakes.py"
_DRAINING = "client/tests/test_draining.py"
_FAULTS = "client/tests/test_faults.py"
_BUFFER = "client/tests/test_buffer.py"
_EXEC = "client/tests/test_exec.py"
_SETTINGS = "client/tests/test_settings.py"
_NAMES = "tests/functional/test_http_names.py"

MUTANTS = (
    # terminal output
    Mutant(
        "runlake.terminal:sanitize",
        find="_UNPRINTABLE.sub(REPLACEMENT, text)",
        replace="text",
        tests=_TERMINAL,
        why="a terminal executes control characters",
    ),
    Mutant(
        "runlake.terminal:sanitize",
        find="_UNPRINTABLE.sub(REPLACEMENT, piece)",
        replace="piece",
        tests=_TERMINAL,
        why="control characters between style sequences are executed too",
    ),
    Mutant(
        "runlake.terminal:sanitize",
        find="RESET if current else ''",
        replace="''",
        tests=_TERMINAL,
        why="a log's colour must not continue in the text after it",
    ),
    Mutant(
        "runlake.terminal:_Style.apply",
        find="code if code in _HUES else 0",
        replace="code",
        tests=_TERMINAL,
        why="black, white and greys may be the terminal's background",
    ),
    Mutant(
        "runlake.terminal:_nearest",
        find="high - low < _MIN_SATURATION",
        replace="False",
        tests=_TERMINAL,
        why="any colour close to grey hides text on a similar background",
    ),
    Mutant(
        "runlake.terminal:label",
        find="len(shown) <= most_chars",
        replace="True",
        tests=_TERMINAL,
        why="a name of a megabyte is cut",
    ),
    Mutant(
        "runlake.terminal:json_text",
        find="_UNPRINTABLE.sub(lambda match: _escaped(match[0]), text)",
        replace="text",
        tests=_TERMINAL,
        why="JSON on a terminal has untrusted strings",
    ),
    Mutant(
        "runlake.terminal:last_state",
        find="f'[{len(earlier)} overwritten] {last}' if earlier else last",
        replace="last",
        tests=_TERMINAL,
        why="a carriage return must not silently hide the text before it",
    ),
    Mutant(
        "runlake.commands.output:show_rows",
        find="label(cell)",
        replace="cell",
        tests=f"{_HOSTILE}::test_rows_for_programs_are_not_forged",
        why="cells are untrusted names",
    ),
    Mutant(
        "runlake.commands.output:report",
        find="sanitize(f'runlake: {text}')",
        replace="f'runlake: {text}'",
        tests=f"{_HOSTILE}::test_error_messages_are_harmless",
        why="error messages are untrusted text of the server",
    ),
    Mutant(
        "runlake.commands.output:report_error",
        find="sanitize(A)",
        replace="A",
        tests=f"{_HOSTILE}::test_next_step_is_harmless",
        why="the next step may repeat arguments",
    ),
    Mutant(
        "runlake.commands.output:_has_colours",
        find="stream.isatty() and not os.environ.get('NO_COLOR') and os.environ.get('TERM') != 'dumb'",
        replace="stream.isatty()",
        tests=f"{_HOSTILE}::test_no_sequences_without_colours",
        why="NO_COLOR and terminals without colours are respected",
    ),
    Mutant(
        "runlake.shipper:to_stderr",
        find="sanitize(f'runlake: {text}')",
        replace="f'runlake: {text}'",
        tests="client/tests/test_imports.py",
        why="a handler's messages have untrusted text of the server",
    ),
    # names
    Mutant(
        "chalicelib.runlog.writer:Writer._put",
        find="self._layout.check_new(run)",
        replace="None",
        tests=_NAMES,
        why="names of new runs reach other users' terminals",
    ),
    Mutant(
        "chalicelib.runlog.writer:Writer._put",
        find="entry.sequence == 0",
        replace="True",
        tests=_NAMES,
        why="a run of an earlier release continues",
    ),
    Mutant(
        "chalicelib.events.names:checked_label",
        find="UNPRINTABLE.search(label)",
        replace="False",
        tests=_NAMES,
        why="names of steps are printed as a tree",
    ),
    # lines on disk
    Mutant(
        "runlake.draining:Drain._send",
        find="self._save(replace(self.leftover, position=stored.position, sent=0, begin=end))",
        replace="setattr(self, 'leftover', replace(self.leftover, position=stored.position, sent=0, begin=end))",
        tests=_DRAINING,
        why="a drain that was killed must resume where it stopped",
    ),
    Mutant(
        "runlake.draining:Drain._send",
        find="replace(self.leftover, position=stored.position, sent=0, begin=end)",
        replace="replace(self.leftover, position=stored.position, begin=end)",
        tests=_DRAINING,
        why="the batch without a response is counted and sent once",
    ),
    Mutant(
        "runlake.draining:Drain._bytes_from",
        find="file.seek(max(begin - chunk.first_byte, 0))",
        replace="file.seek(max(begin - chunk.first_byte - 1, 0))",
        tests=_DRAINING,
        why="a batch starts at the end of the previous one, also within a chunk",
    ),
    Mutant(
        "runlake.spool:check_is_own",
        find="os.lstat(root).st_uid != os.getuid()",
        replace="False",
        tests=f"{_MISTAKES}::test_drain_sends_no_token_for_a_folder_of_others",
        why="a folder of another user names a server that gets the token",
    ),
    Mutant(
        "runlake.buffer:Buffer._fits_memory",
        find="self._spool is None or self._spool.is_empty",
        replace="True",
        tests=_BUFFER,
        why="bytes in memory are older than those on disk: while memory is not empty, new bytes go there",
    ),
    Mutant(
        "runlake.buffer:Buffer._drop",
        find="self.dropped_lines += lines",
        replace="pass",
        tests=_BUFFER,
        why="dropped lines are counted",
    ),
    # attempts
    Mutant(
        "runlake.draining:Drain._send",
        find="self._save(replace(self.leftover, position=None, start=start, close=True, facts=facts))",
        replace="self.leftover = replace(self.leftover, position=None, start=start, close=True, facts=facts)",
        tests=_DRAINING,
        why="a drain that was killed requests the same attempt again",
    ),
    Mutant(
        "runlake.shipper:Shipper._start_again",
        find="start.again(A)",
        replace="start",
        tests="client/tests/test_handler.py",
        why="the attempt that a start of a closed log created is closed too",
    ),
    Mutant(
        "runlake.draining:Drain._open",
        find="start.is_joining and not started.is_joined",
        replace="False",
        tests=_DRAINING,
        why="only the drain closes the attempt that it starts for a writer",
    ),
    Mutant(
        "runlake.shipper:Shipper._persist",
        find="self._closes_the_run",
        replace="self._finish.close",
        tests="client/tests/test_handler.py",
        why="an attempt whose lines wait on disk is closed by the drain, where its writer would have closed it",
    ),
    Mutant(
        "runlake.handler:RunlogHandler.__init__",
        find="int(self._pace.heartbeat_s) if self._close_run else 0",
        replace="int(self._pace.heartbeat_s)",
        tests="client/tests/test_heartbeats.py",
        why="a process that sends no heartbeats promises none, or its run looks silent",
    ),
    # exactly once
    Mutant(
        "runlake.shipper:Shipper._settle",
        find="self._in_flight or self._waiting or self._buffer.pending_bytes or self._is_close_unanswered",
        replace="self._waiting or self._buffer.pending_bytes or self._is_close_unanswered",
        tests="client/tests/test_handler.py",
        why="the last batch has no response, and is lost",
    ),
    Mutant(
        "runlake.shipper:Shipper._end_with_lost",
        find="end.with_lost(lost) if end and lost else end",
        replace="end",
        tests="client/tests/test_outcomes.py",
        why="a run whose lines are lost looks complete",
    ),
    Mutant(
        "runlake.deliveries:EventDelivery.fit_to_request",
        find="events < MAX_EVENTS",
        replace="True",
        tests="client/tests/test_events.py",
        why="a run that is closed between two requests of a batch has events in two attempts",
    ),
    Mutant(
        "runlake.shipper:Shipper._append",
        find="self._position = stored.position",
        replace="pass",
        tests=f"{_FAULTS}::test_equal_batches_are_stored_each",
        why="the next batch sends the position of the previous response",
    ),
    Mutant(
        "runlake.shipper:Shipper._try_once",
        find="(AccessError, NotFoundError, SettingsError)",
        replace="(AccessError, SettingsError)",
        tests=f"{_MISTAKES}::test_lines_wait_where_the_address_is_wrong",
        why="a wrong address answers 404, and its lines wait",
    ),
    Mutant(
        "runlake.deliveries:EventDelivery._append",
        find="blake2b(body, digest_size=16).hexdigest()",
        replace="len(body)",
        tests="client/tests/test_events.py",
        why="other events under the same key would not be stored",
    ),
    # exec
    Mutant(
        "runlake.execution:execute",
        find="code if code >= 0 else 128 - code",
        replace="code",
        tests=f"{_EXEC}::test_a_command_killed_by_a_signal",
        why="a command that a signal killed ends as in a shell",
    ),
    Mutant(
        "runlake.execution:execute",
        find="not passed_on.isdisjoint(_CANCELLING)",
        replace="bool(passed_on)",
        tests="client/tests/test_outcomes.py::test_command_that_is_ended_from_outside_is_cancelled",
        why="a command that fails after SIGUSR1 counts as failed, not as cancelled",
    ),
    Mutant(
        "runlake.outputs:MergedLog.add",
        find="self._unfinished not in (None, output)",
        replace="False",
        tests="client/tests/test_outputs.py",
        why="text of another output starts a new line",
    ),
    Mutant(
        "runlake.outputs:Output._pieces",
        find="len(self._line) > self._line_bytes",
        replace="self._line",
        tests="client/tests/test_outputs.py",
        why="a line that is not ended yet waits for its newline",
    ),
    Mutant(
        "runlake.execution:_not_started",
        find="_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE",
        replace="_NOT_EXECUTABLE",
        tests=f"{_EXEC}::test_a_command_that_is_not_there",
        why="127 says that there is no such command",
    ),
    Mutant(
        "runlake.commands.writing:close",
        find="checked_run(archive, run, None)",
        replace="None",
        tests=f"{_MISTAKES}::test_unknown_run_is_an_error",
        why="a typing error makes no run",
    ),
    Mutant(
        "runlake.__main__:_Commands._exit_code",
        find="writing.CANNOT_BEGIN if self._is_of_exec(error, args) else error.exit_code",
        replace="error.exit_code",
        tests=f"{_MISTAKES}::test_exec_without_a_command_or_with_bad_options_runs_nothing",
        why="2 may be the code of the command, which was not run",
    ),
    Mutant(
        "runlake.events:checked_run_name",
        find="run.run_id in RESERVED_RUN_IDS",
        replace="False",
        tests=f"{_MISTAKES}::test_exec_runs_nothing_where_the_archive_would_refuse_the_run",
        why="the command would run, and its output be lost",
    ),
    Mutant(
        "runlake.commands.suggestions:suggested_command",
        find="set(commands) - CHANGING_COMMANDS",
        replace="set(commands)",
        tests=f"{_MISTAKES}::test_unknown_command_suggests_one_that_only_reads",
        why="a spelling error must not lead to a command that closes a run for good",
    ),
    # settings and options
    Mutant(
        "runlake.settings:_of_arguments",
        find="arguments.keys() - set(NAMES)",
        replace="()",
        tests=f"{_SETTINGS}::test_misspelt_option_is_an_error",
        why="a misspelt option would be a KeyError",
    ),
    Mutant(
        "runlake.settings:_is_in_range",
        find="_LEAST[name] <= value <= _MOST_OR_0.get(name, _MOST[_TYPES[name]])",
        replace="_LEAST[name] <= value",
        tests=f"{_SETTINGS}::test_number_out_of_range_names_its_origin",
        why="no system waits for infinite seconds",
    ),
    Mutant(
        "runlake.settings:_of_file",
        find="not is_named",
        replace="True",
        tests=f"{_SETTINGS}::test_file_that_is_named_must_exist",
        why="the intended settings would be ignored",
    ),
    Mutant(
        "runlake.commands.times:Seconds.convert",
        find="math.isnan(converted)",
        replace="False",
        tests=f"{_MISTAKES}::test_number_out_of_range_is_an_error",
        why="nan is in every range of click's",
    ),
    Mutant(
        "runlake.commands.reading:_runs_of",
        find="is_empty = True",
        replace="is_empty = False",
        tests=f"{_MISTAKES}::test_unknown_pipeline_is_an_error",
        why="a misspelt pipeline is not an empty one",
    ),
    Mutant(
        "runlake.fetching:Download.fetch",
        find="self._check_path()",
        replace="None",
        tests=f"{_MISTAKES}::test_unwritable_paths_are_errors_before_anything_is_fetched",
        why="a log would be fetched for nothing, and its part be left behind",
    ),
    Mutant(
        "runlake.leftovers:waiting_bytes",
        find="sent_path(folder).stat().st_size if leftover.sent else 0",
        replace="0",
        tests=f"{_MISTAKES}::test_list_counts_the_batch_that_was_sent_and_not_what_was_drained",
        why="lines of a batch without an answer wait too",
    ),
    Mutant(
        "runlake.archive:text_of",
        find="value not in (None, '')",
        replace="True",
        tests=f"{_MISTAKES}::test_message_that_is_null_is_not_printed",
        why="null is meaningless to a reader",
    ),
)
