"""Cells planned apart on a map: one row per stage, losses added up over cells."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import hexveil as hv
from hexveil import Occupancy
from hexveil.mechanisms import CellMechanism
from hexveil.mechanisms.contract import (
    UNMETERED,
    LaplaceNoise,
    MemoryJournal,
    Meter,
    Outputs,
    PredictedError,
    PrivateSums,
    ProvenError,
    execute,
)
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.per_cell_allocation import PerCell
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.mechanisms.single_cell.cell_allocation import MapProblem
from hexveil.mechanisms.single_cell.quantile_averaging import ClippedSumMean

SPAN = 1000


def map_problem(n_cells=12, n_users=20, seed=3):
    """Return a map in which each cell has some of the users, and its sums."""
    rng = np.random.default_rng(seed)
    members = [
        np.sort(rng.choice(n_users, rng.integers(3, 9), replace=False)) for _ in range(n_cells)
    ]
    cell = np.repeat(np.arange(n_cells), [each.size for each in members])
    user = np.unique(np.concatenate(members), return_inverse=True)[1]
    n = rng.integers(1, 30, cell.size)
    occupancy = Occupancy(cell, user, n, n_cells, int(user.max()) + 1)
    problem = MapProblem(occupancy, Fraction(0), Fraction(1, 10), SPAN)
    return problem, n * rng.integers(100, 900, n.size)


MECHANISMS = [
    hv.Baseline(),
    hv.OptimalClipping(),
    hv.ArrayAveraging(),
    hv.Levy(gamma=1),
    hv.FixedQuantile(candidates=16),
    hv.AKMV(candidates=16),
    hv.Auto(trials=64),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_a_map_stays_within_epsilon_and_uses_it(mechanism):
    """The most exposed user is charged nearly ε; the meter accepts the vetted draw."""
    problem, total = map_problem(n_cells=5)
    allocation = PerCell(mechanism).allocate(problem, Fraction(3))
    booked = allocation.losses()
    assert 0.95 * 3 <= booked.max() <= 3
    journal = MemoryJournal()
    outputs = execute(allocation, PrivateSums(total), VettedNoise(), journal, Meter(booked))
    (mean,) = allocation.decode(outputs)
    assert mean.estimate.shape == (1, 5)
    assert np.isfinite(mean.estimate).all()
    assert list(journal.rows) == [stage.name for stage in allocation.stages]


def test_more_cells_of_a_user_cost_less_than_counting_cells():
    """Exact accounting finds a cell loss above ε over the most cells of a user."""
    problem, _ = map_problem()
    cells = np.bincount(problem.occupancy.user).max()
    allocation = PerCell(hv.Baseline()).allocate(problem, Fraction(1))
    assert allocation.cell_epsilon > Fraction(1, int(cells)) * Fraction(11, 10)


@pytest.mark.parametrize("mechanism", [hv.Levy(gamma=1), hv.AKMV(candidates=16)], ids=str)
def test_each_cell_is_that_mechanism_alone(mechanism):
    """Requests, sensitivities and integers are those of the cells one by one, in their order."""
    problem, total = map_problem()
    allocation = PerCell(mechanism).allocate_at(problem, Fraction(1))
    sums, earlier = PrivateSums(total), Outputs()
    for stage in allocation.stages:
        requests, measured = stage.noise(earlier), stage.measure(sums, earlier)
        reports = stage.sensitivity(earlier)
        own_outputs = allocation.cell_outputs(earlier, stage.number)
        number = 0
        for member in stage.members:
            rows = problem.rows(member.cell)
            alone = mechanism.allocate_cell(problem.cell(member.cell), Fraction(1))
            outputs = own_outputs[member.cell]
            cell_stage = alone.next_stage(outputs)
            for request, report, integers in zip(
                cell_stage.noise(outputs),
                cell_stage.sensitivity(outputs),
                cell_stage.measure(PrivateSums(total[rows]), outputs),
                strict=True,
            ):
                if isinstance(request, LaplaceNoise):
                    assert (requests[number].scales == request.scales).all()
                    assert (measured[number].integers == integers.integers).all()
                else:
                    assert requests[number] == request
                    assert (measured[number].scores == integers.scores).all()
                    assert (measured[number].sizes == integers.sizes).all()
                users = problem.occupancy.user[rows]
                assert reports[number].user.tolist() == users[report.user].tolist()
                assert reports[number].by.tolist() == report.by.tolist()
                number += 1
        assert number == len(requests)
        noise = SimulatedNoise(np.random.default_rng(1), 1)
        drawn = execute(allocation, sums, noise, MemoryJournal(), UNMETERED)
        earlier = earlier.extended(stage.name, stage.entries, drawn[stage.name])


def test_blocks_of_whole_cells_measure_the_same():
    """Cut anywhere between cells, blocks of a map measure the integers of the whole map."""
    problem, total = map_problem()
    whole = PerCell(hv.Levy(gamma=1)).allocate_at(problem, Fraction(1)).stages[0]
    measured = list(whole.measure(PrivateSums(total), Outputs()))
    blocks = []
    for begin, end in ((0, 5), (5, 6), (6, 12)):
        rows = slice(problem.rows(begin).start, problem.rows(end - 1).stop)
        user = np.unique(problem.occupancy.user[rows], return_inverse=True)[1]
        cell, n = problem.occupancy.cell[rows] - begin, problem.occupancy.n[rows]
        occupancy = Occupancy(cell, user, n, end - begin, int(user.max()) + 1)
        block = MapProblem(occupancy, problem.lower, problem.quantum, problem.span)
        stage = PerCell(hv.Levy(gamma=1)).allocate_at(block, Fraction(1)).stages[0]
        blocks += stage.measure(PrivateSums(total[rows]), Outputs())
    assert len(blocks) == len(measured)
    for one, other in zip(blocks, measured, strict=True):
        assert type(one) is type(other)
        for field in ("integers", "scores", "sizes"):
            if hasattr(one, field):
                assert (getattr(one, field) == getattr(other, field)).all()


def test_cells_may_differ_in_mechanism_and_in_stages():
    """Auto takes a mechanism per cell; cells without a stage publish their constant."""
    problem, total = map_problem()
    clipping = PerCell(hv.OptimalClipping()).allocate_at(problem, Fraction(1, 3))
    lengths = {len(plan.stages) for plan in clipping.plans}
    assert lengths == {0, 1}
    noise = SimulatedNoise(np.random.default_rng(1), 50)
    outputs = execute(clipping, PrivateSums(total), noise, MemoryJournal(), UNMETERED)
    (mean,) = clipping.decode(outputs)
    constant = [len(plan.stages) == 0 for plan in clipping.plans]
    assert mean.estimate.shape == (50, 12)
    assert (mean.estimate[:, constant] == SPAN / 2).all()
    assert (mean.grid.step[constant] == 0).all()
    assert isinstance(mean.error, ProvenError)


@dataclass(frozen=True, repr=False)
class BySize(CellMechanism):
    """AKMV in cells of many users, Baseline in others: a public rule."""

    def allocate_cell(self, cell, epsilon):
        """Return the allocation of one cell: see `CellMechanism.allocate_cell`."""
        mechanism = hv.AKMV(candidates=8) if cell.counts.size > 5 else hv.Baseline()
        return mechanism.allocate_cell(cell, epsilon)


def test_stages_of_different_kinds_share_a_row():
    """Choices of some cells and sums of others are one stage; the next has the rest."""
    problem, total = map_problem()
    allocation = PerCell(BySize()).allocate(problem, Fraction(2))
    assert len({type(plan) for plan in allocation.plans}) == 2
    first, second = allocation.stages
    assert first.entries == 12
    assert second.entries == sum(isinstance(plan, ClippedSumMean) for plan in allocation.plans)
    meter = Meter(allocation.losses())
    outputs = execute(allocation, PrivateSums(total), VettedNoise(), MemoryJournal(), meter)
    (mean,) = allocation.decode(outputs)
    one_by_one = [
        plan.decode(own)[0].estimate[0, 0]
        for plan, own in zip(allocation.plans, allocation.cell_outputs(outputs, 2), strict=True)
    ]
    assert mean.estimate[0].tolist() == one_by_one


def test_errors_are_proven_only_if_each_cell_is():
    """A map with one private range has no proven error, and no column for its bias."""
    problem, total = map_problem()
    levy = PerCell(hv.Levy(gamma=1)).allocate_at(problem, Fraction(1))
    noise = SimulatedNoise(np.random.default_rng(1), 1)
    (mean,) = levy.decode(execute(levy, PrivateSums(total), noise, MemoryJournal(), UNMETERED))
    assert isinstance(mean.error, PredictedError)
    assert set(mean.error.columns()) == {"scale", "bound95"}
