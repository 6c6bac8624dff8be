"""Multipart plans: the same bytes in the same order, within S3's limits, with the fewest uploaded bytes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.runlog.multipart_plan import GATHER_BYTES, MAX_COPY_BYTES, MIN_PART_BYTES, SourceRange, UploadPart, plan_parts

MIB = 1024 * 1024
SIZES = st.one_of(st.integers(1, 200), st.integers(1, 12 * MIB), st.integers(4 * MIB, 6 * MIB), st.integers(1, 3 * 1024 * MIB))


def spans_of(sizes: list[int]) -> list[SourceRange]:
    return [SourceRange(f"key-{number}", 0, size, size, "etag") for number, size in enumerate(sizes)]


def runs(sources: list[SourceRange]) -> list[tuple[str, int, int]]:
    """The read ranges in order, adjacent ones merged: independent of the splits."""
    joined: list[tuple[str, int, int]] = []
    for span in sources:
        if joined and joined[-1][0] == span.key and joined[-1][2] == span.start:
            joined[-1] = (span.key, joined[-1][1], span.end)
        elif span.size:
            joined.append((span.key, span.start, span.end))
    return joined


def check(sizes: list[int]) -> list[UploadPart]:
    """Check a plan against S3's limits: 10,000 parts of 5 MiB to 5 GiB, the last may be smaller, copies from more than 5 MiB."""
    sources = spans_of(sizes)
    parts = plan_parts(sources)
    assert runs([span for part in parts for span in part.sources]) == [(span.key, 0, span.end) for span in sources]
    assert len(parts) <= 10_000
    assert all(5 * MIB <= part.size for part in parts[:-1])
    for part in parts:
        assert part.size <= 5 * 1024 * MIB
        if part.copied:
            assert len(part.sources) == 1 and part.sources[0].source_bytes > 5 * MIB
    return parts


@given(st.lists(SIZES, max_size=30))
@example([5 * MIB, 1])
@example([5 * MIB + 1, 1])
@example([1, 5 * MIB + 1])
@example([1, 10 * MIB, 1, 10 * MIB])
@example([6 * 1024 * MIB, 100])
@example([MAX_COPY_BYTES + 1])
def test_a_plan_is_the_concatenation_and_obeys_s3(sizes: list[int]) -> None:
    check(sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        [6 * MIB] * 10_001,
        [6 * MIB, 1] * 5_001,
        [1, 5 * MIB + 1] * 5_001,
        [100 * 1024 * MIB] + [6 * MIB] * 9_900,
        [MIB] * 90_000,
        [11 * 1024 * 1024 * MIB, 1, 6 * MIB],
        [45 * 1024 * 1024 * MIB] + [64 * MIB] * 100,
    ],
    ids=["copies", "copies and bytes", "bytes and copies", "base", "small", "11 TiB", "45 TiB"],
)
def test_plan_of_more_spans_than_parts_fits_ten_thousand(sizes: list[int]) -> None:
    check(sizes)


def test_large_base_leaves_gathered_parts_small() -> None:
    """Uploaded parts are in memory: their size must not grow with the copied bytes."""
    parts = check([4 * 1024 * 1024 * MIB] + [MIB] * 1000)
    assert max(part.size for part in parts if not part.copied) <= GATHER_BYTES


@given(st.lists(st.integers(1, 20 * MIB), min_size=1, max_size=20), st.integers(6 * MIB, 6 * 1024 * MIB))
def test_plan_uploads_little_more_than_small_sources(small: list[int], large: int) -> None:
    parts = plan_parts(spans_of([large, *small]))
    uploaded = sum(part.size for part in parts if not part.copied)
    assert uploaded <= sum(size for size in small if size <= 2 * MIN_PART_BYTES) + MIN_PART_BYTES * sum(
        size > MIN_PART_BYTES for size in small
    )


def test_small_log_is_one_put() -> None:
    assert plan_parts(spans_of([3 * MIB, 2 * MIB])) == [UploadPart(tuple(spans_of([3 * MIB, 2 * MIB])), copied=False)]
    assert plan_parts([]) == []


def test_small_segments_fill_parts_of_eight_mebibytes() -> None:
    parts = plan_parts(spans_of([MIB] * 20))
    assert [part.size for part in parts] == [GATHER_BYTES, GATHER_BYTES, 4 * MIB]


def test_plan_of_many_small_segments_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a part of 20,000 ranges is not recomputed for each of them."""
    sources, asked = spans_of([50] * 20_000), 0

    def size(span: SourceRange) -> int:
        nonlocal asked
        asked += 1
        return span.end - span.start

    monkeypatch.setattr(SourceRange, "size", property(size))
    assert [len(part.sources) for part in plan_parts(sources)] == [20_000]
    assert asked <= 10 * 20_000
