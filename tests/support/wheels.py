"""Wheels that tests make."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from unittest.mock import patch
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from chalicelib.pipelines.wheels import PinnedWheel, list_key, list_of, process_wheels, sha256_of


def wheel_bytes(members: Mapping[str, str | bytes]) -> bytes:
    """A wheel with these members: the same bytes for the same members."""
    body = BytesIO()
    with ZipFile(body, "w", ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return body.getvalue()


def wheel_name(distribution: str) -> str:
    """The file name of a distribution's wheel."""
    return f"{distribution}-1.0-py3-none-any.whl"


def stored_wheels(bodies: Iterable[tuple[str, bytes]]) -> tuple[str, dict[str, bytes]]:
    """The hash that pins these wheels, and the files below the location of the pipelines' files, by name."""
    wheels = {PinnedWheel(name, sha256_of(body)): body for name, body in bodies}
    pinned = list_of(wheels)
    sha256 = sha256_of(pinned)
    return sha256, {wheel.key: body for wheel, body in wheels.items()} | {list_key(sha256): pinned}


@contextmanager
def fresh_process(scratch: Path) -> Iterator[None]:
    """As in a process of its own: unpacks wheels below this folder; afterwards none of their modules is imported or importable."""
    process_wheels.cache_clear()
    with patch.object(tempfile, "tempdir", str(scratch)), patch.object(sys, "path", [*sys.path]):
        try:
            yield
        finally:
            process_wheels.cache_clear()
            for name, module in list(sys.modules.items()):
                if (getattr(module, "__file__", None) or "").startswith(str(scratch)):
                    del sys.modules[name]
