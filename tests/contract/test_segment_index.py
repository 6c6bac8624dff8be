"""The behaviour of each implementation of ``ports.SegmentIndex``, compared with a plain list."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from chalicelib.errors import RunDeletedError
from chalicelib.ports import KeyClaim, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.deletion_marks import DeletionMark

RUN = Run("svc/with slash.ünï#1", "run-1")


def entry(sequence: int, line: int, lines: int, session: str = "00ff", kind: str = "data") -> SegmentEntry:
    reason = "closed" if kind == "seal" else ""
    marks = ((3, 300), (7, 900)) if lines > 10 else ()
    first_ms, last_ms = (1_789_000_000_000, 1_789_000_000_001) if lines > 10 else (None, None)
    return SegmentEntry(
        sequence, kind, 1, line, line * 10, lines, lines * 10, session, sequence, f"{sequence:032x}", 1_790_000_000_000 + sequence,
        "host 1", reason, marks, first_ms=first_ms, last_ms=last_ms, zone="Europe/Berlin" if lines > 10 else "",
    )  # fmt: skip


def claim(sequence: int, session: str = "k-abc") -> KeyClaim:
    return KeyClaim(session, sequence, f"{sequence:032x}", 1_790_000_000_000 + sequence)


ENTRIES = [entry(0, 0, 5), entry(1, 5, 20), entry(2, 25, 1), entry(3, 26, 0, kind="seal"), entry(4, 26, 3), entry(12, 29, 1)]


def test_an_unknown_run_has_no_rows(index: SegmentIndex) -> None:
    assert index.last(RUN) is None and index.at_line(RUN, 5) is None
    assert list(index.rows_from(RUN, 0, 0, 10)) == []


def test_rows_come_back_whole_and_in_the_order_of_the_log(index: SegmentIndex) -> None:
    index.put(RUN, ENTRIES[::-1])
    index.put(RUN, ENTRIES[2:4])
    assert list(index.rows_from(RUN, 0, 0, 100)) == ENTRIES
    assert index.last(RUN) == ENTRIES[-1]


@pytest.mark.parametrize("line", [0, 4, 5, 24, 25, 26, 28, 29, 10**12])
def test_a_line_leads_to_the_last_row_that_begins_at_or_before_it(index: SegmentIndex, line: int) -> None:
    index.put(RUN, ENTRIES)
    assert index.at_line(RUN, line) == [row for row in ENTRIES if row.line <= line][-1]


def test_mark_of_deleted_run_survives_its_rows(index: SegmentIndex) -> None:
    mark = DeletionMark(RUN.fqn, RUN.run_id, 1, "ada").entry()
    index.put(RUN, [*ENTRIES, entry(5, 30, 2, session="k-abc"), mark])
    index.claim(RUN, claim(6, "k-claimed"))
    for forgotten in (len(ENTRIES) + 3, 0):
        for read in (lambda: index.last(RUN), lambda: index.rows_from(RUN, 0, 0, 100)):
            with pytest.raises(RunDeletedError):
                read()
        assert index.forget(RUN) == forgotten
        assert index.at_line(RUN, 5) is None and list(index.positions_from(RUN, 0, 0, 9)) == []
    for session in ("k-abc", "k-claimed"):
        assert index.claim(RUN, claim(7, session)) == claim(7, session)


def test_rows_from_a_place_on(index: SegmentIndex) -> None:
    index.put(RUN, ENTRIES)
    for first in range(len(ENTRIES)):
        place = ENTRIES[first]
        assert list(index.rows_from(RUN, place.line, place.sequence, 2)) == ENTRIES[first : first + 2]
        places = [(entry.line, entry.sequence) for entry in ENTRIES[first : first + 2]]
        assert list(index.positions_from(RUN, place.line, place.sequence, 2)) == places
    assert list(index.rows_from(RUN, 26, 5, 10)) == ENTRIES[5:]


def test_first_claim_of_key_stays_until_it_is_replaced_by_its_number(index: SegmentIndex) -> None:
    index.put(RUN, ENTRIES)
    assert index.claim(RUN, claim(5)) == index.claim(RUN, claim(6)) == index.claim(RUN, claim(7), instead_of=4) == claim(5)
    assert index.claim(RUN, claim(8), instead_of=5) == index.claim(RUN, claim(9), instead_of=5) == claim(8)
    assert index.claim(RUN, claim(1, "k-other"), instead_of=0) == claim(1, "k-other")
    assert list(index.rows_from(RUN, 0, 0, 100)) == ENTRIES
    assert index.last(RUN) == ENTRIES[-1] and index.at_line(RUN, 10**12) == ENTRIES[-1]


def test_stored_batch_takes_the_place_of_its_claim(index: SegmentIndex) -> None:
    keyed = entry(5, 30, 2, session="k-abc")
    index.claim(RUN, claim(5))
    index.put(RUN, [*ENTRIES, keyed])
    for instead_of in (None, 5):
        assert index.claim(RUN, claim(6), instead_of) == keyed
    assert [row.sequence for row in index.rows_from(RUN, 0, 0, 100)].count(5) == 1
    assert index.last(RUN) == keyed


def test_runs_do_not_mix(index: SegmentIndex) -> None:
    twin = Run("svc", "with slash.ünï#1/run-1")
    index.put(RUN, ENTRIES[:1])
    index.put(twin, [replace(ENTRIES[0], digest="f" * 32)])
    assert index.last(RUN) == ENTRIES[0]


def test_many_rows_at_once_and_many_writers(index: SegmentIndex) -> None:
    rows = [entry(number, number, 1) for number in range(130)]
    threads = [threading.Thread(target=index.put, args=(RUN, rows[start:])) for start in (0, 30, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(index.rows_from(RUN, 0, 0, 1000)) == rows
