"""Comparisons and roll-ups of maps with private presence: errors, against exact laws and truth."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from golden_releases import fixed_noise
from publishing.derived.chosen_cells import PARTS, chosen, compared, rolled_up, with_columns
from publishing.releases import release_of, restated, statements_of

SCALE = 20
"""Noise scale of exact laws, in whole units."""


def units(numbers, areas=0, opened=None, request="0", noise="discrete Laplace"):
    """Return a map of numbers of units with these noisy numbers, and what its manifest states."""
    stage = {"stage": "count map", "noise": noise, "scale": float(SCALE * PARTS)}
    areas = np.broadcast_to(areas, np.shape(numbers))
    plan = {"open_from": opened, "stages": [stage]}
    return chosen("users", areas, request, plan, users=numbers, users_noisy=numbers)


def averages(areas, scale=1.0, opened=None, request="0", **columns):
    """Return a map of averages of cells with noisy weights of a scale."""
    *looks, last = statements_of(chosen("mean", [0]))["plan"]["stages"]
    plan = {"open_from": opened, "stages": [*looks, last | {"scale": float(scale * PARTS)}]}
    return chosen("mean", areas, request, plan, **columns)


def law(number, grid):
    """Return the chance of each noisy number on a grid of whole ones, and of all others."""
    decay = np.exp(-1.0 / SCALE)
    return (1 - decay) / (1 + decay) * decay ** np.abs(grid - number)


@pytest.mark.slow
@pytest.mark.parametrize("opened", [None, 5 * SCALE])
def test_a_change_of_units_holds_by_the_exact_law(opened):
    """Every pair of noisy numbers, with its chance: 95 % and more, given that both are seen."""
    grid = np.arange(-7 * SCALE if opened is None else opened, 16 * SCALE)
    first, second = (one.ravel() for one in np.indices((grid.size, grid.size)))
    sides = units(grid[first], opened=opened), units(grid[second], opened=opened, request="1")
    changes, numbers = compared(*sides)
    assert changes.statement["basis"] == "proven"
    found = {}
    for before in (0, 2 * SCALE, 5 * SCALE, 7 * SCALE):
        for after in (0, SCALE, 4 * SCALE, 6 * SCALE, 8 * SCALE):
            chance = law(before, grid)[first] * law(after, grid)[second]
            change = after - before
            is_covered = (numbers["change_low"] <= change) & (numbers["change_high"] >= change)
            is_told = chance[numbers["p_value"] <= 0.05].sum() / chance.sum()
            found[before, after] = chance[is_covered].sum() / chance.sum()
            assert before != after or is_told <= 0.051
    # Noise in whole units of a twentieth of its scale leaves the exact bound by that much.
    assert min(found.values()) > 0.949
    if opened is None:
        assert found[5 * SCALE, 8 * SCALE] < 0.953


def test_an_empty_cell_has_the_chance_of_its_weight():
    """P(Z >= W | Z >= T) by all pairs of halves; 1 at the threshold: the p-value of a change."""
    grid = np.arange(-30 * SCALE, 30 * SCALE + 1)
    total = np.convolve(law(0, grid), law(0, grid))
    sums = np.arange(2 * grid[0], 2 * grid[-1] + 1)
    opened, weights = 6 * SCALE, np.array([6.0, 8.0, 14.0]) * SCALE

    def chances(opened):
        sides = [
            averages([0] * 3, SCALE, opened, request, mean=number, mean_low=number - 0.01,
                     mean_high=number + 0.01, weight=weight)
            for request, number, weight in (("0", 20.0, weights), ("1", 80.0, 1e6))
        ]  # fmt: skip
        return compared(*sides)[1]["p_value"]

    exact = [total[sums >= w].sum() / total[sums >= opened].sum() for w in weights]
    assert chances(opened) == pytest.approx(exact, rel=0.02)
    # A grid in use has no test, so that the chance is that of the noise alone.
    assert chances(None)[0] == pytest.approx(total[sums >= opened].sum(), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["discrete Laplace", "discrete Gaussian"])
def test_sums_of_units_hold(noise):
    """Of 40 cells, half of them nearly empty: in 95 % of 4,000 runs and more, of a fixed seed."""
    rng, runs = np.random.default_rng(8), 4000
    truth = np.tile([0, SCALE // 2, 5 * SCALE, 20 * SCALE], 10)
    draw = rng.normal if noise == "discrete Gaussian" else rng.laplace
    noisy = truth + draw(0.0, SCALE, (runs, truth.size))
    areas = np.repeat(np.arange(runs), truth.size)
    _, numbers = rolled_up(units(noisy.ravel(), areas, noise=noise))
    is_held = (numbers["users_low"] <= truth.sum()) & (truth.sum() <= numbers["users_high"])
    assert np.mean(is_held) > 0.945
    assert abs(numbers["users"].mean() - truth.sum()) < 10.0


def test_a_number_of_one_cell_keeps_its_bound():
    """A lone cell's noise is the one number that it has."""
    _, numbers = rolled_up(units([90.0]))
    assert numbers["users_bias"].tolist() == [0.0]
    assert numbers["users_noise95"] == pytest.approx(SCALE * np.log(20), rel=1e-6)


