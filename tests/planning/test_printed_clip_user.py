"""CLIP-USER as printed: the plan against brute force, its sensitivity, and what it costs."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from accounting.test_clip_user import algorithm_1, cell_errors, dense
from examples import examples
from hexveil import theory
from hexveil.accounting.heavy_users import SuppressionSource
from hexveil.base.errors import InputError
from hexveil.mechanisms.looks.clipped_variance import STEPS
from hexveil.mechanisms.stage_data import PrivateSums
from hexveil.model.cells import CellTable, Labels
from hexveil.model.public_metadata import PublicMetadata, ValueLattice
from hexveil.planning.goal import goal
from hexveil.planning.method_comparison import compare_methods
from hexveil.planning.moment_part import allocation_of
from hexveil.planning.optimizers.printed_clip_user import cell_epsilon_within, printed_suppression
from hexveil_research.papers.comp_setting import SPAN, comp_setting
from strategies import occupancies

PRINTED = {"method": "clip-user", "clip_user": "printed", "advise": False}
UNFINISHED = ("keep", "undo")
HEAVY = [[1, 1, 0], [9, 0, 2], [9, 0, 0], [0, 9, 1], [0, 3, 3]]
"""Counts of which the caps of section V-B.3 keep a part and Algorithm 1 suppresses some."""


def printed(occupancy, cell_epsilon=1, **options):
    """Return a plan of the printed form, without advice."""
    return hv.plan(
        occupancy, **PRINTED | {"bounds": (0, 1), "cell_epsilon": cell_epsilon} | options
    )


def table_of(plan):
    """Return contributed samples, users down and cells across."""
    return dense(plan.occupancy, plan.contributions("mean").astype(int))


def errors_of(kept, counts, span, epsilon):
    """Return COMP's two errors of a cell, the sensitivity of weights where users are kept in part.

    In fractions; the biases of ERRATA 1 and 9.
    """
    n, total, weights = sum(kept), sum(counts), [Fraction(k, sum(kept)) for k in kept]
    lost = sum(max(Fraction(m, total) - w, 0) for m, w in zip(counts, weights, strict=True))
    top, whole = max(weights), all(k in (0, m) for k, m in zip(kept, counts, strict=True))
    spread = top * (1 - top) if 2 * top < 1 else Fraction(1, 4)
    bias = lost * (1 - lost) if 2 * lost < 1 else Fraction(1, 4)
    if whole and 2 * top >= 1:
        spread -= Fraction(n % 2, 4 * n * n)
    if whole and 2 * lost >= 1:
        bias -= Fraction(total % 2, 4 * total**2)
    mean, variance = lost + 2 * top / epsilon, bias + 2 * spread / epsilon
    return span * mean, span**2 * variance


def best_cap(suppressed, counts, span, epsilon):
    """Return the smallest of the best caps of section V-B.3 by trying all, in exact numbers."""
    left = [k for k in suppressed if k]
    errors = {
        cap: sum(cell_errors([min(k, cap) for k in suppressed], counts, span, epsilon))
        for cap in range(min(left), max(left) + 1)
    }
    return min(errors, key=lambda cap: (errors[cap], cap))


def agree_step_by_step(occupancy, epsilon, unfinished, span=3, exempt="smallest"):
    """Compare a plan with Algorithm 1 and section V-B.3, transcribed in exact numbers.

    Its stages, K, pairs, caps and errors, cell by cell.
    """
    options = {"unfinished_stage": unfinished, "exempt": exempt}
    plan = printed(occupancy, epsilon, bounds=(0, span), **options)
    table = dense(occupancy, occupancy.n)
    gamma, degradation, stages = algorithm_1(
        table, span, epsilon, unfinished=unfinished, exempt=exempt
    )
    run = printed_suppression(SuppressionSource(occupancy), span, plan.request)
    assert [(s.degree, s.suppressed, s.finished) for s in run.stages] == stages
    assert plan.l0_epsilon == degradation * Fraction(epsilon)
    assert plan.epsilon <= plan.l0_epsilon
    contributed, gamma = table_of(plan), np.array(gamma)
    for cell in range(occupancy.n_cells):
        kept, counts = contributed[:, cell].tolist(), table[:, cell].tolist()
        cap = best_cap(gamma[:, cell].tolist(), counts, Fraction(span), Fraction(epsilon))
        assert plan.contribution_cap[cell] == cap
        assert kept == np.minimum(gamma[:, cell], cap).tolist()
        mean, variance = errors_of(kept, counts, span, Fraction(epsilon))
        assert plan.error_models["mean"].error[cell] == pytest.approx(float(mean), rel=1e-6)
        assert plan.error_models["variance"].error[cell] == pytest.approx(
            float(variance), rel=1e-6, abs=1e-12
        )


@examples(40)
@given(
    occupancies(users=6, cells=4),
    st.sampled_from(["0.1", "1", "10"]),
    st.sampled_from(UNFINISHED),
    st.sampled_from(["smallest", "none"]),
)
def test_the_plan_is_algorithm_1_and_its_best_caps(occupancy, epsilon, unfinished, exempt):
    """Stages, pairs, K, caps and errors are those of a literal transcription in exact numbers."""
    agree_step_by_step(occupancy, epsilon, unfinished, exempt=exempt)


def tables(users, cells, largest):
    """Return every table of counts in which each user and each cell has some record."""
    counts = itertools.product(range(largest + 1), repeat=users * cells)
    every = (np.array(entries).reshape(users, cells) for entries in counts)
    return [t for t in every if t.any(axis=0).all() and t.any(axis=1).all()]


@pytest.mark.parametrize("unfinished", UNFINISHED)
def test_two_users_in_two_cells_in_all_ways(unfinished):
    """Every table of counts up to 2."""
    for table in tables(2, 2, 2):
        agree_step_by_step(hv.Occupancy.from_dense(table), "1", unfinished)


@pytest.mark.slow
@pytest.mark.parametrize("unfinished", UNFINISHED)
@pytest.mark.parametrize(("users", "cells", "largest"), [(3, 2, 2), (2, 3, 2), (4, 2, 1)])
def test_tiny_tables_in_all_ways(users, cells, largest, unfinished):
    """Every table of a few counts, at a loss per cell that suppresses some."""
    for number, table in enumerate(tables(users, cells, largest)):
        epsilon = ("0.1", "1", "10")[number % 3]
        agree_step_by_step(hv.Occupancy.from_dense(table), epsilon, unfinished)


@pytest.mark.parametrize("unfinished", UNFINISHED)
def test_the_papers_loss_and_the_exact_one(unfinished):
    """K ε is stated beside the exact loss, which is never above it."""
    occupancy = comp_setting(3, 0)
    plan = printed(occupancy, bounds=(0, SPAN), unfinished_stage=unfinished)
    done = theory.clip_user(occupancy, SPAN, 1, unfinished_stage=unfinished)
    assert plan.l0_epsilon == done.degradation == 5
    assert 0 < plan.epsilon < plan.l0_epsilon
    assert plan.requested_epsilon == plan.epsilon
    assert plan.allocation.suppressed_pairs.cell.size == (~done.contributing_pairs).sum()


@examples(40)
@given(occupancies(users=6, cells=4), st.sampled_from(["0.1", "1", "10"]))
def test_the_exact_loss_is_within_the_papers(occupancy, epsilon):
    """Nobody loses more than K ε, and users left out of all cells lose nothing."""
    plan = printed(occupancy, epsilon)
    assert plan.epsilon <= plan.l0_epsilon
    assert not plan.losses()[table_of(plan).sum(axis=1) == 0].any()


@pytest.mark.parametrize("cells", [1, 7, 40])
@pytest.mark.parametrize("cell_epsilon", ["0.1", "1", "3"])
def test_a_user_of_all_cells_loses_all_of_k_epsilon(cells, cell_epsilon):
    """In exact numbers K ε: what is booked, rounded up, never passes it.

    It reaches that but for the last step of each variance, which a floor may leave out.
    """
    plan = printed(hv.Occupancy.from_dense([[1] * cells] * 4), cell_epsilon)
    claimed = cells * Fraction(cell_epsilon)
    assert plan.l0_epsilon == claimed
    steps = Fraction(cells, 2**30)
    assert claimed * (1 - Fraction(1, 2**40)) - steps <= plan.epsilon <= claimed


def facts_of(table, width=2):
    """Return public metadata of a table of counts, on a lattice of so many steps."""
    occupancy = hv.Occupancy.from_dense(table)
    names = tuple(f"c{i}" for i in range(occupancy.n_cells))
    cells = CellTable(Labels("cell"), labels={"cell": names})
    return PublicMetadata(occupancy, cells, ValueLattice.of((0, width), 1))


def all_moments(m, width):
    """Return sum and sum of squares of every multiset of m values on the lattice."""
    values = itertools.combinations_with_replacement(range(width + 1), m)
    return sorted({(sum(v), sum(x * x for x in v)) for v in values})


@pytest.mark.parametrize(
    ("table", "cell_epsilon"),
    [
        ([[1], [2], [2]], "1"),
        ([[4], [1]], "0.2"),
        ([[5], [1], [1]], "0.1"),
        ([[4], [2], [1]], "0.3"),
        ([[3], [1]], "8"),
    ],
)
def test_every_pair_of_neighbours_is_within_the_booked_loss(table, cell_epsilon):
    """Exhaustive: all values of all users on a lattice, each user's values changed in all ways.

    The mean's integer moves by 2 Γ S exactly; what both numbers together cost is never more than
    the user's booked loss, and reaches the mean's part of it.
    """
    facts, width = facts_of(table), 2
    plan = hv.plan(facts, **PRINTED, cell_epsilon=cell_epsilon)
    allocation = allocation_of(plan, facts.lattice)
    mean, variance = allocation.statistics
    moments = [all_moments(m, width) for (m,) in table]
    worlds = list(itertools.product(*moments))
    sums = PrivateSums(
        np.array([[own[0] for own in world] for world in worlds]),
        np.array([[own[1] for own in world] for world in worlds]),
    )
    y = mean.measure(sums)[:, 0]
    v = variance.measure(sums)[:, 0] if variance.noised_cells.size else np.zeros(len(y), dtype=int)
    scale = float(mean.scales[0])
    contributed = table_of(plan)[:, 0]
    for user in range(len(table)):
        groups = {}
        for number, world in enumerate(worlds):
            groups.setdefault(world[:user] + world[user + 1 :], []).append(number)
        rows = np.array(list(groups.values()))
        moved = np.abs(y[rows][:, :, None] - y[rows][:, None, :])
        varied = np.abs(v[rows][:, :, None] - v[rows][:, None, :])
        assert moved.max() == 2 * contributed[user] * width
        assert (moved / scale + varied / STEPS).max() <= plan.losses()[user]
        assert plan.losses()[user] >= moved.max() / scale


def test_a_cap_keeps_a_part_of_a_users_samples_as_its_mean():
    """Suppressed users are left out, and a capped user's mean has the weight Γ/n (ERRATA 9)."""
    facts = facts_of([[90], [10], [10], [10], [10]], width=10)
    plan = hv.plan(facts, **PRINTED, cell_epsilon="0.1")
    assert plan.contribution_cap.tolist() == [10]
    mean, variance = allocation_of(plan, facts.lattice).statistics
    sums = PrivateSums(np.array([[450, 0, 0, 100, 100]]), np.array([[4500, 0, 0, 1000, 1000]]))
    assert mean.estimates(mean.measure(sums)[0]).tolist() == [5.0]
    # Weights of a fifth on five user means and second moments: 10, 0, 0, 100, 100 less 5 squared.
    expected = (50 + 100 + 100) / 5 - 25
    assert variance.estimates(variance.measure(sums)[0])[0] == pytest.approx(expected, rel=1e-6)


