"""`hexveil plan --from --to`: days that a grid passes, and a series that keeps to one."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bus_runs import run_text
from hexveil.cli.commands import publish_command

FLEETS = {"2022-01-01": 400, "2022-01-02": 50, "2022-01-03": 400}
SPAN = ("--from", "2022-01-01", "--to", "2022-01-03")
TOWNS = [(21.0 + 0.6 * town, 72.8 + 0.04 * part) for town in range(3) for part in range(3)]
"""Three places in each of three towns: hexagons of 3 km hold one place, of 20 km a town."""
RUN = run_text(cells='timezone = "Asia/Kolkata"', release='out = "maps"').replace(
    "resolution = 6", "resolution = 7"
)


@pytest.fixture
def series(tmp_path, monkeypatch):
    """Stand in a folder with three days of buses, few of them on the second."""
    rows = [
        {
            "bus": f"{user:04d}", "lat": lat, "lon": lon, "speed": 5.0 * number + user % 10,
            "time": f"{day}T{10 + number}:{user % 60:02d}:00+05:30",
        }
        for day, users in FLEETS.items()
        for number, (lat, lon) in enumerate(TOWNS)
        for user in range(users)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "buses.parquet")
    (tmp_path / "run.toml").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(publish_command, "now", lambda: datetime(2022, 1, 10, tzinfo=UTC))
    return tmp_path


@pytest.mark.slow
def test_plan_tells_which_days_pass_and_proposes_a_grid_for_all(series, call):
    said = call("plan", "run.toml", *SPAN, "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    assert [day["passes"] for day in told["days"]] == [True, False, True]
    assert told["share"] == pytest.approx(2 / 3)
    proposed = told["proposed"]
    assert proposed["publish.series"] == "fixed"
    assert proposed["plan.clipping_range"] != "auto"
    fixed = [word for name, value in proposed.items() for word in ("--set", f"{name}={value}")]
    again = json.loads(call("plan", "run.toml", *SPAN, "--json", *fixed).out)
    assert again["share"] == 1
    # One kind of range on every day.
    assert {day["why"] for day in again["days"]} == {proposed["plan.clipping_range"]}
    text = call("plan", "run.toml", *SPAN).out
    assert "2 of 3 days pass (67%)." in text
    assert "# Passes all 3 days: at least" in text
    assert f"cells.resolution = {proposed['cells.resolution']}" in text


def test_a_day_without_records_passes_no_grid(series, call):
    said = call("plan", "run.toml", "--from", "2022-01-03", "--to", "2022-01-04")
    assert "1 of 2 days pass (50%)." in said.out
    assert "No grid that was tried passes on every day." in said.out


@pytest.mark.slow
def test_publish_keeps_to_a_fixed_series(series, call):
    """The day that would be left out is published, by the kind that is stated."""
    day = ("publish", "run.toml", "--date", "2022-01-02")
    left_out = call(*day)
    assert left_out.code == 2
    assert "this grid is too fine for this fleet" in left_out.out
    unstated = call(*day, "--set", "publish.series=fixed")
    assert unstated.code == 2
    assert "state clipping_range (in [plan])" in unstated.err
    kept = call(*day, "--set", "publish.series=fixed", "--set", "plan.clipping_range=bounds")
    assert (kept.code, "published: " in kept.out) == (0, True), kept.out + kept.err
    (manifest,) = series.glob("maps/buses/2022-01-02/*/manifest.json")
    steps = json.loads(manifest.read_text())["plan"]["privacy_steps"]
    assert "private_range" not in json.dumps(steps)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--compare",), "--compare is about one plan"),
        (("--set", "select.dates=2022-01-01,2022-01-02"), "dates (in [select]) and --from"),
        (("--protect", "presence"), "it is the same on every day"),
    ],
)
def test_what_a_series_does_not_take(series, call, more, told):
    said = call("plan", "run.toml", *SPAN, *more)
    assert said.code == 2
    assert told in " ".join(said.err.split())
