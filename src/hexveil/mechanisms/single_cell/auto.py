"""AUTO: the mechanism with the least mean absolute error that a public prior predicts.

Source: our own. Each candidate's error is simulated on the public counts, bounds and ε, with user
means drawn from a stated prior and a fixed public seed, so that the same public facts give the same
choice. All see the same user means, and noise of the same seed: their difference is known better
than either error, and a candidate clearly above the least is eliminated before the trials are
through. Where a plan adds one Laplace noise of scale b to an estimate that misses by d, the error
over the noise is known, E|d + Laplace(b)| = |d| + b exp(-|d|/b), and no noise is drawn.
Neighbours: one user's values all change within the bounds; users and counts are public.
Loss: that of the chosen mechanism, ε. The choice reads counts, bounds, ε and the prior, all of them
public: neighbours are given the same mechanism. A prior comes from outside the records, or from a
release of them already paid for; one fitted to the records' own values would void this.
Integers, sensitivity, bias: those of the chosen mechanism.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.mechanisms import priors, single_cell
from hexveil.mechanisms.single_cell import private_ranges
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging, OptArrayAveraging
from hexveil.mechanisms.single_cell.clipped_user_sums import Baseline, OptimalClipping
from hexveil.mechanisms.spelling import spelled
from hexveil.mechanisms.stage_data import PrivateSums

PAPERS_MECHANISMS: tuple[single_cell.CellMechanism, ...] = (
    Baseline(),
    ArrayAveraging(cap="median"),
    ArrayAveraging(cap="sqrt"),
    ArrayAveraging("wrap_around", "sqrt"),
    OptArrayAveraging("minimax"),
    OptArrayAveraging("surrogate"),
    OptimalClipping(),
    private_ranges.Levy(),
    private_ranges.Levy(cap="median"),
    private_ranges.FixedQuantile(0.1, 0.9),
    private_ranges.OptimizedQuantile(),
    private_ranges.AKMV("0.5"),
    private_ranges.AKMV("0.25"),
    private_ranges.AKMV("0.1"),
)

UNIFORM = priors.PerUser(priors.UnknownRange())
"""The prior unless another is stated: users' values are uniform over a range nobody knows."""


@dataclass(frozen=True, eq=False)
class AutoPlan(single_cell.CellPlan):
    """The public plan of the chosen mechanism, with the predictions that chose it.

    Attributes
    ----------
    chosen : CellMechanism
    predictions : mapping of str to Prediction
        Of each candidate, by name, the best first.
    """

    chosen: single_cell.CellMechanism
    predictions: "Mapping[str, Prediction]"


