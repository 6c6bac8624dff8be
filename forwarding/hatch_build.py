"""Build hook: copies the modules of ``chalicelib`` that forwarding imports to ``runlake_forwarding._archive``, since every Chalice project
has a ``chalicelib``. Imports are read from syntax trees, inside functions too; those for types only are renamed, but not followed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ARCHIVE, _COPIES = "chalicelib", "runlake_forwarding._archive"
_FOLDER = Path("src", *_COPIES.split("."))
_NAME = re.compile(rf"{_ARCHIVE}(\.[\w*]+)*")


class CopyArchive(BuildHookInterface):
    """Adds the copies to a wheel or a source distribution. A source distribution builds its wheel from its copies."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules to a temporary folder, and name them for the build."""
        has_copies = Path(self.root, _FOLDER).is_dir()
        if version == "editable" and not has_copies:
            raise RuntimeError("an editable install has no copies of chalicelib: run `pip install ./forwarding`, without -e")
        modules = {} if has_copies else distributed_modules(Path(self.root))
        self._temporary = TemporaryDirectory()
        for path, source in modules.items():
            file = Path(self._temporary.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(source)
            build_data["force_include"][str(file)] = path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the temporary folder."""
        self._temporary.cleanup()


def distributed_modules(root: Path) -> dict[str, bytes]:
    """Sources by path below ``root``, the folder ``forwarding`` of a checkout: its modules and those of the archive that they import,
    directly or not. Raises ModuleNotFoundError."""
    files = {path.relative_to(root.parent): path for path in (root.parent / _ARCHIVE).rglob("*.py")}
    archive = {".".join(place.with_suffix("").parts).removesuffix(".__init__"): files[place] for place in files}
    waiting = {path: path.relative_to(root) for path in (root / "src").rglob("*.py")}
    modules: dict[str, bytes] = {}
    while waiting:
        path, place = waiting.popitem()
        modules[place.as_posix()], names = _renamed(path)
        for name in names:
            *packages, last = accumulate(name.split("."), "{}.{}".format)  # the last one may be a class or a function
            for module in [*packages, last] if last in archive else packages:
                if module not in archive:
                    raise ModuleNotFoundError(f"{path} imports {module}, which is not in {root.parent}: build in a checkout")
                copy = _FOLDER / archive[module].relative_to(root.parent / _ARCHIVE)
                if copy.as_posix() not in modules:
                    waiting[archive[module]] = copy
    return dict(sorted(modules.items()))


def _renamed(path: Path) -> tuple[bytes, list[str]]:
    """A module's source with the names of the copies, and the names of the archive that it uses when it runs."""
    source = path.read_bytes()
    names, lines = list(_names(ast.parse(source, str(path)))), source.split(b"\n")
    for row, column in sorted({(row, column) for row, column, *_ in names}, reverse=True):
        line = lines[row - 1]
        lines[row - 1] = line[:column] + line[column:].replace(_ARCHIVE.encode(), _COPIES.encode(), 1)
    return b"\n".join(lines), [name for _, _, name, is_used in names if is_used]


def _names(tree: ast.Module) -> Iterator[tuple[int, int, str, bool]]:
    """Line, column and text of each name of the archive, in imports, in expressions and as a string; and whether not for types only."""
    types_only: set[ast.AST] = set()
    nodes: Iterator[Any] = ast.walk(tree)  # outer ones first
    for node in nodes:
        names = []
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                types_only.update(child for each in node.body for child in ast.walk(each))
            case ast.ImportFrom():
                names = [f"{node.module}.{each.name}" for each in node.names]
            case ast.alias():
                names = [f"{node.name}.*"]
            case ast.Constant(value=str(text)) | ast.Name(id=text):
                names = [text.replace(":", ".")]
        for name in filter(_NAME.fullmatch, names):
            yield node.lineno, node.col_offset, name, node not in types_only
