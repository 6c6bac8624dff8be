"""A process stops right before a decisive call to the database, others change the same files meanwhile, and then the call is made.

The sequences are those that ``catalog.registration`` and ``catalog.latest`` say cannot do harm.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.files_model import HOUR_MS, NOON_MS, POOLS, Archived, InThread, document, id_of, key_of
from tests.faults.interception import AFTER, BEFORE
from tests.faults.stepping import Actor

ODD = "odd/key"
LATER, EARLIER = NOON_MS + HOUR_MS, NOON_MS - HOUR_MS


@pytest.fixture(autouse=True)
def _in_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for pool in POOLS:
        monkeypatch.setattr(pool, InThread)


class Process(Actor):
    """An ingester at a batch, which stops before each call."""

    def __init__(self, files: Archived, *bodies: str) -> None:
        self._files, self._bodies = files, bodies
        super().__init__("overtaken", lambda wrap: files.ingest(files.ingester(wrap, files.check_stored), bodies))

    def until(self, call: str, times: int = 1) -> Process:
        """Go on until the ``times``-th such call would be made."""
        for number in range(times):
            if number:
                self.step()
            while self.waiting_for != call and not self.done:
                self.step()
            assert not self.done, f"it never came to {call}"
        return self

    def finish(self) -> None:
        """Go on to the end; what failed or crashed comes again, until it is done."""
        super().finish()
        again = list(self._bodies) if self.error else self.result
        for _ in range(5):
            again = self._files.deliver(again) if again else []
        assert again == []


def ready_to_write(files: Archived, *bodies: str) -> Process:
    """It has read the rows and looked at the objects."""
    return Process(files, *bodies).until("transact")


# (a) A process that looked at the old version writes after the newer was written.


def newer_ones(files: Archived) -> None:
    """The latest files are others: their rows are no guard."""
    files.done(*(files.file(f"newest {what}", what, start=NOON_MS + 99 * HOUR_MS) for what in ("syslog", "nginx")))


def test_stale_read_of_new_file_does_not_overwrite_newer_version() -> None:
    files = Archived()
    slow = ready_to_write(files, files.file("a", where="web1"))
    files.done(files.file("a", where="web2", start=LATER))
    slow.finish()
    assert files.check()[id_of("a")]["metadata"]["where"] == "web2"


def test_stale_read_of_listed_file_does_not_overwrite_newer_version() -> None:
    files = Archived()
    newer_ones(files)
    files.done(files.file("a", start=EARLIER), files.file("b", "nginx"))
    slow = ready_to_write(files, files.file("a", end=NOON_MS + 50 * HOUR_MS), files.file("b", "nginx", start=EARLIER))
    files.done(files.file("a", "nginx", start=LATER))
    slow.finish()
    assert files.check()[id_of("a")]["metadata"]["what"] == "nginx"


def test_stale_read_of_valid_version_does_not_overwrite_rejected_one() -> None:
    files = Archived()
    newer_ones(files)
    files.done(files.file("a"))
    slow = ready_to_write(files, files.file("a", start=LATER))
    files.done(files.put(key_of("a"), None))
    slow.finish()
    assert id_of("a") not in files.check()


# (b) A process that looked before a deletion writes after it.


def test_stale_read_does_not_restore_deleted_file() -> None:
    files = Archived()
    newer_ones(files)
    files.done(files.file("a"))
    slow = ready_to_write(files, files.file("a", start=LATER))
    files.done(files.remove(key_of("a")))
    slow.finish()
    assert id_of("a") not in files.check()


def test_stale_create_does_not_list_deleted_file() -> None:
    """The deletion's message finds a file that is not listed yet, and makes the slower writer's condition fail."""
    files = Archived()
    slow = ready_to_write(files, files.file("a"))
    files.done(files.remove(key_of("a")))
    slow.finish()
    assert files.check() == {}


def test_stale_read_does_not_list_file_that_was_deleted_twice() -> None:
    files = Archived()
    files.done(files.file("a"))
    files.done(files.remove(key_of("a")))
    slow = ready_to_write(files, files.file("a"))
    files.done(files.remove(key_of("a")))
    slow.finish()
    assert files.check() == {}


def test_stale_read_does_not_list_file_that_became_invalid() -> None:
    files = Archived()
    slow = ready_to_write(files, files.file("a"))
    files.done(files.put(key_of("a"), None))
    slow.finish()
    assert files.check() == {}


def test_stale_read_does_not_list_deleted_object_of_odd_key() -> None:
    files = Archived()
    slow = ready_to_write(files, files.put(ODD, document("a")))
    files.done(files.remove(ODD))
    slow.finish()
    assert files.check() == {}


def test_stale_delete_keeps_newer_file() -> None:
    files = Archived()
    newer_ones(files)
    files.done(files.file("a"))
    slow = ready_to_write(files, files.remove(key_of("a")))
    files.done(files.file("a", start=LATER))
    slow.finish()
    assert id_of("a") in files.check()


def test_stale_delete_keeps_recreated_file() -> None:
    """S3's times are whole seconds: the recreated object equals the deleted one."""
    files = Archived()
    again = files.put(key_of("a"), document("a"), seconds=0)
    files.done(again)
    files.world.archive_store.delete(key_of("a"))
    slow = ready_to_write(files, again)
    files.done(files.put(key_of("a"), document("a"), seconds=0))
    slow.finish()
    assert set(files.check()) == {id_of("a")}


