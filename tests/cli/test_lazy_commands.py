"""Help by what one wants to do, and completion: both without the libraries of the commands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hexveil as hv
from cli.conftest import flat
from cli.run_file_page import page_fields

HEAVY = (
    "duckdb", "opendp", "sqlalchemy", "pyspark", "matplotlib", "scipy", "pandas",
    "polars", "pyarrow", "numpy", "jinja2", "jsonschema", "h3ronpy",
)  # fmt: skip
NAMES = (
    "demo", "map", "inspect", "plan", "release", "publish", "studio", "verify", "dossier",
    "compare", "roll-up", "evaluate", "reproduce", "simulate", "ledger", "help",
)  # fmt: skip


def completed(words, shell="bash", **more):
    """Return what the command offers a shell where the last of some words begins."""
    line = " ".join(words)
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    env = os.environ | asked | {"_HEXVEIL_COMPLETE": f"{shell}_complete"} | more
    done = subprocess.run(
        [sys.executable, "-m", "hexveil"], env=env, capture_output=True, text=True, check=False
    )
    lines = [
        line.removeprefix("plain,") if shell == "bash" else line for line in done.stdout.split("\n")
    ]
    return done.returncode, lines, done.stderr


HELPS = """\
import contextlib, io, json, sys
from hexveil.cli import main
pages = {}
for words in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        main(words)
    pages[" ".join(words)] = said.getvalue().splitlines()
print(json.dumps([pages, [name for name in sys.argv[2].split() if name in sys.modules]]))
"""


def test_every_help_fits_a_screen():
    """Help takes at most 45 lines of 80 columns; it, the version and a slip load no library."""
    asked = [[*words, "--help"] for words in ([], *([name] for name in NAMES), ["ledger", "init"])]
    arguments = (json.dumps([*asked, ["--version"], ["plum"]]), " ".join((*HEAVY, "rich")))
    done = subprocess.run(
        [sys.executable, "-c", HELPS, *arguments],
        capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip
    pages, loaded = json.loads(done.stdout)
    assert loaded == []
    commands = "\n".join(pages["--help"]).split("\nPublish:")[1]
    assert re.findall(r"\n  ([a-z]\S*)", commands) == [*NAMES]
    for words in asked:
        page = pages[" ".join(words)]
        assert page[0].startswith(f"Usage: {' '.join(('hexveil', *words[:-1]))}")
        assert len(page) <= 45
        assert max(map(len, page)) <= 80


def test_help_lists_the_fields_of_a_run_file(call, okay):
    """Each field with its section, its shape and its description; of one section on request."""
    fields = page_fields()
    assert okay("help", "fields").out.startswith("source ")
    for section in {section for section, _ in fields if section}:
        heading, *rows = re.split(r"\n(?=\w)", okay("help", "fields", section).out)
        assert heading == f"[{section}]"
        own = [(name, field) for (home, name), field in fields.items() if home == section]
        for (name, field), row in zip(own, rows, strict=True):
            default = f" [default: {field.default}]".replace('"', "") if field.default else ""
            said = re.escape(field.description + default)
            assert re.fullmatch(rf"{name} [A-Z[].*\. {said}", flat(row))
    assert "[ledger]" not in call("help", "fields", "plan").out
    assert call("help", "plan").out == call("plan", "--help").out
    assert "there is no section 'plum'" in call("help", "fields", "plum").err
    assert "No such command 'plum'" in call("help", "plum").err


@pytest.mark.slow
def test_completion_offers_commands_options_and_fields():
    """They are offered by what they begin with, commands in bash, zsh and fish."""
    assert completed(["hexveil", ""]) == (0, [*NAMES, ""], "")
    assert completed(["hexveil", "re"])[1] == ["release", "reproduce", ""]
    assert completed(["hexveil", "ledger", "re"])[1] == ["resolve", ""]
    assert completed(["hexveil", "release", "run.toml", "--e"])[1] == ["--epsilon", ""]
    fields = completed(["hexveil", "release", "run.toml", "--set", "plan.e"])[1]
    assert sorted(fields) == ["", "plan.edition=", "plan.epsilon=", "plan.estimator="]
    assert completed(["hexveil", "pl"], "zsh")[1][:2] == ["plain", "plan"]
    assert completed(["hexveil", "pl"], "fish", COMP_CWORD="pl")[1][0].startswith("plain,plan\t")


@pytest.mark.slow
def test_a_command_loads_nothing_of_others(tmp_path):
    """A process reads and plans without pandas, which pyarrow would load, and others' code.

    Of the modules of the package itself a plan of one column's averages has use for three fifths.
    """
    records = tmp_path / "buses.csv"
    records.write_text("bus,speed\n" + "".join(f"b{k % 12},{k}\n" for k in range(40)))
    arguments = ("plan", records, "--user", "bus", "--value", "speed", "--set",
                 "cells.one_cell=true", "--bounds", "0,60", "--epsilon", "2",
                 "--set", "read.repeats=keep")  # fmt: skip
    code = (
        "import atexit, sys; from hexveil.cli import command; "
        "others = ('pandas', 'matplotlib', 'rich.table'); "
        "atexit.register(lambda: print([name for name in others if sys.modules.get(name)], "
        "'pyarrow' in sys.modules, sum(name[:8] == 'hexveil.' for name in sys.modules))); command()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    others, own = done.stdout.splitlines()[-1].rsplit(" ", 1)
    assert others == "[] True"
    assert int(own) < 2 * len([*Path(hv.__file__).parent.rglob("*.py")]) / 3
