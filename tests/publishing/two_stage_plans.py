"""Two-stage plans for tiny data sets, a forced strategy, and its input to the noise door."""

import itertools
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

import hexveil as hv
from hexveil.mechanisms import map_quantiles, noise
from hexveil.mechanisms.contract import UNMETERED, MemoryJournal, Outputs, execute
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.released_ranges import STRATEGIES
from hexveil.mechanisms.two_stage.two_stage_mean import TwoStageAllocation
from hexveil.model.factored_weights import WEIGHT_RESOLUTION
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning import release_allocation
from hexveil.planning.clipping_range.two_stage import calibrate_two_stage_noise
from hexveil.planning.release_allocation import allocation_of, check_allocation, with_outputs
from hexveil.publishing.private_sums import private_sums
from publishing.drawing import executed
from publishing.setting import dataset_of, with_stages

COUNTS = np.array([[2, 1], [1, 0], [1, 2], [0, 1]])
CLASSES = (0, 1, 1, 0)
STEPS = 3
RANGES, COARSE_SUMS, CENTRES, CLUSTERS = "interval", "coarse", "centre", "classes"
"""Names of what a two-stage release found, beside "mean"."""


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
    """Return a two-stage plan."""
    return hv.plan(source, epsilon=epsilon, clipping_range="two-stage", advise=False, **options)


