"""What a recipient sees of a small release of each kind, as data that a change is compared with.

Noise is fixed: the table, the page, README.txt and the words of `verify` follow from it. Numbers
have six digits, so that a processor's last ones do not count; digests and times are left out.

``python tests/golden_releases.py`` writes tests/golden anew, after a change that is meant.
"""

import contextlib
import html.parser
import io
import json
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from mechanisms.fixed_noise import fixed_noise

FOLDER = Path(__file__).resolve().parent / "golden"
PASSING = re.compile(
    r"[0-9a-f]{16,}|\d+\.\d+\.\d+|\d{4}-\d\d-\d\dT[\d:.+Z-]+|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?"
)
"""Digests, versions and times."""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
DIGITS = 6


class Elements(html.parser.HTMLParser):
    """What a browser would make of a page: elements with attributes, and scripts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.script = [], [], [], False

    def handle_starttag(self, tag, attrs):
        """Note an element and its attributes."""
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.script = tag in ("script", "style")

    def handle_endtag(self, _tag):
        """Note that texts are shown again."""
        self.script = False

    def handle_data(self, data):
        """Note a text that is shown."""
        if not self.script:
            self.texts.append(data)


def elements(html):
    """Return a page as parsed."""
    parser = Elements()
    parser.feed(html)
    parser.close()
    return parser


def seen(folder, verified):
    """Return what a recipient sees of a folder: columns and texts, those of its folders too."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sight = {"files": [str(path.relative_to(folder)) for path in files], "columns": {}}
    texts = {"verify": verified.replace(str(folder), "FOLDER")}
    for path in files:
        name = str(path.relative_to(folder))
        if path.name == "cells.parquet":
            table = pq.read_table(path)
            sight["columns"][name] = {
                field.name: " ".join(
                    [f"{field.type}:", *map(_short, table[field.name].to_pylist())]
                )
                for field in table.schema
            }
        elif path.name == "report.html":
            texts[name] = " ".join(elements(path.read_text(encoding="utf-8")).texts)
        elif path.name == "README.txt":
            texts[name] = path.read_text(encoding="utf-8")
    return sight | {name: _lines(PASSING.sub("…", text)) for name, text in texts.items()}


def _short(value):
    return f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)


def _lines(text):
    """Return lines of words, so that a difference is read at a glance."""
    words = text.split()
    return [" ".join(words[begin : begin + 16]) for begin in range(0, len(words), 16)]


def make(home, kind):
    """Return what is seen of a new release of a kind, whose folder is made in a place."""
    from attack import folder_kinds  # noqa: PLC0415  imports the package
    from hexveil.cli import main  # noqa: PLC0415

    with fixed_noise():
        folder = folder_kinds.make(home, kind)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert main(["verify", str(folder)]) == 0
    return seen(folder, said.getvalue())


def differences(expected, found):
    """Yield where two sights differ: in words, or in numbers by more than late digits."""
    for key in sorted(expected.keys() | found.keys()):
        old, new = (json.dumps(sight.get(key), ensure_ascii=False) for sight in (expected, found))
        numbers = [[float(one) for one in NUMBER.findall(text)] for text in (old, new)]
        words = [NUMBER.sub("#", text) for text in (old, new)]
        if words[0] != words[1]:
            yield f"{key}: words differ"
        elif not np.allclose(*numbers, rtol=1e-4, atol=1e-9):
            yield f"{key}: numbers differ"


def kinds():
    """Return every kind of release."""
    from attack import folder_kinds  # noqa: PLC0415
    from publishing.releases import PLANS  # noqa: PLC0415

    return sorted({*folder_kinds.KINDS, *PLANS})


def write():
    """Write all sights anew."""
    FOLDER.mkdir(exist_ok=True)
    for kind in kinds():
        with tempfile.TemporaryDirectory() as home:
            text = json.dumps(make(Path(home), kind), indent=1, ensure_ascii=False)
        (FOLDER / f"{kind}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    write()
