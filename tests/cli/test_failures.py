"""Failures of commands: one line for people, one object for programs."""

import json
import os
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil.cli.endings import Failure, remedy
from hexveil.cli.output import formatting


@pytest.mark.parametrize(
    ("arguments", "kind", "code", "hint"),
    [
        (("plan", "none.toml"), "InputError", 2, "check the name."),
        (("plan", "run.toml", "--lat", "latt"), "ColumnError", 2, "did you mean 'lat'?"),
        (("plan", "run.toml", "--no-such"), "UsageError", 2, "see hexveil plan --help."),
        (("release", "run.toml", "--set", "ledger.budget=0.01"), "BudgetError", 3, None),
    ],
)
def test_with_json_an_error_is_an_object(here, call, arguments, kind, code, hint):
    """Kind, message, hint and exit code are on stderr; stdout has nothing."""
    said = call(*arguments, "--json")
    assert (said.code, said.out) == (code, "")
    error = json.loads(said.err)["error"]
    assert set(error) == {"kind", "message", "hint", "exit_code"}
    assert (error["kind"], error["exit_code"]) == (kind, code)
    assert hint is None or error["hint"] == hint
    assert error["message"].endswith(error["hint"])
    plain = call(*arguments)
    assert plain.err == f"hexveil: {error['message']}\n"


@pytest.mark.slow
@given(st.text(), st.text())
def test_the_hint_ends_the_message(problem, advice):
    """Whatever a message quotes, the hint is its end, or empty."""
    assert f"{problem}; {advice}".endswith(remedy(f"{problem}; {advice}"))
    assert remedy("interrupted.") == ""


def test_an_error_is_one_line_where_it_is_not_shown(capsys):
    """A log of a scheduler gets a line, whatever the name that is quoted."""
    Failure("InputError", "a name\nof two lines " + "and words " * 30, "", 2).show(as_json=False)
    assert capsys.readouterr().err.count("\n") == 1


def test_an_error_fits_a_terminal():
    """On a terminal of 50 columns no line of an error is longer."""
    code = (
        "from hexveil.cli.endings import Failure;"
        "Failure('InputError', 'several words of a message ' * 8, '', 2).show(as_json=False)"
    )
    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", code], stderr=slave, check=True, env=os.environ | {"COLUMNS": "50"}
    )
    os.close(slave)
    lines = os.read(master, 10_000).decode().splitlines()
    os.close(master)
    assert len(lines) > 3
    assert max(map(len, lines)) <= 50


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("300", 100), ("7", 40)])
def test_text_fits_the_terminal(monkeypatch, columns, width):
    """Paragraphs take the terminal's columns: at most 100, and at least 40."""
    monkeypatch.setenv("COLUMNS", columns)
    lines = formatting.wrapped("Label", "some words of a sentence " * 20)
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 12


@pytest.mark.slow
def test_a_plan_fits_a_narrow_terminal(here, call, monkeypatch):
    """No line of a plan and its comparison is longer than the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "60")
    said = call("plan", "run.toml")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 60
