"""Where an emulator is known not to do what S3 does. Each is asserted as it is, so that a mended emulator fails here and is noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chalicelib.errors import ObjectNotFoundError, OutcomeUnknownError, RunlakeError
from tests.contract.conftest import MINISTACK, MOTO

IGNORED = {
    "the version of a copied part's source": MOTO,  # UploadPartCopy without x-amz-copy-source-if-match
    "If-Match of a completion": MOTO,  # CompleteMultipartUpload knows If-None-Match only
    "5 MiB for every part but the last": MINISTACK,
}


def upload_is_gone(kind: str) -> type[RunlakeError]:
    """What an upload id that is unknown raises: S3 says NoSuchUpload, moto answers 500."""
    return OutcomeUnknownError if kind == MOTO else ObjectNotFoundError


def refused(kind: str, rule: str, errors: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> bool:
    """Expect a call to be refused, unless the rule is one that this emulator is known to ignore; whether it was."""
    if IGNORED[rule] == kind:
        call()
        return False
    with pytest.raises(errors):
        call()
    return True