# (c) The latest is removed while a newer one lands between the search for its successor and the write.


def settling(files: Archived, body: str, call: str) -> Process:
    """A removal is written; it is about to make a call of the settling."""
    process = ready_to_write(files, body)
    process.step()
    return process.until(call)


def three(files: Archived) -> None:
    files.done(*(files.file(name, start=NOON_MS + hour * HOUR_MS) for hour, name in enumerate("abc")))


def test_the_successor_of_a_latest_file_does_not_take_the_place_of_a_newer_one_that_landed_meanwhile() -> None:
    files = Archived()
    three(files)
    process = settling(files, files.remove(key_of("c")), "transact")
    files.done(files.file("d", start=NOON_MS + 9 * HOUR_MS))
    process.finish()
    files.check()
    assert files.latest() == id_of("d")


def test_nor_of_one_that_landed_before_the_search() -> None:
    files = Archived()
    three(files)
    process = settling(files, files.remove(key_of("c")), "query")
    files.done(files.file("d", start=NOON_MS + 9 * HOUR_MS))
    process.finish()
    files.check()
    assert files.latest() == id_of("d")


def test_an_older_one_that_lands_in_the_empty_place_gives_way_to_the_successor() -> None:
    files = Archived()
    three(files)
    process = settling(files, files.remove(key_of("c")), "transact")
    files.done(files.file("d", start=EARLIER))
    process.finish()
    files.check()
    assert files.latest() == id_of("b")


def test_writer_of_older_file_retries_when_the_latest_is_deleted() -> None:
    files = Archived()
    files.done(files.file("b", start=LATER))
    slow = ready_to_write(files, files.file("a"))
    files.done(files.remove(key_of("b")))
    slow.finish()
    files.check()
    assert files.latest() == id_of("a")


def test_writer_of_latest_file_retries_when_a_newer_one_is_added() -> None:
    files = Archived()
    files.done(files.file("a", start=EARLIER))
    slow = ready_to_write(files, files.file("b"))
    files.done(files.file("c", start=LATER))
    slow.finish()
    files.check()
    assert files.latest() == id_of("c")


def test_the_first_two_of_a_source_do_not_both_take_the_empty_place() -> None:
    files = Archived()
    slow = ready_to_write(files, files.file("a"))
    files.done(files.file("b", start=LATER))
    slow.finish()
    files.check()
    assert files.latest() == id_of("b")


def test_removal_retries_when_its_file_has_become_the_latest() -> None:
    files = Archived()
    three(files)
    slow = ready_to_write(files, files.remove(key_of("b")))
    files.done(files.remove(key_of("c")))
    slow.finish()
    files.check()
    assert files.latest() == id_of("a")


def test_removal_of_only_file_retries_when_a_latest_row_appears() -> None:
    files = Archived()
    files.done(files.file("a"), files.file("b", start=LATER))
    one = settling(files, files.remove(key_of("b")), "get_many")
    other = ready_to_write(files, files.remove(key_of("a")))
    one.finish()
    other.finish()
    files.check()
    assert files.latest() is None


