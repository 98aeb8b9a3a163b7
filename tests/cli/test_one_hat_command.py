"""One HAT and maps by mechanisms of one cell: the command from records to a verified folder."""

import csv

import pyarrow.parquet as pq
import pytest

from publishing.releases import said as manifest_of

HAT = ("hat.csv --user bus --value speed --bounds 0,65 --set cells.one_cell=true",)
LEDGER = (
    "--ledger ledger.sqlite --dataset hat --set ledger.budget=5",
    "--set release.accept_noise=true",
)
QUICK = ("Levy(gamma=0.2)", "Auto(trials=16)")
MECHANISMS = ("OptimalClipping()", 'ArrayAveraging("best_fit", 3)', "FixedQuantile(0.2, 0.8)")
"""The others are released by test_cell_mechanisms.py."""


@pytest.fixture
def hat(tmp_path, monkeypatch):
    """Stand in a folder with a table of buses and speeds."""
    rows = [(f"bus {k}", 15 + k % 23) for k in range(120) for _ in range(1 + k % 7)]
    with (tmp_path / "hat.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("bus", "speed"), *rows])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "mechanism", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS)]
)
def test_one_hat_from_records_to_a_verified_folder(mechanism, hat, call, okay):
    """Planned, released, verified and replayed; the manifest names mechanism, stages and costs."""
    by = ("--epsilon 2 --set plan.method=per-cell", f"--set 'plan.mechanism={mechanism}'")
    okay("plan", HAT, by, "--json")
    okay("release", HAT, by, LEDGER, "--out map --json")
    okay("verify map --json")
    manifest = manifest_of(hat / "map")
    assert manifest["plan"]["method"] == "per-cell"
    assert 0 < float(manifest["guarantee"]["epsilon_spent"]) <= 2
    (cell,) = manifest["cells"]
    (step,) = manifest["plan"]["privacy_steps"]
    if step["step"] == "cell_stages":
        assert sum(float(stage["epsilon"]) for stage in step["stages"]) == pytest.approx(2)
        assert ("released_range" in cell["noised"][0]) == (len(step["stages"]) > 1)
    again = call("release", HAT, by, LEDGER, "--out again")
    assert "at no cost" in again.out
    tables = [pq.read_table(hat / name / "cells.parquet") for name in ("map", "again")]
    assert tables[0].equals(tables[1])
