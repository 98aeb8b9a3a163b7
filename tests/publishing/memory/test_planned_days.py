"""Expected errors of days to come: of every kind of statistic that archives remember."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.cli import main

USERS, ROUTES = 60, ("4", "15", "22")
COLUMNS = "--user bus --value speed --set values.bounds=0,60 --json"
COUNTED = f"records.parquet {COLUMNS} --set cells.labels=route"
FLEET = (
    f"none.parquet {COLUMNS} --lat y --lon x --time t --set privacy.protect=presence "
    "--set privacy.fleet=5000 --set cells.area=72.7,21.0,73.0,21.4 --resolution 5 --timeslot 6h "
    "--timezone Asia/Kolkata"
)
TIMES = np.array(["2024-01-01T08:00:00", "2024-01-03T08:00:00"], dtype="datetime64[s]")
PLACED = (
    f"two.parquet {COLUMNS} --lat lat --lon lon --time time --resolution 4 --timezone UTC "
    "--epsilon 1 --set read.repeats=keep"
)
STATISTIC = f"{COUNTED} --set plan.statistics="
RANKS = "--set plan.estimator=ranks"
PAPER = f"{FLEET} --set plan.statistics="
KINDS = {
    "mean": COUNTED,
    "p50": f"{STATISTIC}p50 {RANKS}",
    "share": f"{STATISTIC}share<22",
    "presence": FLEET,
    "presence p85": f"{PAPER}p85",
    "presence share": f"{PAPER}share<22",
}
NOISY = {"presence p85": 0.1}
"""Where a few days open no cells that make the average worse."""
DAY = "--set select.dates=2024-01-01,2024-01-01"


@pytest.fixture
def planned(tmp_path, monkeypatch, capsys):
    """Return what `hexveil plan` prints of a day: every bus on every route, or a declared fleet."""
    monkeypatch.chdir(tmp_path)
    buses, routes = np.repeat(np.arange(USERS), len(ROUTES)), np.tile(ROUTES, USERS)
    table = pa.table({"bus": buses, "route": routes, "speed": 20.0 + buses % 7})
    pq.write_table(table, "records.parquet")
    places = {"lat": 21.1 + buses % 2, "lon": 72.8 + 0.0 * buses, "time": TIMES[buses % 2]}
    for name, column in places.items():
        table = table.append_column(name, pa.array(column))
    pq.write_table(table, "two.parquet")

    def ask(options):
        code = main(["plan", *options.split()])
        said = capsys.readouterr()
        if "--json" not in options:
            return " ".join(said.out.split())
        return json.loads(said.err)["error"]["message"] if code else json.loads(said.out)

    return ask


@pytest.mark.parametrize("kind", KINDS)
def test_errors_fall_by_day_and_with_epsilon(planned, kind):
    """No day is worse than the day before; the least epsilon for an error reaches it, half not."""
    days = f"{KINDS[kind]} --days 8"
    made = planned(f"{days} --epsilon {NOISY.get(kind, 1)}")["errors"]
    assert len(made) == 8
    assert (np.diff(made[:5]) < 0).all()
    wanted = 1.05 * made[-1]
    least = planned(f"{days} --day-error {wanted}")
    assert least["errors"][-1] <= wanted
    assert planned(f"{days} --epsilon {least['epsilon'] / 2}")["errors"][-1] > wanted


@pytest.mark.parametrize("kind", KINDS)
def test_every_day_is_better_at_a_larger_epsilon(planned, kind):
    """The search for the least epsilon rests on it."""
    epsilons = ("0.1", "0.3", "1", "3")
    made = [planned(f"{KINDS[kind]} --days 5 --epsilon {one}")["errors"] for one in epsilons]
    assert (np.diff(made, axis=0) < 0).all()


@pytest.mark.parametrize("epsilon", ["0.03", "0.3", "3", "1 --set privacy.delta=0.0001"])
@pytest.mark.parametrize("statistic", ["p50", "p99", "share<22"])
def test_a_first_day_of_bins_is_a_day_alone(planned, statistic, epsilon):
    """Quantiles and shares of a declared fleet begin with what is planned without days."""
    asked = f"{PAPER}{statistic} --epsilon {epsilon}"
    (alone,) = planned(f"{asked} {DAY}")["statistic_errors"]
    assert planned(f"{asked} --days 2")["errors"][0] == pytest.approx(alone["expected_error"])


def test_bins_of_a_cell_add_up_with_a_half_life_of_a_week(planned):
    """The median of one cell, by hand: eight bins a day, and 0.0375 between the days' shares."""
    units, epsilon, weights = 5000, 0.002, 0.5 ** (np.arange(1, 50) / 7)
    noise = 8 * 2 / epsilon**2 / (2 * units) ** 2
    earlier = noise * (weights**2).sum() / weights.sum() ** 2 + 0.0375**2
    known = 1 / (1 / noise + 1 / earlier) + 0.25 / units
    off = 0.8 * np.sqrt(1 / (1 / known + 1 / 0.12**2) + 0.02**2)
    one = PAPER.replace("--resolution 5 --timeslot 6h", "--resolution 4 --timeslot 1d")
    said = planned(f"{one}p50 --epsilon {epsilon} --days 50")
    assert said["errors"][-1] == pytest.approx(np.sqrt(2 * np.pi) * 0.1 * 60 * off, rel=0.01)


