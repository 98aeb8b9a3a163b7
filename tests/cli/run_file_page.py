"""The fields of a run file as its page documents them, for tests of what is made of them."""

import re
from typing import NamedTuple

from source_trees import DOCS

_ROW = re.compile(r"\| `(\w+)`(?:, `(--[\w-]+)`)? \| (.*?\.)(?: Default: (.*)\.)? \|")


class PageField(NamedTuple):
    """What the page says of a field."""

    option: str | None
    description: str
    default: str | None


def page_fields():
    """Return what is said of every field, by its section and name; "" is the top of the file."""
    section, found = "", {}
    for line in (DOCS / "reference" / "run-file.md").read_text("utf-8").splitlines():
        if heading := re.fullmatch(r"## \[(\w+)\]", line):
            section = heading[1]
        elif row := _ROW.fullmatch(line):
            found[section, row[1]] = PageField(*row.groups()[1:])
    return found
