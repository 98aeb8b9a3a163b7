"""Map of the theory: no item of the papers, no formula and no study is missing or misnamed."""

import csv
import importlib
import re
import shlex
from functools import cache, reduce
from itertools import pairwise
from typing import NamedTuple

import pytest

from hexveil import mechanisms, theory
from source_trees import ROOT
from test_docs import said, unknown

PAGE = ROOT / "docs" / "understand" / "map-of-theory.md"
MAP = ROOT / "docs" / "figures" / "map-of-theory.csv"
PAST, WITHOUT = "Beyond the papers", "Items without code"

ITEMS = {"IOT": 45, "RW": 25, "COMP": 56, "WC": 24}
"""Statements, algorithms, equations and figures that each paper numbers."""
KIND = re.compile(
    r"(Definition|Theorem|Proposition|Lemma|Corollary|Algorithm|Figure|eq\.) \(?[\w.]+\)?"
)


class Row(NamedTuple):
    """One line of a table, its cells as they are read."""

    paper: str
    items: tuple[str, ...]
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    commands: tuple[str, ...]
    verdict: str


def parts(cell):
    """Return the items of a cell, of which a comma stands between two."""
    return tuple(cell.replace("\\*", "*").split(", "))


def lines(title):
    """Return the cells of each line of a section's table, but for its head."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    (found,) = (part for part in section if part.startswith(f"{title}\n"))
    table = [line for line in found.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in table[1:] if not line.startswith("|--")]


CLIP_USER = "plan.method=clip-user plan.statistics=mean,variance"


def spelt(command):
    """Return a command in full; the page abbreviates mechanisms, studies and settings."""
    command = command.replace("CLIP-USER", CLIP_USER)
    if command.startswith("hexveil "):
        return command
    if re.match(r"[A-Z]\w*\(", command):
        return f"hexveil release --set 'plan.mechanism={command}'"
    if command.startswith("plan."):
        return " ".join(["hexveil release", *(f"--set {word}" for word in command.split())])
    return f"hexveil reproduce {command}"


def several(cell):
    """Return what a cell of the file lists."""
    return tuple(cell.split("; ")) if cell else ()


with MAP.open(encoding="utf-8", newline="") as file:
    LINES = list(csv.DictReader(file))
ROWS = [
    Row(
        line["paper"],
        parts(line["items"]),
        several(line["functions"]),
        several(line["tests"]),
        tuple(map(spelt, several(line["commands"]))),
        line["verdict"],
    )
    for line in LINES
]
SOUND = re.compile(
    r"holds?(, exactly|, per user too.*|; (a count|exact|the exact|for).*)?"
    r"|holds for (full|the smallest).*|.*definitions?.*|the promise of hexveil"
    r"|as described|.*reproduced.*|.*other records.*"
)
"""Verdicts of items that are right as printed."""


def name(row):
    """Return what a row is called in the list of tests."""
    return f"{row.paper} {row.items[0]}"


@pytest.mark.parametrize("paper", ITEMS)
def test_every_numbered_item_is_here_once(paper):
    """Statements, algorithms, equations and figures: each has a line, or a reason for none."""
    mapped = [item for row in ROWS if row.paper == paper for item in row.items]
    without = [
        item for title, items, _ in lines(WITHOUT) if title == paper for item in parts(items)
    ]
    numbered = [item for item in mapped + without if KIND.fullmatch(item)]
    assert len(set(numbered)) == len(numbered) == ITEMS[paper]


def test_the_page_lists_what_does_not_hold():
    """Each item of the papers that is not right as printed stands on the page, with its verdict."""
    page = [line[2:-2].split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    listed = {(cells[0], cells[1]): cells[2] for cells in page if len(cells) == 3}
    wrong = [
        line for line in LINES if line["paper"] != PAST and not SOUND.fullmatch(line["verdict"])
    ]
    assert 30 < len(wrong) < 60
    shown = {key: re.sub(r"\[(\w+)\]\([^)]*\)", r"\1", text) for key, text in listed.items()}
    told = {(line["paper"], line["items"]): line["verdict"] for line in wrong}
    assert told.items() <= shown.items()


def test_every_function_is_there():
    """Each line names functions and tests, those of papers commands; functions can be imported."""
    shown = [(row.functions, row.tests, row.commands or row.paper == PAST) for row in ROWS]
    bare = [name(row) for row, cells in zip(ROWS, shown, strict=True) if not all(cells)]
    assert bare == []
    assert [(name(row), f) for row in ROWS for f in row.functions if not found(f)] == []


def found(function):
    """Say whether a module, or a name within one, is there."""
    words = function.split(".")
    words = words if words[0] == "hexveil_research" else ["hexveil", *words]
    for end in range(len(words), 0, -1):
        try:
            module = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError:
            continue
        return reduce(lambda thing, word: getattr(thing, word, None), words[end:], module)
    return None


@cache
def studies():
    """Return the names of all studies."""
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415  loads every study

    return [study.name for study in STUDIES]


@cache
def fields():
    """Return what the command says of each field of a run file, by its section and name."""
    parts = re.split(r"^\[(\w+)\]$", said("help", "fields"), flags=re.MULTILINE)
    return {
        f"{section}.{name}": text
        for section, about in zip(parts[1::2], parts[2::2], strict=True)
        for name, text in re.findall(r"^(\w+) (.*(?:\n .*)*)", about, re.MULTILINE)
    }


def misread(command):
    """Return the words of a command that it does not understand."""
    verb, *words = shlex.split(command)[1:]
    wrong = unknown(command)
    if verb == "reproduce":
        wrong += [word for word in words if not word.startswith("-") and word not in studies()]
    values = dict(value.split("=", 1) for word, value in pairwise(words) if word == "--set")
    wrong += [name for name in values if name not in fields()]
    if f'"{values.get("plan.method", "joint")}"' not in fields()["plan.method"]:
        wrong.append(values["plan.method"])
    if "plan.mechanism" in values:
        mechanisms.parse(values["plan.mechanism"])  # raises InputError
    return wrong


def test_every_command_is_understood():
    """Each command has that verb, those options, that method or mechanism, and that study."""
    commands = dict.fromkeys(command for row in ROWS for command in row.commands)
    assert {command: words for command in commands if (words := misread(command))} == {}


def test_every_formula_and_mechanism_is_on_the_map():
    """A new formula or mechanism has to be entered."""
    named = {".".join(f.split(".")[:2]) for row in ROWS for f in row.functions}
    public = {f"theory.{public}" for public in theory.__all__}
    assert public | {f"mechanisms.{public}" for public in mechanisms.__all__} <= named


def test_verdicts_and_errata_agree():
    """Every erratum is the verdict of some line, and every number in a verdict is an erratum."""
    page = (ROOT / "docs" / "understand" / "errata.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\*\*(\d+)\. ", page, flags=re.MULTILINE))
    after = [re.findall(r"errat(?:um|a) (\d+(?: and \d+)?)", row.verdict) for row in ROWS]
    named = {number for found in after for text in found for number in text.split(" and ")}
    assert named == listed