def test_options_are_other_goals():
    """The stage that was halted, and the loss per cell, tell requests apart."""
    occupancy = hv.Occupancy.from_dense(HEAVY)
    options = ({}, {"unfinished_stage": "undo"}, {"cell_epsilon": 2}, {"exempt": "none"})
    texts = [str(goal(printed(occupancy, **option))) for option in options]
    assert len(set(texts)) == 4
    usual = goal(printed(occupancy, exempt="smallest"))
    assert str(usual) == texts[0]


@pytest.mark.slow
def test_the_improved_form_at_the_printed_ones_exact_loss():
    """On COMP's synthetic counts the improved form has less than half of the largest error."""
    occupancy = comp_setting(3, 0)
    plan = printed(occupancy, bounds=(0, SPAN))
    rows = {row.clip_user: row for row in compare_methods(plan.single)}
    assert rows["printed"].worst == pytest.approx(plan.worst_case_error)
    assert rows["improved"].epsilon <= rows["printed"].epsilon == float(plan.epsilon)
    improved = hv.plan(
        occupancy, bounds=(0, SPAN), epsilon=plan.epsilon, method="clip-user", error="sum",
        advise=False,
    )  # fmt: skip
    assert 0.999 * float(plan.epsilon) <= float(improved.epsilon) <= float(plan.epsilon)
    assert improved.worst_case_error < plan.worst_case_error / 2
    assert rows["improved"].worst == improved.worst_case_error