def alone(areas, number=50.0, half=40.0, weight=1e4, **columns):
    """Return averages of heavy cells with intervals of a half width."""
    given = {"mean": number, "mean_low": number - half, "mean_high": number + half}
    weights = {"weight": weight, "weight_noisy": weight, "weight_low": weight - 1.0}
    return rolled_up(averages(areas, **given | weights | columns))[1]


@pytest.fixture(scope="module")
def clipping():
    """Return the part of an average's error that clipping has, the same in all cells, by side."""
    sides = [float(alone([0], **{end: 50.0})["mean_bias"][0]) for end in ("mean_high", "mean_low")]
    assert all(0.1 < side < 10.0 for side in sides)
    return sides


def test_averages_of_open_cells_hold(clipping):
    """Noise is each cell's own, clipping that of the map: in 95 % of 600 maps of 60 cells."""
    rng, runs, n, shared = np.random.default_rng(3), 600, 60, min(clipping) / 1.96
    weight = 20.0 * rng.lognormal(0.0, 1.0, n)
    truth = np.clip(40.0 + 3.0 * shared * rng.normal(size=n), 20.0, 60.0)
    spread, shape = 25.0 * shared / weight, (runs, n)
    number = truth + spread * rng.normal(size=shape) + shared * rng.normal(size=(runs, 1))
    half = np.broadcast_to(1.96 * np.hypot(spread, shared), shape)
    noisy = weight + rng.laplace(size=(2, *shape)).sum(axis=0)
    columns = {"mean": number, "mean_low": number - half, "mean_high": number + half}
    columns |= {"weight_noisy": noisy, "weight": noisy, "weight_low": np.maximum(noisy - 4.12, 0.0)}
    columns = {name: column.ravel() for name, column in columns.items()}
    _, numbers = rolled_up(averages(np.repeat(np.arange(runs), n), **columns))
    goal, total = np.average(truth, weights=weight), weight.sum()
    assert 0.95 <= np.mean((numbers["mean_low"] <= goal) & (goal <= numbers["mean_high"])) <= 0.99
    assert np.mean((numbers["weight_low"] <= total) & (total <= numbers["weight_high"])) >= 0.94
    # As wide as clipping is, and hardly wider.
    assert np.median(numbers["mean_high"] - numbers["mean_low"]) < 1.3 * sum(clipping)


def test_an_average_of_one_cell_is_the_cell(clipping):
    """A lone cell keeps its interval; of cells alike noise averages out, clipping does not."""
    (below, above), zeros, first = clipping, np.zeros(400, dtype=int), np.arange(400) < 1
    half = 2.0 * max(clipping)
    one = alone(np.arange(400), half=half)
    assert one["mean_low"] == pytest.approx(50.0 - half)
    assert one["mean_high"] == pytest.approx(50.0 + half)
    together = alone(zeros, half=half)
    assert together["mean_low"] == pytest.approx(50.0 - below - (half - below) / 20)
    assert together["mean_high"] == pytest.approx(50.0 + above + (half - above) / 20)
    assert together["mean_bias"] == pytest.approx(max(clipping))
    # An end at the bound is bias, and averaged in full.
    far = alone(zeros, half=half, mean_high=100.0)
    assert far["mean_bias"] == pytest.approx(50.0)
    assert far["mean_low"] == together["mean_low"]
    # Of a cell that noise opened all of its weight may be missing: its number counts for nothing.
    low = np.where(first, 0.0, 1e4 - 1.0)
    higher = alone(zeros, np.where(first, 90.0, 50.0), half, weight_low=low)
    assert higher["mean_bias"] == pytest.approx(below + 40.0 / 400, rel=0.01)


