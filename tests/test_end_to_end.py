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
ALONE = ("--set", "plan.method=per-cell")


def hexveil(*arguments, cwd):
    """Call the command in a process of its own."""
    command = [sys.executable, "-m", "hexveil", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )


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


PLANNED = [
    # Set, resolution, ε, more; the error, and what the warning names, or that there is none.
    ("warsaw_buses", "5", "1", WITHIN, 8.15, ["too fine", "resolution 4", "with epsilon 2"]),
    ("warsaw_buses", "8", "1", WITHIN, None, ["too fine", "resolution 4"]),
    ("surat_itms", "5", "1", WITHIN, 5.85, ["this grid with epsilon 2"]),
    ("warsaw_buses", "5", "3", WITHIN, 2.94, None),
    ("warsaw_buses", "4", "1", WITHIN, 0.76, None),
    ("surat_itms", "5", "3", WITHIN, 2.2, None),
    # The joint plan's errors are compared with those of cells that are planned alone.
    ("surat_itms", "5", "1", ALONE, 8.27, []),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "resolution", "epsilon", "more", "error", "words"), PLANNED)
def test_real_fleets_are_told_which_grid_they_support(  # noqa: PLR0917  columns of the table
    shared, capfd, name, resolution, epsilon, more, error, words
):
    """The plan has its known error; a grid too fine is told with the grid and ε that would do."""
    file, options = shared / "data" / f"{name}.parquet", {"surat_itms": SURAT}.get(name, WARSAW)
    asked = ("--resolution", resolution, "--epsilon", epsilon, *more, "--json")
    assert main(["plan", str(file), *options, *asked]) == 0
    out, err = capfd.readouterr()
    said = json.loads(out)
    assert err == ""
    assert error is None or said["mean_error"] == pytest.approx(error, abs=0.05)
    if more == WITHIN:
        assert said["beats_constant"] == (words is None)
        assert (said["warning"] is None) == (words is None)
        assert all(word in said["warning"] for word in words or ())
    if resolution == "8":
        assert said["floor"] == pytest.approx(74, rel=0.02)
