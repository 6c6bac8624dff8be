"""What a run's row becomes when it moved while S3 was looked at."""

from __future__ import annotations

from typing import Any

import pytest

from glue_jobs.catalog.row_merging import is_ahead, merge_forward, names_to_change

S3: dict[str, Any] = {
    "fqn": "svc.pipeline", "run_id": "run-1", "segments": 5, "lines": 50, "bytes": 500, "epoch": 1, "seal": "", "last_append_ms": 5000,
    "expires_at": 9, "activity_shard": "open#1", "started_ms": 1000, "compacted_segments": 3, "compacted_bytes": 300,
}  # fmt: skip
FURTHER = {"segments": 7, "lines": 70, "bytes": 700, "epoch": 1, "seal": "", "last_append_ms": 7000, "expires_at": 11}


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in names}


@pytest.mark.parametrize("seen", [None, S3, S3 | {"segments": 10**9, "failures": 3}])
def test_unchanged_row_takes_the_values_from_s3(seen: dict[str, Any] | None) -> None:
    assert merge_forward(S3, seen, seen) == S3


def test_segments_that_landed_meanwhile_stay() -> None:
    damaged = S3 | {"compacted_bytes": 1}
    merged = merge_forward(S3, damaged, damaged | FURTHER)
    assert merged == S3 | FURTHER
    assert names_to_change(damaged | FURTHER, merged) == ["compacted_bytes", "compacted_segments"], "and are not written again"


def test_row_that_advanced_and_is_still_behind_takes_the_values_from_s3() -> None:
    behind = S3 | {"segments": 2, "lines": 20}
    assert merge_forward(S3, behind, behind | {"segments": 3, "lines": 30}) == S3


def test_artifacts_that_were_written_meanwhile_stay() -> None:
    final = {"compacted_segments": 5, "compacted_bytes": 500, "final_segments": 5, "final_lines": 50, "final_bytes": 500}
    assert merge_forward(S3, S3 | {"lines": 1}, S3 | {"lines": 1} | final) == S3 | final


def test_run_that_was_let_go_of_meanwhile_stays_so() -> None:
    assert merge_forward(S3, S3, without(S3, "activity_shard")) == without(S3, "activity_shard")


def test_run_that_was_let_go_of_before_its_last_segments_landed_is_active() -> None:
    behind = S3 | {"segments": 2, "lines": 20}
    assert merge_forward(S3, behind, without(behind, "activity_shard")) == S3


def test_heartbeat_that_came_meanwhile_stays() -> None:
    now = S3 | {"lines": 1, "alive_ms": 6000}
    merged = merge_forward(S3 | {"alive_ms": 5000}, S3 | {"lines": 1, "alive_ms": 5000}, now)
    assert merged == S3 | {"alive_ms": 6000}
    assert "alive_ms" not in names_to_change(now, merged), "the next one does not stop the write"


@pytest.mark.parametrize(
    ("explained", "text", "is_kept"),
    [(5, "{}", True), (4, "{}", True), (6, "{}", False), (0, "{}", False), ("5", "{}", False), (5, ["{}"], False)],
)
def test_explanation_of_a_final_log_stays_unless_damaged(explained: object, text: object, is_kept: bool) -> None:
    """Also that of an earlier end: the schedule replaces it. One that is ahead of the log would stop the schedule."""
    final = {"final_segments": 5, "final_lines": 50, "final_bytes": 500}
    explanation = {"explained_segments": explained, "explanation": text}
    now = S3 | final | explanation
    merged = merge_forward(S3 | final, now, now)
    assert merged == S3 | final | (explanation if is_kept else {})
    assert names_to_change(now, merged) == ([] if is_kept else ["explained_segments", "explanation"])


def test_start_that_landed_meanwhile_stays() -> None:
    """Its object may have been stored after S3 was listed."""
    start = {"start": {"start_id": "a"}}
    assert merge_forward(S3, S3, S3 | start) == S3 | start
    assert merge_forward(S3, S3 | start, S3 | start) == S3, "a start that S3 lacks"
    assert merge_forward(S3 | start, S3, S3 | {"start": "x"}) == S3 | start


def test_earliest_beginning_stays() -> None:
    assert merge_forward(S3, S3, S3 | {"started_ms": 900})["started_ms"] == 900
    assert merge_forward(S3, None, S3 | {"started_ms": 1100})["started_ms"] == 1000


@pytest.mark.parametrize("value", ["7", None, 7.5, True, [7], {"a": 7}])
def test_damaged_values_do_not_count_as_further(value: Any) -> None:
    assert merge_forward(S3, S3, S3 | {"segments": value}) == S3


def test_groups_are_written_together() -> None:
    group = [
        "activity_shard",
        "bytes",
        "end",
        "ended_at",
        "epoch",
        "expires_at",
        "last_append_ms",
        "lines",
        "outcome",
        "seal",
        "segments",
        "zone",
    ]
    assert names_to_change(S3 | {"bytes": 7}, S3) == group
    assert names_to_change(S3 | {"failures": 3}, S3) == ["failures"]
    assert names_to_change(S3, S3) == []


def test_row_ahead_of_s3_is_detected() -> None:
    assert is_ahead(S3 | {"segments": 6}, S3) and is_ahead(S3 | {"final_segments": 1}, S3)
    assert not is_ahead(S3 | {"segments": 4, "lines": 10**9}, S3)
