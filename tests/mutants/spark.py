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
    *group("glue_jobs.datasource.log", "tests/spark/test_outcomes.py",
        ("Resolver.log_of", "status == SEALED and objects.segment_ranges", "False",
            "a closed run that is not finalized has no outcome, a reopened one that of its first end")),
)  # fmt: skip
