"""Help by what one wants to do, and completion: both without the libraries of the commands."""

import json
import os
import re
import subprocess
import sys

import pytest

from hexveil.cli.app import PANELS, purpose_of
from hexveil.config.fields import FIELDS

HEAVY = (
    "duckdb", "opendp", "sqlalchemy", "pyspark", "matplotlib", "scipy", "pandas",
    "polars", "pyarrow", "numpy", "jinja2", "jsonschema", "h3ronpy",
)  # fmt: skip
ITS_OWN = ("rich", "hexveil.config.run_file")
NAMES = [name for commands in PANELS.values() for name in commands]


def completed(words, shell="bash", **more):
    """Return what the command offers a shell where the last of some words begins."""
    line = " ".join(words)
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    env = os.environ | asked | {"_HEXVEIL_COMPLETE": f"complete_{shell}"} | more
    done = subprocess.run(
        [sys.executable, "-m", "hexveil"], env=env, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.split("\n"), done.stderr


def test_help_groups_commands_by_what_one_wants(okay):
    """Each panel is shown with its commands and one line for each of them."""
    said = okay("--help")
    at = [said.out.index(panel) for panel in PANELS]
    assert at == sorted(at)
    assert list(PANELS) == ["Publish", "Check releases", "Study", "Ledger", "Help"]
    text = " ".join(said.out.split())
    for commands in PANELS.values():
        for name, command in commands.items():
            assert f"{name} {purpose_of(command)}".replace("demo-out", "demo- out") in text


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("plum",), "hexveil"),
        (("inspect", "--lat-e", "3"), "hexveil inspect"),
        (("ledger", "shw"), "hexveil ledger"),
        (("ledger", "show"), "hexveil ledger show"),
    ],
)
def test_a_slip_is_answered_with_the_page_that_helps(call, words, where):
    """What cannot be read is one sentence, which names the help of that very command."""
    said = call(*words)
    assert (said.code, said.out) == (2, "")
    assert re.search(rf"(; s|\? S)ee {where} --help\.\n$", said.err)
    assert said.err.count("\n") == 1


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
    arguments = (json.dumps([*asked, ["--version"], ["plum"]]), " ".join((*HEAVY, *ITS_OWN)))
    done = subprocess.run(
        [sys.executable, "-c", HELPS, *arguments],
        capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "80"},
    )  # fmt: skip
    pages, loaded = json.loads(done.stdout)
    assert loaded == []
    for words in asked:
        page = pages[" ".join(words)]
        assert page[0].startswith(f"Usage: {' '.join(('hexveil', *words[:-1]))}")
        assert len(page) <= 45
        assert max(map(len, page)) <= 80


def test_help_lists_the_fields_of_a_run_file(call, okay):
    """Each field with its section, its shape and its description; of one section on request."""
    said = okay("help", "fields")
    for (section, name), field in FIELDS.items():
        assert f"\n{name} " in f"\n{said.out}"
        assert not section or f"[{section}]\n" in said.out
        assert " ".join(field.description.split()[:3]) in " ".join(said.out.split())
    assert "[ledger]" not in call("help", "fields", "plan").out
    assert json.loads(call("help", "fields", "--json").out)["plan.epsilon"]["option"] == "--epsilon"
    assert call("help", "plan").out == call("plan", "--help").out
    assert "there is no section 'plum'" in call("help", "fields", "plum").err
    assert "there is no command 'plum'" in call("help", "plum").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--set", "plan.methd=joint"),
            "there is no field 'plan.methd'; did you mean plan.method?",
        ),
        (("--set", "method=joint"), "there is no field 'method'; did you mean plan.method?"),
        (("--set", "plan.method"), "write --set plan.method=VALUE"),
        (("--set", "plan.method=a", "--set", "plan.method=b"), "--set plan.method is given twice"),
        (("--set", "plan.epsilon=1", "--epsilon", "1"), "are the same field: use one"),
        (("--set", "cells.one_cell=yes"), "must be true or false, got 'yes'"),
        (("--set", "plan.method=magic"), "--set plan.method must be one of"),
        (("--repeats", "keep"), "No such option: --repeats: write --set read.repeats=VALUE"),
    ],
)
def test_a_field_that_cannot_be_set_is_one_sentence(call, words, told):
    """Wrong names, values and repetitions are told with what to write."""
    said = call("plan", "records.csv", *words)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert told in said.err


@pytest.mark.slow
def test_completion_offers_commands():
    """Commands are offered by what they begin with, in bash, zsh and fish."""
    assert completed(["hexveil", ""]) == (0, [*NAMES, ""], "")
    assert completed(["hexveil", "re"])[1] == ["release", "reproduce", ""]
    assert completed(["hexveil", "ledger", "re"])[1] == ["resolve", ""]
    assert '"plan"' in completed(["hexveil", "pl"], "zsh")[1][0]
    fish = completed(["hexveil", "pl"], "fish", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert fish[1][0].startswith("plan\t")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("inspect", "--in"), ["--init"]),
        (
            ("release", "run.toml", "--set", "plan.e"),
            ["plan.edition=", "plan.epsilon=", "plan.estimator="],
        ),
        (("release", "run.toml", "--e"), ["--epsilon"]),
        (("verify", "--j"), ["--json"]),
        (("ledger", "show", "--d"), ["--dataset"]),
        (("--v",), ["--version"]),
    ],
)
def test_completion_offers_options(words, offered):
    """Options of a command, or of the whole, are offered by what they begin with."""
    code, found, err = completed(["hexveil", *words])
    assert (code, sorted(found), err) == (0, ["", *offered], "")


OTHER_PLANS = (
    "hexveil.cli.planned_release", "hexveil.cli.output.grid_text",
    "hexveil.cli.output.figures",
    "hexveil.publishing.kinds.value_manifest", "hexveil.records.sql", "rich.table",
)  # fmt: skip
"""What a plan of one column's averages has no use for."""


@pytest.mark.slow
def test_a_command_loads_nothing_of_others(tmp_path):
    """A process reads and plans without pandas, which pyarrow would load, and others' code."""
    records = tmp_path / "buses.csv"
    records.write_text("bus,speed\n" + "".join(f"b{k % 12},{k}\n" for k in range(40)))
    arguments = ("plan", records, "--user", "bus", "--value", "speed", "--set",
                 "cells.one_cell=true", "--bounds", "0,60", "--epsilon", "2",
                 "--set", "read.repeats=keep")  # fmt: skip
    code = (
        "import atexit, sys; from hexveil.cli import command; "
        f"others = {('pandas', *OTHER_PLANS)!r}; "
        "atexit.register(lambda: print([name for name in others if sys.modules.get(name)], "
        "'pyarrow' in sys.modules)); command()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[] True"