@dataclass(frozen=True, repr=False)
class Auto(single_cell.CellMechanism):
    """The candidate of least mean absolute error under a prior, chosen from public facts alone.

    Parameters
    ----------
    prior : PerUser, Normal, Uniform or alike
        Assumed distribution of the values. Unless another is stated, uniform: each user has one
        value, uniform between two ends which are uniform within the bounds themselves. A prior must
        not be computed from the records to be released, except from a release already paid for.
    candidates : sequence of CellMechanism, optional
        Mechanisms to choose from: those of the papers, unless named.
    trials : int
        Simulated values per candidate, at least 2. A large cell gets fewer, though not below 64
        if as many are asked for.

    Raises
    ------
    InputError
        If the prior cannot draw, there is no candidate, or trials is too small.

    Privacy
    -------
    The loss is the chosen mechanism's, ε: counts, bounds, ε and prior are public, so neighbours
    get the same choice, and the choice tells nothing about values.

    Examples
    --------
    >>> plan = Auto().plan([9, 4, 2, 1], bounds=(0, 8), epsilon=1)
    >>> plan.chosen
    OptimalClipping()
    >>> plan.predictions[plan.chosen.name].trials
    1024
    """

    prior: priors.ValueDistribution = UNIFORM
    candidates: Sequence[single_cell.CellMechanism] | None = None
    trials: int = 1024

    def __post_init__(self) -> None:
        priors.check_values(self.prior, "Auto")
        if self.candidates is not None:
            # A tuple, so that the mechanism can be hashed and cannot change.
            object.__setattr__(self, "candidates", _check_candidates(self.candidates))
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 2:
            raise InputError(f"trials must be a whole number of at least 2, got {self.trials!r}.")

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> AutoPlan:
        """Return the plan of the chosen mechanism: see `CellMechanism.plan`."""
        cell = single_cell.study_cell(counts, bounds)
        loss = to_positive_fraction(epsilon, "epsilon")
        candidates = self.candidates or PAPERS_MECHANISMS
        plans = [single_cell.CellPlan(each.allocate_cell(cell, loss)) for each in candidates]
        predicted = compare_candidates(plans, cell, self.prior, self.trials)
        # Eliminated candidates come last, whatever their luck until then; ties go to the first.
        ranking = sorted(range(len(plans)), key=lambda i: (-predicted[i].trials, predicted[i].mae))
        best = ranking[0]
        predictions = {candidates[i].name: predicted[i] for i in ranking}
        return AutoPlan(plans[best].allocation, candidates[best], predictions)

    def allocate_cell(
        self, cell: single_cell.CellProblem, epsilon: Fraction
    ) -> single_cell.CellAllocation:
        """Return the chosen mechanism's allocation: see `CellMechanism.allocate_cell`."""
        return self.allocate_chosen(cell, epsilon, self.choose(cell, epsilon))

    def choose(self, cell: single_cell.CellProblem, epsilon: Fraction) -> str:
        """Return the name of the chosen mechanism, in its one spelling."""
        bounds = cell.lower, cell.lower + cell.quantum * cell.span
        # Predicted on the lattice of a study, in parts of the bounds; the allocation itself is made
        # on the lattice of the records.
        chosen = self.plan(cell.counts, bounds=bounds, epsilon=epsilon).chosen
        return str(spelled(chosen).name)

    def allocate_chosen(
        self, cell: single_cell.CellProblem, epsilon: Fraction, choice: str
    ) -> single_cell.CellAllocation:
        """Return a candidate's allocation: see `CellMechanism.allocate_chosen`."""
        for each in self.candidates or PAPERS_MECHANISMS:
            if choice in (each.name, spelled(each).name):
                return each.allocate_cell(cell, epsilon)
        raise single_cell.unknown_choice(self.name)


def _check_candidates(
    candidates: Sequence[single_cell.CellMechanism],
) -> tuple[single_cell.CellMechanism, ...]:
    """Return the candidates; raise InputError unless they are mechanisms of different names."""
    mechanisms = tuple(candidates)
    if not mechanisms:
        raise InputError("Auto needs at least one candidate; leave candidates out for all.")
    for mechanism in mechanisms:
        # What another `Auto` chooses would not be stored with the plan.
        if not isinstance(mechanism, single_cell.CellMechanism) or isinstance(mechanism, Auto):
            raise InputError(f"a candidate must be a mechanism like Baseline(), got {mechanism!r}.")
    if len({mechanism.name for mechanism in mechanisms}) < len(mechanisms):
        raise InputError("a candidate is named twice; name each once.")
    return mechanisms


SEED = 1
"""Fixed and public: a prediction depends on nothing but its arguments."""
FIRST_TRIALS = 64
"""Trials before any plan is eliminated, and the fewest that a large cell gets."""
ELIMINATION_SIGMAS = 4.0
"""Standard errors of the difference to the best that eliminate a plan."""
MAX_DRAWN = 8_000_000
"""Numbers drawn for a cell, unless FIRST_TRIALS need more."""
MAX_PER_TRIAL = 10**8
"""Numbers of one trial: 800 MB."""
_CHUNK = 250_000
"""User means that a plan is given at once: 2 MB."""


