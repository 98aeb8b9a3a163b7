"""The page "A first map in five minutes" does what it says: its commands run as printed."""

import contextlib
import io
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from hexveil.cli import main

PAGE = Path(__file__).resolve().parents[1] / "docs" / "start" / "first-map.md"
SHOULD_HAVE = {"simulate", "map", "inspect", "plan", "release", "verify", "ledger"}


def blocks():
    """Return the page's code blocks in order, as (language, text)."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(language, re.sub(r" \\\n +", " ", inner)) for language, inner in found]


def plain(text):
    """Return words on one line, digits masked: widths and last digits may differ elsewhere."""
    return re.sub(r"\d[\d.,]*", "#", " ".join(text.split()))


def missing(printed, shown):
    """Return the parts of what the page shows, between lines of dots, that were not printed."""
    parts = re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)
    return [part for part in parts if plain(part).rstrip("#") not in plain(printed)]


def run(line):
    """Return what a command of the page prints, called in this process."""
    line, _, file = line.partition(" > ")
    name, *words = shlex.split(line)
    assert name == "hexveil", f"the page runs {name}"
    said, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(error):
        code = main(words)
    assert code == 0, f"{line}\n{error.getvalue()}"
    if file:
        Path(file).write_text(said.getvalue(), encoding="utf-8")
    return said.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Run the page in a new folder; return it, and what each command printed."""
    place = tmp_path_factory.mktemp("first")
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for language, text in blocks():
            if language == "sh":
                printed += [run(line) for line in text.splitlines()]
    return place, printed


@pytest.mark.slow
def test_every_command_runs_and_prints_what_the_page_shows(folder):
    """What stands below a command on the page is what it prints, but for the digits."""
    _, printed = folder
    outputs = iter(printed)
    wrong = []
    for (language, text), (below, shown) in pairwise([*blocks(), ("", "")]):
        if language != "sh":
            continue
        said = [next(outputs) for _ in text.splitlines()]
        if below == "text":
            wrong += missing(said[-1], shown)
    assert wrong == []


@pytest.mark.slow
def test_the_page_walks_the_whole_way(folder):
    """Records, plan, release, check and replay are all there, and leave a folder to open."""
    place, _ = folder
    said = {
        line.split()[1] for kind, text in blocks() if kind == "sh" for line in text.split("\n")[:-1]
    }
    assert said >= SHOULD_HAVE
    assert (place / "map" / "report.html").is_file()
    once, again = (place / name / "cells.csv" for name in ("map", "map-again"))
    assert once.read_bytes() == again.read_bytes()
