"""Spark's source: events that came as such, and outcomes."""

from tests.mutants.mutant import Mutant

_LEVELS = "tests/spark/test_stated_levels.py"
_OUTCOMES = "tests/spark/test_outcomes.py"

MUTANTS = (
    Mutant(
        "glue_jobs.datasource.slices:Borders._behind_carried",
        find="before and before.end > byte",
        replace="False",
        tests=_LEVELS,
        why="a cut inside an event makes two rows of it",
    ),
    Mutant(
        "glue_jobs.datasource.slices:Borders._behind_carried",
        find="min(behind.start, self._slice.until.byte) if behind else self._slice.until.byte",
        replace="self._slice.until.byte",
        tests=_LEVELS,
        why="an event that begins like a continuation is read by the task before, as text",
    ),
    Mutant(
        "glue_jobs.datasource.slices:Borders._find",
        find="around and around.end > byte",
        replace="False",
        tests=_LEVELS,
        why="the rest of an event becomes a row, with the times of its text",
    ),
    Mutant(
        "glue_jobs.datasource.following:Follower._made",
        find="self._floor(run, before, end)",
        replace="before.floor if before else 0",
        tests="tests/spark/test_following.py",
        why="two batches meet inside an event",
    ),
    Mutant(
        "glue_jobs.datasource.following:Follower._end",
        find="self._under_way(run, before, entry)",
        replace="None",
        tests=_LEVELS,
        why="an event that is being written loses its level",
    ),
    Mutant(
        "glue_jobs.datasource.following:Follower.latest",
        find="self._through_s(previous, to_the_end)",
        replace="self._through_s(previous, grown)",
        tests=_LEVELS,
        why="a waiting run counts as read",
    ),
    Mutant(
        "glue_jobs.datasource.reading:_with_stated",
        find="sum(map(len, raw)) + len(raw) - 1 == sidecar_entry.bytes",
        replace="True",
        tests=_LEVELS,
        why="lines have the level of an event of another segment",
    ),
    Mutant(
        "glue_jobs.datasource.log:Resolver.log_of",
        find="status == SEALED and objects.segment_ranges",
        replace="False",
        tests=_OUTCOMES,
        why="a closed run that is not finalized has no outcome, a reopened one that of its first end",
    ),
)
