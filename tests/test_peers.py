"""The comparison with other libraries: what scripts share, and that the page has its figures."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PEERS = Path(__file__).resolve().parents[1] / "benchmarks" / "peers"


@pytest.fixture
def modules(monkeypatch):
    """Let a test import the scripts of the comparison."""
    monkeypatch.syspath_prepend(PEERS)
    monkeypatch.syspath_prepend(PEERS.parent)
    yield
    for name in ("common", "pages", "run", "works", "big", "collection"):
        sys.modules.pop(name, None)


@pytest.fixture
def work(tmp_path):
    """Return a small set: user 0 has five records in each of four cells, user 1 has one."""
    user, cell = np.array([0] * 20 + [1]), np.array([0, 1, 2, 3] * 5 + [2])
    table = pa.table({"user": user, "cell": cell, "value": 10.0 * cell})
    public = json.dumps({"cells": 4, "lower": 0.0, "upper": 65.0})
    pq.write_table(table.replace_schema_metadata({"public": public}), tmp_path / "w.parquet")
    return tmp_path / "w.parquet"


@pytest.mark.usefixtures("modules")
def test_the_tables_of_the_page_are_those_of_the_results():
    """The page's tables are what is made of the committed results."""
    import pages  # noqa: PLC0415  it is found only here

    page = pages.PAGE.read_text("utf-8")
    assert pages.filled(page, pages.load()) == page


@pytest.mark.usefixtures("modules")
def test_libraries_are_compared_within_a_promise():
    """A table has the constant, then rows of one promise by error, then those of the other."""
    import pages  # noqa: PLC0415  it is found only here

    results = pages.load()
    table = [line.split(" | ") for line in pages.errors(results)][2:]
    promises = [promise for _, promise, *_ in table]
    assert set(promises) == {"", "presence", "values"}
    assert promises == sorted(promises)
    # Within a promise by the errors of all sets, as parts of the constant's.
    constants = [about["constant"] for about in results["sets"].values()]
    errors = [[float(each.split()[0]) for each in cells[:-1]] for _, _, *cells in table]
    shares = [np.log(np.divide(each, constants)).mean() for each in errors]
    places = list(zip(promises, shares, strict=True))
    assert all(one <= other or np.isclose(one[1], other[1], atol=0.01)
               for one, other in itertools.pairwise(places))  # fmt: skip


@pytest.mark.slow
def test_the_short_script_of_the_page_works(tmp_path, monkeypatch):
    """It has at most ten lines, and makes a release that verifies."""
    page = (PEERS.parents[1] / "docs" / "understand" / "other-libraries.md").read_text("utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    assert len([line for line in script.splitlines() if line.strip()]) <= 10
    rng = np.random.default_rng(3)
    plane = np.repeat(np.arange(600), 8)
    records = {
        "tailnum": [f"N{one}" for one in plane],
        "ground speed": rng.uniform(300, 450, plane.size),
        "origin": np.where(plane % 2, "JFK", "LGA"),
        "hour": np.where(np.arange(plane.size) % 4 < 2, "7", "12"),
    }
    pq.write_table(pa.table(records), tmp_path / "flights.parquet")
    monkeypatch.chdir(tmp_path)
    exec(script, {})  # noqa: S102  the page's own lines
    import hexveil as hv  # noqa: PLC0415

    assert hv.verify(tmp_path / "map")["dataset"]["name"] == "flights"


@pytest.mark.usefixtures("modules")
def test_every_way_has_results_and_pinned_versions():
    """Each way stands in the results of its sets, and its library's versions are pinned."""
    import pages  # noqa: PLC0415  it is found only here
    import run  # noqa: PLC0415  it is found only here

    rows = pages.load()["rows"]
    assert {(row["set"], row["name"]) for row in rows} == {
        (which, name) for which in pages.load()["sets"] for name in run.PEERS
    }
    for row in rows:
        assert row["failed"] or (row["errors"] and len(row["errors"]) == len(row["cpu"]))
        given = {name: value for name, value in row["settings"].items() if name != "is_ranged"}
        # How many users are declared is that of the set.
        if "users" not in given:
            assert dict(run.PEERS[row["name"]].settings(row["set"])) == given
        if row["library"] != "hexveil":
            pinned = (PEERS / f"{row['library']}.txt").read_text("utf-8").splitlines()
            assert f"{row['library']}=={row['version']}" in pinned
            assert all("==" in line and "/" not in line for line in pinned)


@pytest.mark.usefixtures("modules")
def test_a_set_is_compared_with_its_true_averages(work):
    """Errors are mean absolute ones over cells in their order."""
    import works  # noqa: PLC0415  it is found only here

    true = works.truth(work)
    assert (true.rows, true.users, true.means.tolist()) == (21, 2, [0.0, 10.0, 20.0, 30.0])
    assert true.error(np.array([0.0, 10.0, 20.0, 34.0])) == 1.0
    assert true.constant == 10.0


@pytest.mark.slow
def test_the_script_of_hexveil_publishes_every_cell(work, tmp_path):
    """A script writes an average within the bounds for each cell, setting and repeat."""
    out = tmp_path / "out.parquet"
    told = ["--settings", '[{"clipping_range": "bounds"}]', "--repeats", "2"]
    subprocess.run([sys.executable, PEERS / "by_hexveil.py", work, out, *told], check=True)
    table = pq.read_table(out)
    assert table["cell"].to_pylist() == [0, 1, 2, 3] * 2
    assert all(0 <= mean <= 65 for mean in table["mean"].to_pylist())
