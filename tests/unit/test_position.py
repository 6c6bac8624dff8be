"""Positions: decoded completely, and ignored if they are forged, of another run, or invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import InvalidConfigurationError
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEnd, list_all
from chalicelib.runlog.position import Position, PositionSigner
from chalicelib.runlog.segment import ABANDONED
from chalicelib.runlog.writer import Writer
from tests.world import World

RUN = Run("svc.pipeline", "run-1")
SIGNER = PositionSigner(["key-one"])
POSITIONS = st.builds(
    Position,
    session=st.text("0123456789abcdefk-", min_size=1, max_size=34),
    epoch=st.integers(0, 2**31),
    sequence=st.integers(0, 10**10),
    line=st.integers(0, 2**60),
    byte=st.integers(0, 2**60),
    contended=st.booleans(),
    issued_ms=st.integers(0, 2**50),
)
POSITION = Position("00ff", 1, 7, 70, 7000, False, 1_700_000_000_000)


@given(POSITIONS)
def test_a_position_is_read_back(position: Position) -> None:
    token = SIGNER.dumps(RUN, position)
    assert SIGNER.loads(RUN, token) == position
    assert all(letter.isalnum() or letter in "._-" for letter in token)  # a cookie's value without quotes


@given(POSITIONS, st.data())
def test_a_changed_token_is_ignored(position: Position, data: st.DataObject) -> None:
    token = SIGNER.dumps(RUN, position)
    at = data.draw(st.integers(0, len(token) - 2))  # the last letter of a base64 text has bits that mean nothing
    letter = data.draw(st.sampled_from("abcXYZ019-_.").filter(lambda letter: letter != token[at]))
    assert SIGNER.loads(RUN, token[:at] + letter + token[at + 1 :]) is None


@pytest.mark.parametrize("token", [None, "", "x", ".", "1_2_3.sig", "\ud800", "é.é", "a" * 10_000])
def test_garbage_is_ignored(token: str | None) -> None:
    assert SIGNER.loads(RUN, token) is None


def test_a_position_of_another_run_is_ignored() -> None:
    token = SIGNER.dumps(RUN, POSITION)
    assert SIGNER.loads(Run("svc.pipeline", "run-2"), token) is None
    assert SIGNER.loads(Run("svc", "pipeline\0run-1"), token) is None


def test_keys_rotate() -> None:
    old = SIGNER.dumps(RUN, POSITION)
    rotated = PositionSigner(["key-two", "key-one"])
    assert rotated.loads(RUN, old) == POSITION
    assert SIGNER.loads(RUN, rotated.dumps(RUN, POSITION)) is None
    assert PositionSigner(["key-two"]).loads(RUN, old) is None


def test_young_is_less_than_a_minute_and_not_from_the_future() -> None:
    issued = POSITION.issued_ms
    assert POSITION.is_young(issued) and POSITION.is_young(issued + 59_999)
    assert not POSITION.is_young(issued + 60_000) and not POSITION.is_young(issued - 1)


def test_writer_without_keys_seals_and_appends_nothing() -> None:
    """Like schedules and jobs, which lack the API's secrets: a batch would be stored unmasked."""
    world = World()
    writer = Writer(world.store, world.index, Layout("logs"), PositionSigner(()), world.clock)
    with pytest.raises(InvalidConfigurationError, match="RUNLAKE_POSITION_KEYS"):
        writer.append(RUN, Batch.from_bytes(b"line\n"))
    assert list(list_all(world.store, "")) == []
    assert writer.seal(RUN, ABANDONED, LogEnd())
