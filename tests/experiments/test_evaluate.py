"""Tests of `hexveil.experiments.evaluate`."""

from __future__ import annotations

import numpy as np
import pytest

from hexveil.errors import InputError
from hexveil.experiments.evaluate import evaluate
from hexveil.experiments.values import Normal, Uniform, draw_user_means
from hexveil.mechanisms import Baseline

COUNTS = [9, 3, 1]


def test_baseline_has_its_closed_form() -> None:
    """Baseline is unbiased, so its error is the Laplace scale: 65 * 9 / 13 / epsilon."""
    table = evaluate(
        [Baseline()], counts=COUNTS, user_means=[10, 20, 30], bounds=(0, 65), epsilons=[1, 2]
    )
    for row in table.to_pylist():
        expected = 65 * 9 / 13 / row["epsilon"]
        assert abs(row["mae"] - expected) < 5 * row["standard_error"]
        assert row["standard_error"] == pytest.approx(expected / 100, rel=0.1)


def test_a_seed_gives_one_table() -> None:
    """The same seed repeats the table, another seed changes it."""
    tables = [
        evaluate(
            [Baseline()],
            counts=COUNTS,
            values=Normal(20, 10),
            bounds=(0, 65),
            epsilons=["0.5"],
            trials=50,
            seed=seed,
        )
        for seed in (1, 1, 2)
    ]
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


def test_user_means_average_projected_samples() -> None:
    """Samples above the upper bound count as the bound in every user's mean."""
    generator = np.random.default_rng(0)
    means = draw_user_means(Uniform(70, 80), np.array(COUNTS), (0.0, 65.0), generator, 4)
    assert means.tolist() == [[65.0] * 3] * 4


@pytest.mark.parametrize("means", [None, [1, 2], [1, 2, 99]])
def test_bad_means_are_refused(means: list[int] | None) -> None:
    """No values at all, too few of them, or one outside the bounds is wrong use."""
    with pytest.raises(InputError):
        evaluate([Baseline()], counts=COUNTS, user_means=means, bounds=(0, 65), epsilons=[1])