def test_a_share_by_ranks_is_off_as_a_day_alone_predicts(planned):
    """A share moves by 1.5 of a mean rank, and an indicator by itself."""
    days = f"{KINDS['share']} --days 4 --epsilon 1"
    own, ranks = planned(days)["errors"], planned(f"{days} {RANKS}")["errors"]
    assert ranks == pytest.approx([1.5 * error for error in own])


def test_at_a_large_epsilon_weights_of_declared_units_are_what_is_left(planned):
    """Then private presence is off by what a day alone is, less what days learn of it."""
    days = f"{FLEET} --epsilon 100"
    last = planned(f"{days} --days 9")["errors"][-1]
    alone = planned(f"{days} {DAY}")["prediction"]["mean_error"]
    assert 0.7 * alone < last < alone


def test_people_read_what_errors_are_averages_over(planned):
    """A row for some of the days, and for the last."""
    said = planned(f"{FLEET} --days 5 --epsilon 1".replace("--json", ""))
    assert re.search("the traffic in some [0-9]+ cells that are expected to be open.* Day 5", said)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_quantiles_alone_are_a_lower_bound(planned, kind):
    """Quantiles of cells differ by more than the prior says, and by what no mean rank tells."""
    said = planned(f"{KINDS[kind]} --days 2 --epsilon 1".replace("--json", ""))
    assert ("as a lower bound" in said) == (kind == "p50")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"{STATISTIC}mean,p50 --epsilon 1", '"mean", a quantile, a share'),
        (f"{PAPER}p50,share<22 --epsilon 1", '"mean", a quantile, a share'),
        (f"{PAPER}histogram --epsilon 1", '"mean", a quantile, a share'),
        (f"{PAPER}users --epsilon 1", '"mean", a quantile, a share'),
        (f"{STATISTIC}p50 --set plan.estimator=bins --epsilon 1", "measured by bins"),
        (f"{COUNTED} --day-error 0.000001", "no epsilon is expected"),
        (f"{COUNTED} --epsilon 1 --days 0", "from 1 to 366, got 0"),
        (f"{FLEET} --resolution 8 --epsilon 1", "more than 600 cells"),
        (f"{PLACED} --timeslot 1d", "2024-01-01 to 2024-01-03; name a day"),
        (f"{PLACED} --timeslot 6h --set cells.slot=pooled", "select.dates=2024-01-01,2024-01-01"),
        (f"{PLACED} --set select.dates=2024-01-01,2024-01-03", "2024-01-01 to 2024-01-03"),
        (f"{FLEET} --set select.dates=2024-01-01,2024-01-03 --epsilon 1", "2024-01-01 to 2024-"),
    ],
)
def test_what_is_not_remembered_is_refused(planned, options, message):
    """The message says what can be planned, before records are read where that is known."""
    assert message in planned(f"--days 4 {options}")
