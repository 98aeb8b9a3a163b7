"""The how-to pages do what they say: their commands and their Python run, page by page.

A page is followed from top to bottom in an empty folder. What it names as a file to save
(`city.toml`), or shows as a block with its name in the first line, is put there; every `hexveil`
line of a shell block is called in this process, and prints the numbers of the comment behind it;
Python blocks of a page share their names. A block of text right after one of these is what was
printed: it is compared without regard to where lines break, numbers to 2 %, and "..." stands for
what is left out. Where it has a "±", its numbers were drawn, and may be any.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from fractions import Fraction
from math import isclose
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hexveil.cli import main
from source_trees import DOCS

PAGES = DOCS / "how-to"
BEGINNINGS = ("simulate --users 300 --days 7 --interval 5min --out city.parquet", "demo --city")
"""Commands that several pages begin with, each run once."""
READERS = ("officer.md", "analyst.md", "scientist.md", "engineer.md")
"""Fifteen minutes each, in docs/start."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")

FOLLOWED = (
    "choose-epsilon-and-unit.md", "choose-bounds.md", "choose-grid.md", "target-errors.md",
    "read-a-release.md", "compare-releases.md", "sums-from-a-warehouse.md", "use-elsewhere.md",
    "notebook.md", "one-hat.md", "clip-user.md", "medians-and-shares.md", "several-sensors.md",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A `hexveil` line of a shell block: its words, and what the comment behind it announces."""

    words: list
    end: int = 0
    numbers: tuple = ()


def command_lines(block):
    """Return the `hexveil` lines of a shell block."""
    whole = block.replace("\\\n", " ").splitlines()
    ours = [line.removeprefix("hexveil ") for line in whole if line.startswith("hexveil ")]
    return [announced(*line.partition(" # ")) for line in ours]


def announced(command, _, comment):
    """Return a command with the exit code and the numbers that its comment names."""
    code = re.search(r"exit (\d)$", comment)
    numbers = () if code else tuple(re.findall(r"\d[\d.,]*\b", comment))
    return Line(shlex.split(command), int(code[1]) if code else 0, numbers)


def flat(text):
    """Return a text without regard to where its lines break, or how far columns are apart."""
    return " ".join(text.split())


def pattern(text):
    """Return what finds a shown text with other numbers in it, each of them a group."""
    words = [re.escape(word) for word in NUMBER.split(flat(text))]
    return re.compile(f"({NUMBER.pattern})".join(words))


def near(shown, printed):
    """Return whether numbers are within 2 % of each other, as on other machines they may be."""
    pairs = zip(NUMBER.findall(shown), printed, strict=True)
    return all(isclose(value(a), value(b), rel_tol=0.02) for a, b in pairs)


def value(text):
    """Return a number as it is printed."""
    return float(text.replace(",", ""))


@contextlib.contextmanager
def printed_by():
    """Return what is printed meanwhile, results and errors alike."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        yield printed


@dataclass
class Reader:
    """Somebody who follows a page in a folder.

    Attributes
    ----------
    begun : dict
        The folder and the text of each of the beginnings.
    names : dict
        What the page's Python has named so far.
    said : str
        What the last block printed.
    loose : bool
        Whether numbers may be any: those of a page that walks the whole way are drawn anew.
    """

    begun: dict
    names: dict = field(default_factory=dict)
    said: str = ""
    loose: bool = False

    def follow(self, language, block):
        """Do what a block says, or compare it with what was printed."""
        if language == "sh":
            for text, file in re.findall(r'^echo "(.*)" > (\S+)$', block, flags=re.MULTILINE):
                Path(file).write_text(text, encoding="utf-8")
            self.said = "".join(self.call(line) for line in command_lines(block))
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(block, "page", "exec"), self.names)  # noqa: S102  our own page
            self.said = printed.getvalue()
        elif language == "toml" and (named := re.match(r"# (\w+\.toml)\n", block)):
            Path(named[1]).write_text(block, encoding="utf-8")
        elif language == "text" and self.said:
            self.compare(block)

    def call(self, line):
        """Call the command, and return what it printed, or nothing if that went to a file."""
        words, file = (line.words[:-2], line.words[-1]) if ">" in line.words else (line.words, None)
        if known := self.begun.get(shlex.join(words)):
            shutil.copytree(known[0], ".", dirs_exist_ok=True)
            return known[1]
        with printed_by() as out:
            code = main(words)
        said = out.getvalue()
        assert code == line.end, f"hexveil {shlex.join(words)} ended with {code}:\n{said}"
        printed = NUMBER.findall(said)
        assert [n for n in line.numbers if not any(near(n, [p]) for p in printed)] == []
        if file is not None:
            Path(file).write_text(said, encoding="utf-8")
        return "" if file else said

    def compare(self, block):
        """Find every part of a shown block in what was printed, in that order."""
        said, start, drawn = flat(self.said), 0, self.loose or "±" in block
        for part in re.split(r"^\.\.\.$", block, flags=re.MULTILINE):
            matches = pattern(part).finditer(said, start)
            found = next((m for m in matches if drawn or near(part, m.groups())), None)
            assert found, f"not printed:\n{part}\nbut:\n{self.said}"
            start = found.end()


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return what commands that several pages begin with made and printed."""
    made = {}
    for words in BEGINNINGS:
        folder = tmp_path_factory.mktemp("begun")
        with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(folder):
            assert main(words.split()) == 0
        made[words] = folder, printed.getvalue()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("page", [*FOLLOWED, *(f"../start/{page}" for page in READERS)])
def test_a_page_can_be_followed(page, begun, tmp_path, monkeypatch):
    """Every command and every line of Python of a page runs, and prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PAGES / "city.toml", tmp_path)
    reader, blocks = Reader(begun), FENCE.findall((PAGES / page).read_text(encoding="utf-8"))
    assert blocks, "the page shows no command"
    for language, block in blocks:
        reader.follow(language, block)


