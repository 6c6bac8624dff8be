"""Spark's source: events that came as such, and outcomes."""

from tests.mutants.mutant import group

_LEVELS = "tests/spark/test_stated_levels.py"

MUTANTS = (
    *group("glue_jobs.datasource.slices", _LEVELS,
        ("Borders._behind_carried", "before and before.end > byte", "False", "a cut inside an event makes two rows of it"),
        ("Borders._behind_carried", "min(behind.start, self._slice.until.byte) if behind else self._slice.until.byte",
            "self._slice.until.byte", "an event that begins like a continuation is read by the task before, as text"),
        ("Borders._find", "around and around.end > byte", "False",
            "the rest of an event becomes a row, with the times of its text")),
    *group("glue_jobs.datasource.following", _LEVELS,
        ("Follower._made", "self._floor(run, before, end)", "before.floor if before else 0",
            "two batches meet inside an event", "tests/spark/test_following.py"),
        ("Follower._end", "self._under_way(run, before, entry)", "None", "an event that is being written loses its level"),
        ("Follower.latest", "self._through_s(previous, to_the_end)", "self._through_s(previous, grown)",
            "a waiting run counts as read")),
    *group("glue_jobs.datasource.reading", _LEVELS,
        ("_with_stated", "sum(map(len, raw)) + len(raw) - 1 == sidecar_entry.bytes", "True",
            "lines have the level of an event of another segment")),
    *group("glue_jobs.columnar.parser", "tests/unit/test_columnar.py",
        ("_Groups.__init__", "self._end - self._first <= MAX_EVENT_LINES", "True", "an event has more lines than others may have"),
        ("_Groups.joined", "filled[end[several] - 1]", "end[several] - 1", "a message ends with empty lines"),
        ("_joinable", "begins_trace[unindented[:-1]]", "True", "any line that is not indented belongs to an error before it")),
    *group("glue_jobs.columnar.timestamps", "tests/unit/test_columnar.py",
        ("_offset_us", "first is None or first != last", "False", "times of an hour in which the zone changes are wrong"),
        ("_add_offsets", "has_hours & ~is_spaced", "has_hours", "a short zone after a space is read")),
    *group("glue_jobs.columnar.patterns", "tests/unit/test_columnar.py",
        ("_Translation._repetition", "after.may_be_empty or characters.isdisjoint(after.first)", "True",
            "a translated pattern matches lines that the row parser does not")),
    *group("glue_jobs.datasource.column_reading", "tests/spark/test_column_reads.py",
        ("_Numbering.lines", "places + shifts", "places", "lines behind missing segments have other numbers"),
        ("column_batches", "_end(events, line, opened)", "len(events)", "lines behind the last selected one are rows")),
    *group("glue_jobs.datasource.log", "tests/spark/test_outcomes.py",
        ("Resolver.log_of", "status == SEALED and objects.segment_ranges", "False",
            "a closed run that is not finalized has no outcome, a reopened one that of its first end")),
)  # fmt: skip
