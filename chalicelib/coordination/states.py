"""Progress as it is stored: JSON text."""

from __future__ import annotations

import json
from typing import Any


def encode_state(state: Any) -> str:
    """Anything that JSON can say. Raises TypeError or ValueError for what it cannot: a mistake of the program."""
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