@dataclass(frozen=True)
class Prediction:
    """Expected error of a candidate, in value units; public.

    Attributes
    ----------
    mae : float
        Mean absolute error against the mean of the cell's samples.
    standard_error : float
        Of `mae`, by the simulation.
    trials : int
        Fewer than those of the best if the candidate was eliminated.
    """

    mae: float
    standard_error: float
    trials: int


def compare_candidates(
    plans: Sequence[single_cell.CellPlan],
    cell: single_cell.CellProblem,
    prior: priors.ValueDistribution,
    trials: int,
) -> list[Prediction]:
    """Return the error to expect of each plan, in value units.

    Parameters
    ----------
    plans : sequence of CellPlan
        Plans of the same cell.
    cell : CellProblem
    prior : ValueDistribution
    trials : int
        At least 2.

    Raises
    ------
    InputError
        If one trial of the prior's samples would not fit into memory.
    """
    numbers = priors.numbers_per_trial(prior, cell.counts)
    if numbers > MAX_PER_TRIAL:
        raise InputError(
            f"the cell has {numbers:,} samples, more than the {MAX_PER_TRIAL:,} that can be drawn "
            "at once; state a prior per user, like PerUser(Normal(20, 10))."
        )
    errors = [np.empty(0) for _ in plans]
    running = list(range(len(plans)))
    affordable = min(trials, max(FIRST_TRIALS, MAX_DRAWN // numbers))
    for number, rows in enumerate(_chunks(affordable, cell)):
        # Streams of values and of noise are apart and start anew with each chunk, so that
        # eliminating one plan changes nothing that another one sees.
        means = priors.draw_user_means(
            prior, cell.counts, cell.bounds, np.random.default_rng([SEED, 0, number]), rows
        )
        sums, truth = cell.sums(means), means @ (cell.counts / cell.total)
        for i in running:
            fresh = np.random.default_rng([SEED, 1, number])
            errors[i] = np.append(errors[i], _errors(plans[i], sums, truth, fresh))
        running = _still_running(errors, running)
    return [
        Prediction(float(one.mean()), float(one.std(ddof=1)) / math.sqrt(one.size), one.size)
        for one in errors
    ]


def _chunks(trials: int, cell: single_cell.CellProblem) -> Iterator[int]:
    """Yield trials to take at once: FIRST_TRIALS, then as many as before, if memory allows."""
    limit, n_drawn = max(1, _CHUNK // cell.counts.size), 0
    while n_drawn < trials:
        rows = min(max(n_drawn, FIRST_TRIALS), limit, trials - n_drawn)
        yield rows
        n_drawn += rows


def _errors(
    plan: single_cell.CellPlan, sums: PrivateSums, truth: Floats, generator: np.random.Generator
) -> Floats:
    """Return |estimate - truth| of each trial, over the noise where its mean is known."""
    if plan.worst_case_bias is None:
        from hexveil.mechanisms.simulated_noise import SimulatedNoise  # noqa: PLC0415  a release never loads it

        return np.abs(plan.estimates(sums, SimulatedNoise(generator, truth.size)) - truth)
    # The mean over the noise is known: E|d + Laplace(b)| = |d| + b exp(-|d|/b).
    gap, scale = np.abs(plan.noiseless_estimates(sums) - truth), plan.noise_scale
    return np.asarray(gap + scale * np.exp(-gap / scale) if scale else gap, dtype=np.float64)


def _still_running(errors: list[Floats], running: list[int]) -> list[int]:
    """Return the plans that are not clearly worse than the best, trial by trial."""
    trials = errors[running[0]].size
    if trials < FIRST_TRIALS:
        return running
    best = min(running, key=lambda i: float(errors[i].mean()))
    # Trial by trial: what the values and the noise have in common cancels.
    behind = {i: errors[i] - errors[best] for i in running}
    sigmas = ELIMINATION_SIGMAS / math.sqrt(trials)
    return [i for i, gap in behind.items() if gap.mean() <= sigmas * gap.std(ddof=1)]
