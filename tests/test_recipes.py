"""The recipes of CONTRIBUTING.md work as they stand: what they add is used by it alone."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import hexveil as hv
from hexveil.records.sources import source_files

READ = {"user": "bus", "value": "speed", "bounds": (0, 60), "cells": hv.Labels("route")}
OUTPUT = """
    import importlib.util, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from hexveil.publishing import catalogue
    name = "hexveil.publishing.catalogue.metadata_files"
    spec = importlib.util.find_spec(name)
    text, table = Path(spec.origin).read_text("utf-8"), "Node | None]] = {\\n"
    assert text.count(table) == 1
    line = '"toy.json": lambda description: {"title": description.title},\\n'
    module = importlib.util.module_from_spec(spec)
    exec(compile(text.replace(table, table + line), spec.origin, "exec"), module.__dict__)
    sys.modules[name] = catalogue.metadata_files = module
    from hexveil.publishing.verification.verify import find_problems
    from publishing.releases import released, seal
    folder = released(Path(sys.argv[1]) / "map", "means")
    print((folder / "toy.json").read_text("utf-8").strip(), find_problems(folder))
    (folder / "toy.json").write_text("{}")
    seal(folder)
    print(*find_problems(folder))
"""


@pytest.mark.slow
def test_an_output_is_a_line_of_the_table(tmp_path):
    """A further file is written, has its checksum, and is compared: by its line alone."""
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OUTPUT), str(tmp_path), str(tests)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"title": "' in done.stdout
    assert done.stdout.rstrip().endswith(
        "()\ntoy.json is not what manifest.json and cells.parquet say."
    )


def test_a_source_is_an_ending(tmp_path, monkeypatch):
    """Files of a further ending are read as the kind that its line names."""
    file = tmp_path / "buses.log"
    file.write_text("bus,speed,route\n" + "".join(f"bus {k},20,x\n" for k in range(12)))
    with pytest.raises(hv.InputError, match=r"\.log"):
        hv.read(file, **READ)
    monkeypatch.setitem(source_files._SUFFIXES, ".log", "csv")
    assert hv.read(file, **READ).occupancy.records_per_cell.sum() == 12


def test_every_recipe_names_its_test():
    """Five recipes, each with a test that there is."""
    tests = Path(__file__).parent
    page = (tests.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^- \*\*An? (\w+)\*\*.*`tests/([\w/]+\.py)::(\w+)`\.$", page, re.MULTILINE)
    kinds = [kind for kind, _, _ in named]
    assert kinds == ["mechanism", "statistic", "look", "output", "source"]
    for _, file, name in named:
        assert f"\ndef {name}(" in (tests / file).read_text(encoding="utf-8"), (file, name)
