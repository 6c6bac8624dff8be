"""Hooks of MkDocs (``make docs``, ``mkdocs.yml``): the pages of the site, at the paths that they have in the project.

Links between documents are therefore the same in the repository and on the site. ``README.md`` is the first page; decisions get a page that
lists them. Anchors follow GitHub's rule, as ``tests/docs`` does.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PROJECT = Path(__file__).parents[1]
PATTERNS = (
    "*.md",
    "LICENSE",
    "client/README.md",
    "docs/**/*.md",
    "docs/images/*",
    "docs/site.css",
    "docs/examples/**/*.yaml",
    "docs/examples/**/*.py",
)
DECISIONS = "docs/decisions"
_LOCAL = re.compile(r' (?:href|src)="(?![a-z]+:|//|/)([^"#?]+)')
_log = get_plugin_logger("site")
_MARK = re.compile(r"^<!-- [^>]*-->\n|<!-- value: [a-z-]+ -->", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set GitHub's rule for anchors."""
    config.mdx_configs["toc"]["slugify"] = anchor
    return config


def anchor(heading: str, _: str) -> str:
    """The fragment of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of ``docs_dir`` by those of the project. Style sheets and scripts of the theme stay."""
    paths = sorted({path.relative_to(PROJECT).as_posix() for pattern in PATTERNS for path in PROJECT.glob(pattern)})
    pages = [File(path, str(PROJECT), config.site_dir, config.use_directory_urls) for path in paths]
    theme = [each for each in files if each.src_dir != config.docs_dir]
    return Files([*theme, *pages, File.generated(config, f"{DECISIONS}/index.md", content=decisions())])


def decisions() -> str:
    """The page that lists the decisions."""
    paths = sorted((PROJECT / DECISIONS).glob("*.md"))
    titles = [path.read_text().partition("\n")[0].removeprefix("# ") for path in paths]
    rows = [f"- [{title}]({path.name})\n" for path, title in zip(paths, titles, strict=True)]
    return "# Decisions\n\nEach record has the context, the unsafe sequence, the decision and its alternatives.\n\n" + "".join(rows)


def on_post_build(config: MkDocsConfig) -> None:
    """Warn about files that built pages name and the site lacks, such as the theme's: MkDocs checks links of the documents only."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        for path in set(_LOCAL.findall(page.read_text())):
            if not (page.parent / unquote(path)).exists():
                _log.warning("%s names a missing file: %s", page.relative_to(site), path)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Remove marks of generated text, which would be rows of tables or end lists; link to the page of decisions instead of the folder."""
    return _MARK.sub("", markdown).replace(f"]({DECISIONS})", f"]({DECISIONS}/index.md)")
