"""AUTO: the mechanism with the least mean absolute error that a public prior predicts.

Source: our own. Each candidate's error is simulated on the public counts, bounds and ε, with user
means drawn from a stated prior and a fixed public seed (`successive_elimination`), so that the same
public facts give the same choice.
Neighbours: one user's values all change within the bounds; users and counts are public.
Loss: that of the chosen mechanism, ε. The choice reads counts, bounds, ε and the prior, all of them
public: neighbours are given the same mechanism. A prior comes from outside the records, or from a
release of them already paid for; one fitted to the records' own values would void this.
Integers, sensitivity, bias: those of the chosen mechanism.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import PerUser, UnknownRange, ValueDistribution, check_values
from hexveil.mechanisms.single_cell.cell_allocation import (
    CellProblem,
    check_epsilon,
    study_cell,
)
from hexveil.mechanisms.single_cell.cell_mechanism import CellMechanism, unknown_choice
from hexveil.mechanisms.single_cell.cell_plan import CellPlan
from hexveil.mechanisms.single_cell.linear.array_averaging import ArrayAveraging
from hexveil.mechanisms.single_cell.linear.baseline import Baseline
from hexveil.mechanisms.single_cell.linear.opt_array_averaging import OptArrayAveraging
from hexveil.mechanisms.single_cell.linear.optimal_clipping import OptimalClipping
from hexveil.mechanisms.single_cell.prior_based.successive_elimination import (
    Prediction,
    compare_candidates,
)
from hexveil.mechanisms.single_cell.private_range.akmv import AKMV
from hexveil.mechanisms.single_cell.private_range.levy import Levy
from hexveil.mechanisms.single_cell.private_range.quantile_averaging import (
    FixedQuantile,
    OptimizedQuantile,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import ArrayLike

    from hexveil.base.rational import Number
    from hexveil.mechanisms.single_cell.cell_allocation import CellAllocation

PAPERS_MECHANISMS: tuple[CellMechanism, ...] = (
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

UNIFORM = PerUser(UnknownRange())
"""The prior unless another is stated: users' values are uniform over a range nobody knows."""


@dataclass(frozen=True, eq=False)
class AutoPlan(CellPlan):
    """The public plan of the chosen mechanism, with the predictions that chose it.

    Attributes
    ----------
    chosen : CellMechanism
    predictions : mapping of str to Prediction
        Of each candidate, by name, the best first.
    """

    chosen: CellMechanism
    predictions: Mapping[str, Prediction]


@dataclass(frozen=True, repr=False)
class Auto(CellMechanism):
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

    prior: ValueDistribution = UNIFORM
    candidates: Sequence[CellMechanism] | None = None
    trials: int = 1024

    def __post_init__(self) -> None:
        check_values(self.prior, "Auto")
        if self.candidates is not None:
            # A tuple, so that the mechanism can be hashed and cannot change.
            object.__setattr__(self, "candidates", _check_candidates(self.candidates))
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 2:
            raise InputError(f"trials must be a whole number of at least 2, got {self.trials!r}.")

    def plan(self, counts: ArrayLike, *, bounds: object, epsilon: Number) -> AutoPlan:
        """Return the plan of the chosen mechanism: see `CellMechanism.plan`."""
        cell, loss = study_cell(counts, bounds), check_epsilon(epsilon)
        candidates = PAPERS_MECHANISMS if self.candidates is None else self.candidates
        plans = [CellPlan(each.allocate_cell(cell, loss)) for each in candidates]
        predicted = compare_candidates(plans, cell, self.prior, self.trials)
        # Eliminated candidates come last, whatever their luck until then; ties go to the first.
        ranking = sorted(range(len(plans)), key=lambda i: (-predicted[i].trials, predicted[i].mae))
        best = ranking[0]
        predictions = {candidates[i].name: predicted[i] for i in ranking}
        return AutoPlan(plans[best].allocation, candidates[best], predictions)

    def allocate_cell(self, cell: CellProblem, epsilon: Fraction) -> CellAllocation:
        """Return the chosen mechanism's allocation: see `CellMechanism.allocate_cell`."""
        return self.allocate_chosen(cell, epsilon, self.choose(cell, epsilon))

    def choose(self, cell: CellProblem, epsilon: Fraction) -> str:
        """Return the name of the chosen mechanism, and the choice that it makes itself, as JSON."""
        bounds = cell.lower, cell.lower + cell.quantum * cell.span
        # Predicted on the lattice of a study, in parts of the bounds; the allocation itself is made
        # on the lattice of the records.
        chosen = self.plan(cell.counts, bounds=bounds, epsilon=epsilon).chosen
        return json.dumps([chosen.name, chosen.choose(cell, epsilon)])

    def chosen_name(self, choice: str) -> str:
        """Return the name of the candidate: see `CellMechanism.chosen_name`."""
        return str(json.loads(choice)[0])

    def allocate_chosen(self, cell: CellProblem, epsilon: Fraction, choice: str) -> CellAllocation:
        """Return a candidate's allocation: see `CellMechanism.allocate_chosen`."""
        candidates = PAPERS_MECHANISMS if self.candidates is None else self.candidates
        try:
            name, inner = json.loads(choice)
            (chosen,) = (each for each in candidates if each.name == name)
        except (ValueError, TypeError):
            raise unknown_choice(self.name) from None
        return chosen.allocate_chosen(cell, epsilon, inner)


def _check_candidates(candidates: Sequence[CellMechanism]) -> tuple[CellMechanism, ...]:
    """Return the candidates; raise InputError unless they are mechanisms of different names."""
    mechanisms = tuple(candidates)
    if not mechanisms:
        raise InputError("Auto needs at least one candidate; leave candidates out for all.")
    for mechanism in mechanisms:
        if not isinstance(mechanism, CellMechanism):
            raise InputError(f"a candidate must be a mechanism like Baseline(), got {mechanism!r}.")
    if len({mechanism.name for mechanism in mechanisms}) < len(mechanisms):
        raise InputError("a candidate is named twice; name each once.")
    return mechanisms
