"""Failures of commands: one line for people, one object for programs."""

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.cli import formatting, shared_steps
from hexveil.cli.endings import Failure
from hexveil.ledger import Spend


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


def test_an_error_is_one_line_where_it_is_not_shown(capsys):
    """A log of a scheduler gets a line, whatever the name that is quoted."""
    Failure("InputError", "a name\nof two lines " + "and words " * 30, 2).show(as_json=False)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("300", 100), ("7", 40)])
def test_text_fits_the_terminal(monkeypatch, columns, width):
    """Paragraphs take the terminal's columns: at most 100, and at least 40."""
    monkeypatch.setenv("COLUMNS", columns)
    lines = formatting.wrapped("Label", "some words of a sentence " * 20)
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
    monkeypatch.setattr(shared_steps, "read_releasable", failing(error))
    said = call("release run.toml")
    assert (said.code, said.err) == (code, line + "\n")
    assert not (here / "map").exists()
    assert not (here / "ledger.sqlite").exists()


def test_an_unknown_error_shows_no_data(here, call, monkeypatch):
    """The text of an unexpected error may hold values, so only its type is shown."""
    monkeypatch.delenv("HEXVEIL_DEBUG", raising=False)
    monkeypatch.setattr(shared_steps, "read_releasable", failing(RuntimeError("bus 17 drove 61")))
    said = call("plan run.toml")
    assert said.code == 1
    assert "RuntimeError" in said.err
    assert "SECURITY.md" in said.err
    assert "61" not in said.err
    assert said.err.count("\n") == 1


# ---- Numbers in plain words ----


@given(st.floats(0, 13))
def test_factors_never_sound_safer_than_they_are(loss):
    """The printed factor is the true one or, by up to a percent, above it."""
    said, true = float(formatting.factor(loss).replace(",", "")), math.exp(loss)
    assert true * (1 - 1e-8) <= said <= true * 1.01


@given(st.floats(1e-9, 1e9))
def test_a_lower_bound_is_never_said_too_high(number):
    """It is rounded down, and loses at most a hundredth."""
    said = float(formatting.at_least(number).replace(",", ""))
    assert 0.98 * number <= said <= number * (1 + 1e-9)


@pytest.mark.parametrize(
    ("kind", "window", "lifetime", "said"),
    [
        ("lifetime", 0, 0, "nothing of 2.125 is spent, now or in the lifetime."),
        (
            "lifetime", 1, 1,
            "spent 1 of 2.125, 1.12 left; lifetime total at most 1 (probability factor 2.72).",
        ),
        (
            "month", 0, 3,
            ("spent this month 0 of 2.125, 2.12 left; lifetime total at most 3 "
             "(probability factor 20.1)."),
        ),
        (
            "day", 3, 3,
            ("spent this day 3 of 2.125, 0 left; lifetime total at most 3 "
             "(probability factor 20.1)."),
        ),
    ],
)  # fmt: skip
def test_the_spend_is_two_numbers(kind, window, lifetime, said):
    """What is spent in the window never stands without the lifetime; what is left rounds down."""
    spend = Spend(
        Fraction("2.125"),
        kind,
        "",
        Fraction(window),
        Fraction(lifetime),
        1,
        0,
        max(Fraction("2.125") - window, Fraction(0)),
    )
    assert formatting.spent(spend) == said
