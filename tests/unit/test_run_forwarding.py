"""The distribution of the client's extra ``forward`` contains what forwarding imports of the archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FORWARDING = PROJECT / "forwarding"
_IMPORTS = """
import sys
from runlake_forwarding import forward_run
for target in ({"kind": "cloudwatch", "group": "g", "region": "eu-west-1"}, {"kind": "otlp", "url": "http://127.0.0.1:9"}):
    import json
    done = forward_run(lambda *_: {"events": [], "after": None, "state": "complete"}, json.dumps(target), "f", "r",
        instance_id="i", position=None, save=print, is_live=True)
    assert (done.taken, done.refused) == (0, 0)
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "chalicelib"), sep="\\n")
"""


def included() -> dict[str, str]:
    project = tomllib.loads((FORWARDING / "pyproject.toml").read_text())
    found: dict[str, str] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    return found


def test_distribution_has_what_forwarding_imports(tmp_path: Path) -> None:
    """It runs from a copy of the included files alone."""
    for source, place in included().items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to((FORWARDING / source).resolve())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(FORWARDING / "src")])}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    used = [line for line in done.stdout.splitlines() if line.startswith("chalicelib")]
    assert "chalicelib.events.run_forwarding" in used


@pytest.mark.parametrize("path", sorted(included()))
def test_included_files_exist(path: str) -> None:
    assert (FORWARDING / path).exists()
