"""The matcher of each format."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

from chalicelib.lines.fields import parse_json_with
from chalicelib.lines.formats import LogFormat
from glue_jobs.columnar.json_lines import JsonMatcher
from glue_jobs.columnar.matching import FixedMatcher, LineMatcher, PatternMatcher
from glue_jobs.columnar.patterns import UntranslatableError, fixed_places, translated


@cache
def matcher_of(format: LogFormat) -> LineMatcher | None:
    """The matcher of a format; None: only the row parser reads it."""
    if format.bind is parse_json_with:
        return JsonMatcher()
    layout = format.layout
    if layout is None or layout.refine or format.rest:
        return None
    try:
        if layout.around is not None and layout.stamp is not None and layout.stamp.places is not None:
            before, tail = layout.around
            with suppress(UntranslatableError):
                head = fixed_places(before + layout.stamp.pattern)
                return FixedMatcher(head, layout.stamp.places, layout, translated(tail))
        return PatternMatcher(layout, translated(layout.pattern))
    except UntranslatableError:
        return None