def classed(plan, of, weight=None):
    """Return the plan with other classes of users, and noise at which as much is lost."""
    of = np.array(of, dtype=np.int64)
    given = np.full(of.size, WEIGHT_RESOLUTION // 2) if weight is None else np.array(weight)
    noise = np.full(int(of.max()) + 1, 1.0)
    steps = replace(
        plan.allocation.clipping.stages, labels=of, cluster_weight=given, cluster_noise=noise
    )
    left = plan.requested_epsilon - plan.allocation.clipping.range.epsilon - steps.epsilon
    # The classes take about a third.
    lost = steps.losses(plan.occupancy)
    steps = replace(steps, cluster_noise=noise * 3.0 * lost[0].max() / float(left))
    return with_stages(plan, calibrate_two_stage_noise(plan.occupancy, steps, left))


def in_classes(dataset, **options):
    """Return a two-stage plan of four users in two classes, of which none has all weights equal."""
    weight = [
        WEIGHT_RESOLUTION // 2,
        WEIGHT_RESOLUTION // 3,
        WEIGHT_RESOLUTION // 2,
        WEIGHT_RESOLUTION // 5,
    ]
    return classed(planned(dataset, **options), CLASSES, weight)


def taking(way):
    """Return a patch under which a release takes this strategy, whatever it finds."""
    return patch.object(release_allocation, "select_release_strategy", lambda *_: way)


def parts_of(plan):
    """Return range, steps, and the noise of the strategy `single_stage`."""
    rows = plan.allocation
    return SimpleNamespace(
        interval=rows.clipping.range, steps=rows.clipping.stages, noise=plan.mean_noise
    )


def numbers_of(plan, base, half, way):
    """Return the numbers of a release that found these ranges, all others zero."""
    cells = plan.occupancy.n_cells
    sizes = {
        RANGES: 4,
        COARSE_SUMS: cells,
        CENTRES: cells,
        CLUSTERS: plan.allocation.clipping.stages.cluster_noise.size,
        "mean": cells,
    }
    numbers = {name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()}
    numbers[RANGES] = np.array([*base, half, STRATEGIES.index(way)], dtype=np.int64)
    return numbers


class Released:
    """A choice of the range that came out with given ends, whatever its row holds."""

    name, entries = RANGES, 2

    def __init__(self, base):
        self._base = tuple(map(int, base))

    def ends(self, _outputs):
        """Return the ends."""
        return self._base

    def noise(self, _earlier):
        """Return no noise: its row is stored."""
        return ()

    def sensitivity(self, _earlier):
        """Return nothing."""
        return ()


def allocated(plan, numbers, scale=None):
    """Return the allocation of a plan, and the rows of a release that found these numbers."""
    allocation = allocation_of(plan, scale or plan.facts.lattice)
    way, rows = STRATEGIES[numbers[RANGES][3]], {RANGES: np.zeros(2, dtype=np.int64)}
    rows["deviation"] = numbers[RANGES][2:]
    last = {"single_stage": (), "user_residuals": (CLUSTERS,), "cell_residuals": (CENTRES,)}[way]
    if way == "cell_residuals":
        rows["coarse"] = numbers[COARSE_SUMS]
    rows["cells"] = np.concatenate([numbers[name] for name in (*last, "mean")])
    allocation = replace(allocation, range=Released(numbers[RANGES][:2]))
    return allocation, {name: row[None] for name, row in rows.items()}


def found_by(plan, numbers, facts):
    """Return the plan with what a release found."""
    allocation, rows = allocated(plan, numbers, facts.lattice)
    return with_outputs(plan, allocation, Outputs(rows))


def ranges(plan, numbers, _steps=None):
    """Return the ranges that a release found."""
    return found_by(plan, numbers, plan.facts).allocation.clipping.stages.outputs


def means(numbers, plan, scale):
    """Return the published means, in value units."""
    allocation, rows = allocated(plan, numbers, scale)
    (decoded,) = allocation.decode(Outputs(rows))
    return decoded.estimate[0]


def check(plan, scale):
    """Refuse what a release refuses from public facts."""
    check_allocation(allocation_of(plan, scale), plan, scale, has_squares=False)


def drawn_numbers(dataset, plan):
    """Return all that a release finds, by name."""
    allocation, outputs = executed(dataset, plan)
    found = allocation.ranges(outputs)
    numbers = numbers_of(plan, found.released, found.residual_quantile, found.strategy)
    numbers["mean"] = allocation.numbers(outputs)["mean"]
    first = outputs["cells"][0][: -numbers["mean"].size]
    if found.strategy == "cell_residuals":
        numbers[COARSE_SUMS], numbers[CENTRES] = outputs["coarse"][0], first
    if found.strategy == "user_residuals":
        numbers[CLUSTERS] = first
    return numbers


def user_means(dataset):
    """Return each user's sum and records over all its cells."""
    return map_quantiles.user_sums(dataset.occupancy, dataset.sums.total)


def handed(dataset, plan, numbers, centre=None):
    """Return what the strategy hands to the noise door after these ranges: values, and scales.

    Under `cell_residuals` the first averages stand first, then those around the given centres.
    """
    seen = []

    def door(values, scales):
        seen.append((values.copy(), scales.copy()))
        return values

    through(dataset, plan, numbers, door, centre)
    values, scales = zip(*seen, strict=True)
    return np.concatenate(values), np.concatenate(scales)


def through(dataset, plan, numbers, door, centre=None):
    """Run the strategy after these ranges with another noise door, and around the given centres."""
    allocation, rows = allocated(plan, numbers)
    journal = MemoryJournal()
    journal.rows.update({name: rows[name] for name in (RANGES, "deviation")})
    middles = np.array(numbers[CENTRES] if centre is None else centre, dtype=np.int64)
    with (
        patch.object(noise, "add_laplace", door),
        patch.object(TwoStageAllocation, "centres", lambda *_: middles),
    ):
        return execute(allocation, private_sums(dataset), VettedNoise(), journal, UNMETERED)


def filled(plan, numbers, noisy):
    """Return the numbers with what came back from the door, as a release stores them."""
    made = {name: one.copy() for name, one in numbers.items()}
    way = STRATEGIES[numbers[RANGES][3]]
    first = {"single_stage": None, "user_residuals": CLUSTERS, "cell_residuals": COARSE_SUMS}[way]
    if first is not None:
        made[first] = noisy[: made[first].size].copy()
    made["mean"] = noisy[noisy.size - made["mean"].size :].copy()
    return made
