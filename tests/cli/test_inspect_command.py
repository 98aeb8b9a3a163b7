"""`hexveil inspect`: public facts and what the fleet supports, never a value."""

import json
import sys
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.conftest import use_labels


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


def test_a_query_is_made_for_one_source(here, call):
    """Several sources, or none, are refused in one sentence."""
    text = (here / "run.toml").read_text()
    (here / "run.toml").write_text(text.replace('"buses.parquet"', '["a.parquet", "b.parquet"]'))
    said = call("inspect run.toml --sql spark")
    assert (said.code, said.err) == (
        2,
        "hexveil: a query needs a single source; name one table or file.\n",
    )
    assert call("inspect --sql spark").code == 2


@pytest.mark.slow
def test_labels_are_counted_by_each_choice_of_columns(here, call, okay):
    """Levels of labels are in the table, and one of them is proposed."""
    use_labels(here, "lat", "lon")
    said = okay("inspect run.toml")
    assert "combinations of lat, lon" in said.out
    assert "Resolution" not in said.out
    assert 'cells.labels = ["lat", "lon"]' in said.out
    found = json.loads(call("inspect run.toml --json").out)
    assert [one["labels"] for one in found["capacity"]] == [["lat", "lon"], ["lat"], ["lon"]]
    assert found["proposal"].startswith("proposed: l")


CHOICES = ("finest", "balanced", "accurate")


@pytest.mark.slow
def test_three_runs_are_proposed_as_lines_of_a_run_file(here, call):
    """Each choice is named, with the errors of raw and smoothed estimates; lines are TOML."""
    said = call("inspect run.toml")
    assert "Runs proposed at epsilon 1, as lines of a run file:" in said.out
    assert all(choice in said.out for choice in CHOICES)
    block = said.out.split("# finest")[1].split("\n\n")[0].split("\n", 2)[2]
    assert set(tomllib.loads(block)) == {"cells", "select", "read"}
    runs = json.loads(call("inspect run.toml --json").out)["advice"]["runs"]
    assert tuple(runs) == CHOICES
    for run in runs.values():
        # The raw error is a limit of the smoothed one, which noise far below it reaches.
        assert 0 < run["smoothed_error"] <= run["raw_error"]
        assert run["smoothed_error"] < run["baseline_error"]
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


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--choice finest"], "--choice requires --propose"),
        (["--propose new.toml --choice best"], "--choice must be one of finest,"),
        (["--propose run.toml"], "--propose: 'run.toml' exists already"),
    ],
)
def test_a_proposal_is_refused_before_records_are_read(here, call, options, match):
    """A choice without a file, an unknown one and an existing file are refused."""
    (here / "buses.parquet").unlink()
    said = call("inspect run.toml", options)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert match in said.err


@pytest.mark.slow
def test_where_no_run_would_do_none_is_written(here, call, refuse):
    """The text says what comes nearest; --propose is refused and leaves no file."""
    said = call("inspect run.toml --epsilon 0.0001")
    assert "No proposal" in said.out
    assert "proposed" not in said.out
    refused = refuse("inspect run.toml --epsilon 0.0001 --propose new.toml")
    assert "so that none is written" in refused.err
    assert not (here / "new.toml").exists()


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


@pytest.fixture
def two_columns(here):
    """Give the buses a second value column."""
    table = pq.read_table(here / "buses.parquet")
    pq.write_table(table.append_column("delay", table["speed"]), here / "buses.parquet")
    run = (here / "run.toml").read_text().replace('"speed"', '["speed", "delay"]')
    bounds = "bounds = { speed = [0, 65], delay = [0, 65] }"
    (here / "run.toml").write_text(run.replace("bounds = [0, 65]", bounds))
    return here


def test_a_query_for_each_value_column(two_columns, call):
    """Both are printed, each with its own bounds and name."""
    said = call("inspect run.toml --sql duckdb")
    assert said.out.count("hv.from_sums(table") == 2
    assert "-- 'delay'" in said.out
