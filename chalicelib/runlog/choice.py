"""The logging method and the log browser of a run: ``events/chosen``, written once (decision 0047).

A start that names another method than the run log writes it. Otherwise the first segment carries the browser's name in its metadata, in the
PUT that the append sends anyway, and the ingest function copies it. A run without the object was begun with the run log as both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, PreconditionFailedError
from chalicelib.ports import ABSENT, ObjectStore, PutOptions, Run
from chalicelib.runlog.conflicts import put_retrying_conflicts
from chalicelib.runlog.layout import Layout

RUN_LOG = "runlog"
"""The method and browser on S3."""
NAME = r"^[A-Za-z0-9_.-]{1,100}$"
"""The pattern of names of methods and browsers."""
_BROWSER = "browser"


@dataclass(frozen=True, slots=True)
class Choice:
    """Names of a run's method, browser and outputs (None: those that are configured when it is written). ``locator``: the pattern that
    matched its FQN; None: none did."""

    method: str = RUN_LOG
    browser: str = RUN_LOG
    outputs: tuple[str, ...] | None = None
    locator: str | None = None

    @property
    def is_run_log(self) -> bool:
        """Whether the run is written to the run log and read from it."""
        return self.method == self.browser == RUN_LOG

    def segment_metadata(self) -> Mapping[str, str]:
        """User metadata of the run's first segment: at most 107 bytes; none for the run log."""
        return {} if self.browser == RUN_LOG else {_BROWSER: self.browser}


def choice_of_segment(metadata: Mapping[str, str]) -> Choice | None:
    """The choice in the metadata of a first segment, if it has one. Segments are always of the method ``runlog``."""
    return Choice(browser=metadata[_BROWSER]) if _BROWSER in metadata else None


def read_choice(store: ObjectStore, layout: Layout, run: Run) -> Choice | None:
    """The stored choice; None: there is none. One GET. Raises DamagedLogError."""
    key = layout.chosen(run)
    try:
        document = json.loads(store.get(key).body)
        outputs = document["outputs"]
        names = None if outputs is None else tuple(outputs)
        return Choice(document["method"], document[_BROWSER], names, document["locator"])
    except ObjectNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedLogError(f"not a stored choice of method and browser key={key}") from error


def put_choice(store: ObjectStore, layout: Layout, run: Run, choice: Choice) -> bool:
    """Store a choice; False: the run has one already, and keeps it. One PUT."""
    body = json.dumps(asdict(choice)).encode()
    try:
        put_retrying_conflicts(store, layout.chosen(run), body, PutOptions(content_type="application/json"), ABSENT)
    except PreconditionFailedError:
        return False
    return True
