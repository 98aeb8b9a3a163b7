"""From a file of real records to a report, by the command."""

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from hexveil.cli import main

COLUMNS = ("--user", "user_id", "--value", "value", "--lat", "lat", "--lon", "lon")
SURAT = (
    *COLUMNS, "--time", "timestamp", "--bounds", "0,65", "--set", "values.value_unit=km/h",
    "--timezone", "Asia/Kolkata", "--set", "cells.slot=pooled", "--timeslot", "1h",
)  # fmt: skip
WARSAW = (
    *COLUMNS, "--time", "timestamp", "--bounds", "0,90", "--set", "values.value_unit=km/h",
    "--timezone", "Europe/Warsaw", "--timeslot", "1h",
)  # fmt: skip


WITHIN = ("--set", "plan.clipping_range=bounds")
"""Errors without a private range are known exactly, from counts alone."""


def hexveil(*arguments, cwd):
    """Call the command in a process of its own."""
    command = [sys.executable, "-m", "hexveil", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture
def plan(shared, capfd):
    """Return what the plan of real records says, for machines."""

    def planned(name, options, *chosen):
        capfd.readouterr()
        file = shared / "data" / f"{name}.parquet"
        assert main(["plan", str(file), *options, *chosen, "--json"]) == 0
        out, err = capfd.readouterr()
        assert err == ""
        return json.loads(out)

    return planned


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "chosen"),
    [
        ("surat_itms", SURAT, ("--resolution", "5", "--epsilon", "3")),
        ("warsaw_buses", WARSAW, ("--resolution", "4", "--epsilon", "1")),
    ],
)
def test_real_records_become_a_map_in_one_command(shared, tmp_path, name, options, chosen):
    """Surat and Warsaw go from file to report at a grid and price they support."""
    account = ("--ledger", "book.sqlite", "--dataset", name, "--set", "ledger.budget=3")
    file = shared / "data" / f"{name}.parquet"
    done = hexveil("release", file, *options, *chosen, *account, "--out", "map", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    names = {path.name for path in (tmp_path / "map").iterdir()}
    expected = {"cells.parquet", "cells.csv", "cells.geojson", "report.html", "manifest.json"}
    assert expected | {"README.txt"} <= names
    for file_name in names:
        assert file_name in done.stdout
    cells = pq.read_table(tmp_path / "map" / "cells.parquet")
    assert cells.num_rows > 1
    assert {"cell", "hexagon", "slot", "users", "records", "mean_noisy"} <= set(cells.column_names)
    assert str(tmp_path) not in (tmp_path / "map" / "manifest.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("resolution", "floor"), [(5, 1.5), (8, 74)])
def test_warsaw_is_told_which_grid_it_supports(plan, resolution, floor):
    """At a price of 1, resolutions from 5 on are too fine for Warsaw's fleet, and 4 is named."""
    chosen = ("--resolution", str(resolution), "--epsilon", "1")
    said = plan("warsaw_buses", WARSAW, *chosen, *WITHIN)
    assert not said["beats_constant"]
    assert said["floor"] == pytest.approx(floor, rel=0.02)
    assert "too fine" in said["warning"]
    assert "resolution 4" in said["warning"]
    if resolution == 5:
        assert said["mean_error"] == pytest.approx(8.15, abs=0.05)
        assert "this grid with epsilon 2" in said["warning"]


@pytest.mark.slow
def test_surat_is_told_which_price_it_needs(plan):
    """At a price of 1, resolution 5 is too fine for Surat's fleet; 2 would do."""
    said = plan("surat_itms", SURAT, "--resolution", "5", "--epsilon", "1", *WITHIN)
    assert not said["beats_constant"]
    assert said["mean_error"] == pytest.approx(5.85, abs=0.05)
    assert "this grid with epsilon 2" in said["warning"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "error"), [("surat_itms", SURAT, 8.27), ("warsaw_buses", WARSAW, 11.24)]
)
def test_cells_planned_alone_have_their_known_errors(plan, name, options, error):
    """The joint plan's errors are compared with these, at resolution 5 and a price of 1."""
    chosen = ("--resolution", "5", "--epsilon", "1", "--set", "plan.method=per-cell")
    assert plan(name, options, *chosen)["mean_error"] == pytest.approx(error, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "resolution", "epsilon", "error"),
    [
        ("warsaw_buses", WARSAW, "5", "3", 2.94),
        ("warsaw_buses", WARSAW, "4", "1", 0.76),
        ("surat_itms", SURAT, "5", "3", 2.2),
    ],
)
def test_a_grid_that_is_supported_gets_a_yes(plan, name, options, resolution, epsilon, error):
    """Where the price or the grid suits the fleet, the plan does not warn."""
    said = plan(name, options, "--resolution", resolution, "--epsilon", epsilon, *WITHIN)
    assert said["beats_constant"]
    assert said["mean_error"] == pytest.approx(error, abs=0.05)
    assert said["warning"] is None
