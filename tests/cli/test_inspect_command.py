"""`hexveil inspect`: public facts and what the fleet supports, never a value."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.conftest import use_labels


def test_inspect_shows_public_facts_and_the_table(here, call):
    """Users, cells, records and the capacity table are shown; nothing is written."""
    said = call("inspect", "run.toml")
    assert said.code == 0, said.err
    assert "1,200" in said.out
    assert "400" in said.out
    assert "Resolution" in said.out
    assert "yes" in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


def test_inspect_shows_the_same_whatever_the_values(here, call):
    """Other values within or beyond the bounds change not one letter: no value is public."""
    before = call("inspect", "run.toml")
    table = pq.read_table(here / "buses.parquet")
    values = pa.array([float(7919 * k % 301 - 90) for k in range(table.num_rows)])
    pq.write_table(table.set_column(4, "speed", values), here / "buses.parquet")
    assert call("inspect", "run.toml") == before


def test_without_epsilon_grids_are_compared_at_one(here, call):
    """The comparison needs no price of its own."""
    (here / "run.toml").write_text((here / "run.toml").read_text().replace("epsilon = 1", ""))
    assert json.loads(call("inspect", "run.toml", "--json").out)["epsilon"] == "1"
    assert "at epsilon 3 " in call("inspect", "run.toml", "--epsilon", "3").out


def test_json(here, call):
    """--json holds the same facts."""
    said = json.loads(call("inspect", "run.toml", "--json").out)
    assert (said["users"], said["cells"], said["records"]) == (400, 3, 1200)
    assert {offer["resolution"] for offer in said["capacity"]} == {3, 4, 5, 6, 7}


def test_bounds_are_asked_for(here, call):
    """Bounds come from public knowledge; they are asked for, never proposed."""
    (here / "run.toml").write_text((here / "run.toml").read_text().replace("bounds = [0, 65]", ""))
    said = call("inspect", "run.toml")
    assert said.code == 2
    assert said.err == "hexveil: bounds (in [values], or --bounds) is needed.\n"


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "bigquery", "spark"])
def test_sql_prints_the_query(here, call, dialect):
    """The query is printed, with clamping and sums of squares; nothing is read."""
    (here / "buses.parquet").unlink()
    said = call("inspect", "run.toml", "--sql", dialect)
    assert said.code == 0, said.err
    assert "65" in said.out
    assert "select" in said.out.lower()
    mark = "`" if dialect in ("bigquery", "spark") else '"'
    assert f"SUM(rounded_value * rounded_value) AS {mark}sum_sq{mark}\n" in said.out
    assert said.err == ""


def test_an_unknown_dialect_is_named(here, call):
    """A dialect that is not offered is refused."""
    said = call("inspect", "run.toml", "--sql", "oracle")
    assert said.code == 2
    assert "oracle" in said.err


def test_a_query_is_made_for_one_source(here, call):
    """Several sources, or none, are refused in one sentence."""
    text = (here / "run.toml").read_text()
    (here / "run.toml").write_text(text.replace('"buses.parquet"', '["a.parquet", "b.parquet"]'))
    said = call("inspect", "run.toml", "--sql", "spark")
    assert (said.code, said.err) == (
        2,
        "hexveil: a query needs a single source; name one table or file.\n",
    )
    assert call("inspect", "--sql", "spark").code == 2


def test_labels_are_counted_by_each_choice_of_columns(here, call):
    """Levels of labels are in the table, and one of them is proposed."""
    use_labels(here, "lat", "lon")
    said = call("inspect", "run.toml")
    assert said.code == 0, said.err
    assert "combinations of lat, lon" in said.out
    assert "Resolution" not in said.out
    assert "unit user: 3 cells, error 0.49, baseline error 2.3." in " ".join(said.out.split())
    found = json.loads(call("inspect", "run.toml", "--json").out)
    assert [one["labels"] for one in found["capacity"]] == [["lat", "lon"], ["lat"], ["lon"]]
    assert found["proposal"].startswith("proposed: l")


def test_a_cache_stands_beside_the_run_file_and_changes_nothing(here, call):
    """With a cache the same facts are shown; without a version it is refused in one sentence."""
    before = call("inspect", "run.toml")
    said = call("inspect", "run.toml", "--cache", "sums")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "cache needs a version" in said.err
    with (here / "run.toml").open("a") as file:
        file.write('[read]\nversion = { "*.parquet" = "1" }\ncache = "sums"\n')
    assert call("inspect", "run.toml") == before
    assert len(list((here / "sums").glob("*.entry"))) == 1
    assert call("inspect", "run.toml") == before
