"""`plan` and `evaluate` of several value columns: targets and parts of ε by column."""

import csv
import json
import random

import pytest

from hexveil.simulation.own_cells import STAMP

RUN = """\
source = "air.csv"

[columns]
user = "sensor"
value = ["pm25", "no2.air"]

[values]
bounds = { pm25 = [0, 100], "no2.air" = [0, 200] }
quantum = "0.1"
value_unit = "ug/m3"

[cells]
labels = ["ward"]

[read]
max_bad_rows = 0.5

[plan]
target_error = { pm25 = 2, "no2.air" = "3%" }

[release]
out = "map"
accept_noise = true

[ledger]
url = "book.sqlite"
dataset = "air"
budget = 9
"""
FEW = "--trials 50 --mechanism Baseline --mechanism Levy"


@pytest.fixture
def air(tmp_path, monkeypatch):
    """Stand beside readings of 90 sensors; one ward has no second column."""
    draw = random.Random(4)  # noqa: S311  an example
    with (tmp_path / "air.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["sensor", "ward", "pm25", "no2.air"])
        for sensor in range(90):
            for _ in range(1 + sensor % 7):
                values = [round(draw.gauss(20, 5), 1), round(draw.gauss(60, 9), 1)]
                rows.writerow(
                    [sensor, f"w{sensor % 3}", values[0], values[1] if sensor % 3 else ""]
                )
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_medians_of_columns_are_compared_by_estimator(air, call):
    """Each column has the ways to measure its distribution, at its own part of ε."""
    targets = 'target_error = { pm25 = 2, "no2.air" = "3%" }'
    (air / "run.toml").write_text(RUN.replace(targets, 'epsilon = 4\nstatistics = ["p50"]'))
    compared = call("plan", "run.toml", "--compare")
    assert compared.code == 0
    assert compared.out.count("(chosen)") == 2
    stated = json.loads(call("plan", "run.toml", "--compare", "--json").out)
    for column in stated["columns"].values():
        assert {one["estimator"] for one in column["estimators"]} == {"ranks", "bins"}


@pytest.mark.slow
def test_columns_are_drawn_and_their_estimators_compared(air, call):
    """A curve of each column; of shares each way to measure them, for each column."""
    pytest.importorskip("matplotlib")
    said = call("plan", "run.toml", "--curve", "price", "--json")
    assert said.code == 0, said.err
    names = [file.name for file in sorted(air.glob("price*"))]
    assert names == [
        f"price-{one}.{kind}" for one in ("no2_air", "pm25") for kind in ("png", "svg")
    ]
    assert "exists; name a new file" in call("plan", "run.toml", "--curve", "price").err
    asked = ("--epsilon", "9", "--set", "plan.statistics=p50", "--compare")
    found = json.loads(call("plan", "run.toml", *asked, "--json").out)["columns"]
    assert [len(one["estimators"]) for one in found.values()] == [2, 2]
    shown = call("plan", "run.toml", *asked).out
    assert shown.count("at its own loss or targets:") == 2
    assert shown.count("(chosen)") == 2


@pytest.mark.slow
def test_each_column_is_evaluated_at_its_part_of_a_release(air, call, okay):
    """Numbers are those of the column alone at the part that a plan gives it."""
    both = okay("evaluate run.toml --cell w1 --epsilon 1,3", FEW, "--json")
    columns = json.loads(both.out)["columns"]
    planned = json.loads(call("plan run.toml --epsilon 3 --json").out)
    for column, rows in columns.items():
        assert [row["epsilon_together"] for row in rows] == [1.0, 3.0, 1.0, 3.0]
        assert rows[1]["epsilon"] == pytest.approx(planned["columns"][column]["epsilon"], rel=0.01)
        parts = ",".join(repr(row["epsilon"]) for row in rows[:2])
        chosen = ("--value", column, "--cell w1 --epsilon", parts, FEW, "--json")
        alone = okay("evaluate run.toml", chosen)
        for row, own in zip(rows, json.loads(alone.out)["rows"], strict=True):
            assert row["mae"] == pytest.approx(own["mae"], rel=1e-9)
    assert columns["pm25"][1]["epsilon"] + columns["no2.air"][1]["epsilon"] <= 3


@pytest.mark.slow
def test_a_table_of_each_column_is_written(air, call, okay):
    """The run's targets divide the loss; own records are private, simulated ones are not."""
    said = okay("evaluate run.toml --cell w2", FEW, "--out study")
    assert said.out.count(STAMP) == 2
    kinds = [
        f"{column}-evaluate.{kind}"
        for column in ("no2_air", "pm25")
        for kind in ("csv", "png", "svg")
    ]
    assert sorted(path.name for path in (air / "study").iterdir()) == [
        f"PRIVATE-{k}" for k in kinds
    ]
    header = (air / "study" / "PRIVATE-pm25-evaluate.csv").read_text().splitlines()[1]
    assert header.endswith('"epsilon_together"')
    simulated = (FEW, "--values uniform:0,90 --epsilon 1")
    said = call("evaluate run.toml --cell w2", simulated)
    assert STAMP not in said.out
    assert "no2.air, at its part of epsilon 1 for all value columns:" in said.out
    text = (air / "run.toml").read_text()
    (air / "run.toml").write_text(text.replace('"3%"', '"50%"'))
    said = call("evaluate run.toml --cell w2")
    assert "no2.air: constants meet its target errors" in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plan run.toml --set plan.target_error=pm25=2",),
            "leaves out the value column 'no2.air'",
        ),
        (
            ("plan run.toml --set plan.target_error=so2=2",),
            "variance, sum, or each of pm25, no2.air",
        ),
        (
            ("plan run.toml --set plan.target_error=pm25=2 --set plan.target_error=no2.air=x",),
            "number",
        ),
        (("plan run.toml --set plan.weights=pm25=2",), "leave weights out"),
        (
            ("plan run.toml --set plan.baseline_error=so2=2",),
            "must be for pm25, no2.air, got 'so2'",
        ),
        (("evaluate", "run.toml"), "--cell is needed: name one of 3 (w0, w1, w2)"),
        (("evaluate run.toml --cell w0",), "no2.air has no cell 'w0'"),
        (("evaluate run.toml --cell 0 --set privacy.delta=1e-6",), "leave delta out"),
    ],
)
def test_wrong_use_is_one_sentence(air, call, arguments, message):
    """Nothing is written, and the sentence names the column."""
    said = call(arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in air.iterdir()) == ["air.csv", "run.toml"]
