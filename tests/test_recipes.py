"""The recipes of CONTRIBUTING.md work as they stand: what they add is used by it alone."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from source_trees import ROOT, SOURCE

OUTPUT = '    "toy.json": lambda description: {"title": description.title},\n'
RELEASE = """
import hexveil as hv
from pyarrow import table
columns = {"bus": [f"b{k % 20}" for k in range(60)], "route": ["x"] * 60, "speed": [20.0] * 60}
read = hv.read(table(columns), user="bus", value="speed", bounds=(0, 60), cells=hv.Labels("route"))
book = hv.Ledger("ledger.sqlite", dataset="buses", budget=9)
made = hv.release(read, hv.plan(read, epsilon=1, advise=False), ledger=book, accept_noise=True)
hv.verify(made.write("map"))
"""
READ = """
import hexveil as hv
read = {"user": "bus", "value": "speed", "bounds": (0, 60), "cells": hv.Labels("route")}
print(*hv.read("buses.log", **read).occupancy.records_per_cell)
"""


def with_line(folder, file, above, line):
    """Return the environment of a copy of the package in which a table has a further line."""
    # Links, so that nothing is compiled again; the file itself is another.
    shutil.copytree(SOURCE / "hexveil", folder / "hexveil", copy_function=os.symlink)
    text, copy = (SOURCE / "hexveil" / file).read_text(encoding="utf-8"), folder / "hexveil" / file
    assert text.count(above) == 1
    copy.unlink()
    copy.write_text(text.replace(above, above + line), encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(folder, environment, *words):
    """Return what Python says with this environment, and its exit code."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr, done.returncode


@pytest.mark.slow
def test_an_output_is_a_line_of_the_table(tmp_path):
    """A further file is written, has its checksum, and is compared: by its line alone."""
    table = "DOCUMENTS: dict[str, Callable[[ReleaseDescription], Node | None]] = {\n"
    place = "publishing/catalogue/metadata_files.py"
    changed = with_line(tmp_path / "copy", place, table, OUTPUT)
    assert run(tmp_path, changed, "-c", RELEASE) == ("", 0)
    written = tmp_path / "map" / "toy.json"
    assert json.loads(written.read_text(encoding="utf-8"))["title"]
    written.write_text("{}", encoding="utf-8")
    receipt = tmp_path / "map" / "receipt.json"
    content = json.loads(receipt.read_text(encoding="utf-8"))
    content["files"]["toy.json"] = hashlib.sha256(b"{}").hexdigest()
    receipt.write_text(json.dumps(content), encoding="utf-8")
    text, code = run(tmp_path, changed, "-m", "hexveil", "verify", "map")
    assert "toy.json is not what manifest.json and cells.parquet say." in text
    assert code == 2


@pytest.mark.slow
def test_a_source_is_an_ending(tmp_path):
    """Files of a further ending are read as the kind that its line names."""
    lines = "".join(f"bus {k},20,x\n" for k in range(12))
    (tmp_path / "buses.log").write_text(f"bus,speed,route\n{lines}")
    table, place = "_SUFFIXES: dict[str, FileKind] = {\n", "records/sources/source_files.py"
    changed = with_line(tmp_path / "copy", place, table, '    ".log": "csv",\n')
    options = changed | {"PYTHONWARNINGS": "ignore"}
    text, code = run(tmp_path, options | {"PYTHONPATH": str(SOURCE)}, "-c", READ)
    assert ("is not a kind of file that is read" in text, code) == (True, 1)
    assert run(tmp_path, options, "-c", READ) == ("12\n", 0)


def test_every_recipe_names_its_test():
    """Five recipes, each with a test that there is."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^- \*\*An? (\w+)\*\*.*`tests/([\w/]+\.py)::(\w+)`\.$", page, re.MULTILINE)
    kinds = [kind for kind, _, _ in named]
    assert kinds == ["mechanism", "statistic", "look", "output", "source"]
    for _, file, name in named:
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), (file, name)
