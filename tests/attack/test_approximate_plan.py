"""Plans, releases and checks under (ε, δ) where occupancy is public: optimum, exact laws, twins.

The exact δ of a tiny release is summed over outcomes, with no formula of a loss; OpenDP's own
accountant is compared with the conversion in tests/accounting/test_gaussian_composition.py.
"""

import copy
import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import hexveil as hv
from accounting.test_gaussian_composition import law
from attack.exact_law import choice
from examples import examples
from hexveil import HexveilError, InputError, Occupancy
from hexveil.accounting import gaussian_composition
from hexveil.accounting import moves as accountant
from hexveil.accounting.gaussian_composition import (
    calibrated_square,
    square_epsilon,
    square_of_pure,
)
from hexveil.accounting.noise_law import GAUSSIAN
from hexveil.accounting.promise import Squares
from hexveil.mechanisms.looks.cell_looks import FIRST_LOOK
from hexveil.mechanisms.looks.cell_stages import weighted_sum
from hexveil.mechanisms.looks.clipped_mean import CELLS
from hexveil.mechanisms.looks.pooled_means import HISTOGRAM
from hexveil.mechanisms.looks.user_weights import UserMeanPrior
from hexveil.mechanisms.sensitivity_report import (
    GaussianNoise,
    LaplaceNoise,
    Meter,
    NoisyMax,
    SensitivityReport,
    Separate,
)
from hexveil.mechanisms.stage_data import Outputs, PrivateSums
from hexveil.model.public_metadata import ValueLattice
from hexveil.planning import methods
from hexveil.planning.allocation import allocation_of
from hexveil.planning.component import goal
from hexveil.publishing.dossier import dossier as render_dossier
from hexveil.publishing.kinds import loss_checks
from hexveil.publishing.kinds.loss_checks import ReleaseStatements
from mechanisms.setting import dataset_of
from mechanisms.stage_laws import moves_of
from publishing.releases import statements_of

EPSILON, DELTA = Fraction(6), Fraction(1, 1000)
PRIOR = UserMeanPrior(0.3, 0.1)
COUNTS = [[3, 1], [1, 2], [2, 2]]
counts = st.lists(
    st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=2, max_size=5
).filter(lambda rows: all(map(sum, rows)) and all(map(sum, zip(*rows, strict=True))))


def plan_of(dataset, clipping_range="bounds", **options):
    """Return a plan of a tiny data set at the ε and δ of these tests."""
    return hv.plan(
        dataset,
        epsilon=EPSILON,
        delta=DELTA,
        clipping_range=clipping_range,
        advise=False,
        **options,
    )


def stages_of(plan):
    """Return the stages of a plan as a release runs them."""
    return allocation_of(plan, plan.facts.lattice)


# ---- the optimum ----


@pytest.mark.parametrize("objective", ["max", "mean"])
def test_targets_of_users_alike_cost_the_square_of_the_root(objective):
    """Where all are alike deviations of e / κ are enough: μ² is k (κ / (n e))²."""
    users, cells, target = 200, 3, 0.02
    occupancy = Occupancy.from_dense([[2] * cells] * users)
    options = {"bounds": (0, 1), "delta": "1e-6", "objective": objective, "advise": False}
    plan = hv.plan(occupancy, target_error=target, **options)
    square = cells * (GAUSSIAN.mean_absolute / (users * target)) ** 2
    exact = square_epsilon(Fraction(square), Fraction("1e-6"))
    assert exact * 0.999 <= plan.epsilon <= exact * 1.002
    assert plan.error.max() <= target
    # What one constant meets costs nothing.
    assert hv.plan(occupancy, target_error=0.5, **options).epsilon == 0


# ---- exact laws ----


def extremes(dataset, user=0):
    """Yield sums of two data sets: one user's values all change from one end to the other."""
    local, span = dataset.occupancy.local(), dataset.public.lattice.span_quanta
    low = np.zeros(local.n_pairs, dtype=np.int64)
    own, whole = local.user == user, local.n * span
    for others in (low, np.where(own, 0, whole)):
        changed = np.where(own, whole, others)
        # Of values at the bounds alone squares are sums times the upper one.
        pair = tuple(PrivateSums(one, one * span) for one in (others, changed))
        yield pair
        yield pair[::-1]


