"""Our own mechanism: its exact loss on tiny cells, odd cells, and the error it wins."""
# ruff: noqa: ARG005  a planted fault may have no use for the sound code

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil.base.errors import HexveilError, InputError
from hexveil.mechanisms.single_cell.cell_allocation import CellProblem, study_cell
from hexveil_research.mechanisms import foresight
from hexveil_research.mechanisms.foresight import (
    DESIGNS,
    Foresight,
    HuberDesign,
    HuberMean,
    huber_mean,
)
from hexveil_research.mechanisms.huber_location import (
    COST_STEPS,
    BalancePoint,
    ScoreSumAtPoint,
    ScoreSums,
)
from stage_laws import ExactLoss, Problem, holds

EPSILONS = (0.25, 0.5, 1, 2)


def rivals():
    """Return the mechanisms of the papers that are best somewhere."""
    return [
        hv.mechanisms.ArrayAveraging(cap="median"),
        hv.mechanisms.ArrayAveraging(cap="surrogate"),
        hv.mechanisms.ArrayAveraging("wrap_around", "median"),
        hv.mechanisms.ArrayAveraging("wrap_around", "surrogate"),
        hv.mechanisms.Levy(),
        hv.mechanisms.FixedQuantile(0.1, 0.9),
        hv.mechanisms.OptimalClipping(),
    ]


def ratios(cells, bounds, trials):
    """Return ours over the papers' best in hindsight, at each ε."""
    found = []
    for epsilon in EPSILONS:
        total = np.zeros(1 + len(rivals()))
        for number, (counts, means) in enumerate(cells):
            true = means @ counts / counts.sum()
            for i, mechanism in enumerate((Foresight(), *rivals())):
                plan = mechanism.plan(counts, bounds=bounds, epsilon=epsilon)
                got = plan.simulate(means, np.random.default_rng([number, i]), trials)
                total[i] += np.abs(got - true).mean()
        found.append(total[0] / total[1:].min())
    return found


@pytest.mark.parametrize(
    "design",
    [
        HuberDesign(Fraction(0), 0.3, 1, Fraction(0)),
        HuberDesign(Fraction(1), 0.2, 4, Fraction(1)),
        HuberDesign(Fraction(1, 2), 0.6, 4, Fraction(1)),
        HuberDesign(Fraction(1), 0.4, 4, Fraction(1, 2)),
    ],
    ids=["from the middle", "a point", "a wide point", "from a point"],
)
@pytest.mark.parametrize("counts", [(3, 1), (2, 2, 1)], ids=str)
@pytest.mark.parametrize("epsilon", ["0.5", 2])
def test_exact_loss_is_at_most_epsilon(design, counts, epsilon):
    """Over all neighbours and outputs the log-ratio is at most ε, and not idle."""
    loss = Fraction(epsilon)
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), 4)
    allocation = huber_mean(cell, loss, design)
    booked, worst = allocation.losses(), ExactLoss(Problem(counts, 4), allocation).worst
    assert (worst <= booked * (1 + 1e-9)).all()
    assert booked.max() <= float(loss) * (1 + 1e-6)
    assert worst.max() > 0.25 * float(loss)
    if design.share == 1:
        (choice,) = allocation.stages
        broken = replace(allocation, stages=(replace(choice, scale=choice.scale * 0.2),))
        with pytest.raises(HexveilError, match="more than was booked"):
            ExactLoss(Problem(counts, 4), Booked(broken, allocation.losses()))


class Booked:
    """An allocation that books what another one does."""

    def __init__(self, allocation, losses):
        self.allocation, self.booked = allocation, losses

    def losses(self):
        """Return the other booking."""
        return self.booked

    def next_stage(self, earlier):
        """Return the allocation's own stage."""
        return self.allocation.next_stage(earlier)


def test_every_way_splits_epsilon():
    """Choice and noise of each design pay ε together, and no choice of one candidate is paid."""
    cell, epsilon = study_cell([5, 4, 1] * 10, (0, 8)), Fraction(7, 10)
    for design in DESIGNS:
        allocation = huber_mean(cell, epsilon, design)
        spent = epsilon - allocation.mean_epsilon
        assert 0 <= allocation.mean_epsilon <= epsilon
        assert (spent == 0) == (design.candidates == 1)
        if spent:
            assert allocation.stages[0].scale >= 2 * COST_STEPS / float(spent) * (1 - 1e-12)
        assert allocation.losses().max() <= float(epsilon) * (1 + 1e-12)


