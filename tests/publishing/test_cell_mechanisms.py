"""Mechanisms of one cell, released: ledger, stages, folders, and refusals in time."""

import numpy as np
import pytest

import hexveil as hv
from examples import some
from publishing.releases import problems_of, statements_of
from publishing.setting import dataset_of

MECHANISMS = (
    "ArrayAveraging()",
    'ArrayAveraging("wrap_around", "sqrt")',
    "OptArrayAveraging()",
    'OptArrayAveraging(objective="minimax_std")',
    'OptArrayAveraging(objective="surrogate_printed")',
    'Levy(gamma=0.2, cap=9, interval="unclamped", arrays="full")',
    "Levy(gamma=0.2)",
    "FixedQuantile(candidates=32)",
    "OptimizedQuantile(candidates=32)",
    "AKMV(candidates=32)",
    "Auto(trials=16)",
)


def fleet(n_cells=3, n_users=24, seed=1):
    """Return a data set in which users report in some of the cells."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (n_users, n_cells))
    counts[0] = 2
    counts[:, 0] += 1
    occupancy = hv.Occupancy.from_dense(counts)
    return dataset_of(counts, occupancy.n * rng.integers(5, 55, occupancy.n_pairs))


def planned(dataset, mechanism, **options):
    """Return a plan of these cells, without advice."""
    options = {"epsilon": 6, "method": "equal-split", "advise": False} | options
    return hv.plan(dataset, mechanism=mechanism, **options)


def released(dataset, plan, book):
    """Return the release of a plan, however noisy."""
    return hv.release(dataset, plan, ledger=book, accept_noise=True)


@pytest.mark.parametrize("mechanism", some(MECHANISMS, 4))
def test_each_mechanism_is_released_replayed_and_verified(mechanism, book, tmp_path):
    """The same goal gets the stored numbers at no cost; its folder contradicts itself nowhere."""
    dataset = fleet()
    plan = planned(dataset, mechanism)
    assert 4 < float(plan.epsilon) <= 6
    shown = released(dataset, plan, book)
    again = released(dataset, planned(dataset, mechanism), book)
    assert not shown.replayed
    assert again.replayed
    assert again.table.equals(shown.table)
    assert again.manifest == shown.manifest
    assert np.isfinite(shown.table["mean_noisy"].to_numpy()).all()
    (step,) = statements_of(shown)["plan"]["privacy_steps"]
    assert step["mechanism"] == plan.mechanism
    costs = [float(stage["epsilon"]) for stage in step["stages"]]
    assert max(costs) <= float(step["epsilon"]) <= sum(costs) + 1e-9
    shown.write(tmp_path / "folder")
    assert problems_of(tmp_path / "folder") == ()
    text = (tmp_path / "folder" / "README.txt").read_text("utf-8")
    assert step["mechanism"] in " ".join(text.split())


@pytest.mark.parametrize("mechanism", ["ArrayAveraging()", "Levy(gamma=1)"])
def test_per_cell_spends_epsilon_by_exact_accounting(mechanism):
    """A common loss of cells above equal shares is found where users lose less than a cell's."""
    dataset = fleet()
    exact, shares = (planned(dataset, mechanism, method=m) for m in ("per-cell", "equal-split"))
    assert exact.epsilon <= 6
    assert exact.cell_epsilon >= shares.cell_epsilon * (1 - 2**-20)
    assert exact.losses().max() == float(exact.epsilon)
