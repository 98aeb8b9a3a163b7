"""Plans in steps for tiny data sets, a way forced, and what a way hands to the noise door."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

import hexveil as hv
from hexveil.mechanisms import noise, two_stage_mean
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning.clipping_range.private_range import WEIGHT_RESOLUTION
from hexveil.planning.clipping_range.two_stage import calibrate_two_stage_noise
from hexveil.planning.clipping_range.two_stage_plan import STRATEGIES
from publishing.drawing import drawn
from publishing.setting import dataset_of

COUNTS = np.array([[2, 1], [1, 0], [1, 2], [0, 1]])
CLASSES = (0, 1, 1, 0)
STEPS = 3


def tiny(totals=0, steps=STEPS):
    """Return a data set of four users on a lattice of few steps."""
    return dataset_of(COUNTS, totals, scale=ValueLattice.of((0, steps), 1))


def neighbours(user, steps=STEPS):
    """Return all data sets that differ in one user's values."""
    base = tiny(steps=steps)
    rows, found = np.flatnonzero(base.occupancy.user == user), []
    for own in itertools.product(*(range(steps * n + 1) for n in base.occupancy.n[rows].tolist())):
        totals = np.zeros(base.occupancy.n_pairs, dtype=np.int64)
        totals[rows] = own
        found.append(tiny(totals, steps))
    return found


def planned(source, epsilon=2, **options):
    """Return a plan in steps."""
    return hv.plan(source, epsilon=epsilon, clipping_range="two-stage", advise=False, **options)


def classed(plan, of, weight=None):
    """Return the plan with other classes of users, and noise at which as much is lost."""
    of = np.array(of, dtype=np.int64)
    given = np.full(of.size, WEIGHT_RESOLUTION // 2) if weight is None else np.array(weight)
    noise = np.full(int(of.max()) + 1, 1.0)
    steps = replace(plan.allocation.two_stage, labels=of, cluster_weight=given, cluster_noise=noise)
    left = plan.requested_epsilon - plan.allocation.clipping_range.epsilon - steps.epsilon
    # The classes take about a third.
    lost = steps.losses(plan.occupancy)
    steps = replace(steps, cluster_noise=noise * 3.0 * lost[0].max() / float(left))
    return replace(
        plan,
        allocation=replace(
            plan.allocation, two_stage=calibrate_two_stage_noise(plan.occupancy, steps, left)
        ),
    )


def in_classes(dataset, **options):
    """Return a plan in steps of four users in two classes, of which none has all weights equal."""
    weight = [
        WEIGHT_RESOLUTION // 2,
        WEIGHT_RESOLUTION // 3,
        WEIGHT_RESOLUTION // 2,
        WEIGHT_RESOLUTION // 5,
    ]
    return classed(planned(dataset, **options), CLASSES, weight)


def taking(way):
    """Return a patch under which a release takes this way, whatever it finds."""
    return patch.object(two_stage_mean, "_way", lambda *_: way)


def numbers_of(plan, base, half, way):
    """Return the numbers of a release that found these ranges, all others zero."""
    numbers = two_stage_mean.empty(plan)
    numbers[two_stage_mean.RANGES] = np.array([*base, half, STRATEGIES.index(way)], dtype=np.int64)
    return numbers


def handed(dataset, plan, numbers, centre=None):
    """Return what the way hands to the noise door after these ranges: values, and scales.

    Of the way `cells` the first averages stand first, then those around the given centres.
    """
    seen = []

    def door(values, scales):
        seen.append((values.copy(), scales.copy()))
        return values

    through(dataset, plan, numbers, door, centre)
    values, scales = zip(*seen, strict=True)
    return np.concatenate(values), np.concatenate(scales)


def through(dataset, plan, numbers, door, centre=None):
    """Run the way after these ranges with another noise door, and around the given centres."""
    found = two_stage_mean.ranges(plan, numbers, dataset.public.lattice.span_quanta)
    kept = {name: one.copy() for name, one in numbers.items()}
    middles = numbers[two_stage_mean.CENTRES] if centre is None else centre
    seen = SimpleNamespace(estimate=np.array(middles, dtype=float))
    with (
        patch.object(noise, "add_laplace", door),
        patch.object(two_stage_mean, "undone", lambda *_: seen),
    ):
        drawn(two_stage_mean._STAGES[found.strategy](dataset, plan, found, kept))


def filled(plan, numbers, noisy):
    """Return the numbers with what came back from the door, as a release stores them."""
    made = {name: one.copy() for name, one in numbers.items()}
    way = STRATEGIES[numbers[two_stage_mean.RANGES][3]]
    first = {"direct": None, "users": two_stage_mean.CLASSES, "cells": two_stage_mean.COARSE_SUMS}[
        way
    ]
    if first is not None:
        made[first] = noisy[: made[first].size].copy()
    made["mean"] = noisy[noisy.size - made["mean"].size :].copy()
    return made
