"""The bill of materials of the deployed code, in CycloneDX format: ``build/sbom.json``.

Packages are read from the zips, not from the requirements, so the document lists the deployed packages. Equal zips give equal
bytes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from chalicelib import __version__
from local.locks import normalized

_CHALICE = "chalice/app.py"
"""Chalice copies its runtime into the functions' zip without package metadata."""


def document(functions: Path, wheels: Path | None = None) -> dict[str, Any]:
    """The document for the functions' zip and the zip of the jobs' wheels."""
    packages = {("functions", *each) for each in _packages(ZipFile(functions))}
    if wheels:
        packages |= {("jobs", *each) for each in _packages_of_wheels(wheels)}
    components = [
        _component(name, version, license_, _parts(packages, name, version)) for name, version, license_ in _distinct(packages)
    ]
    digest = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "runlake", "version": __version__}},
        "components": components,
    }


def write(target: Path, functions: Path, wheels: Path | None = None) -> int:
    """Write the document and return how many packages it lists."""
    bill = document(functions, wheels)
    target.write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    return len(bill["components"])


def _packages(archive: ZipFile) -> Iterator[tuple[str, str, str]]:
    for path in sorted(archive.namelist()):
        folder, _, name = path.rpartition("/")
        if name == "METADATA" and folder.endswith(".dist-info") and "/" not in folder:
            about = HeaderParser().parsestr(archive.read(path).decode())
            yield about["Name"], about["Version"], _license(about)
    if _CHALICE in archive.namelist():
        yield "chalice", metadata.version("chalice"), "Apache-2.0"


def _packages_of_wheels(wheels: Path) -> Iterator[tuple[str, str, str]]:
    with ZipFile(wheels) as outer:
        for name in sorted(outer.namelist()):
            if name.endswith(".whl"):
                with ZipFile(BytesIO(outer.read(name))) as wheel:
                    yield from _packages(wheel)


def _license(about: Message) -> str:
    return str(about["License-Expression"] or (about["License"] or "").partition("\n")[0])[:100]


def _distinct(packages: set[tuple[str, str, str, str]]) -> list[tuple[str, str, str]]:
    return sorted({(normalized(name), version, license_) for _, name, version, license_ in packages})


def _parts(packages: set[tuple[str, str, str, str]], name: str, version: str) -> list[str]:
    return sorted(part for part, each, of_version, _ in packages if (normalized(each), of_version) == (name, version))


def _component(name: str, version: str, license_: str, parts: list[str]) -> dict[str, Any]:
    package_url = f"pkg:pypi/{name}@{version}"
    licenses = {"licenses": [{"license": {"name": license_}}]} if license_ else {}
    properties = [{"name": "runlake:part", "value": part} for part in parts]
    return {
        "type": "library",
        "bom-ref": package_url,
        "name": name,
        "version": version,
        "purl": package_url,
        "properties": properties,
    } | licenses
