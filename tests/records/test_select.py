"""The selection: what may be written, and that it is always described the same."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexveil import InputError, Select


@given(st.sets(st.integers(0, 23), min_size=1))
def test_hours_may_be_numbers_or_text(hours):
    """A list, a set and text of the same hours are the same selection."""
    as_text = ",".join(map(str, hours))
    assert Select(hours=list(hours)) == Select(hours=as_text) == Select(hours=hours)
    assert Select(hours=as_text).hours == tuple(sorted(hours))


def test_a_selection_is_described_the_same_however_it_was_written():
    """Numbers may be text; the description does not depend on it."""
    one = Select(dates=("2024-02-19", "2024-02-20"), box=(20, 51, 22.5, 53), drop_values=(0, 0.5))
    two = Select(
        dates=["2024-02-19", "2024-02-20"], box=("20", "51", "22.5", "53"), drop_values=("0.5", 0)
    )
    assert one == two
    assert one.describe() == two.describe()
    assert one.describe() == (
        "hours all; dates 2024-02-19 to 2024-02-20; box 20.0,51.0,22.5,53.0; min_users 10; top all"
    )
    assert one.describe_dropped() == "0,0.5"
    assert one.drop_values == (Fraction(0), Fraction(1, 2))
    assert one.days == (19772, 19773)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"hours": [24]}, "hours must be local hours"),
        ({"hours": "9-7"}, "hours must be local hours"),
        ({"hours": "noon"}, "hours must be local hours"),
        ({"hours": []}, "names no hour"),
        ({"dates": ("2024-02-20", "2024-02-19")}, "first and last local date"),
        ({"dates": ("2024-02-20",)}, "first and last local date"),
        ({"dates": ("Monday", "Friday")}, "first and last local date"),
        ({"box": (1, 2, 3)}, "four numbers"),
        ({"box": (22, 51, 20, 53)}, "west below east"),
        ({"box": (20, 51, 22, 95)}, "west below east"),
        ({"box": ("a", 51, 22, 53)}, "four numbers"),
        ({"min_users": 0}, "min_users must be a whole number"),
        ({"min_users": True}, "min_users must be a whole number"),
        ({"top": 0}, "top must be a whole number"),
        ({"drop_values": ["none"]}, "drop_values must be a finite number"),
    ],
)
def test_a_selection_without_meaning_is_refused(arguments, sentence):
    """Each wrong field is named with what was expected."""
    with pytest.raises(InputError, match=sentence):
        Select(**arguments)
