"""Several value columns in a run file and as repeated options."""

import tomllib

import pytest

from hexveil import InputError
from hexveil.config import load
from hexveil.config.arguments import refuse_several
from hexveil.config.run_file import to_toml


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


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        (["a,b=2", "c.d=5%"], {"a,b": "2", "c.d": "5%"}),
        (["mean=2,variance=5%"], {"mean": "2", "variance": "5%"}),
        ({"a,b": {"mean": 2}, "c.d": 1}, {"a,b": {"mean": "2"}, "c.d": "1"}),
    ],
)
def test_targets_are_by_statistic_or_by_column(stated, read):
    """A point or a comma may be part of a name."""
    given = {("columns", "value"): ["a,b", "c.d"], ("plan", "target_error"): stated}
    run = load("air.csv", given)
    assert run.plan.target_error == read
    text = to_toml(("plan", "target_error"), run.plan.target_error)
    assert (
        load("air.csv", given | {("plan", "target_error"): tomllib.loads(f"x = {text}")["x"]})
        == run
    )
