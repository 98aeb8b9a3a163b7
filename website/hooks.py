"""What the site shows beside docs/: pages of the root, notebooks, source files that pages link to.

Links in Markdown are those of the repository, so that they lead somewhere on the code host too;
here they are turned into those of the site. Called by mkdocs, by these names.
"""

from __future__ import annotations

import html as markup
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import notebooks
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

# Pages of the root, by where they stand in the site.
INCLUDED = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "project/readme.md",
    "SECURITY.md": "project/security.md",
}
SHOWN = {place: path for path, place in INCLUDED.items()}
WIDE = ("understand/map-of-theory.md",)
CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
LONG = 40
LONG_CODE = re.compile(r"(?<=<code>)[^<\s]{16,}(?=</code>)")
# TeX as pymdownx.arithmatex leaves it: \(inline\) in a span, \[displayed\] in a div.
FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
LINK = re.compile(r"(?<=\]\()(?P<to>[^)\s#:]+)(?P<rest>#[^)\s]*)?(?=\))")


def home(place: str) -> str:
    """Return where in the repository a page of the site is written."""
    return SHOWN.get(place, f"docs/{place}")


def target(link: str, place: str) -> str:
    """Return what of the repository a relative link of a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(home(place)), link))


def shown(path: str) -> str:
    """Return where in the site a file of the repository is shown."""
    if path in INCLUDED:
        return INCLUDED[path]
    if path.startswith("docs/"):
        inside = path.removeprefix("docs/")
        return inside.removesuffix(".ipynb") + ".md" if path.endswith(".ipynb") else inside
    return f"source/{path}.md"


def relinked(markdown: str, place: str) -> str:
    """Return the text of a page with its links as the site needs them."""
    start = posixpath.dirname(place) or "."

    def moved(found: re.Match[str]) -> str:
        there = posixpath.relpath(shown(target(found["to"], place)), start)
        return there + (found["rest"] or "")

    return LINK.sub(moved, markdown)


def source_page(path: str) -> str:
    """Return the page that shows a source file, or lists a folder's."""
    full, head = ROOT / path, f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
    if full.is_dir():
        files = [one for one in sorted(full.rglob("*")) if one.is_file() and one.suffix != ".pyc"]
        return head + "\n".join(f"- `{one.relative_to(ROOT)}`" for one in files) + "\n"
    language = {".py": "python", ".toml": "toml", ".json": "json"}.get(full.suffix, "text")
    return f"{head}````{language}\n{full.read_text(encoding='utf-8')}````\n"


def linked_sources(texts: dict[str, str]) -> set[str]:
    """Return the files outside docs/ that pages link to and that are there."""
    found = {
        target(link["to"], place) for place, text in texts.items() for link in LINK.finditer(text)
    }
    outside = {path for path in found if shown(path).startswith("source/")}
    return {path for path in outside if (ROOT / path).exists() and not path.startswith("..")}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name notebooks in the nav as the pages that are made of them."""
    config.nav = _named(config.nav)
    return config


def _named(entry: Any) -> Any:  # noqa: ANN401  as it stands in mkdocs.yml
    if isinstance(entry, list):
        return [_named(one) for one in entry]
    if isinstance(entry, dict):
        return {name: _named(inner) for name, inner in entry.items()}
    return shown(f"docs/{entry}")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages of the root, executed notebooks and linked source files."""
    added: dict[str, str | bytes] = {
        place: (ROOT / path).read_text(encoding="utf-8") for place, path in SHOWN.items()
    }
    for file in [one for one in files if one.src_uri.endswith(".ipynb")]:
        run = os.environ.get("HEXVEIL_NOTEBOOKS") != "stored"
        try:
            pages = notebooks.pages(Path(str(file.abs_src_path)), run=run)
        except notebooks.NotebookError as error:
            raise PluginError(f"{file.src_uri}: {error}") from error
        folder = posixpath.dirname(file.src_uri)
        added |= {posixpath.join(folder, name): text for name, text in pages.items()}
    written = {one.src_uri: one.content_string for one in files.documentation_pages()}
    texts = written | {place: text for place, text in added.items() if isinstance(text, str)}
    for path in linked_sources(texts):
        added[shown(path)] = source_page(path)
    for place, content in added.items():
        old = files.get_file_from_path(place)
        if old is not None:
            files.remove(old)
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a page's text with the links of the site; a page of wide tables gets more room."""
    place = page.file.src_uri
    if place in WIDE:
        page.meta["hide"] = ["toc"]
    return markdown if place.startswith("source/") else relinked(markdown, place)


def on_page_content(html: str, **_: object) -> str:
    """Typeset the formulas of a page, and make its tables readable on a phone.

    Long names in code break after a dot, a bar or a stroke, short ones nowhere; cells of many
    words are marked, so that their columns stay wide enough.
    """
    html = FORMULA.sub(typeset, html)
    html = LONG_CODE.sub(lambda found: re.sub(r"(::|[./_])(?=\w)", r"\1<wbr>", found[0]), html)
    return CELL.sub(_marked, html)


def typeset(formula: re.Match[str]) -> str:
    """Convert a formula from TeX to MathML, which browsers draw without a script or a font of ours.

    Raises
    ------
    PluginError
        If the formula contains a command that the converter does not know.
    """
    tex = markup.unescape(formula["tex"]).strip()
    inline = formula["tag"] == "span"
    drawn = convert(tex, display="inline" if inline else "block")
    if "\\" in drawn:
        message = f"the formula {tex} has a command that latex2mathml does not know"
        raise PluginError(message)
    return drawn if inline else f'<div class="formula">{drawn}</div>'


def _marked(cell: re.Match[str]) -> str:
    inside = re.sub(r"<code>(?=[^<\s]{1,24}</code>)", '<code class="whole">', cell[1])
    words = re.sub(r"<[^>]+>", "", inside)
    start = '<td class="long">' if len(words) > LONG else "<td>"
    return f"{start}{inside}</td>"
