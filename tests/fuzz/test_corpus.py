"""Replays every stored input, and the empty one, through its target. Fuzzing itself is a command: ``make fuzz``."""

from __future__ import annotations

import pytest

from chalicelib.routes import bodies
from tests.fuzz import corpus, targets
from tests.fuzz.seeds import SEEDS
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_what_was_kept_is_decoded_or_refused(target: str) -> None:
    inputs = corpus.read(target)
    assert 10 <= len(inputs) <= corpus.MOST_INPUTS
    for each in [b"", *SEEDS[target], *inputs]:
        TARGETS[target](each)


def test_nothing_is_kept_without_a_target() -> None:
    assert {path.stem for path in corpus.FOLDER.glob("*.txt")} == set(TARGETS)


def test_a_decoder_that_raises_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets mean something: without its own handling of JSON the decoder lets ValueError through."""
    monkeypatch.setattr(targets, "read_batch", lambda *_: bodies.json.loads("{"))
    with pytest.raises(ValueError, match="Expecting"):
        TARGETS["bodies"](b"")