# (d) The successor is removed while it is put in the latest's place.


def test_a_successor_that_is_removed_meanwhile_is_not_put_in_the_place_of_the_latest() -> None:
    files = Archived()
    three(files)
    process = settling(files, files.remove(key_of("c")), "transact")
    files.done(files.remove(key_of("b")))
    process.finish()
    files.check()
    assert files.latest() == id_of("a")


def test_a_successor_that_moves_to_another_source_meanwhile_is_not_either() -> None:
    files = Archived()
    three(files)
    process = settling(files, files.remove(key_of("c")), "transact")
    files.done(files.file("b", where="web2", start=LATER))
    process.finish()
    files.check()
    assert (files.latest(), files.latest(where="web2")) == (id_of("a"), id_of("b"))


def test_the_only_successor_is_removed_meanwhile() -> None:
    files = Archived()
    files.done(files.file("a"), files.file("b", start=LATER))
    process = settling(files, files.remove(key_of("b")), "transact")
    files.done(files.remove(key_of("a")))
    process.finish()
    files.check()
    assert files.latest() is None


# (e) A crash between the transaction and the settling of the latest, then the message comes again.


Change = Callable[[Archived], str]


def moves_away(files: Archived) -> str:
    return files.file("c", where="web2", start=LATER)


def steps_back(files: Archived) -> str:
    return files.file("c", start=EARLIER)


def is_removed(files: Archived) -> str:
    return files.remove(key_of("c"))


def is_broken(files: Archived) -> str:
    return files.put(key_of("c"), None)


changes = pytest.mark.parametrize("change", [moves_away, steps_back, is_removed, is_broken], ids=lambda change: change.__name__)


@pytest.mark.parametrize("how", ["error", "crash"])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("call", ["get_many", "query", "transact"])
@changes
def test_a_stop_before_the_latest_is_settled_is_made_good_when_the_message_comes_again(
    change: Change, call: str, moment: str, how: str
) -> None:
    files = Archived()
    three(files)
    process = settling(files, change(files), call)
    process.step((moment, how))
    process.finish()
    files.check()
    assert files.latest() == id_of("b")


@changes
def test_unsettled_row_that_an_older_file_replaced_is_settled_too(change: Change) -> None:
    files = Archived()
    three(files)
    process = settling(files, change(files), "get_many")
    process.step((BEFORE, "crash"))
    files.done(files.file("d", start=EARLIER - HOUR_MS))
    process.finish()
    files.check()
    assert files.latest() == id_of("b")


def test_an_odd_key_that_became_another_file_and_was_not_settled() -> None:
    files = Archived()
    files.done(files.file("a"), files.put(ODD, document("b", start=LATER)))
    process = settling(files, files.put(ODD, document("c", "nginx")), "get_many")
    process.step((BEFORE, "crash"))
    process.finish()
    files.check()
    assert (files.latest(), files.latest("nginx")) == (id_of("a"), id_of("c"))


def test_a_file_that_another_object_took_before_it_was_settled() -> None:
    """The redelivered message finds the file with another object, and settles the sources that it left unsettled."""
    files = Archived()
    files.done(files.file("a"), files.put(ODD, document("b", start=LATER)))
    process = settling(files, files.remove(ODD), "get_many")
    process.step((BEFORE, "crash"))
    files.done(files.file("b", where="web2"))
    process.finish()
    files.check()
    assert (files.latest(), files.latest(where="web2")) == (id_of("a"), id_of("b"))


# (f) An odd key is rewritten with another id by two processes.


# The files are of different sources: the row of the latest is no guard.


def test_stale_read_of_odd_key_does_not_list_first_file_with_second() -> None:
    files = Archived()
    slow = ready_to_write(files, files.put(ODD, document("a")))
    files.done(files.put(ODD, document("b", "nginx")))
    slow.finish()
    assert set(files.check()) == {id_of("b")}


