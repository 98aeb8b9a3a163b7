"""The fields of a run file as its page documents them, for tests of what is made of them."""

import re
from dataclasses import dataclass

from source_trees import DOCS

_ROW = re.compile(r"\| `(\w+)`(?:, `(--[\w-]+)`)? \| (.*?\.)(?: Default: (.*)\.)? \|")


@dataclass(frozen=True)
class PageField:
    """A field: what it is, the library's default, and the option that people type."""

    description: str
    default: str | None
    option: str | None


def page_fields():
    """Return every field by its section and name; section "" is the top of the file."""
    section, found = "", {}
    for line in (DOCS / "reference" / "run-file.md").read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"## \[(\w+)\]", line):
            section = heading[1]
        elif row := _ROW.fullmatch(line):
            name, option, description, default = row.groups()
            found[section, name] = PageField(description, default, option)
    return found
