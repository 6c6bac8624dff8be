"""Mutants of coordination: leases, fences, and writes whose responses are lost."""

from tests.mutants.mutant import group

_LEASES = "tests/unit/test_coordination_leases.py"
_AVAILABILITY = "tests/unit/test_coordination_availability.py"
_EVERY_CALL = "tests/faults/test_coordination_every_call.py"
_CONTRACT = "tests/contract/test_coordination.py"

MUTANTS = (
    *group("chalicelib.aws.partition_store", _CONTRACT,
        ("_exactly", "[_PRESENT, f'{VERSION} = :version']", "[_PRESENT, f'{VERSION} >= :version']",
            "a write under a lease is conditional on the version that was read",
            "::test_a_write_replaces_and_removes_exactly_what_was_read[moto-version]")),
    *group("chalicelib.coordination.memory", f"{_LEASES} tests/faults/test_coordination_interleaved.py {_EVERY_CALL}",
        ("_is_same", "(current.version, current.owner, current.priority) == (old.version, old.owner, old.priority)",
            "current.owner == old.owner", "a write under a lease is conditional on the version that was read")),
    *group("chalicelib.coordination.store", _EVERY_CALL,
        ("resolve_outcome", "None if refused and is_ours(refused.current) else refused", "refused",
            "a repeat that finds its own write is a success"),
        ("resolve_outcome", "None if refused and is_ours(refused.current) else refused", "None",
            "a rejected write is no success", _LEASES)),
    *group("chalicelib.coordination.lease", _LEASES,
        ("LeaseWriter._from_now", "self._terms.timeout_s - self._terms.margin_s", "self._terms.timeout_s + self._terms.skew_s",
            "a holder stops before others may take the partition"),
        ("Lease.check", "self.remaining_s() <= 0", "False", "a lease that was not renewed in time stops the work"),
        ("Lease.check_not_over", "self._over", "None", "a lease that is over stays over"),
        ("LeaseWriter._still_ours", "current is not None and current.owner == lease.owner", "current is not None",
            "an item that another node wrote is no base for our next write"),
        ("LeaseWriter._removed", "current is None or current.version < old.version", "current is None",
            "a deletion whose response was lost is not repeated on a new item of the key", _AVAILABILITY),
        ("_LeaseChecked._checked", "self._lease.check()", "None",
            "once the lease is lost, no further call is made under it", f"{_LEASES} tests/functional/test_schedules.py")),
    *group("chalicelib.coordination.candidates", _AVAILABILITY,
        ("CandidatePool.is_free", "partition.timeout_ms is None or partition.timeout_ms + self._terms.skew_ms <= now_ms",
            "partition.timeout_ms is None or partition.timeout_ms - self._terms.skew_ms <= now_ms",
            "a lease lasts until its deadline and the clock skew are past"),
        ("CandidatePool.is_free", "partition.reopen_ms is None or partition.reopen_ms <= now_ms", "True",
            "a closed partition waits until it opens again")),
    *group("chalicelib.coordination.partition", "tests/unit/test_coordination_items.py",
        ("Partition._next", "self.version + 1", "self.version", "the fence grows with every write", f"{_LEASES} {_EVERY_CALL}"),
        ("Partition.renewed", "max(timeout_ms, self.timeout_ms or 0)", "timeout_ms",
            "a renewal never shortens a lease that others have read", _AVAILABILITY),
        ("Partition.closed", "counted.closed_count >= max_closed", "counted.closed_count > max_closed",
            "work that fails repeatedly is quarantined after a number of failures",
            f"{_CONTRACT}::test_behaviour_10_close_counts_up_to_the_maximum[memory]"),
        ("ItemTtl.stamped", "expires and partition.key != GLOBAL_KEY", "expires", "the item that all nodes share never expires"),
        ("new_partition", "is_sort_key(key)", "0 < len(key)", "a key that DynamoDB cannot store is rejected before any request")),
    *group("chalicelib.coordination.creation", _CONTRACT,
        ("PartitionCreator.run_supplier", "item.with_state(text).released(self._clock.now_ms())",
            "item.released(self._clock.now_ms())", "the map of suppliers is saved for the next one",
            "::test_behaviour_04_the_map_is_shared[memory]")),
    *group("chalicelib.coordination.administration", "tests/unit/test_cursor.py",
        ("read_cursor", "is_sort_key(priority) and is_sort_key(key)", "isinstance(priority, str) and isinstance(key, str)",
            "a handmade cursor is a 400, not an error of the table")),
)  # fmt: skip
