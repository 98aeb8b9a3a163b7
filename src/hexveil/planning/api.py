"""The public door of planning: arguments in, a plan out, and a warning if it says too little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np

from hexveil.errors import InputError
from hexveil.exact import Number, bounds_pair, positive
from hexveil.facts import PublicFacts
from hexveil.mechanisms import OptimalClipping, ThresholdMechanism
from hexveil.occupancy import Occupancy
from hexveil.planning.advice import GridTooFineWarning, advice
from hexveil.planning.per_cell import METHODS
from hexveil.planning.plan import Plan
from hexveil.planning.support import default_prior

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

Method = Literal["per-cell", "composition"]


@runtime_checkable
class HasFacts(Protocol):
    """Anything that carries public facts, such as a data set."""

    @property
    def public(self) -> PublicFacts:
        """All that a plan may see."""


def plan(  # noqa: PLR0913  a public door; keyword-only
    source: Occupancy | PublicFacts | HasFacts,
    *,
    epsilon: Number,
    bounds: object = None,
    statistics: tuple[str, ...] | str | None = None,
    method: Method = "per-cell",
    mechanism: ThresholdMechanism | None = None,
    prior: Number | None = None,
    advise: bool = True,
) -> Plan:
    """Return a plan for all cells together that costs no user more than `epsilon`.

    Only public facts enter: occupancy, bounds, ε and the prior. Nothing is spent.

    Parameters
    ----------
    source : Dataset, PublicFacts or Occupancy
        Of a data set only its public facts are looked at.
    epsilon : int, str, Decimal, Fraction or float
        Largest loss of any unit of privacy, over all its cells.
    bounds : pair of numbers, or mapping of cell name to pair, optional
        Default: those the records were read with.
    statistics : tuple of str, optional
        ("mean",).
    method : "per-cell" or "composition"
        Every cell planned alone at one common loss: the largest whose exact loss is within
        `epsilon`, or `epsilon` divided by the most cells of a user.
    mechanism : OptimalClipping or Baseline
        How one cell is planned; default OptimalClipping().
    prior : number, optional
        What one constant for all cells is assumed to miss on average, in value units; default
        span / 20. It comes from outside the records, never from their values.
    advise : bool
        Warn when the grid is too fine, naming the finest that is not (which may count the
        records again on coarser grids).

    Raises
    ------
    InputError
        On a bad argument, named; nothing is spent.

    Warns
    -----
    GridTooFineWarning
        If the map would say no more than one constant for all cells.

    Examples
    --------
    >>> crowd = Occupancy.from_dense([[1]] * 100)
    >>> made = plan(crowd, bounds=(0, 10), epsilon=2)
    >>> made.mean_error
    0.05...
    """
    facts = _facts(source)
    occupancy = source if isinstance(source, Occupancy) else _known(facts).occupancy
    if not occupancy.n_cells:
        raise InputError("there is no cell to plan.")
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    loss, how = positive(epsilon, "epsilon"), mechanism or OptimalClipping()
    if not isinstance(how, ThresholdMechanism):
        raise InputError(
            f"mechanism must be one whose threshold is public, Baseline() or OptimalClipping(), "
            f"got {how!r}; the others are for studies of one cell."
        )
    lower, upper = _bounds(bounds, facts, occupancy)
    rows = METHODS[method](occupancy, loss, how)
    made = Plan(
        occupancy=occupancy,
        lower=lower,
        upper=upper,
        kept=rows.kept,
        noise_records=rows.noise_records,
        method=method,
        mechanism=how.name,
        asked=loss,
        cell_epsilon=rows.cell_epsilon,
        prior_miss=default_prior(float((upper - lower).mean()), prior),
        facts=facts,
        statistics=_statistics(statistics),
    )
    if advise and not made.support.supported:
        warnings.warn(advice(made, how).text, GridTooFineWarning, stacklevel=2)
    return made


def _facts(source: object) -> PublicFacts | None:
    if isinstance(source, Occupancy):
        return None
    if isinstance(source, PublicFacts):
        return source
    if isinstance(source, HasFacts):
        return source.public
    raise InputError(f"a plan is made for a data set or an occupancy, got {type(source).__name__}.")


def _known(facts: PublicFacts | None) -> PublicFacts:
    if facts is None:
        raise InputError("public facts are missing.")
    return facts


def _statistics(asked: tuple[str, ...] | str | None) -> tuple[str, ...]:
    names = ("mean",) if asked is None else (asked,) if isinstance(asked, str) else tuple(asked)
    if names != ("mean",):
        raise InputError(f'statistics must be ("mean",) in this version, got {names!r}.')
    return names


def _bounds(
    bounds: object, facts: PublicFacts | None, occupancy: Occupancy
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bound of each cell."""
    if bounds is None:
        if facts is None:
            raise InputError("bounds are needed to plan a bare occupancy, like bounds=(0, 65).")
        pairs = [(facts.scale.lower, facts.scale.upper)]
    elif isinstance(bounds, Mapping):
        pairs = [bounds_pair(_of_cell(bounds, name), f"bounds of {name}") for name in _names(facts)]
    else:
        pairs = [bounds_pair(bounds)]
    if facts is not None:
        _check_inside(pairs, facts)
    ends = np.array([[float(low), float(high)] for low, high in pairs], dtype=np.float64)
    full = np.broadcast_to(ends, (occupancy.n_cells, 2))
    return full[:, 0].copy(), full[:, 1].copy()


def _names(facts: PublicFacts | None) -> tuple[str, ...]:
    if facts is None:
        raise InputError("bounds by cell need a data set whose cells have names.")
    return facts.cells.names()


def _of_cell(bounds: Mapping[str, object], name: str) -> object:
    if name not in bounds:
        raise InputError(f"bounds by cell leave out the cell {name}; give a pair for each.")
    return bounds[name]


def _check_inside(pairs: list[tuple[Fraction, Fraction]], facts: PublicFacts) -> None:
    for low, high in pairs:
        facts.scale.to_steps(low, "lower bound")
        facts.scale.to_steps(high, "upper bound")
