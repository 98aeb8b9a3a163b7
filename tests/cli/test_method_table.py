"""The table of `plan --compare`."""

import pytest

import hexveil as hv
from hexveil.cli.output import method_table
from hexveil.planning.method_comparison import ComparisonRow

JOINT = ComparisonRow(
    "joint", "max", epsilon=0.99999, claimed=2.5, worst=17.8, average=17.8, median=17.8,
    shrunk=1234, better=14, certifies="max error", lower_bound=17.7699, gap=0.001721,
)  # fmt: skip


def test_bounds_are_rounded_to_the_safe_side(capsys):
    """The price and the gap are rounded up, the lower bound down."""
    method_table.show([JOINT], "planning error in mph")
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("joint, max"))
    assert line.split() == [
        "joint,", "max", "1", "2.5", "17.8", "17.8", "17.8", "1,234", "14", "worst", "17.7",
        "(gap", "0.173%)",
    ]  # fmt: skip


def test_a_method_that_cannot_says_so_and_why(capsys):
    """It has no figures in its line, and its reason stands below the table."""
    trouble = 'method "clip-user" needs the same bounds in every cell.'
    method_table.show([JOINT, ComparisonRow("clip-user", "max", trouble=trouble)], "planning error")
    said = capsys.readouterr().out
    line = next(x for x in said.splitlines() if x.startswith("clip-user "))
    assert line.split() == ["clip-user", *"-------", "not", "possible"]
    assert f"clip-user is not possible: {trouble}\n" in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "planning error in km/h"),
        ({"statistics": "sd"}, "planning error in squared km/h"),
        ({"error": "sum"}, "planning error of the mean plus that of the variance"),
        ({"statistics": ("mean", "sd")}, "the average of both planning errors, each relative to"),
        (
            {"statistics": ("mean", "sd"), "objective": "max"},
            "the larger of both planning errors, each relative to",
        ),
    ],
)
def test_the_measure_is_what_the_plan_is_judged_by(options, said):
    """One statistic has its unit; two are shares, or their sum."""
    occupancy = hv.Occupancy.from_dense([[3, 1], [1, 2]] * 20)
    plan = hv.plan(occupancy, bounds=(0, 10), epsilon=1, advise=False, **options)
    assert method_table.measure(plan, "km/h").startswith(said)
    assert not method_table.measure(plan, "").endswith(" in ")
