"""User means in arrays: which cap and grouping, and the means of the arrays.

Source: IOT section III-A and IV-A (every place of a user holds the mean of all its samples);
caps by `theory.caps`.
Neighbours: one user's values all change; users and counts are public, so a grouping is too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexveil.accounting.bias import linear_error
from hexveil.accounting.pseudo_user_caps import (
    exact_cap,
    median_cap,
    minimax_cap,
    sqrt_cap,
    surrogate_cap,
)
from hexveil.accounting.pseudo_users import PseudoUsers, best_fit, check_cap, wrap_around
from hexveil.base.errors import InputError

if TYPE_CHECKING:
    from hexveil.mechanisms.single_cell_plan import CellFacts

    Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

GroupingRule = Literal["best_fit", "wrap_around"]
CapRule = Literal["median", "sqrt", "minimax", "surrogate", "exact"]

GROUPINGS = {"best_fit": best_fit, "wrap_around": wrap_around}
MANY = 10_000
"""The largest count up to which "exact" tries every cap; beyond it tries the counts only."""

CAPS = ("median", "sqrt", "minimax", "surrogate", "exact")


def check_rules(grouping: str, cap: str | int) -> None:
    """Raise InputError unless both are known and go together."""
    if grouping not in GROUPINGS:
        raise InputError(f'grouping must be "best_fit" or "wrap_around", got {grouping!r}.')
    if isinstance(cap, str):
        if cap not in CAPS:
            raise InputError(f"cap must be a whole number or one of {', '.join(CAPS)}; got {cap}.")
        if cap == "exact" and grouping != "best_fit":
            raise InputError('cap "exact" is the best for grouping "best_fit"; choose another.')
    else:
        check_cap(cap)


def group(cell: CellFacts, grouping: GroupingRule, cap: CapRule | int) -> PseudoUsers:
    """Return the arrays of a cell by these rules.

    Parameters
    ----------
    cell : CellFacts
    grouping : {"best_fit", "wrap_around"}
    cap : {"median", "sqrt", "minimax", "surrogate", "exact"} or int
        "surrogate" takes the better of the rule's floor and ceiling, by worst-case error;
        "exact" tries the counts only if one is above 10,000, which would take minutes.

    Raises
    ------
    InputError
        If a whole cap is so large that WRAPAROUND fills no array.
    """
    place = GROUPINGS[grouping]
    if not isinstance(cap, str):
        return place(cell.counts, cap)
    if cap == "surrogate":
        near = surrogate_cap(cell.counts)
        made = [place(cell.counts, c) for c in sorted({math.floor(near), math.ceil(near)})]
        return min(made, key=lambda g: linear_error(g.weights, cell.counts, 1.0, cell.epsilon))
    if cap == "minimax":
        return place(cell.counts, minimax_cap(cell.counts, cell.epsilon))
    if cap == "exact":
        among: Literal["all", "counts"] = "all" if cell.counts.max() <= MANY else "counts"
        return place(cell.counts, exact_cap(cell.counts, cell.epsilon, among=among))
    return place(cell.counts, (median_cap if cap == "median" else sqrt_cap)(cell.counts))


def array_means(groups: PseudoUsers, means: Floats) -> Floats:
    """Return the mean of each array, for user means along the last axis.

    Each is computed from its own pieces alone, so that a user moves no more of them than it has
    samples in, whatever the rounding.

    Examples
    --------
    >>> array_means(wrap_around([3, 2, 1], 3), np.array([6.0, 3.0, 0.0])).tolist()
    [6.0, 2.0]
    """
    order = np.argsort(groups.piece_array, kind="stable")
    starts = np.flatnonzero(np.diff(groups.piece_array[order], prepend=-1))
    pieces = means[..., groups.piece_user[order]] * groups.piece_share[order]
    return np.asarray(np.add.reduceat(pieces, starts, axis=-1), dtype=np.float64)
