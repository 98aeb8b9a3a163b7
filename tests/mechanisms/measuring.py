"""What each kind of release measures, scales and decodes, asked of plans and data sets alone."""

from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from hexveil.mechanisms.looks.bounds import BoundedStages
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.stage_data import Outputs
from hexveil.planning import allocation
from hexveil.publishing.pipeline import private_sums

NOTHING = Outputs()


@lru_cache(maxsize=8)
def allocation_of(plan, scale):
    """Return the allocation of a plan, made once."""
    return allocation.allocation_of(plan, scale)


# ---- clipped statistics ----


def clipped(plan, scale, name):
    """Return the public side of a clipped statistic."""
    stages = allocation_of(plan, scale)
    return next(one for one in stages.statistics if one.name == name)


def lattice(plan, scale):
    """Return where cells stand on the lattice: lower, steps, and noise of the mean."""
    stages = allocation_of(plan, scale)
    public = stages.statistics[0]
    noise = public.noise if public.name == "mean" else np.zeros(public.noise.size)
    return SimpleNamespace(
        lower=public.lattice.lower, steps=public.lattice.width, noise=noise, scale=scale
    )


def statistic(dataset, plan, where=None):
    """Return the integers of all cells whose mean is noised."""
    return _measured(dataset, plan, where, "mean")


def variance_statistic(dataset, plan, where=None):
    """Return the integers of all cells whose variance is noised."""
    return _measured(dataset, plan, where, "variance")


def _measured(dataset, plan, where, name):
    if name not in plan.error_models:
        return np.zeros(0, dtype=np.int64)
    scale = dataset.public.lattice if where is None else where.scale
    return clipped(plan, scale, name).measure(private_sums(dataset))[0]


def live_cells(plan):
    """Return the cells whose mean is noised."""
    return np.flatnonzero(plan.allocation.noise_scale_records > 0)


def means(noisy, plan, scale):
    """Return published means from the integers of all cells."""
    return clipped(plan, scale, "mean").estimates(noisy)


def variances(noisy, plan):
    """Return published variances from the integers of all cells."""
    return clipped(plan, plan.facts.lattice, "variance").estimates(noisy)


def check(dataset, plan, _where=None):
    """Refuse what a release refuses from public facts."""
    scale = dataset.public.lattice
    allocation, epsilon = allocation_of(plan, scale), float(plan.requested_epsilon)
    allocation.check_release(epsilon, has_squares=dataset.has_squares)


def values_of(numbers, plan, scale):
    """Return each published statistic from the integers of all cells, as the ledger has them."""
    allocation = allocation_of(plan, scale)
    if isinstance(allocation, BoundedStages):
        noised = [numbers[one.name][one.noised_cells] for one in allocation.statistics]
    else:
        noised = list(numbers.values())
    row = np.concatenate(noised)
    outputs = Outputs({CELLS: row[None]} if row.size else {})
    return {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}


# ---- weighted statistics ----


def weighted(plan, scale=None):
    """Return the public side of weighted means."""
    return allocation_of(plan, scale or plan.facts.lattice).mean


def shares_of(weights):
    """Return each pair's part of its cell's number."""
    occupancy = weights.occupancy
    return weights.of(occupancy) / weights.totals[occupancy.cell]


def weighted_statistic(dataset, plan, ends):
    """Return the integers of all cells, for means in a range."""
    return weighted(plan).measure(private_sums(dataset), ends)[0]


def weighted_scales(plan, width):
    """Return the noise scale of each cell, for means in a range of this width."""
    return weighted(plan).scales(width)


def weighted_variance_of(plan):
    """Return the public side of weighted variances."""
    (variance,) = allocation_of(plan, plan.facts.lattice).variances
    return variance


def second_moments(dataset, plan, ends):
    """Return the integers of all cells, for second moments about the middle of a range."""
    steps = plan.facts.lattice.span_quanta
    return weighted_variance_of(plan).measure(private_sums(dataset), ends, steps)[0]


def weighted_variances(noisy, shown):
    """Return published variances from the integers of all cells, for a plan with its range."""
    public, interval = weighted_variance_of(shown), shown.allocation.clipping
    parts = public.estimates(noisy["variance"], noisy["mean"], interval.ends, interval.span_quanta)
    return parts * public.grid(shown.error_models["variance"].unit).step
