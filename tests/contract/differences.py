"""Known differences between the emulators and AWS. Tests assert each of them, so they fail and point out when an emulator is fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from chalicelib.errors import ObjectNotFoundError, OutcomeUnknownError, RunlakeError
from tests.contract.conftest import MINISTACK, MOTO

IGNORED: dict[str, tuple[str, ...]] = {
    "the version of a copied part's source": (MOTO,),  # UploadPartCopy without x-amz-copy-source-if-match
    "more than 5 MiB for a copied part's source": (MOTO, MINISTACK),
    "the end of a copied part's source": (MOTO,),
    "If-Match of a completion": (MOTO,),  # CompleteMultipartUpload knows If-None-Match only
    "5 MiB for every part but the last": (MINISTACK,),
    "the order of parts": (MINISTACK,),
    "a part at least": (MINISTACK,),  # it joins the parts that it has
    "the key of an upload": (MOTO,),
    "2 KB for metadata": (MOTO, MINISTACK),
    "1,024 bytes for a key": (MOTO, MINISTACK),
    "a write at least": (MOTO,),  # TransactWriteItems without any
}


def upload_is_gone(kind: str) -> type[RunlakeError]:
    """The error for an unknown upload id: NoSuchUpload from S3, status 500 from moto."""
    return OutcomeUnknownError if kind == MOTO else ObjectNotFoundError


def is_one_completion(kind: str, won: Sequence[object]) -> bool:
    """Whether a race of conditional completions ended as on S3. moto looks, joins and then writes: two of its threads may both win."""
    return len(won) >= 1 if kind == MOTO else len(won) == 1


def refused(kind: str, rule: str, errors: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> bool:
    """Expects a call to be refused unless this emulator ignores the rule. Returns whether it was refused."""
    if kind in IGNORED[rule]:
        call()
        return False
    with pytest.raises(errors):
        call()
    return True
