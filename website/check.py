"""Check a built site: `python website/check.py site`.

Every link inside it, to a page, an anchor or a picture, leads somewhere; nothing that a page loads
comes from another host; every formula is typeset. Links that a reader may follow to other places
are not opened.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    ("audio", "src"), ("embed", "src"), ("iframe", "src"), ("img", "src"), ("img", "srcset"),
    ("input", "src"), ("link", "href"), ("object", "data"), ("script", "src"), ("source", "src"),
    ("source", "srcset"), ("use", "href"), ("video", "poster"), ("video", "src"),
}  # fmt: skip
NOT_LOADED = {"canonical", "next", "prev", "alternate"}
VERBATIM = ("code", "pre", "script", "style")
# TeX outside code: a formula between dollar signs or \( \), or a command such as \frac.
RAW_TEX = re.compile(r"\$[^$\n]*[^$\s]\$|\\[()\[\]]|\\[a-zA-Z]{2,}")
LOADS_IN_CSS = re.compile(r"""(?:url\(|@import\s+)\s*["']?([^"')\s]+)""")


@dataclass
class Seen(HTMLParser):
    """Links, loaded files, anchors and formulas left in TeX of one page."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    raw_tex: list[str] = field(default_factory=list)
    style: bool = False
    verbatim_depth: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one tag names."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loads += LOADS_IN_CSS.findall(given.get("style", ""))
        self.style = tag == "style"
        self.verbatim_depth += tag in VERBATIM
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and set(given.get("rel", "").split()) & NOT_LOADED:
            return
        for name, value in given.items():
            if (tag, name) in LOADED:
                parts = value.split(",") if name == "srcset" else [value]
                self.loads += [part.split()[0] for part in parts if part.strip()]

    def handle_endtag(self, tag: str) -> None:
        """Leave code, a script or a style sheet."""
        self.verbatim_depth -= tag in VERBATIM

    def handle_data(self, data: str) -> None:
        """Note what a sheet of style inside a page loads, and TeX in its text."""
        if self.style:
            self.loads += LOADS_IN_CSS.findall(data)
        if not self.verbatim_depth:
            self.raw_tex += RAW_TEX.findall(data)


def elsewhere(link: str) -> bool:
    """Return whether a link names another host, or a place that is none of the site's."""
    parts = urlsplit(link)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def faults(site: Path) -> list[str]:
    """Return every fault of a built site, a line each."""
    pages = {file: read(file) for file in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site} holds no page"]
    for file, seen in pages.items():
        name = file.relative_to(site)
        found += [f"{name}: loads {one}" for one in seen.loads if elsewhere(one)]
        found += [f"{name}: {tex} is not typeset" for tex in seen.raw_tex]
        inside = [one for one in [*seen.links, *seen.loads] if not elsewhere(one)]
        found += [
            f"{name}: {one} leads nowhere" for one in inside if not leads(one, file, site, pages)
        ]
    for sheet in sorted(site.rglob("*.css")):
        loads = LOADS_IN_CSS.findall(sheet.read_text(encoding="utf-8"))
        found += [f"{sheet.relative_to(site)}: loads {one}" for one in loads if elsewhere(one)]
    return list(dict.fromkeys(found))


def read(file: Path) -> Seen:
    """Return what a page names."""
    seen = Seen()
    seen.feed(file.read_text(encoding="utf-8"))
    return seen


def leads(link: str, file: Path, site: Path, pages: dict[Path, Seen]) -> bool:
    """Return whether a link of a page leads to a file of the site and an anchor in it."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return True
    path = unquote(parts.path)
    start = site if path.startswith("/") else file.parent
    there = (start / path.lstrip("/")).resolve() if path else file
    if there.is_dir():
        there /= "index.html"
    if not there.is_file() or not there.is_relative_to(site):
        return False
    anchor = unquote(parts.fragment)
    return not anchor or there not in pages or anchor in pages[there].anchors


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.exit(1 if wrong else 0)
