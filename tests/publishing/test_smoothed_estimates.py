"""Smoothed estimates: made from noisy numbers alone, at no cost, and told apart from the bound."""

import numpy as np
import pytest

import hexveil as hv
from hexveil import InputError
from publishing import noise_library
from publishing.releases import problems_of
from publishing.setting import dataset_of, hexagons

BOTH = ("raw", "smoothed")


def fleet(cells=None, n_cells=12, users=60):
    """Return a data set whose cells' averages lie between 25 and 35 of 60."""
    rng = np.random.default_rng(9)
    counts = rng.integers(1, 5, (users, n_cells))
    middles = rng.uniform(25, 35, n_cells)
    values = np.clip(rng.normal(middles, 4, counts.shape), 0, 60)
    sums = (np.round(values * 1000).astype(np.int64) * counts).T.ravel()
    squares = sums**2 // counts.T.ravel()
    place = cells or hexagons(n_cells)
    return dataset_of(counts, sums, squares, scale=(0, 60, "0.001"), cells=place)


@pytest.mark.slow
@pytest.mark.parametrize("clipping_range", ["bounds", "private"])
def test_smoothing_costs_nothing_and_changes_nothing_else(book, tmp_path, clipping_range):
    """The same request with and without it: one booking, the same raw numbers, more columns."""
    dataset = fleet()
    plan = hv.plan(dataset, epsilon=2, clipping_range=clipping_range, advise=False)
    with noise_library.seeded(5):
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
    raw = made.table["mean_raw"].to_numpy()
    assert np.ptp(middle) < np.ptp(raw)
    folder = made.write(tmp_path / "map")
    assert problems_of(folder) == ()
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
