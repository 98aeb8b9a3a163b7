"""AUTO: the mechanism with the least mean absolute error that a public prior predicts.

Source: our own. Each candidate's error is simulated on the public counts, bounds and ε, with user
means drawn from a stated prior and a fixed public seed (`race`), so that the same public facts give
the same choice.
Neighbours: one user's values all change within the bounds; users and counts are public.
Loss: that of the chosen mechanism, ε. The choice reads counts, bounds, ε and the prior, all of them
public: neighbours are given the same mechanism. A prior comes from outside the records, or from a
release of them already paid for; one fitted to the records' own values would void this.
Sensitivity, bias: those of the chosen mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.mechanisms.akmv import AKMV
from hexveil.mechanisms.array_averaging import ArrayAveraging
from hexveil.mechanisms.baseline import Baseline
from hexveil.mechanisms.levy import Levy
from hexveil.mechanisms.opt_array_averaging import OptArrayAveraging
from hexveil.mechanisms.optimal_clipping import OptimalClipping
from hexveil.mechanisms.priors import PerUser, UnknownRange, Values, check_values
from hexveil.mechanisms.quantile_averaging import FixedQuantile, OptimizedQuantile
from hexveil.mechanisms.single_cell_plan import Named, cell_facts
from hexveil.mechanisms.successive_elimination import Prediction, race

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hexveil.base.rational import Number
    from hexveil.mechanisms.cell_plan import CellPlan, Mechanism, NoiseSource

    Floats = NDArray[np.float64]

CANDIDATES: tuple[Mechanism, ...] = (
    Baseline(),
    ArrayAveraging(cap="median"),
    ArrayAveraging(cap="sqrt"),
    ArrayAveraging("wrap_around", "sqrt"),
    OptArrayAveraging("minimax"),
    OptArrayAveraging("surrogate"),
    OptimalClipping(),
    Levy(),
    Levy(cap="median"),
    FixedQuantile(0.1, 0.9),
    OptimizedQuantile(),
    AKMV("0.5"),
    AKMV("0.25"),
    AKMV("0.1"),
)
"""The mechanisms of the papers."""

UNIFORM = PerUser(UnknownRange())
"""The prior unless another is stated: users' values are uniform over a range nobody knows."""


@dataclass(frozen=True, eq=False)
class AutoPlan:
    """The public plan of the chosen mechanism, with the predictions that chose it.

    Attributes
    ----------
    chosen : Mechanism
    plan : CellPlan
        Its plan; all figures of this plan are those of it.
    predictions : mapping of str to Prediction
        Of each candidate, by name, the best first.
    """

    chosen: Mechanism
    plan: CellPlan
    predictions: Mapping[str, Prediction]

    @property
    def epsilon(self) -> Fraction:
        """Loss of the whole release: choosing cost nothing."""
        return self.plan.epsilon

    @property
    def sensitivity(self) -> float:
        """Largest change of the noiseless estimate when one user's values change."""
        return self.plan.sensitivity

    @property
    def noise_scale(self) -> float:
        """Laplace scale, which is also the expected |noise|."""
        return self.plan.noise_scale

    @property
    def worst_case_bias(self) -> float | None:
        """Largest |expected estimate - true mean| over all values, where it is known."""
        return self.plan.worst_case_bias

    @property
    def worst_case_error(self) -> float | None:
        """Planning error: worst-case bias plus expected |noise|, where it is known."""
        return self.plan.worst_case_error

    @property
    def bound95(self) -> float:
        """Error not exceeded with probability 95 percent, whatever the values."""
        return self.plan.bound95

    def release(self, user_means: ArrayLike, noise: NoiseSource) -> float:
        """Return one estimate, for study: see `CellPlan.release`."""
        return self.plan.release(user_means, noise)

    def simulate(
        self, user_means: ArrayLike, generator: np.random.Generator, trials: int
    ) -> Floats:
        """Return many estimates distributed as those of `release`: see `CellPlan.simulate`."""
        return self.plan.simulate(user_means, generator, trials)


@dataclass(frozen=True, repr=False)
class Auto(Named):
    """The candidate of least mean absolute error under a prior, chosen from public facts alone.

    Parameters
    ----------
    prior : PerUser, Normal, Uniform or alike
        What is assumed of the values. Unless another is stated, uniform: each user has one value,
        uniform between two ends which are uniform within the bounds themselves. A prior must not
        be worked out from the records to be released, except from a release already paid for.
    candidates : sequence of Mechanism, optional
        What to choose from: the mechanisms of the papers, unless named.
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

    prior: Values = UNIFORM
    candidates: Sequence[Mechanism] | None = None
    trials: int = 1024

    def __post_init__(self) -> None:
        check_values(self.prior, "Auto")
        if self.candidates is not None:
            # A tuple, so that the mechanism can be hashed and cannot change.
            object.__setattr__(self, "candidates", _checked(self.candidates))
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 2:
            raise InputError(f"trials must be a whole number of at least 2, got {self.trials!r}.")

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> AutoPlan:
        """Return the public plan of one cell: see `Mechanism.plan`."""
        cell = cell_facts(counts, bounds, epsilon)
        candidates = CANDIDATES if self.candidates is None else self.candidates
        plans = [one.plan(cell.counts, bounds=bounds, epsilon=epsilon) for one in candidates]
        predicted = race(plans, cell, self.prior, self.trials)
        # Those dropped on the way come last, whatever their luck until then; ties: the first.
        ranking = sorted(range(len(plans)), key=lambda i: (-predicted[i].trials, predicted[i].mae))
        best = ranking[0]
        named = {candidates[i].name: predicted[i] for i in ranking}
        return AutoPlan(candidates[best], plans[best], named)


def _checked(candidates: Sequence[Mechanism]) -> tuple[Mechanism, ...]:
    """Return the candidates; raise InputError unless they are mechanisms of different names."""
    found = tuple(candidates)
    if not found:
        raise InputError("Auto needs at least one candidate; leave candidates out for all.")
    for one in found:
        if isinstance(one, type) or not callable(getattr(one, "plan", None)):
            raise InputError(f"a candidate must be a mechanism like Baseline(), got {one!r}.")
    if len({one.name for one in found}) < len(found):
        raise InputError("a candidate is named twice; name each once.")
    return found
