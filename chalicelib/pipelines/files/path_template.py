"""Paths of files by a template, such as ``{namespace}/{application}/{level}.log``.

::

    {base}/{rendered path}~{number:08d}.{extension}
    pipeline-files/audit/mysql/ingest/ERROR~1790000000123.log

Each field is a part of one element of the key, encoded without slashes, so that the elements of a key are those of its template.
The tilde, which no extension has, distinguishes these keys from those of ``key_layout``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.files.bucket_location import BucketLocation, bucket_location
from chalicelib.pipelines.files.key_layout import (
    MAX_NAME_BYTES,
    element,
    extension_of,
    format_name,
    is_base,
    output_name,
)
from chalicelib.pipelines.files.rolling_period import HOUR_MS, RollingPeriod, parse_period

NAMES = ("namespace", "application", "program", "fqn", "level")
_TIMES: dict[str, Callable[[RollingPeriod, int], str]] = {
    "date": lambda _, time_ms: RollingPeriod("%Y-%m-%d", 0).text(time_ms),
    "hour": lambda _, time_ms: RollingPeriod("%H", 0).text(time_ms),
    "time": RollingPeriod.text,
}
FIELDS = (*NAMES, *_TIMES)
MAX_TEMPLATE_CHARS = 200
MAX_KEY_BYTES = 1024
_MAX_TIME_CHARS = 120
_MAX_ENDING_BYTES = 60
"""The number, the tilde and the extension."""
_MIN_NAME_BYTES = 60
"""Names that are cut to fewer bytes would not be recognized."""
_NUMBERED = "~…."
"""In the name of an output: instead of numbers."""
_FIELD = re.compile(r"\{([^{}]*)\}")
_KEY = re.compile(r"(?:[^/]+/)*[^/]+~[0-9]{8,}\.[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """``stem``: the template without its extension. ``name_bytes``: the size to which names are cut, so that keys fit S3."""

    stem: str
    period: RollingPeriod
    name_bytes: int

    @property
    def has_level(self) -> bool:
        """Whether each level has files of its own."""
        return "{level}" in self.stem

    def render(self, names: Mapping[str, str], start_ms: int) -> str:
        """The path of a group's files, without numbers. ``names``: the values of ``NAMES``; ``start_ms`` of their period."""

        def value(field: re.Match[str]) -> str:
            name = field[1]
            return _TIMES[name](self.period, start_ms) if name in _TIMES else element(names[name], self.name_bytes)

        return _FIELD.sub(value, self.stem)


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """The format, the keys and the bucket of a handler's files. ``template`` None: ``key_layout``. ``name`` of the output: see ``clash_of``."""

    format: str
    template: PathTemplate | None
    period: RollingPeriod
    extension: str
    name: str
    location: BucketLocation


def output_layout(options: Mapping[str, Any]) -> OutputLayout:
    """The layout of a handler's options: ``base``, ``format``, ``extension``, ``compress``, ``roll``, ``path``, and those
    of ``bucket_location``. Raises InvalidConfigurationError."""
    base, path, roll, extension, compress = (
        str(options.get(name) or "") for name in ("base", "path", "roll", "extension", "compress")
    )
    format_ = str(options.get("format", "text"))
    name, location = format_name(format_, compress), bucket_location(options)
    if not path:
        extension = extension_of(format_, extension, compress)
        return OutputLayout(name, None, parse_period(roll or "daily"), extension, output_name(base, extension), location)
    period = parse_period(roll or ("hourly" if "{hour}" in path else "daily"))
    stem, ending = _split(path)
    if extension and ending:
        raise InvalidConfigurationError(f"a path with an ending has no other extension path={path!r} extension={extension!r}")
    extension = extension_of(format_, ending or extension, compress)
    template = PathTemplate(stem, period, _checked_names(stem, period))
    return OutputLayout(name, template, period, extension, f"{base}/{stem}{_NUMBERED}{extension}", location)


def _split(path: str) -> tuple[str, str]:
    """A template without its ending, and the ending: what follows the first dot after the last field and slash."""
    begin = max(path.rfind("/"), path.rfind("}")) + 1
    stem, _, ending = path[begin:].partition(".")
    return path[:begin] + stem, ending


def _checked_names(stem: str, period: RollingPeriod) -> int:
    """The size of names, for a valid template."""
    fields = _FIELD.findall(stem)
    if unknown := sorted({field for field in fields if field not in FIELDS}):
        raise InvalidConfigurationError(f"a path may have the fields {', '.join(FIELDS)} unknown={', '.join(unknown)[:100]!r}")
    literal = _FIELD.sub("x", stem)
    if len(stem) > MAX_TEMPLATE_CHARS or not is_base(literal):
        raise InvalidConfigurationError(
            f"a path must be fields in braces, letters, digits and ._=-, in elements separated by slashes, at most"
            f" {MAX_TEMPLATE_CHARS} characters path={stem[:250]!r}"
        )
    if "hour" in fields and period.length_ms > HOUR_MS:
        raise InvalidConfigurationError(f"a path with {{hour}} needs files of an hour: roll: hourly path={stem!r}")
    names = sum(field in NAMES for field in fields)
    left = MAX_KEY_BYTES - MAX_NAME_BYTES - _MAX_ENDING_BYTES - len(literal) - _MAX_TIME_CHARS * (len(fields) - names)
    size = min(MAX_NAME_BYTES, left // max(names, 1))
    if size < _MIN_NAME_BYTES:
        raise InvalidConfigurationError(f"a path has too many fields for a key path={stem!r}")
    return size


def is_templated_key(base: str, key: str) -> bool:
    """Whether a template could make this key for this base. Bases within bases are not distinguished: objects name their base."""
    return key.startswith(f"{base}/") and len(key) <= MAX_KEY_BYTES and _KEY.fullmatch(key, len(base) + 1) is not None


def clash_of(output: str, others: Iterable[str]) -> str | None:
    """One of these outputs that could have the same files: the same layout, or a path that some names would make equal."""
    return next((other for other in others if other == output or (_NUMBERED in output and _may_be_equal(output, other))), None)


def _may_be_equal(one: str, other: str) -> bool:
    paths = [each.split("/") for each in (one, other)]
    return len(paths[0]) == len(paths[1]) and all(map(_may_be_equal_element, *paths))


def _may_be_equal_element(one: str, other: str) -> bool:
    """Whether two elements have no literal beginning or end that differs."""
    if "{" not in one and "{" not in other:
        return one == other
    begins = [each.partition("{")[0] for each in (one, other)]
    ends = [each.rpartition("}")[2] for each in (one, other)]
    return (begins[0].startswith(begins[1]) or begins[1].startswith(begins[0])) and (
        ends[0].endswith(ends[1]) or ends[1].endswith(ends[0])
    )
