"""The columns of a parsed line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple


class ParsedLine(NamedTuple):
    """``timestamp``: microseconds since the epoch, UTC. ``level``: one of ``levels.ORDER``. None where the line lacks the column.

    ``message`` is the rest of the line; the complete line if no format parses it.
    """

    timestamp: int | None
    level: str | None
    logger: str | None
    message: str


new_parsed_line: Callable[[tuple[int | None, str | None, str | None, str]], ParsedLine] = partial(tuple.__new__, ParsedLine)
"""Half the cost of calling the class."""
