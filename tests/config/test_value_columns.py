"""Several value columns in a run file and as repeated options."""

import pytest

from hexveil.base.errors import InputError
from hexveil.config import load
from hexveil.config.arguments import refuse_several, value_unit_of
from hexveil.config.run_file_text import to_toml


def test_options_are_repeated_once_for_each_column():
    """An option may state one thing for all columns, or one for each."""
    run = load(
        "air.csv",
        {
            ("columns", "value"): ["pm25", "no2=x"],
            ("values", "bounds"): ["pm25=0,100", "no2=x=-5,200"],
            ("values", "quantum"): ["0.1"],
            ("values", "value_unit"): ["pm25=ug/m3"],
            ("privacy", "fleet"): ["pm25=300", "no2=x=60"],
        },
    )
    assert run.columns.value == ("pm25", "no2=x")
    assert run.values.bounds == {"pm25": ("0", "100"), "no2=x": ("-5", "200")}
    assert run.values.quantum == "0.1"
    assert run.privacy.fleet == {"pm25": 300, "no2=x": 60}
    assert to_toml(("values", "bounds"), run.values.bounds) == (
        '{ "pm25" = [0, 100], "no2=x" = [-5, 200] }'
    )
    with pytest.raises(InputError, match="this command takes one value column"):
        refuse_several(run, "this command")


def test_one_column_is_as_before():
    """A single option is a name, a pair, a number; a comma is part of a name."""
    options = {("columns", "value"): ["a,b"], ("values", "bounds"): ["0,65"]}
    run = load("air.csv", options | {("values", "value_unit"): ["km/h"]})
    assert run.columns.value == "a,b"
    assert run.values.bounds == ("0", "65")
    assert value_unit_of(run) == "km/h"


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        (("columns", "value"), ["a", "a"], "--value names a column twice"),
        (("values", "bounds"), ["a=0,1", "a=0,2"], "--bounds states one column twice"),
    ],
)
def test_a_column_is_stated_once(field, given, message):
    """The option is named in the message."""
    with pytest.raises(InputError, match=message):
        load("air.csv", {field: given})
