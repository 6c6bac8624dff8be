"""Inventory of a bucket by run, from listings only. S3 is the source of truth: a catalog that lags or was lost would make
retention keep or expire the wrong runs.

Each pipeline is one sequence of listings, a LIST for each 1,000 of its keys; pipelines are listed in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from chalicelib.ports import ListedObject, ObjectStore, Run
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all
from glue_jobs.transforms.retention import FINALIZED, OPEN

_OF_THE_LOG = ("segment", "partial", "logs")
_BEHIND_A_FOLDER = "0"  # the character after the slash sorts above all keys of a folder


@dataclass(frozen=True, slots=True)
class BucketInventory:
    """Reads the listing. ``folder``: the key prefix of a pipeline, slash included."""

    store: ObjectStore
    layout: Layout

    def folders(self) -> Iterator[str]:
        """Folders of pipelines, ascending. One LIST for each, or for up to 1,000 keys of small ones."""
        root = self.layout.prefix + "/"
        after = ""
        while True:
            page = self.store.list(root, start_after=after)
            names = [root + name for name, _ in groupby(each.key[len(root) :].split("/", 1)[0] + "/" for each in page.objects)]
            yield from (folder for folder in names if not folder.startswith(root + "."))
            if not page.truncated:
                return
            after = names[-1].removesuffix("/") + _BEHIND_A_FOLDER

    def runs(self, folder: str) -> Iterator[tuple[Run, str, int, int, int, int, int]]:
        """A pipeline's runs as rows of ``transforms.retention.RUNS``, with the run first. Keys that belong to no run are skipped."""
        parsed = self.layout.parse(f"{folder}any/logs.txt")
        if parsed is None:
            return
        below = (each for each in list_all(self.store, folder) if "/" in each.key[len(folder) :])
        for run_folder, listed in groupby(below, lambda each: _run_folder(each.key, folder)):
            of = self.layout.parse(run_folder + "logs.txt")
            if of is not None and self.layout.run_prefix(of.run) == run_folder:
                yield of.run, *_summed(self.layout, of.run, listed)


def _run_folder(key: str, folder: str) -> str:
    return folder + key[len(folder) :].split("/", 1)[0] + "/"


def _summed(layout: Layout, run: Run, listed: Iterator[ListedObject]) -> tuple[str, int, int, int, int, int]:
    """(status, ended_ms, bytes, objects, log_bytes, tail). Finalized: logs.txt exists, partial.txt does not, and no segment is
    newer."""
    ended_ms = size = objects = 0
    log_bytes = tail = logs_ms = tail_ms = -1
    is_partial = False
    for each in listed:
        size, objects = size + each.size, objects + 1
        parsed = layout.parse(each.key)
        kind = parsed.kind if parsed else ""
        if kind in _OF_THE_LOG:
            ended_ms = max(ended_ms, each.last_modified_ms)
        is_partial |= kind == "partial"
        if kind == "logs":
            log_bytes, logs_ms = each.size, each.last_modified_ms
        if parsed and parsed.sequence is not None:
            tail, tail_ms = parsed.sequence, each.last_modified_ms
    is_final = log_bytes >= 0 and not is_partial and tail_ms <= logs_ms
    return FINALIZED if is_final else OPEN, ended_ms, size, objects, log_bytes, tail