@pytest.mark.slow
def test_the_citys_demo_ends_with_its_map(begun):
    """A month of an invented city becomes a map of bus-days at epsilon 1, in one command."""
    home, said = begun["demo --city"]
    assert said.splitlines()[-1].endswith("demo-out/city-1/map/report.html")
    assert "is invented: 350 buses, 30 days" in said
    manifest = json.loads((home / "demo-out/city-1/map/manifest.json").read_text())
    assert manifest["guarantee"]["privacy_unit"] == "user-day"
    assert Fraction(manifest["guarantee"]["epsilon_spent"]) <= 1
    cells = pq.read_table(home / "demo-out/city-1/map/cells.parquet")
    assert cells.num_rows > 80
    assert min(cells["users"].to_pylist()) >= 500


@pytest.mark.slow
def test_the_first_map_can_be_followed(begun, tmp_path, monkeypatch):
    """Records, plan, release, check and replay are all on the page, and leave a folder to open."""
    monkeypatch.chdir(tmp_path)
    reader = Reader(begun, loose=True)
    blocks = FENCE.findall((PAGES.parent / "start" / "first-map.md").read_text(encoding="utf-8"))
    for language, block in blocks:
        reader.follow(language, block)
    shell = "".join(block for language, block in blocks if language == "sh")
    verbs = {line.words[0] for line in command_lines(shell)}
    assert verbs >= {"simulate", "map", "inspect", "plan", "release", "verify", "ledger"}
    assert (tmp_path / "map" / "report.html").is_file()
    once, again = (tmp_path / name / "cells.csv" for name in ("map", "map-again"))
    assert once.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("page", sorted(page.name for page in PAGES.glob("*.md")))
def test_a_page_says_for_whom_it_is_and_what_is_next(page):
    """Each page begins with its readers and ends with where to go on."""
    text = (PAGES / page).read_text(encoding="utf-8")
    assert text.splitlines()[2].startswith("*For ")
    assert text.rstrip().splitlines()[-1].startswith("**Next:** ")