def profile(square, epsilon):
    """Return E (P - e^ε Q)+ of normal noise."""
    mu = math.sqrt(square)
    if not mu:
        return max(1.0 - math.exp(epsilon), 0.0)
    far = stats.norm.sf(epsilon / mu + mu / 2)
    return stats.norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * far


def paths(stages, pair, rows=None, chances=(1.0, 1.0)):
    """Yield the chances of each path of choices in two data sets, and all that has noise."""
    rows = rows or {}
    earlier = Outputs({name: np.array([row]) for name, row in rows.items()})
    stage = stages.next_stage(earlier)
    requests = stage.noise(earlier)
    measured = [stage.measure(sums, earlier) for sums in pair]
    if stage.name == HISTOGRAM:
        # In whatever range: squares add up, and do not depend on it.
        first = measured[0][0].integers
        row = stage.row(first, earlier)[0].tolist()
        for p, q, moved, request in paths(stages, pair, {**rows, stage.name: row}, chances):
            both = np.concatenate([(first - measured[1][0].integers)[0], moved])
            noise = np.concatenate([requests[0].deviations, request.deviations])
            yield p, q, both, GaussianNoise(noise)
        return
    if not isinstance(requests[0], NoisyMax):
        moved = measured[0][0].integers[0] - measured[1][0].integers[0]
        yield (*chances, moved, requests[0])
        return
    laws = [
        [np.exp(choice(tuple(one.scores[0].tolist()), request.scale)) for one in of]
        for request, *of in zip(requests, *measured, strict=True)
    ]
    for chosen in itertools.product(*(range(first.size) for first, _ in laws)):
        p, q = (
            math.prod(law[side][k] for law, k in zip(laws, chosen, strict=True)) for side in (0, 1)
        )
        following = {**rows, stage.name: list(chosen)}
        yield from paths(stages, pair, following, (p * chances[0], q * chances[1]))


def largest_delta(plan, dataset, epsilon=EPSILON):
    """Return the largest δ at ε of any user, with normal noise at the cells."""
    stages, worst = stages_of(plan), 0.0
    for user in range(dataset.occupancy.n_users):
        for pair in extremes(dataset, user):
            found = 0.0
            for p, q, moved, request in paths(stages, pair):
                assert isinstance(request, GaussianNoise)
                square = float(((moved / request.deviations) ** 2).sum())
                found += p * profile(square, float(epsilon) + math.log(q / p))
            worst = max(worst, found)
    return worst


FINE = ValueLattice.of((0, 60), "0.01")
COARSE = ValueLattice.of((0, 4), 1)


@pytest.mark.slow
def test_the_exact_law_of_a_cell_is_within_delta_and_close():
    """Outcome by outcome, lattice and all: δ at ε is at most what is promised, and 90% of it."""
    dataset = dataset_of([[1], [2], [3]], scale=ValueLattice.of((0, 60), "0.1"))
    plan = plan_of(dataset)
    stages = stages_of(plan)
    worst = 0.0
    for user in range(3):
        ((p, _, moved, request),) = paths(stages, next(extremes(dataset, user)))
        assert p == 1.0
        _, mass = law(float(request.deviations[0]))
        by = abs(int(moved[0]))
        shifted = np.concatenate([np.zeros(by), mass])[: mass.size]
        worst = max(worst, math.fsum(np.maximum(mass - math.exp(EPSILON) * shifted, 0.0)))
    assert 0.9 * float(DELTA) <= worst <= float(DELTA)


BOTH = ("mean", "sd")


@pytest.mark.parametrize(
    ("lattice", "statistics", "least"),
    [(FINE, "mean", 0.9), (COARSE, "mean", 0.9), (FINE, BOTH, 0.5), (COARSE, "sd", 0.5)],
)
def test_no_user_of_several_cells_exceeds_delta(lattice, statistics, least):
    """Within bounds the loss over all cells is the promised one, for means of few quanta too."""
    dataset = dataset_of(np.tile(COUNTS, (1 if statistics == "mean" else 4, 1)), scale=lattice)
    plan = plan_of(dataset, statistics=statistics)
    assert all(model.noised.all() for model in plan.error_models.values())
    worst = largest_delta(plan, dataset)
    assert least * float(DELTA) <= worst <= float(DELTA)


