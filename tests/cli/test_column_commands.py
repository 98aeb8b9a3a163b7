"""`plan` of several value columns: targets and parts of ε by column."""

import csv
import json
import random

import pytest

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
@pytest.mark.usefixtures("air")
def test_estimators_of_each_column_are_compared(call):
    """Of shares each way to measure them, for each column."""
    asked = ("--epsilon", "9", "--set", "plan.statistics=p50", "--compare")
    found = json.loads(call("plan", "run.toml", *asked, "--json").out)["columns"]
    assert [len(one["estimators"]) for one in found.values()] == [2, 2]
    shown = call("plan", "run.toml", *asked).out
    assert shown.count("at its own loss or targets:") == 2
    assert shown.count("(chosen)") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("plan run.toml --set plan.target_error=pm25=2",),
            "leaves out the value column 'no2.air'",
        ),
        (
            ("plan run.toml --set plan.target_error=so2=2",),
            "or each of pm25, no2.air",
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
        (("evaluate", "run.toml"), "this command takes one value column"),
    ],
)
def test_wrong_use_is_one_sentence(air, call, arguments, message):
    """Nothing is written, and the sentence names the column."""
    said = call(arguments)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert sorted(path.name for path in air.iterdir()) == ["air.csv", "run.toml"]