CELLS = {
    "one user": [7],
    "one sample": [1],
    "equal counts": [5] * 30,
    "one huge user": [10**6] + [3] * 20,
    "two users": [2, 1],
    "many": list(range(1, 80)),
    "thinned": [1, 2, 30] * 600,
}


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
def test_odd_cells_work(cell):
    """Plans, releases and simulations are finite and within the bounds, at any ε."""
    counts, rng = CELLS[cell], np.random.default_rng(1)
    for epsilon, (lower, upper) in itertools.product(("0.01", 100), [(0, 65), (-3, 5)]):
        plan = Foresight().plan(counts, bounds=(lower, upper), epsilon=epsilon)
        assert plan.epsilon == Fraction(epsilon)
        assert plan.worst_case_bias is None
        assert plan.worst_case_error is None
        assert plan.bound95 == upper - lower
        assert 0 <= plan.sensitivity <= (upper - lower) * (1 + 1e-12)
        for values in (np.full(len(counts), lower), rng.uniform(lower, upper, len(counts))):
            found = plan.simulate(values, rng, 5)
            assert ((np.array(found) >= lower) & (np.array(found) <= upper)).all()


def test_the_fitted_curve_has_nearly_the_least_absolute_error():
    """Within 2 % of the best of a grid of curves; least squares, which outliers pull, is not."""
    y = np.tile([0.1, 0.3, 0.4, 0.6, 0.7, 0.9, 0.9], (50, 1))
    truth = np.tile([0.1, 0.3, 0.4, 0.6, 0.7, 0.9, 0.3], (50, 1))
    chance = np.tile([0.18, 0.18, 0.18, 0.18, 0.09, 0.1, 0.09], (50, 1))

    def error(curve):
        bent = foresight.odd_powers(y, 2) @ np.array(curve) + 0.5
        return (chance * np.abs(bent - truth)).sum(axis=1).mean()

    best = min(map(error, itertools.product(np.linspace(-1, 2, 31), np.linspace(-4, 4, 41))))
    assert best == pytest.approx(0.09 * 0.6)
    assert best <= error(foresight._fit_curve(y, truth, chance)) <= 1.02 * best
    powers = foresight.odd_powers(y[0], 2)
    root = np.sqrt(chance[0])
    squares, *_ = np.linalg.lstsq(powers * root[:, None], (truth[0] - 0.5) * root, rcond=None)
    assert error(squares) > 1.5 * best


def test_a_curve_is_chosen_where_it_lowers_the_predicted_error():
    """Much noise is drawn towards the middle; where there is next to none, estimates stay."""
    noisy = Foresight().plan([2, 1], bounds=(0, 8), epsilon="0.5").allocation
    assert noisy.curve[0] < 1
    assert Foresight().plan([7], bounds=(0, 8), epsilon=10).allocation.curve == (1.0,)