def test_target_errors_find_an_epsilon_that_holds():
    """The exact δ at the ε that was found is within the promised one, and close; errors are met."""
    dataset = dataset_of(COUNTS, scale=FINE)
    plan = hv.plan(dataset, target_error=20, delta=DELTA, advise=False)
    assert plan.error.max() <= 20 < plan.error.max() * 1.01
    worst = largest_delta(plan, dataset, plan.epsilon)
    assert 0.9 * float(DELTA) <= worst <= float(DELTA)
    assert (goal(plan)["delta"], goal(plan)["epsilon"]) == ("0.001", "none")


@pytest.mark.parametrize(
    ("share", "statistics", "least"), [("0.3", "mean", 0.0), ("0.01", "mean", 0.5),
                                       ("0.01", BOTH, 0.0), ("0.01", "sd", 0.0)]
)  # fmt: skip
def test_no_user_exceeds_delta_in_a_private_range(share, statistics, least):
    """Choices of a range and the cells after them are within δ together, along all paths."""
    dataset = dataset_of(COUNTS, scale=COARSE)
    plan = plan_of(dataset, "private", range_share=share, statistics=statistics)
    worst = largest_delta(plan, dataset)
    assert least * float(DELTA) <= worst <= float(DELTA)


def largest_cell_alone(user, terms, n_users, *, up):
    """Return each user's largest square by one cell: not the L2 norm over its cells."""
    assert up
    by_user = np.zeros(n_users)
    np.maximum.at(by_user, user, terms[0])
    return by_user


def too_much(epsilon, delta):
    """Return a promise of a square that is above the promised one."""
    return Squares(calibrated_square(epsilon, delta) * Fraction(6, 5), delta)


def nothing(*_):
    """Return the square of choices that are not counted."""
    return 0.0


def meter_whole_path(plan):
    """Meter all stages of a plan, on some path of outputs."""
    stages, earlier = stages_of(plan), Outputs()
    meter = Meter(plan.booked_losses, squared=True)
    while (stage := stages.next_stage(earlier)) is not None:
        meter.authorise(stage.noise(earlier), stage.sensitivity(earlier))
        row = np.arange(stage.entries)[None]
        if stage.name == HISTOGRAM:
            row[0, -4:] = 1, 2, 1, 2
        earlier = earlier.extended(stage.name, stage.entries, row)


def first_alone(moved, real=accountant.squares):
    """Return the squares of means: variances are not counted."""
    return real(list(moved)[:1])


