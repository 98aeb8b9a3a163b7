"""What benchmarks measure in common, the sets they measure, and that pages have their figures."""

import importlib
import itertools
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from source_trees import ROOT

FOLDER = ROOT / "benchmarks"
PEERS = FOLDER / "peers"
JUDGING = "aircraft city-hours count-correlated rare-outliers uneven-spread warsaw-6 warsaw-6-hour "
JUDGING += "warsaw-lines noise-levels parked particle-counts surat-7-halves two-fleets warsaw-7 "
JUDGING += "weekday-hour"
"""Sets that no constant was chosen on. They may leave this list."""


@pytest.fixture(scope="module")
def load():
    """Return what imports a script of benchmarks/ by its name; nothing stays imported."""
    before, path = set(sys.modules), list(sys.path)
    sys.path[:0] = [str(FOLDER), str(PEERS)]
    yield importlib.import_module
    sys.path[:] = path
    for name in (set(sys.modules) - before) & {file.stem for file in FOLDER.rglob("*.py")}:
        del sys.modules[name]


# ---- sets of records: their division, and records that are the same each time ----


def test_the_division_is_the_one_that_was_written(load):
    """At least twelve sets judge, and they are those of the list; final sets are others."""
    collection, sets = load("collection"), load("interval_sets")
    named = {
        kind: {one.name for one in collection.selected(kind)}
        for kind in ("judging", "tuning", "goal")
    }
    assert named["judging"] == set(JUDGING.split())
    assert named["goal"] == set(collection.GOALS)
    every = {one.name for one in collection.COLLECTION.values()}
    assert every - named["judging"] == named["tuning"] | named["goal"]
    assert len(sets.FINAL) >= 2
    assert set(sets.FINAL) | set(sets.JUDGING) == set(sets.SETS)
    assert not set(sets.FINAL) & set(sets.JUDGING)


# ---- figures of releases ----


def test_figures_are_those_of_what_is_shown(load):
    """Errors, coverage and grades are over judged cells; of closed ones nothing counts."""
    intervals = load("intervals")
    true, nan = np.array([1.0, 2.0, 9.0]), np.nan
    first = intervals.Shown(
        np.array([2.0, 2.0, nan]), np.array([1.0, 0, nan]), np.array([3.0, 3, nan]), true == 2
    )
    second = intervals.Shown(
        np.array([4.0, 2.0, 8.0]), np.array([3.0, 1, 8]), np.array([5.0, 3, 8.5]), true == 9
    )
    found = intervals.figures([first, second], true, np.array([3.0, 1.0, 4.0]), 10.0)
    assert found["error"] == pytest.approx((0.5 + 4 / 3) / 2)
    assert found["predicted_error"] == pytest.approx((0.75 + 13 / 8) / 2)
    assert found["constant"] == pytest.approx((0.5 + 8 / 3) / 2)
    assert (found["coverage"], found["worst"], found["judged"]) == (0.6, 0.5, 5 / 6)
    assert found["coverage_error"] == pytest.approx((1 - 1 / 3) / 2 / 2**0.5)
    # The third cell is seen in one release alone.
    assert (found["below_70"], found["good"], found["good_outside"]) == (0.5, 0.4, 0.5)


# ---- pages ----


def test_tables_of_other_libraries_are_those_of_the_results(load):
    """Each way stands in the results of its sets, its versions are pinned, the page shows it."""
    pages, run = load("pages"), load("run")
    page, results = pages.PAGE.read_text("utf-8"), pages.load()
    assert pages.filled(page, results) == page
    wanted = itertools.product(results["sets"], run.PEERS)
    assert {(row["set"], row["name"]) for row in results["rows"]} == set(wanted)
    for row in results["rows"]:
        assert row["failed"] or (row["errors"] and row["cpu"])
        given = {name: value for name, value in row["settings"].items() if name != "is_ranged"}
        # How many users are declared is that of the set.
        if "users" not in given:
            assert dict(run.PEERS[row["name"]].settings(row["set"])) == given
        if row["library"] != "hexveil":
            pinned = (PEERS / f"{row['library']}.txt").read_text("utf-8").splitlines()
            assert f"{row['library']}=={row['version']}" in pinned
            assert all("==" in line and "/" not in line for line in pinned)


def test_tables_of_reach_are_those_of_the_files(load):
    """Every judging set was measured with each range, and the page has what the rows give."""
    reach_page = load("reach_page")
    page = reach_page.PAGE.read_text(encoding="utf-8")
    rows = reach_page.load_rows(reach_page.FIGURES / "clipping-ranges.csv")
    assert reach_page.rewrite(page, rows) == page
    assert set(re.findall("<!-- table: ([^>]+) -->", page)) == set(reach_page.tables(rows))
    assert reach_page.rewrite(page, [replace(row, error=2.0 * row.error) for row in rows]) != page
    judged = reach_page.Judged(rows)
    places = {(row.set, row.epsilon) for row in judged.rows}
    assert set(judged.at) == {(*place, kind) for place in places for kind in reach_page.RANGES}
    assert {(name, epsilon) for name in JUDGING.split() for epsilon in ("0.5", "1")} <= places
