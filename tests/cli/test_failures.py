"""Failures of commands: one line for people, one object for programs."""

import json
import math
import random
import re
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest

import hexveil as hv
from cli.conftest import flat
from ledger.books import set_clock


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("plan", "none.toml"), "InputError", 2),
        (("plan run.toml --lat latt",), "ColumnError", 2),
        (("plan run.toml --no-such",), "UsageError", 2),
        (("release run.toml --set ledger.budget=0.01",), "BudgetError", 3),
    ],
)
def test_with_json_an_error_is_an_object(here, call, arguments, kind, code):
    """Kind, message and exit code are on stderr; stdout has nothing."""
    said = call(arguments, "--json")
    assert (said.code, said.out) == (code, "")
    error = json.loads(said.err)["error"]
    assert set(error) == {"kind", "message", "exit_code"}
    assert (error["kind"], error["exit_code"]) == (kind, code)
    plain = call(arguments)
    assert plain.err == f"hexveil: {error['message']}\n"


def test_an_error_is_one_line_where_it_is_not_shown(here, refuse):
    """A log of a scheduler gets a line, whatever the name that is quoted."""
    for words in ("--lat 'a name\nof two lines'", "'name\nof two lines'"):
        said = refuse("plan run.toml", words)
        assert "of two lines" in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("300", 100), ("7", 40)])
def test_text_fits_the_terminal(tmp_path, okay, monkeypatch, columns, width):
    """Paragraphs take the terminal's columns: at most 100, and at least 40."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.chdir(tmp_path)
    lines = okay("ledger init l --dataset buses --budget 2").out.splitlines()
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 12


# ---- What every error becomes: an exit code and one line that shows no data ----


def test_a_failing_machine_is_one_line(here, call, monkeypatch):
    """Its exit code is 1; nothing is made. An interruption: tests/cli/test_interrupts.py."""
    monkeypatch.setattr(duckdb, "connect", Mock(side_effect=hv.StorageError("the disk is full.")))
    said = call("release run.toml")
    assert (said.code, said.err) == (1, "hexveil: the disk is full.\n")
    assert not (here / "map").exists()
    assert not (here / "ledger.sqlite").exists()


def test_an_unknown_error_shows_no_data(here, call, monkeypatch):
    """The text of an unexpected error may hold values, so only its type is shown."""
    monkeypatch.delenv("HEXVEIL_DEBUG", raising=False)
    monkeypatch.setattr(duckdb, "connect", Mock(side_effect=RuntimeError("bus 17 drove 61")))
    said = call("plan run.toml")
    assert said.code == 1
    assert "RuntimeError" in said.err
    assert "SECURITY.md" in said.err
    assert "61" not in said.err
    assert said.err.count("\n") == 1


# ---- Numbers in plain words ----


def test_numbers_never_sound_safer_than_they_are(here, okay):
    """Factors are the true ones or, by up to a percent, above; what is left is rounded down."""
    okay("ledger init l --dataset buses --budget 1")
    chance = random.Random(5)  # noqa: S311  which numbers
    for size in sorted(chance.uniform(-9, 6.6) for _ in range(16)):
        true = float(f"{10**size:.6g}")
        text = flat(okay("ledger set-budget l --dataset buses", f"{true:.15f}").out)
        factor = re.search(r"from now on by a factor of at most ([\d.,]*\d|more)", text)
        if factor and true < 13:
            said = float(factor[1].replace(",", ""))
            assert math.exp(true) * (1 - 1e-8) <= said <= math.exp(true) * 1.01
        left = re.search(r"Left ([\d.,]+) or more", flat(okay("ledger show l").out))[1]
        assert 0.98 * true <= float(left.replace(",", "")) <= true * (1 + 1e-9)


def total(said):
    """Return what a release says of the whole spend."""
    return re.search(r"In total: (.*?\.) Written", flat(said.out))[1]


FEW = (
    "release few.csv --user bus --value speed --bounds 0,60 --ledger l --dataset buses",
    "--set cells.one_cell=true --set plan.method=per-cell --set release.accept_noise=true",
)


@pytest.mark.parametrize("window", ["lifetime", "month", "day"])
def test_the_spend_is_two_numbers(tmp_path, monkeypatch, okay, window):
    """What is spent in the window never stands without the lifetime; what is left rounds down."""
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("bus,speed\n" + "".join(f"b{k % 12},{k}\n" for k in range(48)))
    asked = (*FEW, f"--set ledger.budget=2.125 --set ledger.window={window} --out")
    free = okay(asked, "constants --epsilon 0.0001")
    assert total(free) == "nothing of 2.125 is spent, now or in the lifetime."
    this = "" if window == "lifetime" else f" this {window}"
    ever = "lifetime total at most 1 (probability factor 2.72)."
    assert total(okay(asked, "map --epsilon 1")) == f"spent{this} 1 of 2.125, 1.12 left; {ever}"
    set_clock(hv.Ledger("l", dataset="buses"), "2100-01-01T00:00:00Z")
    spent = "1 of 2.125, 1.12 left" if window == "lifetime" else "0 of 2.125, 2.12 left"
    assert total(okay(asked, "again --epsilon 1")) == f"spent{this} {spent}; {ever}"
