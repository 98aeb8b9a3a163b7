"""Failures of commands: one line for people, one object for programs."""

import json
import math
import random
import re

import duckdb
import pytest

import hexveil as hv
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
    said = refuse("plan", ["run.toml"], ["--lat", "a name\nof two lines " + "and words " * 30])
    assert "of two lines and words" in said.err
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


def failing(error):
    """Return a step that raises."""

    def step(*_arguments, **_options):
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            hv.StorageError("the disk is full; make room."),
            1,
            "hexveil: the disk is full; make room.",
        ),
        (KeyboardInterrupt(), 130, "hexveil: interrupted."),
    ],
)
def test_exit_codes(here, call, monkeypatch, error, code, line):
    """A failing machine is 1, an interruption 130; each is one line."""
    monkeypatch.setattr(duckdb, "connect", failing(error))
    said = call("release run.toml")
    assert (said.code, said.err) == (code, line + "\n")
    assert not (here / "map").exists()
    assert not (here / "ledger.sqlite").exists()


def test_an_unknown_error_shows_no_data(here, call, monkeypatch):
    """The text of an unexpected error may hold values, so only its type is shown."""
    monkeypatch.delenv("HEXVEIL_DEBUG", raising=False)
    monkeypatch.setattr(duckdb, "connect", failing(RuntimeError("bus 17 drove 61")))
    said = call("plan run.toml")
    assert said.code == 1
    assert "RuntimeError" in said.err
    assert "SECURITY.md" in said.err
    assert "61" not in said.err
    assert said.err.count("\n") == 1


# ---- Numbers in plain words ----


def ascending(lowest, highest, number=12):
    """Yield numbers of all sizes in between, as text of a few digits, the smallest first."""
    chance = random.Random(5)  # noqa: S311  which numbers
    ends = math.log(lowest), math.log(highest)
    yield from (f"{math.exp(x):.6g}" for x in sorted(chance.uniform(*ends) for _ in range(number)))


def test_factors_never_sound_safer_than_they_are(here, okay):
    """The printed factor is the true one or, by up to a percent, above it."""
    okay("ledger init l --dataset buses --budget 0.0001")
    for loss in ascending(0.001, 13):
        text = " ".join(okay("ledger set-budget l --dataset buses", loss).out.split())
        said = float(
            re.search(r"from now on by a factor of at most ([\d.,]*\d)", text)[1].replace(",", "")
        )
        assert math.exp(float(loss)) * (1 - 1e-8) <= said <= math.exp(float(loss)) * 1.01


def test_a_lower_bound_is_never_said_too_high(here, okay):
    """It is rounded down, and loses at most a hundredth."""
    okay("ledger init l --dataset buses --budget 1")
    for number in ascending(1e-9, 4e6):
        okay("ledger set-budget l --dataset buses", f"{float(number):.15f}")
        said = re.search(r"Left +([\d.,]+) or more", okay("ledger show l").out)[1].replace(",", "")
        assert 0.98 * float(number) <= float(said) <= float(number) * (1 + 1e-9)


def total(said):
    """Return what a release says of the whole spend."""
    return re.search(r"In total: (.*?\.) Written", " ".join(said.out.split()))[1]


ONE_CELL = """\
source = "few.csv"
columns = {{user = "bus", value = "speed"}}
values.bounds = [0, 60]
cells.one_cell = true
plan = {{epsilon = 1, method = "per-cell"}}
release = {{out = "map", accept_noise = true}}
ledger = {{url = "ledger.sqlite", dataset = "buses", budget = 2.125, window = "{window}"}}
"""


@pytest.mark.parametrize("window", ["lifetime", "month", "day"])
def test_the_spend_is_two_numbers(tmp_path, monkeypatch, okay, window):
    """What is spent in the window never stands without the lifetime; what is left rounds down."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "few.csv").write_text(
        "bus,speed\n" + "".join(f"b{k % 12},{k}\n" for k in range(48))
    )
    (tmp_path / "run.toml").write_text(ONE_CELL.format(window=window))
    if window == "lifetime":
        free = okay("release run.toml --epsilon 0.0001 --out constants")
        assert total(free) == "nothing of 2.125 is spent, now or in the lifetime."
    this = "" if window == "lifetime" else f" this {window}"
    ever = "lifetime total at most 1 (probability factor 2.72)."
    assert total(okay("release run.toml")) == f"spent{this} 1 of 2.125, 1.12 left; {ever}"
    set_clock(hv.Ledger("ledger.sqlite", dataset="buses"), "2100-01-01T00:00:00Z")
    spent = "1 of 2.125, 1.12 left" if window == "lifetime" else "0 of 2.125, 2.12 left"
    assert total(okay("release run.toml --out again")) == f"spent{this} {spent}; {ever}"
