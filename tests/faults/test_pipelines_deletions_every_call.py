"""Notifications of deletions, with a fault at any call of a store: each handler is notified at least once, and numbers have no gaps."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from chalicelib.errors import UnavailableError
from chalicelib.pipelines.files.generations import Generations
from tests.faults.interception import BEFORE, Crash, Intercepted, StopAt
from tests.faults.test_pipelines_every_call import Work, cases_of, interrupted, worked
from tests.unit.test_pl_deletions import FQNS, Keeping, Site, delete_one, keeping


def site_with_deletions() -> Site:
    Keeping.forget()
    site = Site()
    for fqn in FQNS:
        site.event(fqn)
    for fqn in FQNS[:2]:
        delete_one(site, fqn)
    return site


def work(site: Site, gate: Any, owner: str) -> None:
    """A worker over stores that may stop it; a deletion happens between two of them."""
    generations = Generations(Intercepted(site.database, gate), site.clock)
    worked(site, gate, owner, keeping(event_delay_ms=0), generation=site.generation_of, deletions=generations.deletions)


CASES = cases_of(lambda: partial(work, site_with_deletions()))


@pytest.mark.sampled(default=40)
@pytest.mark.parametrize(("number", "moment", "how"), CASES)
def test_every_deletion_reaches_the_handler(number: int, moment: str, how: str) -> None:
    site = site_with_deletions()
    interrupted(partial(work, site), number, moment, how)
    assert set(Keeping.seen("deleted")) == set(site.deleted)
    if how == "error":
        assert sorted(Keeping.seen("deleted")) == sorted(site.deleted)  # a single error repeats nothing


def ending(site: Site) -> Work:
    """A request that deletes two pipelines."""

    def end(gate: Any, owner: str) -> None:
        generations = Generations(Intercepted(site.database, gate), site.clock)
        try:
            for fqn in FQNS[:2]:
                generations.end("svc", fqn)
        except (Crash, UnavailableError):
            pass  # the caller repeats the request

    return end


def site_to_delete() -> Site:
    site = Site()
    for fqn in FQNS[:2]:
        site.event(fqn)
        site.generation_of(site.current[fqn])
    site.clock.advance(1)
    return site


@pytest.mark.parametrize(("number", "moment", "how"), cases_of(lambda: ending(site_to_delete())))
def test_numbers_of_deletions_have_no_gaps(number: int, moment: str, how: str) -> None:
    site = site_to_delete()
    alive = {fqn: site.generation_of(site.current[fqn]) for fqn in FQNS[:2]}
    interrupted(ending(site), number, moment, how)
    ending(site)(StopAt(-1, BEFORE, "error"), "w4")
    found = site.generations.deletions(0, 10)
    assert [each.number for each in found] == [1, 2]
    assert {each.fqn: each.generation for each in found} == alive
