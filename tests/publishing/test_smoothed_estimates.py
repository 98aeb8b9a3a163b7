"""Smoothed estimates: made from noisy numbers alone, at no cost, and told apart from the bound."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import InputError
from hexveil.model.public_metadata import ValueLattice
from hexveil.publishing.verification import verify
from hexveil.records.feasible_sums import squares_range
from hexveil.report.manifest_view import ManifestView
from publishing.releases import statements_of
from publishing.setting import dataset_of, hexagons

BOTH = ("raw", "smoothed")


@pytest.fixture
def book(tmp_path):
    """Return a ledger."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100)


def fleet(cells=None, n_cells=12, users=60):
    """Return a data set whose cells' averages lie between 25 and 35 of 60."""
    rng = np.random.default_rng(9)
    counts = rng.integers(1, 5, (users, n_cells))
    middles = rng.uniform(25, 35, n_cells)
    values = np.clip(rng.normal(middles, 4, counts.shape), 0, 60)
    sums = np.round(values * 1000).astype(np.int64) * counts
    least, _ = squares_range(counts.T.ravel(), sums.T.ravel(), 60_000)
    return dataset_of(
        counts,
        sums.T.ravel(),
        least,
        scale=ValueLattice.of((0, 60), "0.001"),
        cells=cells or hexagons(n_cells),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("seeded_noise")
@pytest.mark.parametrize("clipping_range", ["bounds", "private"])
def test_smoothing_costs_nothing_and_changes_nothing_else(book, tmp_path, clipping_range):
    """The same request with and without it: one booking, the same raw numbers, more columns."""
    dataset = fleet()
    plan = hv.plan(dataset, epsilon=2, clipping_range=clipping_range, advise=False)
    plain = hv.release(dataset, plan, ledger=book, accept_noise=True)
    made = hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=BOTH)
    again = hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=BOTH)
    assert made.replayed
    assert len(book.entries()) == 1
    assert set(made.table.column_names) - set(plain.table.column_names) == {"mean_smoothed"}
    for name in ("mean_noisy", "mean_raw", "mean_bound95", "mean_quality", "mean_scale"):
        assert made.table[name].equals(plain.table[name])
    assert made.table.equals(again.table)
    low, middle, high = (
        made.table[f"mean_{key}"].to_numpy() for key in ("low", "smoothed", "high")
    )
    assert ((low <= middle) & (middle <= high) & (low >= 0) & (high <= 60)).all()
    of_page = ManifestView.from_manifest(statements_of(made)).bound_limits(made.table)
    for shown, key in zip(of_page, ("low", "high"), strict=True):
        assert np.allclose(shown, plain.table[f"mean_{key}"].to_numpy())
    raw = made.table["mean_raw"].to_numpy()
    assert np.ptp(middle) < np.ptp(raw)
    folder = made.write(tmp_path / "map")
    assert verify.find_problems(folder) == ()
    text = " ".join((folder / "README.txt").read_text().split())
    assert "mean_smoothed [" in text or "mean_smoothed:" in text
    assert "no guarantee for one cell" in text


def test_one_cell_is_refused_and_nothing_is_spent(book):
    """There is nothing to borrow from; the sentence says what to do."""
    dataset = dataset_of([[3], [2], [2]])
    plan = hv.plan(dataset, epsilon=1, advise=False)
    with pytest.raises(InputError, match="smoothed needs more than one cell"):
        hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=BOTH)
    assert book.entries() == ()


def test_a_cell_without_a_parent_is_refused_and_nothing_is_spent(book):
    """An index that is no hexagon has no place in the hierarchy: a sentence, before the booking."""
    dataset = fleet()
    plan = hv.plan(dataset, epsilon=1, advise=False)
    dataset.public.cells.hexagon[3] = 7
    with pytest.raises(InputError, match="its index is no H3 cell"):
        hv.release(dataset, plan, ledger=book, accept_noise=True, estimates=BOTH)
    assert book.entries() == ()
