"""`hexveil inspect`: public facts and what the fleet supports, never a value."""

import json
import tomllib

import pytest


@pytest.mark.slow
def test_inspect_shows_public_facts_and_the_table(here, okay):
    """Vehicles, cells, records and the capacity table are shown; nothing is written."""
    said = okay("inspect run.toml")
    assert "1,200" in said.out
    assert "400 vehicles, each as one privacy unit" in said.out
    assert "  Cells  Vehicles  Floor" in said.out
    assert "without a vehicle" in said.out
    assert "Resolution" in said.out
    assert "yes" in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery", "spark"])
def test_sql_prints_the_query(here, okay, dialect):
    """The query is printed, with clamping and sums of squares; nothing is read."""
    (here / "buses.parquet").unlink()
    said = okay("inspect run.toml --sql", dialect)
    assert "65" in said.out
    assert "select" in said.out.lower()
    mark = "`" if dialect in ("bigquery", "spark") else '"'
    assert f" AS {mark}sum_sq{mark}\n" in said.out
    assert said.err == ""


CHOICES = ("finest", "balanced", "accurate")


@pytest.mark.slow
def test_three_runs_are_proposed_as_lines_of_a_run_file(here, call):
    """Each choice is named, with the expected error; lines are TOML."""
    said = call("inspect run.toml")
    assert "Runs proposed at epsilon 1, as lines of a run file:" in said.out
    assert all(choice in said.out for choice in CHOICES)
    block = said.out.split("# finest")[1].split("\n\n")[0].split("\n", 2)[2]
    assert set(tomllib.loads(block)) == {"cells", "select", "read"}
    runs = json.loads(call("inspect run.toml --json").out)["advice"]["runs"]
    assert tuple(runs) == CHOICES
    for run in runs.values():
        assert 0 < run["raw_error"] < run["baseline_error"]
        assert run["fields"]["cells.resolution"] >= 3
    fields = [f"--set {name}={value}" for name, value in runs["finest"]["fields"].items()]
    planned = json.loads(call("plan run.toml --json", fields).out)
    assert planned["cells"] == runs["finest"]["cells"]
    assert planned["mean_error"] == pytest.approx(runs["finest"]["raw_error"], rel=0.15)
