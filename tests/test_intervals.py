"""Benchmark of intervals: its division of sets, truths and figures."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def load():
    """Return what imports a script of benchmarks/ by its name; nothing stays imported."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path[:] = path
    for name in (set(sys.modules) - before) & {file.stem for file in FOLDER.glob("*.py")}:
        del sys.modules[name]


@pytest.fixture(scope="module")
def small(load):
    """Return records of 60 vehicles in three of four places; values beyond the bounds are cut."""
    rng = np.random.default_rng(5)
    user, cell = np.repeat(np.arange(60), 6), rng.integers(0, 3, 360)
    value = 10.0 * cell + rng.normal(0, 2, 360)
    table = pa.table({"user": user, "cell": cell.astype(str), "value": value})
    return load("interval_sets").Records(table, (0.0, 18.0))


def test_final_sets_are_apart(load, monkeypatch, capsys):
    """Two final sets or more, none of them judged before; they are measured on request alone."""
    sets, intervals = load("interval_sets"), load("intervals")
    assert len(sets.FINAL) >= 2
    assert set(sets.FINAL) | set(sets.JUDGING) == set(sets.SETS)
    assert not set(sets.FINAL) & set(sets.JUDGING)
    for words, found in ([], sets.JUDGING), (["--final"], sets.FINAL):
        monkeypatch.setattr(sys, "argv", ["intervals.py", *words])
        assert intervals.arguments().sets == found
    monkeypatch.setattr(sys, "argv", ["intervals.py", "--sets", sets.FINAL[0]])
    with pytest.raises(SystemExit):
        intervals.arguments()
    assert "--final alone" in capsys.readouterr().err


def test_made_sets_have_their_property(load):
    """Atoms and codes are there, vehicles are where they should be, one seed gives one set."""
    sets = load("interval_sets").SETS
    moored, whole = sets["moored"](), sets["everywhere"]()
    assert 0.6 < (moored.table["value"].to_numpy() == 0).mean() < 0.9
    assert whole.table.group_by(["user", "cell"]).aggregate([]).num_rows == 200 * 24
    assert (sets["code-999"]().table["value"].to_numpy() == 300).mean() > 0.005
    assert sets["moored"]().table.equals(moored.table)


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
    # The third cell is seen in one release alone.
    assert found["below_70"] == 0.5
    assert (found["good"], found["good_outside"]) == (0.4, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["values", "presence"])
def test_rows_are_of_whole_releases(load, small, model):
    """Three cells that differ are told apart at a large ε, and a row says what was predicted."""
    intervals = load("intervals")
    given = SimpleNamespace(epsilon=["20"], releases=2, label="now", delta=None, ranges=["auto"])
    (row,) = intervals.measure("small", small, model, given)
    assert (row.set, row.model, row.cells, row.releases) == ("small", model, 3, 2)
    assert 0 < row.error < row.constant
    assert row.ratio == row.predicted / row.predicted_error > 0
    assert intervals.line(row).count("|") == intervals.HEAD.splitlines()[1].count("|")
