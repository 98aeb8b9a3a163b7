from fractions import Fraction

import pytest

from hexveil import BudgetError, ColumnError, HexveilError, InputError, StorageError


@pytest.mark.parametrize(
    ("kind", "builtin", "code"),
    [
        (HexveilError, Exception, 1),
        (StorageError, OSError, 1),
        (InputError, ValueError, 2),
        (ColumnError, ValueError, 2),
        (BudgetError, HexveilError, 3),
    ],
)
def test_each_error_has_its_builtin_and_exit_code(kind, builtin, code):
    """Whoever catches the builtin catches ours, and the command knows how to exit."""
    assert issubclass(kind, HexveilError)
    assert issubclass(kind, builtin)
    assert kind.exit_code == code


def test_column_error_names_the_nearest():
    """A misspelt column is answered with the one that was probably meant."""
    error = ColumnError("value", "sped", ["user", "speed"])
    assert str(error) == "value: the source has no column 'sped'; did you mean 'speed'?"
    assert (error.column, error.available) == ("sped", ("user", "speed"))


def test_budget_error_carries_the_numbers():
    """A refused spend says how much was asked for and how much is left, as exact numbers."""
    error = BudgetError("too much.", requested=Fraction(2), remaining=Fraction(1, 3))
    assert (error.requested, error.remaining) == (Fraction(2), Fraction(1, 3))
    assert str(error) == "too much."
