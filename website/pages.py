"""Pages of the site: docs/, pages of the root, notebooks, linked sources, messages, a live map.

Links in Markdown are those of the repository, so that they lead somewhere on the code host too;
here they are turned into those of the site.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
from pathlib import Path

import messages
import notebooks

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
WIDE = ("understand/guarantees.md",)
LINK = re.compile(r"(?<=\]\()(?P<to>[^)\s#:]+)(?P<rest>#[^)\s]*)?(?=\))")
# What a page shows on the code host, which has no place for a page within a page.
LIVE_MAP = re.compile(r"<!-- live map -->\n.*?\n<!-- end of live map -->", re.DOTALL)
LIVE_PAGE = "live/report.html"


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


def relative(path: str, place: str) -> str:
    """Return the link from a page of the site to another place of it."""
    return posixpath.relpath(path, posixpath.dirname(place) or ".")


def relinked(markdown: str, place: str) -> str:
    """Return the text of a page with its links as the site needs them."""

    def moved(found: re.Match[str]) -> str:
        return relative(shown(target(found["to"], place)), place) + (found["rest"] or "")

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


def with_live_map(markdown: str, place: str) -> str:
    """Return a page's text with the live map in place of its picture."""
    page = relative(LIVE_PAGE, place)
    notebook = relative("notebooks/publishing-buses.md", place)
    frame = (
        f'<iframe class="live" src="{page}" title="A released map of an invented city: choose a '
        'timeslot, point at a hexagon" loading="lazy"></iframe>\n\n'
        "*A week of 300 buses in an invented city, protected per bus and day at ε = 1: the "
        f"page of a release, made by a [notebook]({notebook}) when this site was built. "
        f'<a href="{page}">Open it alone</a>.*'
    )
    return LIVE_MAP.sub(lambda _: frame, markdown)


def write(folder: Path, *, run: bool) -> None:
    """Write every page of the site to a new folder, in Markdown.

    Parameters
    ----------
    folder : Path
        Where to write.
    run : bool
        Whether notebooks are run; otherwise they are shown as they are stored, and a picture
        stands in for the live map.

    Raises
    ------
    notebooks.NotebookError
        If a notebook does not run.
    """
    shutil.copytree(ROOT / "docs", folder)
    texts = {place: (ROOT / path).read_text(encoding="utf-8") for place, path in SHOWN.items()}
    with tempfile.TemporaryDirectory() as work:
        # In one folder: the second notebook reads the release that the first has written.
        for notebook in sorted(folder.rglob("*.ipynb")):
            texts |= notebook_texts(notebook, folder, Path(work) if run else None)
        if run:
            shutil.copytree(Path(work, "map"), folder / posixpath.dirname(LIVE_PAGE))
    written = {str(file.relative_to(folder)): file for file in folder.rglob("*.md")}
    texts = {place: file.read_text(encoding="utf-8") for place, file in written.items()} | texts
    texts[messages.PLACE] = messages.page()
    for path in linked_sources(texts):
        texts[shown(path)] = source_page(path)
    for place, text in texts.items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page_text(text, place, live=run), encoding="utf-8")


def notebook_texts(notebook: Path, folder: Path, work: Path | None) -> dict[str, str]:
    """Return the page of a notebook by its place; write its pictures beside it."""
    texts = {}
    for name, content in notebooks.pages(notebook, work).items():
        if isinstance(content, str) and name.endswith(".md"):
            texts[str(notebook.parent.relative_to(folder) / name)] = content
        elif isinstance(content, str):
            (notebook.parent / name).write_text(content, encoding="utf-8")
        else:
            (notebook.parent / name).write_bytes(content)
    return texts


def page_text(text: str, place: str, *, live: bool) -> str:
    """Return a page's text as the site needs it; a page of wide tables gets more room."""
    if place.startswith("source/"):
        return text
    text = relinked(text, place)
    if live:
        text = with_live_map(text, place)
    return f"---\nhide: [toc]\n---\n\n{text}" if place in WIDE else text