TWINS = {
    "variances that are not counted": (
        accountant, "squares", first_alone, "bounds"
    ),
    "one cell in place of the norm": (
        accountant, "add_up", largest_cell_alone, "bounds"
    ),
    "a conversion that promises too little": (
        methods, "promised",
        too_much, "bounds",
    ),
    "choices that are not counted": (
        gaussian_composition, "range_square", nothing, "private"
    ),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(twin, monkeypatch):
    """They exceed δ by exact laws or are refused by the meter."""
    where, name, broken, clipping_range = TWINS[twin]
    times, asked = (4, BOTH) if broken is first_alone else (1, "mean")
    counted = np.tile(COUNTS, (times, 1))
    dataset = dataset_of(counted, scale=FINE if clipping_range == "bounds" else COARSE)
    share = {} if clipping_range == "bounds" else {"range_share": "0.3"}
    with monkeypatch.context() as patch:
        patch.setattr(where, name, broken)
        plan = plan_of(dataset, clipping_range, statistics=asked, **share)
    if clipping_range == "bounds":
        assert largest_delta(plan, dataset) > 1.05 * float(DELTA)
    if twin != "a conversion that promises too little":
        with pytest.raises(HexveilError, match="more than was booked"):
            meter_whole_path(plan)


@examples(15)
@given(
    counts,
    st.sampled_from([FINE, COARSE, ValueLattice.of((0, 60), 1)]),
    st.sampled_from(["mean", "sd", BOTH]),
)
def test_the_meter_finds_what_was_booked(rows, lattice, statistics):
    """From moves and scales at the door each user's square is the booked one, rounded down."""
    dataset = dataset_of(rows, scale=lattice)
    plan = plan_of(dataset, statistics=statistics)
    stage = stages_of(plan).next_stage(Outputs())
    if stage is None:
        return
    (request,), (report,) = stage.noise(Outputs()), stage.sensitivity(Outputs())
    found = report.squares_lower_bound(request, dataset.occupancy.n_users)
    assert (found <= plan.booked_losses).all()
    floor_of_quanta = 1.0 - 3.0 / lattice.span_quanta
    assert (found >= plan.booked_losses * min(floor_of_quanta, 1.0 - 1e-6) * 0.99).all() or (
        request.deviations <= 1.0
    ).any()
    assert plan.booked_limit <= calibrated_square(EPSILON, DELTA)


def test_a_meter_of_squares_refuses_what_no_square_limits():
    """Laplace noise is charged as a pure stage; Gaussian noise needs moves; its own kind passes."""
    moves = Separate.of_one_entry(np.array([1000]))
    gaussian, laplace = GaussianNoise(np.array([5000.0])), LaplaceNoise(np.array([5000.0]))
    Meter(np.array([0.05]), squared=True).authorise((gaussian,), (moves,))
    Meter(np.array([0.07]), squared=True).authorise((laplace,), (moves,))
    for report, room in ((SensitivityReport(), 9.0), (moves, 0.039)):
        with pytest.raises(HexveilError, match="more than was booked"):
            Meter(np.array([room]), squared=True).authorise((gaussian,), (report,))


# ---- ranges of single cells ----


def looks_plan():
    """Return a data set of two cells, and its plan with ranges of single cells."""
    dataset = dataset_of(COUNTS, scale=FINE)
    return dataset, plan_of(dataset, "per-cell", range_share="0.05")


def paths_of_looks(stages, rng):
    """Yield stages, with outputs before them, of one path: cells move or stay by chance."""
    earlier = Outputs()
    while (stage := stages.next_stage(earlier)) is not None:
        yield stage, earlier
        row = rng.integers(0, 2, stage.entries)
        if stage.name == HISTOGRAM:
            row[-5:] = *np.sort(rng.choice(6001, 2, replace=False)), 3000, 500, 500
        if stage.name == FIRST_LOOK:
            n, moves = stage.entries // 4, rng.integers(0, 2, stage.entries // 4)
            lower = moves * rng.integers(0, 3000, n)
            upper = lower + moves * rng.integers(1, 3000, n)
            row = np.concatenate((rng.integers(0, 10**9, n), lower, upper, np.zeros(n, np.int64)))
        earlier = earlier.extended(stage.name, stage.entries, row[None])


@pytest.mark.parametrize("seed", range(3))
def test_two_looks_cost_what_was_booked_in_whatever_ranges(seed):
    """On each path the meter's squares are the booked ones, and values move sums no further."""
    dataset, plan = looks_plan()
    stages, rng = stages_of(plan), np.random.default_rng(seed)
    n_users = dataset.occupancy.n_users
    meter, squares = Meter(plan.booked_losses, squared=True), np.zeros(n_users)
    for stage, earlier in paths_of_looks(stages, rng):
        requests, reports = stage.noise(earlier), stage.sensitivity(earlier)
        meter.authorise(requests, reports)
        if not isinstance(requests[0], GaussianNoise):
            pure = [r.loss_lower_bound(q, n_users) for q, r in zip(requests, reports, strict=True)]
            squares += sum(np.array([*map(square_of_pure, one.tolist())]) for one in pure)
            continue
        squares += reports[0].squares_lower_bound(requests[0], n_users)
        moves = moves_of(reports[0])
        for user in range(n_users):
            own = moves.user == user
            for pair in extremes(dataset, user):
                a, b = (stage.measure(sums, earlier)[0].integers[0] for sums in pair)
                limit = np.zeros(a.size, dtype=np.int64)
                np.add.at(limit, moves.entry[own], moves.by[own])
                if stage.name == HISTOGRAM:  # its bins move together
                    assert ((a - b) ** 2).sum() <= (limit**2).sum()
                else:
                    assert (np.abs(a - b) <= limit).all()
    spent = squares / plan.booked_losses
    assert ((spent <= 1.0) & (spent > 0.99)).all()


def test_precisions_of_two_looks_add_up():
    """A cell that stays publishes a number of the variance of one at all of the square."""
    _, plan = looks_plan()
    stages = stages_of(plan)
    looks = [
        stage.scales
        for stage, _ in paths_of_looks(stages, np.random.default_rng(1))
        if stage.name in {FIRST_LOOK, CELLS}
    ]
    f, width = 0.3, looks[0] / stages.first_scales((0, 1))
    both = np.hypot(
        f * looks[0], (1 - f) * stages.mean.scales(1, Squares.noise_share(Fraction(7, 10))) * width
    )
    assert np.allclose(both, stages.mean.scales(1) * width, rtol=1e-6)
    for first, second in ((7, -8), (2**60, -(2**60)), (0, 5)):
        exact = Fraction(3 * first + 7 * second, 10)
        got = weighted_sum(np.array([first]), np.array([second]), Fraction(3, 10))[0]
        assert abs(Fraction(int(got)) - exact) < 1


def test_looks_at_all_of_the_square_each_are_refused(monkeypatch):
    """Two looks with the noise of one, each, cost more than was booked."""
    _, plan = looks_plan()
    monkeypatch.setattr(Squares, "noise_share", lambda *_: Fraction(1))
    meter = Meter(plan.booked_losses, squared=True)
    costs = [
        (stage.noise(outputs), stage.sensitivity(outputs))
        for stage, outputs in paths_of_looks(stages_of(plan), np.random.default_rng(3))
    ]

    def spend():
        for cost in costs:
            meter.authorise(*cost)

    with pytest.raises(HexveilError, match="more than was booked"):
        spend()


# ---- releases ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clipping_range", "statistics", "limit"),
    [
        ("private", "sd", {"epsilon": 30}),
        ("private", BOTH, {"epsilon": 30}),
        ("bounds", BOTH, {"target_error": {"mean": "4%", "variance": "5%"}}),
    ],
)
def test_variances_are_released_and_checked(clipping_range, statistics, limit, tmp_path):
    """Their folder is verified: squares of both statistics add up, and roots that are cut off."""
    rng = np.random.default_rng(5)
    counts, cell = np.full((60, 6), 3), np.tile(np.arange(6), 60)
    means = rng.normal(30.0 + 20.0 * (np.sort(cell) == 5), 3.0)
    totals = np.clip(100 * means, 0, 6000).astype(np.int64) * 3
    dataset = dataset_of(counts, totals, totals**2 // 3 + 30_000, scale=FINE, value="speed")
    options = {"delta": "0.001", "advise": False, "statistics": statistics, **limit}
    plan = hv.plan(dataset, clipping_range=clipping_range, **options)
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="buses", budget=31, delta="0.001")
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    manifest = statements_of(hv.verify(made.write(tmp_path / "map")))
    steps = {step["step"]: step for step in manifest["plan"]["privacy_steps"]}
    assert ("mean_share" in steps["cells"]) == (clipping_range == "private")
    assert manifest["losses"]["squared_mu"]["max"] == pytest.approx(float(plan.booked_limit))
    forged = copy.deepcopy(manifest)
    for cell in forged["cells"]:
        cell["noised"][-1]["scale"] *= 0.05
    stated = ReleaseStatements.from_release(forged, made.to_arrow())
    found = " ".join(loss_checks.find_problems(stated))
    assert "by the scales" in found


