"""Weighted averages over cells and their intervals, by simulation and in the worst case."""

import math

import numpy as np
import pytest
from scipy import stats

from publishing.derived.chosen_cells import chosen, compared, rolled_up

RECORDS = np.array([100.0, 5.0, 40.0, 1.0, 7.0])
GROUP = np.array([0, 0, 1, 0, 2])
SCALE = np.array([0.2, 4.0, 0.5, 9.0, 1.0])
TRUTH = np.array([10.0, 30.0, 20.0, 50.0, 40.0])
LAPLACE95, NORMAL95 = math.log(20.0), stats.norm.isf(0.025)


def averaged(kind="laplace", request="0", bias=0.0):
    """Return the averages of groups of cells that are biased upwards as far as is allowed."""
    noise = {"mean_scale": SCALE, "mean_bias": bias, "records": RECORDS}
    return rolled_up(chosen(kind, GROUP, request, mean_noisy=TRUTH + bias, **noise))


def test_records_weigh():
    """Averages are those of all records, by group; a lone cell keeps its own noise."""
    before, made = averaged(bias=0.5)
    total = 0.5 + np.bincount(GROUP, RECORDS * TRUTH) / np.bincount(GROUP, RECORDS)
    assert made["mean"] == pytest.approx(total)
    assert made["records"].tolist() == [106, 40, 7]
    assert made["mean_bias"] == pytest.approx([0.5, 0.5, 0.5])
    assert made["mean_noise95"][1:] == pytest.approx(LAPLACE95 * SCALE[[2, 4]])
    assert made["mean_high"] == pytest.approx(made["mean"] + made["mean_noise95"] + 0.5)
    # The change of a lone cell has the exact bound of two numbers, that of others the root.
    changes, numbers = compared(before, averaged(request="1", bias=0.5)[0])
    half = numbers["change_high"] - numbers["change"] - 1.0
    assert half[0] == pytest.approx(math.sqrt(2) * made["mean_noise95"][0])
    x = half[1:] / SCALE[[2, 4]]
    assert (1 + x / 2) * np.exp(-x) == pytest.approx([0.05, 0.05])
    assert changes.statement["basis"] == "approximate"


def test_bias_does_not_average_out():
    """With the worst bias everywhere an interval still holds in 95 percent of runs or more."""
    rng, bias = np.random.default_rng(6), 3.0
    _, made = averaged(bias=bias)
    weight = RECORDS[GROUP == 0] / RECORDS[GROUP == 0].sum()
    number = made["mean"][0] + rng.laplace(0.0, SCALE[GROUP == 0], (50_000, 3)) @ weight
    truth = weight @ TRUTH[GROUP == 0]
    assert np.mean(number) - truth == pytest.approx(bias, abs=0.1)
    # Upward bias takes all of its allowance: what is left is half of the noise's 5 percent.
    inside = truth >= number - made["mean_noise95"][0] - made["mean_bias"][0]
    assert np.mean(inside) == pytest.approx(0.975, abs=0.004)


def test_gaussian_noise_adds_up_in_squares():
    """Bounds of averages and of changes under a δ are those of one normal number: exact."""
    before, made = averaged("gaussian")
    weight = RECORDS / np.bincount(GROUP, RECORDS)[GROUP]
    deviation = np.sqrt(np.bincount(GROUP, (weight * SCALE) ** 2))
    assert made["mean_noise95"] == pytest.approx(NORMAL95 * deviation)
    changes, numbers = compared(before, averaged("gaussian", "1")[0])
    assert numbers["change_high"] == pytest.approx(NORMAL95 * math.sqrt(2.0) * deviation)
    assert (numbers["p_value"] == 1.0).all()
    assert changes.statement["basis"] == "proven"


def test_laplace_and_gaussian_noise_together_stay_within_the_root():
    """Of one number of either kind the root of squared bounds is exceeded no more than 5 %."""
    ratios = np.geomspace(0.01, 100.0, 13)
    areas, scales = np.zeros(13, dtype=int), 0.1 / np.maximum(ratios, 1.0)
    changes, numbers = compared(
        chosen("laplace", areas, mean_noisy=50.0, mean_scale=scales, mean_bias=0.0),
        chosen("gaussian", areas, "1", mean_noisy=50.0, mean_scale=ratios * scales, mean_bias=0.0),
    )
    assert changes.statement["basis"] == "approximate"
    for ratio, bound in zip(ratios, numbers["change_high"] / scales, strict=True):
        # P(L + G > q) by the closed form of a normal number plus a Laplace one of scale 1.
        z = bound / ratio
        tail = stats.norm.sf(z) + 0.5 * (
            math.exp(ratio**2 / 2.0 - bound + stats.norm.logcdf(z - ratio))
            - math.exp(ratio**2 / 2.0 + bound + stats.norm.logsf(z + ratio))
        )
        assert 0.0 < tail <= 0.025 * (1.0 + 1e-9)


def test_a_change_has_the_exact_bound_of_its_noise():
    """Beyond the interval lie 5 percent of the noise of both, and its end has this p-value."""
    a, b = np.array([0.5, 2.0, 1.0]), np.array([1.0, 0.3, 0.01])

    def change(distance):
        noise = {"mean_noisy": 50.0, "mean_bias": 0.0}
        after = noise | {"mean_noisy": 50.0 + distance, "mean_scale": b}
        return compared(
            chosen("laplace", [0] * 3, mean_scale=a, **noise),
            chosen("laplace", [0] * 3, "1", **after),
        )

    changes, numbers = change(0.0)
    assert changes.statement["basis"] == "proven"
    x = numbers["change_high"]
    assert numbers["change_low"] == pytest.approx(-x)
    assert (a**2 * np.exp(-x / a) - b**2 * np.exp(-x / b)) / (a**2 - b**2) == pytest.approx(0.05)
    assert change(x)[1]["p_value"] == pytest.approx(0.05)


def test_bias_of_both_sides_widens_a_change():
    """A change that bias alone could make has no evidence; without noise, others have all."""
    small, large = (
        chosen("laplace", [0, 0], request, mean_noisy=number, mean_scale=0.0, mean_bias=bias)
        for request, number, bias in (("0", 10.0, (0.5, 1.5)), ("1", 12.5, (0.75, 1.25)))
    )
    _, up = compared(small, large)
    assert up["change"] == pytest.approx([2.5, 2.5])
    assert up["change_low"] == pytest.approx([1.25, -0.25])
    assert up["change_high"] == pytest.approx([3.75, 5.25])
    assert up["p_value"].tolist() == [0.0, 1.0]
    _, down = compared(large, small)
    assert down["change_low"] == pytest.approx(-up["change_high"])
    assert down["change_high"] == pytest.approx(-up["change_low"])
