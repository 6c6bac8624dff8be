"""Decisive lines of the rules that explain a failure."""

from tests.mutants.mutant import group

_EXPLANATION = "tests/unit/test_explanation.py"
_TEXTS = f"{_EXPLANATION}::test_first_candidate_explains_the_failure"
_CUTS = f"{_EXPLANATION}::test_any_cuts_and_any_continuation_give_the_same"
_BOUNDS = f"{_EXPLANATION}::test_state_stays_small_and_candidates_exist"

MUTANTS = (
    *group("chalicelib.explanation.bounded_lines", _BOUNDS,
        ("BoundedLines._extend", "len(self.rest) > LINE_BYTES", "False", "a line without an end fills the state"),
        ("BoundedLines.blocks", "self.has_gap or len(self.rest) + len(piece) > LINE_BYTES", "False",
            "a long line is cut by where the log was cut", f"{_EXPLANATION}::test_long_lines_are_cut_alike")),
    *group("chalicelib.explanation.evidence", _TEXTS,
        ("Incident.add_python", "link == DURING and TRIVIAL.match(root.text) is not None", "False", "a handled KeyError is the root"),
        ("Incident.add_python", "link == DURING and TRIVIAL.match(root.text) is not None", "link == DURING",
            "what fails while a failure is handled is the root"),
        ("Incident.add_java", "self.kind != WORKER", "True", "Spark's exception wins over that of its Python worker"),
        ("Pool.add", "len(last) > self.lasts", "False", "each record of an error is remembered", _BOUNDS),
        ("Evidence.begin", "len(self.incidents) >= _MAX_INCIDENTS", "False", "each stack trace is remembered", _BOUNDS)),
    *group("chalicelib.explanation.traces", _TEXTS,
        ("TraceReader._see_cleanup", "self._link == DURING and CLEANUP.search(frames)", "False", "the failure of a clean-up is the root"),
        ("TraceReader._prefix_length", "size and raw[:size].translate(_DIGITS) == self._prefix", "False",
            "traces behind Airflow's prefixes are not read")),
    *group("chalicelib.explanation.marks", f"{_EXPLANATION}::test_each_line_may_come_by_itself",
        ("FrameSearch._places", "lead and not at and block.startswith(sign[1:]) and FRAME.match(block)", "False",
            "a frame at the begin of a piece is not read")),
    *group("chalicelib.explanation.reading", _TEXTS,
        ("_BlockReader._look_at_text", "kinds & EXIT and any(map(raw.lower().__contains__, EXIT_REPORTS))", "False",
            "output before an exit code is not found"),
        ("_BlockReader._may_look", "reader.credit < 0", "False", "hostile logs are read line by line",
            f"{_EXPLANATION}::test_logs_of_short_failures_are_not_looked_at_line_by_line"),
        ("LogReader.read", "self.byte += len(block)", "pass", "the credit depends on the cuts",
            f"{_EXPLANATION}::test_logs_of_short_failures_are_not_looked_at_line_by_line")),
    *group("chalicelib.explanation.ranking", _TEXTS,
        ("_overtaken", "finding.score * _decay(A, _OVERTAKEN)", "finding.score", "an error that the run answered wins"),
        ("_overtaken", "FATAL in levels and finding.level == PLAIN", "False", "a handled trace wins over a fatal record"),
        ("_of_incident", "incident.kind == PYTHON and is_wrapper(message_of(root.raw))", "False", "a subprocess's output is not found"),
        ("_doubt", "is_wrapper(message)", "False", "a wrapper wins"),
        ("_doubt", "CONSEQUENCE.search(message)", "False", "what follows from a failure wins"),
        ("_with_end", "min(score, 0.95)", "score", "a score is above 1", f"{_EXPLANATION}::test_reported_end_of_the_run_counts"),
        ("_with_end", "score *= 1.12 if finding.family in families else 0.85", "pass", "the exit code says nothing",
            f"{_EXPLANATION}::test_reported_end_of_the_run_counts"),
        ("_doubted", "round(second.score - first.score, 3) >= -0.08 and not _agree(first, second)", "False",
            "two different failures are both certain", f"{_EXPLANATION}::test_scores_are_in_order_and_certain_ones_need_evidence")),
    *group("chalicelib.explanation.run_explainer", "tests/functional/test_http_catalog.py",
        ("RequestExplainer.explain", "is_end_known and (is_final and not reading.start)", "is_final and not reading.start",
            "an explanation without the reported end stays for good",
            "::test_explanation_without_the_known_end_of_the_run_is_not_kept")),
    *group("chalicelib.explanation.usual_lines", "tests/functional/test_explained_runs.py",
        ("UsualLines._successful", "row.outcome_at(0) == SUCCEEDED", "True", "a failure that happens each time is no sign of a failure"),
        ("UsualLines.of", "left <= 0 or deadline.remaining_s() <= 0", "False", "the comparison takes all of the time of the schedule"),
        ("_Forms.add", "usual_form(message_of(raw))", "message_of(raw)", "a number makes a line unusual"),
        ("_RememberedEvidence.begin", "self._remember(*self.incidents)", "None", "a trace of a successful run that others followed is unusual")),
    *group("chalicelib.explanation.texts", f"{_EXPLANATION}::test_text_is_clean_short_and_numbered_from_the_first_line",
        ("shorten", "_CONTROLS.sub('', A)", "A", "a text reverses the reader's terminal")),
)  # fmt: skip
