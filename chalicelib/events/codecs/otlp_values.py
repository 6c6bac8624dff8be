"""Converts values and attributes of OTLP, in JSON and in protobuf, to plain JSON and back.

Bytes become ``{"bytesValue": base64}``; numbers that JSON does not have become texts.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chalicelib.events.depth import MAX_OTLP_DEPTH


def fields_of_json(pairs: Any, depth: int = 0) -> dict[str, Any]:
    """Attributes in OTLP's JSON. Raises ValueError, TypeError."""
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise ValueError("attributes must be a list of key-value pairs")
    fields = {}
    for pair in pairs:
        if not isinstance(pair, dict) or not isinstance(pair.get("key", ""), str):
            raise ValueError("an attribute must have a key and a value")
        fields[pair.get("key", "")] = value_of_json(pair.get("value"), depth + 1)
    return fields


def value_of_json(value: Any, depth: int = 0) -> Any:
    """A value in OTLP's JSON; an empty one is None. Raises ValueError, TypeError."""
    if value is None or value == {}:
        return None
    _check_depth(depth)
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(
            "a value must be one of stringValue, boolValue, intValue, doubleValue, arrayValue, kvlistValue, bytesValue"
        )
    ((kind, raw),) = value.items()
    read = _KINDS.get(kind)
    if read is None:
        raise ValueError("a value has an unknown type")
    return read(raw, depth)


def _string(raw: Any, _: int) -> str:
    if not isinstance(raw, str):
        raise ValueError("stringValue must be a string")
    return raw


def _truth(raw: Any, _: int) -> bool:
    if not isinstance(raw, bool):
        raise ValueError("boolValue must be true or false")
    return raw


def _int(raw: Any, _: int) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int | str) or len(str(raw)) > 20:
        raise ValueError("intValue must be an integer")
    return int(raw)


def _double(raw: Any, _: int) -> Any:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError("doubleValue must be a number")
    try:
        return _finite(float(raw))
    except OverflowError as error:
        raise ValueError("doubleValue is out of range") from error


def _values(raw: Any) -> Any:
    if not isinstance(raw, dict):
        raise ValueError("arrayValue and kvlistValue must be objects with values")
    return raw.get("values")


def _array(raw: Any, depth: int) -> list[Any]:
    items = _values(raw)
    if items is not None and not isinstance(items, list):
        raise ValueError("arrayValue must have a list of values")
    return [value_of_json(each, depth + 1) for each in items or ()]


def _kvlist(raw: Any, depth: int) -> dict[str, Any]:
    return fields_of_json(_values(raw), depth)


def _bytes(raw: Any, _: int) -> dict[str, str]:
    try:
        return {"bytesValue": base64.b64encode(base64.b64decode(_string(raw, 0), validate=True)).decode()}
    except binascii.Error as error:
        raise ValueError("bytesValue must be base64") from error


_KINDS: dict[str, Callable[[Any, int], Any]] = {
    "stringValue": _string,
    "boolValue": _truth,
    "intValue": _int,
    "doubleValue": _double,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes,
}


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


def _check_depth(depth: int) -> None:
    if depth > MAX_OTLP_DEPTH:
        raise ValueError(f"nested too deeply limit={MAX_OTLP_DEPTH}")


def fields_of_proto(pairs: Iterable[Any], depth: int = 0) -> dict[str, Any]:
    """Attributes in protobuf. Raises ValueError."""
    return {pair.key: value_of_proto(pair.value, depth + 1) for pair in pairs}


def value_of_proto(value: Any, depth: int = 0) -> Any:
    """A value in protobuf; an empty one is None. Raises ValueError."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    _check_depth(depth)
    raw = getattr(value, kind)
    if kind == "array_value":
        return [value_of_proto(each, depth + 1) for each in raw.values]
    if kind == "kvlist_value":
        return fields_of_proto(raw.values, depth)
    if kind == "bytes_value":
        return {"bytesValue": base64.b64encode(raw).decode()}
    return _finite(raw) if kind == "double_value" else raw


def key_values(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes for OTLP's JSON."""
    return [{"key": name, "value": any_value(value)} for name, value in fields.items()]


def any_value(value: Any) -> dict[str, Any]:
    """A value for OTLP's JSON."""
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int() if -(1 << 63) <= value < 1 << 63:
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case {"bytesValue": str(packed)} if len(value) == 1:
            return {"bytesValue": packed}
        case Mapping():
            return {"kvlistValue": {"values": key_values(value)}}
        case list() | tuple():
            return {"arrayValue": {"values": [any_value(each) for each in value]}}
        case _:
            return {"stringValue": str(value)}