def test_stale_read_of_odd_key_does_not_list_second_file_with_third() -> None:
    files = Archived()
    files.done(files.put(ODD, document("a")))
    slow = ready_to_write(files, files.put(ODD, document("b", "nginx")))
    files.done(files.put(ODD, document("c", "kernel")))
    slow.finish()
    assert set(files.check()) == {id_of("c")}


def test_stale_read_of_odd_key_does_not_list_file_after_first_returns() -> None:
    """The name leads where it led, and yet the look is old: between them it led elsewhere, or nowhere."""
    files = Archived()
    files.done(files.put(ODD, document("a")))
    files.done(files.remove(ODD))
    slow = ready_to_write(files, files.put(ODD, document("b", "nginx")))
    files.done(files.put(ODD, document("a")))
    slow.finish()
    assert set(files.check()) == {id_of("a")}


def test_nor_when_the_first_was_another_object_meanwhile() -> None:
    files = Archived()
    files.done(files.put(ODD, document("a")))
    files.done(files.copy(ODD, key_of("a")))
    slow = ready_to_write(files, files.put(ODD, document("b", "nginx")))
    files.done(files.put(ODD, document("a", start=LATER)))
    slow.finish()
    assert set(files.check()) == {id_of("a")}


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_custom_key_whose_metadata_names_another_file_or_its_own(names: str) -> None:
    files = Archived()
    slow = ready_to_write(files, files.put(key_of("a"), document(names[0])))
    files.done(files.put(key_of("a"), document(names[1], "nginx")))
    slow.finish()
    assert set(files.check()) == {id_of(names[1])}


def test_where_an_odd_key_leads_is_not_forgotten_while_it_is_there() -> None:
    """Its file was gone, then another object's, then its own again: the name had been marked to expire, and is not any more."""
    files = Archived()
    files.done(files.put(ODD, document("a")))
    files.done(files.remove(ODD))
    files.done(files.file("a"))
    files.done(files.put(ODD, document("a")))
    files.check()


def test_two_processes_at_one_new_object_write_it_once() -> None:
    files = Archived()
    body = files.file("a")
    slow = ready_to_write(files, body)
    files.done(body)
    slow.finish()
    files.check()
    assert len(files.reports()) == 2


# And at every call, for every change.


def is_another(files: Archived, key: str) -> str:
    return files.put(key, document("another", "nginx"))


def is_newer(files: Archived, key: str) -> str:
    return files.put(key, document("a", "kernel", start=EARLIER))


def is_gone(files: Archived, key: str) -> str:
    return files.remove(key)


@pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
@pytest.mark.parametrize("change", [is_another, is_newer, is_gone], ids=lambda change: change.__name__)
@pytest.mark.parametrize("key", [ODD, key_of("a")], ids=["odd", "custom"])
def test_change_during_any_call_leaves_the_current_state(key: str, change: Callable[[Archived, str], str], is_known: bool) -> None:
    number, is_over = 0, False
    while not is_over:
        files = Archived()
        newer_ones(files)
        if is_known:
            files.done(files.put(key, document("a", where="web2")))
        slow = Process(files, files.put(key, document("a", start=LATER)))
        for _ in range(number):
            if not slow.done:
                slow.step()
        is_over = slow.done
        files.done(change(files, key))
        if not is_over:
            slow.finish()
        files.check()
        number += 1
    assert number > 4


def test_writer_of_newer_version_retries_when_another_file_is_the_latest() -> None:
    files = Archived()
    three(files)
    slow = ready_to_write(files, files.file("c", start=NOON_MS + 3 * HOUR_MS))
    files.done(files.file("d", start=NOON_MS + 9 * HOUR_MS))
    slow.finish()
    files.check()
    assert files.latest() == id_of("d")


def test_two_that_died_before_they_settled_leave_both_sources_to_be_settled() -> None:
    """The second to come again finds what the first left, too."""
    files = Archived()
    three(files)
    files.done(files.file("d", where="web2", start=EARLIER))
    first = settling(files, files.file("c", where="web2", start=LATER), "get_many")
    first.step((BEFORE, "crash"))
    second = settling(files, files.remove(key_of("c")), "get_many")
    second.step((BEFORE, "crash"))
    second.finish()
    first.finish()
    files.check()
    assert (files.latest(), files.latest(where="web2")) == (id_of("b"), id_of("d"))