@pytest.mark.slow
def test_a_release_books_squares_and_its_folder_is_checked(tmp_path):
    """A release is written, verified, replayed and described."""
    dataset = dataset_of(np.tile(COUNTS, (4, 1)), totals=100, scale=FINE, value="speed")
    book = hv.Ledger(tmp_path / "book.sqlite", dataset="buses", budget=8, delta=DELTA)
    plan = plan_of(dataset)
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    folder = made.write(tmp_path / "map")
    manifest = statements_of(hv.verify(folder))
    assert manifest["guarantee"]["delta"] == "0.001"
    assert hv.release(dataset, plan, ledger=book, accept_noise=True).replayed
    assert 0.0 < float(book.remaining) < 7.9
    readme = " ".join((folder / "README.txt").read_text().split())
    assert "(epsilon, delta)-differential privacy at epsilon" in readme
    assert "Of 12 units it would reveal" in readme
    dossier = render_dossier(folder).to_text()
    assert "squares of μ" in dossier
    assert "Laplace" not in dossier
    pure = hv.plan(dataset, epsilon=1, clipping_range="bounds", advise=False)
    with pytest.raises(InputError, match="opened with delta"):
        hv.release(dataset, pure, ledger=book, accept_noise=True)
    # The same numbers, smoothed by a model of their noise, at no cost.
    options = {"accept_noise": True, "estimates": ("raw", "smoothed")}
    smoothed = hv.release(dataset, replace(plan), ledger=book, **options)
    assert smoothed.replayed
    assert "The noise is Gaussian" in statements_of(smoothed)["smoothing"][0]["model"]
    hv.verify(smoothed.write(tmp_path / "smoothed"))