# ---- releases and folders ----

SPEEDS = {"before": 30.0, "after": 52.0}
CARS = {
    "user": "car", "value": "speed", "bounds": (0, 100), "quantum": "0.1", "value_unit": "km/h",
    "lat": "lat", "lon": "lon", "protect": "presence",
    "cells": hv.Cells(5, None, area=(20.3, 51.8, 21.7, 52.6)),
}  # fmt: skip
STATISTICS = ("mean", "p50", "share<40", "histogram", "users")


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Return two maps of averages, two of distributions beside numbers of units, two of units."""
    made, book = {}, tmp_path_factory.mktemp("maps") / "ledger.sqlite"
    ledger = hv.Ledger(str(book), dataset="cars", budget=100)
    for seed, (name, speed) in enumerate(SPEEDS.items()):
        rng = np.random.default_rng(seed)
        unit = np.arange(6000) % 2000
        records = pa.table(
            {
                "car": unit.astype(str),
                "speed": np.clip(speed + 5 * rng.normal(size=unit.size), 0, 100),
                "lat": 52.2 + 0.08 * rng.normal(size=unit.size),
                "lon": 21.0 + 0.12 * rng.normal(size=unit.size),
            }
        )
        dataset = hv.read(records, **CARS, statistics=STATISTICS)
        fleet = hv.FleetDeclaration(2000, 3, 2)
        for kind in ("mean", STATISTICS, "users"):
            plan = hv.plan(dataset, epsilon=6, fleet=fleet, statistics=kind, edition=name)
            with fixed_noise():
                release = hv.release(dataset, plan, ledger=ledger, accept_noise=True)
            made.setdefault(kind, []).append(release)
    return made


def test_maps_are_compared_cell_by_cell(maps):
    """The difference of published numbers in cells open in both, by square-and-add; all higher."""
    before, after = maps["mean"]
    made = hv.compare_releases(before, after)
    rows = {row["cell"]: row for row in before}, {row["cell"]: row for row in after}
    both = [
        (rows[0][c], rows[1][c]) for c in rows[0] if rows[0][c]["is_open"] and rows[1][c]["is_open"]
    ]
    assert len(made) == len(both) > 10
    for row, (a, b) in zip(made.table.to_pylist(), both, strict=True):
        assert row["change"] == pytest.approx(b["mean"] - a["mean"])
        below = np.hypot(b["mean"] - b["mean_low"], a["mean_high"] - a["mean"])
        assert row["change_low"] == pytest.approx(row["change"] - below)
        assert (row["weight_before"], row["weight_after"]) == (a["weight"], b["weight"])
    assert made.verdicts["lower"] == 0
    assert made.verdicts["higher"] > len(made) // 3
    statement = made.statement
    assert statement["model"] == "presence"
    assert statement["procedure"] == "Benjamini-Yekutieli"
    assert statement["basis"] == "model"
    assert "noise alone opened neither" in statement["covers"]
    assert "which vehicles reported" in statement["not_covered"]
    closed = sum(not row["is_open"] for row in before)
    assert statement["cells"]["only_after"] <= closed


def test_a_cell_that_may_be_empty_is_left_blank(maps):
    """A cell whose weight noise alone could have is not told, however far its average is off."""
    before, after = maps["mean"]
    sure = hv.compare_releases(before, after)
    opened = statements_of(before)["plan"]["open_from"]
    barely = [opened if row["is_open"] else None for row in before]
    made = hv.compare_releases(with_columns(before, weight=barely), after)
    assert made.table["change"].equals(sure.table["change"])
    assert min(made.table["p_value"].to_pylist()) == pytest.approx(1.0)
    assert made.verdicts["higher"] == 0


@pytest.mark.parametrize("statistic", ["mean", "p50", "share<40", "histogram_09", "users"])
def test_each_statistic_of_a_map_is_compared(maps, statistic):
    """Medians, shares, bins and numbers of units; changes have the range of the statistic."""
    made = hv.compare_releases(*maps[STATISTICS], statistic=statistic)
    column = {"share<40": "share_below_40"}.get(statistic, statistic)
    assert made.statement["statistic"] == column
    change = made.table["change"].to_numpy()
    is_share = statistic.startswith(("share", "histogram"))
    assert is_share == bool(np.abs(change).max() <= 1.0)
    if statistic in ("mean", "p50"):
        assert made.verdicts["higher"] > made.verdicts["lower"] == 0
    if statistic == "users":
        assert made.statement["procedure"] == "Benjamini-Hochberg"
        assert made.statement["basis"] == "proven"


@pytest.mark.slow
def test_maps_are_rolled_up(maps):
    """By noisy weights, within the errors of the cells; numbers of units add up."""
    first = maps["mean"][0]
    cells = [row for row in first if row["is_open"]]
    made = hv.roll_up(first, resolution="all", timeslot="all")
    (row,) = made.table.to_pylist()
    weights = np.array([one["weight"] for one in cells])
    assert row["mean"] == pytest.approx(np.average([one["mean"] for one in cells], weights=weights))
    assert row["cells"] == len(cells)
    assert row["weight"] == pytest.approx(weights.sum())
    assert row["mean_low"] <= SPEEDS["before"] <= row["mean_high"]
    # Of clipping, which does not average out.
    assert row["mean_bias"] > 0.5
    assert made.statement["closed_cells"] == len(first) - len(cells)
    assert "fingerprint" not in made.statement["grid"]
    parents = hv.roll_up(maps[STATISTICS][0], resolution=4, statistic="share<40")
    assert set(parents.table.column_names) >= {"share_below_40", "share_below_40_low", "weight"}
    # Errors of shares are averaged in full.
    shares = [row for row in maps[STATISTICS][0] if row["is_open"]]
    coarse = hv.roll_up(maps[STATISTICS][0], resolution="all", statistic="share<40")
    (row,) = coarse.table.to_pylist()
    weights = [one["weight_noisy"] for one in shares]
    assert row["share_below_40_low"] <= 1e-9 + np.average(
        [one["share_below_40_low"] for one in shares], weights=weights
    )
    alone = hv.roll_up(maps["users"][0], resolution=3)
    open_units = [one["users"] for one in maps["users"][0] if one["is_open"]]
    assert sum(alone.table["users"].to_pylist()) == pytest.approx(sum(open_units))
    both = [hv.roll_up(one, resolution=3) for one in maps["users"]]
    changes = hv.compare_releases(*both)
    assert changes.statement["statistic"] == "users"
    assert changes.table.column_names[:3] == ["hexagon", "before", "after"]


def test_refusals_of_maps_are_sentences(maps, tmp_path):
    """Models apart, medians of coarser cells, missing statistics, other caps, nothing open."""
    first, second = maps["mean"]
    values = release_of(tmp_path / "values", "means")
    with pytest.raises(hv.InputError, match="protects values and the other one presence"):
        hv.compare_releases(first, values)
    with pytest.raises(hv.InputError, match="the median of coarser cells does not follow"):
        hv.roll_up(maps[STATISTICS][0], resolution="all", timeslot="all", statistic="p50")
    with pytest.raises(hv.InputError, match="has no users; it has mean"):
        hv.roll_up(first, resolution="all", timeslot="all", statistic="users")
    with pytest.raises(hv.InputError, match="has no p50; it has mean"):
        hv.compare_releases(first, second, statistic="p50")
    with pytest.raises(hv.InputError, match="name one bin, histogram_01 to histogram_20"):
        hv.compare_releases(*maps[STATISTICS], statistic="histogram")
    medians = restated(first, plan=statements_of(first)["plan"] | {"statistics": ["p50"]})
    with pytest.raises(hv.InputError, match="the median of coarser cells does not follow"):
        hv.roll_up(medians, resolution="all", timeslot="all")
    units = maps["users"]
    plan = statements_of(units[1])["plan"] | {"user_cap": "7 cells"}
    capped = restated(units[1], plan=plan)
    with pytest.raises(hv.InputError, match="plan/cell_cap: 2 and 7"):
        hv.compare_releases(units[0], capped)
    closed = with_columns(first, is_open=False)
    with pytest.raises(hv.InputError, match="no cell of the release of cars is open"):
        hv.roll_up(closed, resolution="all", timeslot="all")
    with pytest.raises(hv.InputError, match="no cell of the release of cars is open"):
        hv.compare_releases(second, closed)
