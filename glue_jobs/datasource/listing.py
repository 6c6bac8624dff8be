"""Finds the runs of a selection with parallel listings.

A listing is a sequence of requests, each of which starts after the last key of the one before, and a million keys take a
thousand. So a long key range is split after the pipeline, run or segment number that was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from chalicelib.ports import MAX_SEQUENCE, ListedObject, ObjectStore, Run
from chalicelib.runlog.layout import Layout, encode_name
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.objects import Listed, RunGrouper, RunObjects, merged
from glue_jobs.datasource.selection import Selection

PAGES = 4
"""Longer ranges are split."""
_PARTS = 16
_FOLDERS = 256
_NUMBERS = PAGES * 1000 - 1  # one less, so that the last page is marked as the last
_ABOVE = "0"  # the character after the slash sorts above all keys of a folder

OnForeign = Callable[[Run, str], None]


class KeyListing(Protocol):
    """Listings of a bucket."""

    def page(self, prefix: str, after: str, limit: int = 1000) -> tuple[Sequence[Listed], bool]:
        """Objects after a key, ascending, and whether there are more."""

    def folders(self, prefix: str, after: str = "") -> list[str]:
        """Common prefixes up to the next slash, ascending."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys with ``prefix`` after ``after`` and below ``end`` (None: all). ``folders``: known folders in the range."""

    prefix: str
    after: str = ""
    end: str | None = None
    folders: tuple[str, ...] = ()


class RunFinder:
    """Finds runs below a prefix."""

    def __init__(self, keys: KeyListing, layout: Layout, on_foreign: OnForeign | None = None) -> None:
        self._keys, self._layout, self._on_foreign = keys, layout, on_foreign

    def find(self, selection: Selection) -> list[RunObjects]:
        """The selected runs, in key order. About a LIST for each 1,000 keys of theirs, and for each 1,000 pipelines."""
        if selection.is_empty:
            return []
        parts: list[tuple[str, list[RunObjects]]] = []
        with ThreadPoolExecutor(THREADS) as threads:

            def start(keys: KeyRange) -> Future[tuple[KeyRange, list[RunObjects], list[KeyRange]]]:
                return threads.submit(self._work, keys, selection)

            running = {start(keys) for keys in self._ranges(selection)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    keys, runs, rest = each.result()
                    parts.append((max(keys.after, keys.prefix), runs))
                    running |= {start(further) for further in rest}
        return merged(runs for _, runs in sorted(parts, key=lambda part: part[0]))

    def _ranges(self, selection: Selection) -> Iterator[KeyRange]:
        """The first key ranges: folders of pipelines, or of single runs."""
        root = self._layout.prefix + "/"
        runs = selection.run_ids.exact
        names = selection.fqns.exact
        if names is not None:
            folders = sorted(f"{root}{encode_name(name)}/" for name in names)
            selected = [(folder, True) for folder in folders]
        else:
            listed = self._keys.folders(root + (encode_name(selection.fqns.prefix) if selection.fqns.prefix else ""))
            selected = [(folder, self._is_selected(folder, selection)) for folder in listed]
        if runs is not None:
            ids = {
                spelling for run in runs for spelling in (encode_name(run), run)
            }  # OpenMetadata's own keys have the unencoded run id
            yield from (KeyRange(f"{folder}{each}/") for folder, is_selected in selected if is_selected for each in sorted(ids))
        elif names is not None:
            yield from (KeyRange(folder) for folder, _ in selected)
        else:
            for is_selected, group in groupby(selected, key=lambda each: each[1]):
                if is_selected:
                    yield from _cut_folders(root, [folder for folder, _ in group], _FOLDERS)

    def _is_selected(self, folder: str, selection: Selection) -> bool:
        parsed = self._layout.parse(folder + "any/logs.txt")
        return parsed is not None and parsed.run.fqn in selection.fqns

    def _work(self, keys: KeyRange, selection: Selection) -> tuple[KeyRange, list[RunObjects], list[KeyRange]]:
        folder = RunGrouper(self._layout, selection.wants, self._on_foreign)
        after = keys.after
        for _ in range(PAGES):
            objects, more = self._keys.page(keys.prefix, after)
            if keys.end is not None and objects and objects[-1].key >= keys.end:
                objects, more = [listed for listed in objects if listed.key < keys.end], False
            folder.add(objects)
            if not more:
                return keys, folder.runs, []
            after = objects[-1].key
        return keys, folder.runs, list(self._rest(keys, after))

    def _rest(self, keys: KeyRange, after: str) -> Iterator[KeyRange]:
        """Ranges for the keys after ``after``: the rest of its folder, and the folders after that."""
        name, slash, _ = after[len(keys.prefix) :].partition("/")
        here = keys.prefix + name + slash
        if not slash or here.endswith("/segments/"):
            yield from self._cut_numbers(keys, after)
            return
        is_last = keys.end is not None and keys.end <= here[:-1] + _ABOVE
        yield KeyRange(here, after, keys.end if is_last else None)
        if not is_last:
            folders = keys.folders or self._keys.folders(keys.prefix, here[:-1] + _ABOVE)
            behind = [folder for folder in folders if folder > here and (keys.end is None or folder < keys.end)]
            yield from _cut_folders(keys.prefix, behind, max(len(behind) // _PARTS, 1), keys.end)

    def _cut_numbers(self, keys: KeyRange, after: str) -> Iterator[KeyRange]:
        """Ranges of one run's segments; finds their number in growing steps."""
        head, _, digits = after.rpartition("/")
        if not head.endswith("segments") or not digits.isdigit():
            yield KeyRange(keys.prefix, after, keys.end)
            return
        low, step = int(digits), _NUMBERS
        while low + step < MAX_SEQUENCE and (page := self._keys.page(f"{head}/", f"{head}/{low + step:010d}", 1)[0]):
            reached = page[0].key.rpartition("/")[2]
            if (keys.end is not None and page[0].key >= keys.end) or not reached.isdigit():
                break
            low, step = int(reached), step * 2
        first = int(digits)
        stride = max(_NUMBERS, (low - first) // (4 * _PARTS) + 1)
        starts = [f"{head}/{number:010d}" for number in range(first, low + 1, stride)]
        # A range ends with the first key of the next one: "~" sorts after it, and before the next number.
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            yield KeyRange(keys.prefix, start, f"{end}~" if end else keys.end)


def _cut_folders(prefix: str, folders: Sequence[str], count: int, end: str | None = None) -> Iterator[KeyRange]:
    """Ranges of ``count`` folders each."""
    for first in range(0, len(folders), count):
        part = folders[first : first + count]
        is_last = first + count >= len(folders)
        yield KeyRange(prefix, part[0], part[-1][:-1] + _ABOVE if not is_last or end is None else end, tuple(part))


def objects_of(store: ObjectStore, layout: Layout, run: Run, base: str) -> RunObjects:
    """One run's current objects. One LIST for each 1,000."""
    folder = RunGrouper(layout, lambda _: True)
    after, more = "", True
    while more:
        page = store.list(base, start_after=after)
        folder.add(map(_as_listed, page.objects))
        more = page.truncated
        after = page.objects[-1].key if page.objects else ""
    return next((listed for listed in folder.runs if listed.base == base), RunObjects(run, base))


def _as_listed(listed: ListedObject) -> Listed:
    return Listed(listed.key, listed.size, listed.etag, listed.last_modified_ms)