@examples(25)
@given(occupancies(users=6, cells=4), st.sampled_from(["0.3", "2", "12"]))
def test_the_loss_per_cell_that_spends_epsilon(occupancy, epsilon):
    """The loss per cell found is one of three digits, and its exact loss is within epsilon."""
    plan = printed(occupancy, epsilon)
    cell_epsilon = cell_epsilon_within(plan.problem, Fraction(epsilon))
    assert printed(occupancy, cell_epsilon).epsilon <= Fraction(epsilon)
    assert float(f"{float(cell_epsilon):.3g}") == float(cell_epsilon) <= float(epsilon)
    assert cell_epsilon * occupancy.cells_per_user.max() >= Fraction(epsilon) * Fraction(98, 100)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cell_epsilon": None}, "takes cell_epsilon, the loss of one cell"),
        ({"cell_epsilon": None, "epsilon": 3}, "leave out epsilon and give cell_epsilon=1"),
        ({"epsilon": 3, "cell_epsilon": 2}, "takes the place of epsilon"),
        ({"exempt": "largest"}, "must be one of smallest, none"),
        (
            {
                "clip_user": "improved",
                "cell_epsilon": None,
                "epsilon": 1,
                "exempt": "none",
                "method": "joint",
                "error": None,
            },
            'exempt goes with method "clip-user"',
        ),
        ({"method": "joint"}, "goes with method"),
        ({"error": "separate"}, "means and variances and error"),
        ({"statistics": ("mean",)}, "means and variances and error"),
        ({"split": "0.3"}, "in halves"),
        ({"clip_user": "improved"}, 'cell_epsilon goes with clip_user "printed"'),
        ({"clip_user": "other"}, "must be one of improved, printed"),
        ({"unfinished_stage": "drop"}, "must be one of keep, undo"),
        ({"cell_epsilon": "0.0000000001"}, "too small to publish a variance"),
        ({"cell_epsilon": -1}, "must be positive"),
    ],
)
def test_what_the_paper_does_not_have_is_refused(options, message):
    """Each refusal says what does not go together."""
    with pytest.raises(InputError, match=message):
        printed(hv.Occupancy.from_dense(HEAVY), **options)
