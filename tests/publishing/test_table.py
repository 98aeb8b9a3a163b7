"""The released table: its columns, its flags and its units."""

from datetime import UTC, datetime

import numpy as np
import pytest

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing.estimates.table import COLUMNS, build_table
from publishing.setting import SLOT, dataset_of, hexagons, plan_of

NUMBERS = [name for name in COLUMNS if name.startswith("mean_") and name != "mean_quality"]


def rows_of(dataset, plan, noisy):
    """Return the released rows for chosen noisy means."""
    return build_table(plan, dataset.public, {"mean": np.array(noisy, dtype=float)}).to_pylist()


def flags(plan):
    """Return the flag of each cell's mean."""
    middle = {"mean": (plan.lower + plan.upper) / 2}
    return build_table(plan, plan.facts, middle)["mean_quality"].to_pylist()


def one_cell_with_bound(share):
    """Return a plan of one cell whose 95 % bound is that share of its span."""
    dataset = dataset_of([[1]] * 100)
    noise = share * 100 / np.log(20)
    return plan_of(dataset, [1], noise)


@pytest.mark.parametrize(
    ("share", "flag"),
    [(0.01, "good"), (0.0999, "good"), (0.1001, "caution"), (0.2499, "caution"), (0.2501, "noise")],
)
def test_flags_change_at_a_tenth_and_a_quarter_of_the_span(share, flag):
    """A bound within span/10 is good, within span/4 a caution, above it noise."""
    assert flags(one_cell_with_bound(share)) == [flag]


def test_a_constant_is_flagged_as_noise_however_small_its_bound():
    """A cell that keeps nothing says nothing, though its bound is only half of the span."""
    dataset = dataset_of([[1, 1]] * 200)
    plan = plan_of(dataset, [0, 1])
    assert plan.scale[0] == 0
    assert flags(plan) == ["noise", "good"]


def test_flags_use_each_cells_own_span():
    """The same noise in records is judged against the bounds of its own cell."""
    dataset = dataset_of([[1, 1]] * 30)
    plan = plan_of(dataset, [1, 1], 1.0, lower=[0, 0], upper=[60, 6])
    assert flags(plan) == ["good", "good"]
    assert plan.bound95[0] == pytest.approx(10 * plan.bound95[1])


def test_low_and_high_stay_inside_each_cells_bounds():
    """Noise may leave the bounds; raw, low and high never do, and raw lies between them."""
    dataset = dataset_of([[1, 1, 1]] * 4, scale=ValueLattice.of((-20, 60), 1))
    plan = plan_of(dataset, [1, 1, 1], 0.2, lower=[-20, 0, 10], upper=[60, 50, 12])
    rows = rows_of(dataset, plan, [-500.0, 25.0, 500.0])
    for row, low, high in zip(rows, plan.lower, plan.upper, strict=True):
        assert low <= row["mean_low"] <= row["mean_raw"] <= row["mean_high"] <= high
    assert [row["mean_noisy"] for row in rows] == [-500.0, 25.0, 500.0]
    assert [row["mean_raw"] for row in rows] == [-20.0, 25.0, 12.0]
    assert rows[1]["mean_low"] == pytest.approx(25 - plan.bound95[1])
    assert rows[1]["mean_high"] == pytest.approx(25 + plan.bound95[1])


ALL = ("mean", "variance", "sd")


def rows_with_variance(noise, variance, upper=60):
    """Return the released rows of cells whose noisy variance is chosen."""
    n_cells = len(variance)
    dataset = dataset_of([[1] * n_cells] * 4, value_unit="km/h")
    live = np.array(noise) > 0
    made = {"variance_cap": live.astype(np.int64), "variance_noise": np.array(noise)}
    plan = plan_of(dataset, 1, rows=made, statistics=ALL, upper=upper)
    noisy = {"mean": np.full(n_cells, 30.0), "variance": np.array(variance, dtype=float)}
    table = build_table(plan, dataset.public, noisy)
    return plan, table, table.to_pylist()


def test_a_variance_is_clamped_to_a_quarter_of_the_squared_span():
    """Raw, low and high of a variance stay between 0 and U²/4; noisy does not."""
    plan, _, rows = rows_with_variance([0.02, 0.02, 0.02], [-80.0, 450.0, 5000.0])
    bound = plan.error_models["variance"].bound95[0]
    assert [row["variance_noisy"] for row in rows] == [-80.0, 450.0, 5000.0]
    assert [row["variance_raw"] for row in rows] == [0.0, 450.0, 900.0]
    assert [row["variance_low"] for row in rows] == pytest.approx([0, 450 - bound, 900 - bound])
    assert [row["variance_high"] for row in rows] == pytest.approx([bound, 450 + bound, 900])
    assert [row["variance_bound95"] for row in rows] == [bound] * 3
    assert rows[0]["variance_error"] == rows[0]["variance_bias"] + rows[0]["variance_scale"]


