"""Selects small files to merge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from glue_jobs.dataset.entries import DataFile

MIB = 1024 * 1024
MOST_FILES = 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """``small_bytes``: smaller files are small. ``target_bytes``: files are merged up to this size. ``most_files``: a partition
    with this many small files is merged even if the result is small; 0: never merge."""

    small_bytes: int = 128 * MIB
    target_bytes: int = 256 * MIB
    most_files: int = MOST_FILES


def bins(files: Iterable[DataFile], sizes: Sizes) -> list[tuple[DataFile, ...]]:
    """Files to merge, at least two in each bin, of the same partition. A merged file has at most ``target_bytes`` plus one small
    file. The order of ``files`` does not matter."""
    if not sizes.most_files:
        return []
    by_partition: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in sorted(files):
        if file.bytes < sizes.small_bytes:
            by_partition[file.partition].append(file)
    return [each for _, small in sorted(by_partition.items()) if _is_worth_it(small, sizes) for each in _packed(small, sizes)]


def _is_worth_it(small: list[DataFile], sizes: Sizes) -> bool:
    return len(small) >= sizes.most_files or sum(file.bytes for file in small) >= sizes.small_bytes


def _packed(small: list[DataFile], sizes: Sizes) -> Iterator[tuple[DataFile, ...]]:
    """Fills bins in sequence."""
    gathered: list[DataFile] = []
    for file in small:
        gathered.append(file)
        if sum(each.bytes for each in gathered) >= sizes.target_bytes:
            yield tuple(gathered)
            gathered = []
    if len(gathered) > 1:
        yield tuple(gathered)
