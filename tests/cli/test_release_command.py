"""`hexveil release`: once, again, too much; and ids that are hard to keep apart."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.mark.slow
def test_a_release_writes_its_folder_and_says_so(here, call):
    """A release names its price, its ledger and every file."""
    said = call("release", "run.toml")
    assert said.code == 0, said.err
    assert "a factor of at most 2.72." in " ".join(said.out.split())
    assert "booked" in said.out
    for path in (here / "map").iterdir():
        assert path.name in said.out
    assert said.err == ""


@pytest.mark.slow
def test_the_same_request_again_costs_nothing(here, call):
    """A repeated request returns the same numbers, books nothing and says so, under any title."""
    assert call("release", "run.toml").code == 0
    assert "GeoNames" in (here / "map" / "report.html").read_text()
    before = (here / "ledger.sqlite").read_bytes()
    for number in range(3):
        titled = (
            "--set",
            f"release.title=Buses <{number}>",
            "--set",
            "release.subtitle=at eight",
            "--set",
            "release.hide_geography=true",
        )
        said = call("release", "run.toml", "--out", f"again-{number}", *titled)
        page = (here / f"again-{number}" / "report.html").read_text()
        assert f"<h1>Buses &lt;{number}&gt;</h1>" in page
        assert "at eight" in page
        assert "GeoNames" not in page
        assert said.code == 0, said.err
        assert "at no cost" in said.out
    assert (here / "ledger.sqlite").read_bytes() == before
    first, last = (pq.read_table(here / name / "cells.parquet") for name in ("map", "again-2"))
    # Geography that is hidden names no cell.
    assert last["name"].to_pylist() == first["hexagon"].to_pylist()
    assert last.drop_columns("name").equals(first.drop_columns("name"))


@pytest.mark.slow
def test_the_same_request_from_elsewhere_is_the_same(here, call, monkeypatch, tmp_path_factory):
    """Where a person stands when releasing does not make it another request."""
    assert call("release", "run.toml").code == 0
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    said = call("release", here / "run.toml", "--out", "again")
    assert said.code == 0, said.err
    assert "at no cost" in said.out


@pytest.mark.slow
def test_the_budget_refuses_with_exit_3(here, call):
    """What would exceed the budget is refused in one sentence; nothing is written."""
    assert call("release", "run.toml").code == 0
    said = call("release", "run.toml", "--out", "two", "--epsilon", "1.5")
    assert said.code == 3
    assert said.err.count("\n") == 1
    assert not (here / "two").exists()
    said = call("release", "run.toml", "--out", "two", "--epsilon", "0.9")
    assert said.code == 0, said.err


@pytest.mark.slow
def test_a_deviation_under_a_private_interval(here, call):
    """The command plans, books once and writes it; the folder verifies and names all steps."""
    out = here / "map"
    asked = (
        "--set",
        "plan.clipping_range=private",
        "--set",
        "plan.statistics=mean,sd",
        "--epsilon",
        "8",
    )
    said = call("plan", "run.toml", *asked)
    assert said.code == 0, said.err
    said = call("release", "run.toml", *asked, "--set", "ledger.budget=8", "--out", str(out))
    assert said.code == 0, said.err
    assert call("verify", str(out)).code == 0
    assert call("dossier", str(out)).code == 0
    table = pq.read_table(out / "cells.parquet")
    # In every cell speeds are ten numbers in a row, each as often: their deviation is 2.87 km/h.
    # Of 2,000 releases all said less than 5.5; a constant is 23.
    assert all(0 <= one < 12 for one in table["sd_raw"].to_pylist())
    interval, cells = json.loads((out / "manifest.json").read_text())["plan"]["privacy_steps"]
    assert 0 < interval["radius"] <= 65
    assert 0 < cells["mean_share"] < 1
    page = (out / "report.html").read_text()
    assert "one range found privately for all cells" in page


@pytest.mark.slow
def test_steps_are_released_once_and_answered_again(here, call):
    """With steps in the run file: booked once, replayed with smoothed at no cost, in one place."""
    run = (here / "run.toml").read_text().replace("budget = 2", "budget = 8")
    (here / "run.toml").write_text(
        run.replace("epsilon = 1", 'epsilon = 8\nclipping_range = "per-cell"')
    )
    first = call("release", "run.toml", "--json")
    assert first.code == 0, first.err
    assert json.loads(first.out)["epsilon"] <= 8
    second = call(
        "release", "run.toml", "--json", "--out", "two", "--set", "release.estimates=raw,smoothed"
    )
    assert second.code == 0, second.err
    assert json.loads(second.out)["replayed"] is True
    one, two = (pq.read_table(here / name / "cells.parquet") for name in ("map", "two"))
    assert one["mean_noisy"].equals(two["mean_noisy"])
    assert "mean_smoothed" in two.column_names
    for name in ("map", "two"):
        assert call("verify", name).code == 0
        assert call("dossier", name).code == 0
    refused = call("release", "run.toml", "--epsilon", "7.9", "--out", "three")
    assert refused.code == 3
    assert not (here / "three").exists()


def test_a_release_asks_for_ledger_and_budget(here, call):
    """Ledger and data set are asked for in one sentence; the budget where the ledger is new."""
    options = ("--user", "bus", "--value", "speed", "--lat", "lat", "--lon", "lon")
    asked = ("release", "buses.parquet", *options, "--bounds", "0,65", "--out", "map")
    said = call(*asked)
    assert said.code == 2
    assert "--ledger" in said.err
    assert "--dataset" in said.err
    more = (
        "--ledger",
        "new.sqlite",
        "--dataset",
        "b",
        "--epsilon",
        "1",
        "--set",
        "release.accept_noise=true",
    )
    new = call(*asked, *more, "--resolution", "6", "--timeslot", "none")
    assert new.code == 2
    assert "name its budget" in new.err
    assert not (here / "map").exists()
    said = call("release", "buses.parquet", *options)
    assert said.code == 2
    assert "--out" in said.err


@pytest.mark.slow
def test_json(here, call):
    """--json prints one object and nothing else."""
    said = call("release", "run.toml", "--json")
    assert said.code == 0, said.err
    text = json.loads(said.out)
    assert text["replayed"] is False
    assert text["epsilon"] <= 1
    assert any(name.endswith("report.html") for name in text["files"])
    again = json.loads(call("release", "run.toml", "--json", "--out", "two").out)
    assert again["replayed"] is True


IDS = ["1", "01", "001", "a/b", "a,b", 'a"b', "a'b", "a;b", "å", "a\u030a", "A", "a", " a", "a\n"]


@pytest.mark.slow
def test_ids_are_kept_apart_and_intact(here, call):
    """Separators, quotes, Unicode and leading zeros make different users."""
    rows = [
        {"bus": name, "lat": 21.1, "lon": 72.75, "time": 1_640_000_000 + k, "speed": 5.0}
        for name in IDS
        for k in range(2)
    ]
    pq.write_table(pa.Table.from_pylist(rows), here / "buses.parquet")
    said = call("inspect", "run.toml", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["users"] == len(IDS)


@pytest.mark.slow
def test_rows_without_a_place_are_dropped_by_rule(here, call):
    """NaN and latitude 95 among good rows are left out and counted, not an abort."""
    table = pq.read_table(here / "buses.parquet")
    lat, lon = table["lat"].to_pylist(), table["lon"].to_pylist()
    speed = table["speed"].to_pylist()
    lat[0], lat[1], lon[2], speed[3], speed[4] = 95.0, float("nan"), 200.0, float("nan"), None
    for name, values in (("lat", lat), ("lon", lon), ("speed", speed)):
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    pq.write_table(table, here / "buses.parquet")
    said = call("inspect", "run.toml", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["records"] == table.num_rows - 5
    assert call("release", "run.toml").code == 0


@pytest.mark.slow
def test_a_process_of_its_own_says_the_same(here, spawn):
    """The installed command behaves as in the tests: clean stderr, exit codes."""
    done = spawn("release", "run.toml", cwd=here)
    assert (done.code, done.err) == (0, "")
    done = spawn("release", "run.toml", "--out", "b", "--epsilon", "0", cwd=here)
    assert done.code == 2
    assert done.err == "hexveil: epsilon must be positive and finite, got 0.\n"
    assert spawn("release", "run.toml", "--out", "c", "--epsilon", "1.9", cwd=here).code == 3


@pytest.mark.slow
def test_a_release_says_that_it_opens_an_account(here, call):
    """With its budget; a second release does not, and a name much like it is refused."""
    said = call("release", "run.toml")
    assert "Account            opened 'buses' with a new budget: epsilon" in said.out
    again = call("release", "run.toml", "--out", "again")
    assert "opened" not in again.out
    other = call("release", "run.toml", "--out", "other", "--dataset", "Buses")
    assert other.code == 2
    assert "--set ledger.accept_similar_name=true" in other.err
    assert not (here / "other").exists()
    accepted = (
        "--dataset",
        "Buses",
        "--set",
        "ledger.accept_similar_name=true",
        "--set",
        "plan.edition=2",
    )
    assert "opened 'Buses'" in call("release", "run.toml", "--out", "other", *accepted).out