@pytest.mark.parametrize(("users", "every"), [(1536, 1), (1537, 1), (3 * 1536, 3)])
def test_many_users_are_thinned_evenly_by_rank(users, every):
    """The middle one of every so many, at as many times the ε; few users stay as they are."""
    counts = np.random.default_rng(1).permutation(np.arange(1, users + 1))
    cell, epsilon = foresight._subsample(counts, Fraction(1, 2))
    ranked = np.arange(1, users + 1)[every // 2 :: every]
    assert cell.counts.size == 1536
    assert np.abs(cell.counts - ranked[:1536]).max() <= users - every * 1536
    assert epsilon == Fraction(1, 2) * Fraction(users, 1536)


def test_plans_are_public_and_always_the_same():
    """A plan depends on counts as a set, not on their order, and is made without chance."""
    first = Foresight().plan([9, 4, 1, 1] * 9, bounds=(0, 8), epsilon=1)
    other = Foresight().plan([1, 1, 4, 9] * 9, bounds=(0, 8), epsilon=1)
    assert first.allocation.curve == other.allocation.curve
    assert first.allocation.scores.reach == other.allocation.scores.reach
    assert first.allocation.mean_epsilon == other.allocation.mean_epsilon


def test_estimates_move_with_the_bounds():
    """The same cell in other units is released alike: bounds below zero, another span."""
    means = np.linspace(0.2, 0.7, 25)
    plans = [
        Foresight().plan([3, 2, 1, 1, 1] * 5, bounds=b, epsilon=1) for b in ((0, 1), (-30, 20))
    ]
    plain, moved = (
        plan.simulate(lower + span * means, np.random.default_rng(4), 1)[0]
        for plan, lower, span in zip(plans, (0, -30), (1, 50), strict=True)
    )
    assert moved == pytest.approx(-30 + 50 * plain, abs=1e-4)


@pytest.mark.slow
def test_simulated_cells_are_read_with_less_error():
    """Where users differ the error is on average at least 15 % below the papers' best."""
    rng = np.random.default_rng(31)
    cells = []
    for users in (25, 60, 150):
        counts = np.maximum(1, np.exp(rng.normal(3, 0.8, users)).astype(np.int64))
        level = rng.uniform(10, 50) + 6 * rng.normal(size=users)
        cells.append((counts, np.clip(level + 9 / np.sqrt(counts) * rng.normal(size=users), 0, 65)))
    assert np.mean(ratios(cells, (0, 65), 300)) < 0.85


def real(file, bounds, cells, most):
    """Return counts and user means of some cells of real records with at least 20 users."""
    columns = {"user": "user_id", "value": "value", "lat": "lat", "lon": "lon"}
    data = hv.read(file, time="timestamp", bounds=bounds, cells=cells, **columns)
    facts, found = data.occupancy, []
    quantum = (bounds[1] - bounds[0]) / data.public.lattice.span_quanta
    for cell in np.flatnonzero(facts.users_per_cell >= 20):
        pairs = slice(facts.start[cell], facts.start[cell + 1])
        counts = facts.n[pairs]
        found.append((counts, bounds[0] + quantum * data.sums.total[pairs] / counts))
    chosen = np.random.default_rng(1).choice(len(found), min(most, len(found)), replace=False)
    return [found[i] for i in chosen]


@pytest.mark.slow
def test_the_judgement_in_small(shared):
    """On some cells of Surat, Warsaw and the ITMS-like counts the mean ratio is at most 0.85."""
    surat = {"timeslot": "1h", "timezone": "Asia/Kolkata", "slot": "pooled"}
    warsaw = {"timeslot": "1h", "timezone": "Europe/Warsaw"}
    sets = [
        (bounds, real(shared / "data" / name, bounds, hv.Cells(resolution=r, **rule), 5))
        for name, bounds, rule, resolutions in (
            ("surat_itms.parquet", (0, 65), surat, (5, 6, 7)),
            ("warsaw_buses.parquet", (0, 90), warsaw, (5, 6, 7, 8)),
        )
        for r in resolutions
    ]
    rng = np.random.default_rng(3)
    itms = np.array(json.loads((shared / "data" / "itms_like_counts.json").read_text()))
    samples = np.clip(rng.normal(20.66769, 10.730, (3, itms.sum())), 0, 65)
    means = np.add.reduceat(samples, np.cumsum(itms) - itms, axis=1) / itms
    sets.append(((0, 65), [(itms, row) for row in means]))
    assert np.mean([ratios(cells, bounds, 300) for bounds, cells in sets]) <= 0.85


def test_bad_spreads_are_refused():
    """Standard deviations outside their range are refused in one sentence."""
    for wrong in ({"spreads": ()}, {"spreads": (0.0,)}, {"within": 2.0}, {"within": math.nan}):
        with pytest.raises(InputError, match="in parts of the span"):
            Foresight(**wrong)
    assert Foresight().name == "Foresight()"
    assert isinstance(Foresight().plan([2, 1], bounds=(0, 1), epsilon=1).allocation, HuberMean)


# ---- planted faults: the exact laws find each of them ----

FAULT_LOSS = Fraction(2)
POINT = HuberDesign(Fraction(0), 0.2, 4, Fraction(1)), (3, 1, 1), 3
FROM_POINT = HuberDesign(Fraction(1), 0.75, 3, Fraction(1, 2)), (2, 1, 1), 3
FAULTS = {
    "point costs of half their sensitivity": (
        BalancePoint, "user_sensitivity", lambda old: property(lambda s: old.func(s) // 2), POINT,
    ),
    "point costs in units of half": (
        BalancePoint, "costs", lambda old: lambda s, b: 2 * old(s, b), POINT,
    ),
    "score noise a tenth too small": (
        ScoreSumAtPoint, "scales", lambda old: property(lambda s: 0.9 * old.func(s)), FROM_POINT,
    ),
    "score moved to one side only": (
        ScoreSums, "user_sensitivity",
        lambda old: property(
            lambda s: np.minimum(s.weight[:, None] * (s.span - s.points), s.reach)
        ), FROM_POINT,
    ),
}  # fmt: skip


def is_sound(case):
    """Return whether no user of a case loses more than is booked, nor books more than ε."""
    design, counts, span = case
    cell = CellProblem(np.array(counts), Fraction(0), Fraction(1), span)
    allocation = huber_mean(cell, FAULT_LOSS, design)
    try:
        return holds(Problem(counts, span), allocation, FAULT_LOSS * Fraction(1000001, 1000000))
    except (AssertionError, HexveilError):
        return False


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault, monkeypatch):
    """A sound stage passes; one with the fault loses or books more, or misstates a move."""
    target, attribute, change, case = FAULTS[fault]
    assert is_sound(case)
    monkeypatch.setattr(target, attribute, change(target.__dict__[attribute]))
    assert not is_sound(case)