def test_a_deviation_is_the_root_of_the_variance():
    """Raw, low and high are roots; the bound is the larger distance to the ends."""
    _, table, rows = rows_with_variance([0.001, 0.02, 0.02], [400.0, 450.0, 0.0])
    for row in rows:
        for key in ("raw", "low", "high"):
            assert row[f"sd_{key}"] == pytest.approx(np.sqrt(row[f"variance_{key}"]))
        reach = max(row["sd_raw"] - row["sd_low"], row["sd_high"] - row["sd_raw"])
        assert row["sd_bound95"] == pytest.approx(reach)
    assert "sd_noisy" not in table.column_names
    assert "sd_scale" not in table.column_names


@pytest.mark.parametrize(
    ("part", "flag"),
    [(0.0999, "good"), (0.1001, "caution"), (0.2499, "caution"), (0.2501, "noise")],
)
def test_flags_of_a_variance_are_judged_against_its_range(part, flag):
    """A bound within a tenth of U²/4 is good, within a quarter a caution."""
    _, _, rows = rows_with_variance([part / 4 / np.log(20)], [400.0])
    assert rows[0]["variance_quality"] == flag


def test_flags_of_a_deviation_follow_its_own_interval():
    """A sharp variance near 0 may have a blunt root: half the span is its range."""
    noise = 0.08 / 4 / np.log(20)  # bound: 0.08 of 900, so 72
    _, _, rows = rows_with_variance([noise, noise, 0.0], [400.0, 0.0, 450.0])
    assert [row["variance_quality"] for row in rows] == ["good", "good", "noise"]
    # 20 is sure to 1.9 of 30; a deviation of 0 only to the root of 72, above a quarter of 30.
    assert [row["sd_quality"] for row in rows] == ["good", "noise", "noise"]


def hours(slot, kind):
    """Return one hexagon in one hour of Warsaw."""
    grid = hv.Cells(7, "1h", "Europe/Warsaw", kind)
    return CellTable(grid, hexagons(1).hexagon, np.array([slot]))


def names_of(cells):
    """Return the columns that say where, and the row, of one cell."""
    dataset = dataset_of([[1]], cells=cells)
    table = build_table(plan_of(dataset, [1]), dataset.public, {"mean": np.zeros(1)})
    where = table.column_names[: table.column_names.index("users")]
    return where, table.to_pylist()[0]


def test_calendar_slots_start_at_an_instant():
    """A calendar slot is named by its local start and end, and has its first instant in UTC."""
    where, row = names_of(hours(SLOT, "calendar"))
    assert where == ["cell", "hexagon", "slot", "slot_end", "starts_at_utc"]
    assert row["slot"] == "2023-11-14T22:00"
    assert row["slot_end"] == "2023-11-14T23:00"
    assert row["starts_at_utc"] == datetime(2023, 11, 14, 21, tzinfo=UTC)
    assert row["cell"] == f"{row['hexagon']}/2023-11-14T22:00"


def test_pooled_slots_have_no_instant():
    """An hour pooled over days has a name but no instant; hexagons alone have no slot."""
    where, row = names_of(hours(23 * 3600, "pooled"))
    assert where == ["cell", "hexagon", "slot", "slot_end"]
    assert (row["slot"], row["slot_end"]) == ("23:00", "00:00")
    where, _ = names_of(CellTable(hv.Cells(7, None), hexagons(1).hexagon))
    assert where == ["cell", "hexagon"]


@pytest.mark.parametrize("unit", ["km/h", ""])
def test_units_of_measure_stand_in_the_metadata(unit):
    """Each number in value units says its unit; counts, names and flags have none."""
    dataset = dataset_of([[1]], value="speed", value_unit=unit)
    table = build_table(plan_of(dataset, [1]), dataset.public, {"mean": np.zeros(1)})
    said = {f.name: f.metadata.get(b"unit", b"").decode() for f in table.schema}
    assert said == {f.name: unit if f.name in NUMBERS else "" for f in table.schema}
    assert table.schema.metadata[b"value"] == b"speed"
    assert all(f.metadata[b"description"] for f in table.schema)
