"""Mutants of coordination: leases, fences, and writes whose responses are lost."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_LEASES = "tests/unit/test_coordination_leases.py"
_AVAILABILITY = "tests/unit/test_coordination_availability.py"
_EVERY_CALL = "tests/faults/test_coordination_every_call.py"
_INTERLEAVED = "tests/faults/test_coordination_interleaved.py"
_CONTRACT = "tests/contract/test_coordination.py"

MUTANTS = (
    Mutant(
        "chalicelib.aws.partition_store:_exactly",
        find="[_PRESENT, f'{VERSION} = :version']",
        replace="[_PRESENT, f'{VERSION} >= :version']",
        tests=f"{_CONTRACT}::test_a_write_replaces_and_removes_exactly_what_was_read[moto-version]",
        why="a write under a lease is conditional on the version that was read",
    ),
    Mutant(
        "chalicelib.coordination.memory:_is_same",
        find="(current.version, current.owner, current.priority) == (old.version, old.owner, old.priority)",
        replace="current.owner == old.owner",
        tests=f"{_LEASES} {_INTERLEAVED} {_EVERY_CALL}",
        why="a write under a lease is conditional on the version that was read",
    ),
    Mutant(
        "chalicelib.coordination.store:resolve_outcome",
        find="None if refused and is_ours(refused.current) else refused",
        replace="refused",
        tests=_EVERY_CALL,
        why="a repeat that finds its own write is a success",
    ),
    Mutant(
        "chalicelib.coordination.store:resolve_outcome",
        find="None if refused and is_ours(refused.current) else refused",
        replace="None",
        tests=_LEASES,
        why="a rejected write is no success",
    ),
    Mutant(
        "chalicelib.coordination.lease:LeaseWriter._from_now",
        find="self._terms.timeout_s - self._terms.margin_s",
        replace="self._terms.timeout_s + self._terms.skew_s",
        tests=_LEASES,
        why="a holder stops before others may take the partition",
    ),
    Mutant(
        "chalicelib.coordination.lease:Lease.check",
        find="self.remaining_s() <= 0",
        replace="False",
        tests=_LEASES,
        why="a lease that was not renewed in time stops the work",
    ),
    Mutant(
        "chalicelib.coordination.lease:Lease.check_not_over",
        find="self._over",
        replace="None",
        tests=_LEASES,
        why="a lease that is over stays over",
    ),
    Mutant(
        "chalicelib.coordination.candidates:CandidatePool.is_free",
        find="partition.timeout_ms is None or partition.timeout_ms + self._terms.skew_ms <= now_ms",
        replace="partition.timeout_ms is None or partition.timeout_ms - self._terms.skew_ms <= now_ms",
        tests=_AVAILABILITY,
        why="a lease lasts until its deadline and the clock skew are past",
    ),
    Mutant(
        "chalicelib.coordination.candidates:CandidatePool.is_free",
        find="partition.reopen_ms is None or partition.reopen_ms <= now_ms",
        replace="True",
        tests=_AVAILABILITY,
        why="a closed partition waits until it opens again",
    ),
    Mutant(
        "chalicelib.coordination.partition:Partition._next",
        find="self.version + 1",
        replace="self.version",
        tests=f"{_LEASES} {_EVERY_CALL}",
        why="the fence grows with every write",
    ),
    Mutant(
        "chalicelib.coordination.partition:Partition.renewed",
        find="max(timeout_ms, self.timeout_ms or 0)",
        replace="timeout_ms",
        tests=_AVAILABILITY,
        why="a renewal never shortens a lease that others have read",
    ),
    Mutant(
        "chalicelib.coordination.partition:Partition.closed",
        find="counted.closed_count >= max_closed",
        replace="counted.closed_count > max_closed",
        tests=f"{_CONTRACT}::test_behaviour_10_close_counts_up_to_the_maximum[memory]",
        why="work that fails repeatedly is quarantined after a number of failures",
    ),
    Mutant(
        "chalicelib.coordination.partition:ItemTtl.stamped",
        find="expires and partition.key != GLOBAL_KEY",
        replace="expires",
        tests="tests/unit/test_coordination_items.py",
        why="the item that all nodes share never expires",
    ),
    Mutant(
        "chalicelib.coordination.partition:new_partition",
        find="is_sort_key(key)",
        replace="0 < len(key)",
        tests="tests/unit/test_coordination_items.py",
        why="a key that DynamoDB cannot store is rejected before any request",
    ),
    Mutant(
        "chalicelib.coordination.lease:LeaseWriter._still_ours",
        find="current is not None and current.owner == lease.owner",
        replace="current is not None",
        tests=_LEASES,
        why="an item that another node wrote is no base for our next write",
    ),
    Mutant(
        "chalicelib.coordination.lease:LeaseWriter._removed",
        find="current is None or current.version < old.version",
        replace="current is None",
        tests=_AVAILABILITY,
        why="a deletion whose response was lost is not repeated on a new item of the key",
    ),
    Mutant(
        "chalicelib.coordination.lease:_LeaseChecked._checked",
        find="self._lease.check()",
        replace="None",
        tests=f"{_LEASES} tests/functional/test_schedules.py",
        why="once the lease is lost, no further call is made under it",
    ),
    Mutant(
        "chalicelib.coordination.creation:PartitionCreator.run_supplier",
        find="item.with_state(text).released(self._clock.now_ms())",
        replace="item.released(self._clock.now_ms())",
        tests=f"{_CONTRACT}::test_behaviour_04_the_map_is_shared[memory]",
        why="the map of suppliers is saved for the next one",
    ),
    Mutant(
        "chalicelib.coordination.administration:read_cursor",
        find="is_sort_key(priority) and is_sort_key(key)",
        replace="isinstance(priority, str) and isinstance(key, str)",
        tests="tests/unit/test_cursor.py",
        why="a handmade cursor is a 400, not an error of the table",
    ),
)
