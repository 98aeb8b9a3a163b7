"""`hexveil inspect`: public facts and what the fleet supports, never a value."""

import json
import sys
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.mark.slow
def test_inspect_shows_public_facts_and_the_table(here, okay):
    """Users, cells, records and the capacity table are shown; nothing is written."""
    said = okay("inspect run.toml")
    assert "1,200" in said.out
    assert "400" in said.out
    assert "Resolution" in said.out
    assert "yes" in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


@pytest.mark.slow
def test_inspect_shows_the_same_whatever_the_values(here, call):
    """Other values within or beyond the bounds change not one letter: no value is public."""
    before = call("inspect run.toml")
    table = pq.read_table(here / "buses.parquet")
    values = pa.array([float(7919 * k % 301 - 90) for k in range(table.num_rows)])
    pq.write_table(table.set_column(4, "speed", values), here / "buses.parquet")
    assert call("inspect run.toml") == before


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


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES[:1])
def test_a_proposed_run_is_written_and_can_be_planned(here, call, okay, choice):
    """The new file holds the run's own fields and the chosen ones, from any folder."""
    (here / "sub").mkdir()
    asked = ("--propose sub/new.toml --choice", choice, "--json")
    said = okay("inspect run.toml", asked)
    written = tomllib.loads((here / "sub" / "new.toml").read_text())
    runs = json.loads(said.out)["advice"]["runs"]
    fields = {
        f"{s}.{name}": v for s, t in written.items() if isinstance(t, dict) for name, v in t.items()
    }
    assert runs[choice]["fields"].items() <= fields.items()
    assert written["source"] == "../buses.parquet"
    assert written["plan"]["epsilon"] == 1
    planned = json.loads(call("plan sub/new.toml --json").out)
    assert planned["cells"] == runs[choice]["cells"]
    assert planned["mean_error"] == pytest.approx(runs[choice]["raw_error"], rel=0.15)


def test_values_are_checked_on_a_terminal_alone(here, call, okay, monkeypatch):
    """Without a terminal nothing is shown; on one, every line is marked."""
    said = call("inspect run.toml --check-values")
    assert (said.code, said.out) == (2, "")
    assert "on a terminal only" in said.err
    before = sorted(path.name for path in here.iterdir())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    said = okay("inspect run.toml --check-values")
    assert "Clamped by the bounds" in said.out
    assert all(line.startswith("PRIVATE") for line in said.out.splitlines())
    assert max(map(len, said.out.splitlines())) <= 100
    assert sorted(path.name for path in here.iterdir()) == before
    for options in (["--json"], ["--propose new.toml"]):
        said = call("inspect run.toml --check-values", options)
        assert (said.code, said.out) == (2, "")
