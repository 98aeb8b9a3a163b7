"""Bytes of a plan that the ledger keeps beside the booking that pays for it.

The ledger keeps decisions alone: what the request and the records decide is given by a plan of the
same goal. Here is the registry of the classes in plans: a kind of parts is registered by its
class here, and states what a goal and its records give (`given`).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hexveil.base.arrays import Bools, Floats, Ints
from hexveil.base.errors import InputError
from hexveil.mechanisms import Baseline, CellMechanism, OptimalClipping, ThresholdMechanism, parse
from hexveil.mechanisms.looks.bounds import CellMechanisms, WithinBounds
from hexveil.mechanisms.looks.cell_ranges import PerCellRange
from hexveil.mechanisms.looks.cell_stages import CellRangeOutputs
from hexveil.mechanisms.looks.one_range import PrivateRange
from hexveil.mechanisms.looks.remembered_ranges import RememberedRanges
from hexveil.model import cells, declared_grid, public_metadata, statistic_terms
from hexveil.model.occupancy import LocalOccupancy, Occupancy
from hexveil.model.pair_columns import FactoredWeights, SuppressedPairs
from hexveil.planning import allocation, request
from hexveil.planning.cell_mechanisms import OtherStagesError, SavedStages
from hexveil.planning.distribution import distribution_components
from hexveil.planning.distribution.distribution_components import PricedCells
from hexveil.planning.distribution.distribution_plan import DistributionComponent
from hexveil.planning.moment_component import MomentComponent
from hexveil.planning.plan import Plan
from hexveil.planning.request import ClippingRangeMode
from hexveil.planning.serialization.codec import (
    CODERS,
    NAMES,
    STAND_INS,
    Arrays,
    Codec,
    Coder,
    Path,
    Words,
    damaged,
    pack_bytes,
    unpack_bytes,
)

SavedComponent: TypeAlias = MomentComponent | DistributionComponent
"""Components that are saved: under private presence plans follow from declarations."""
KINDS: dict[str, type[Any]] = {
    kind.saved_as: kind for kind in (MomentComponent, DistributionComponent, Plan)
}
"""What is saved as a whole, by name: the part of one value column, or the plan of several."""
_CLASSES = (
    *KINDS.values(), request.Request, allocation.PlanAllocation,
    WithinBounds, PrivateRange, PerCellRange, RememberedRanges, SavedStages,
    CellRangeOutputs, FactoredWeights, SuppressedPairs,
    distribution_components.IndicatorPlan, distribution_components.RankPlan,
    distribution_components.BinPlan, PricedCells, public_metadata.PublicMetadata,
    public_metadata.ValueLattice, cells.Cells, cells.CellTable, cells.Labels,
    declared_grid.ColumnFacts, LocalOccupancy, Occupancy,
    CellMechanism, ThresholdMechanism, Fraction, Mapping,
    statistic_terms.Quantile, statistic_terms.Share, statistic_terms.Histogram,
)  # fmt: skip
_ALIASES = {
    "Floats": Floats, "Ints": Ints, "Bools": Bools, "NDArray": NDArray,
    "Weights": FactoredWeights,
    "Term": statistic_terms.Term,
    "ClippingKind": WithinBounds | PrivateRange | PerCellRange | RememberedRanges | SavedStages,
    "Estimator": statistic_terms.Estimator, "ClippingRangeMode": ClippingRangeMode,
    "PlanComponent": SavedComponent, "ErrorModel": Any,
    "DistributionMeasure": distribution_components.DistributionMeasure,
    "FineBins": Any, "Area": Any, "DeclaredColumns": Any, "DeclaredFacts": Any,
}  # fmt: skip
STAND_INS[CellMechanisms] = SavedStages.of
NAMES.update({kind.__name__: kind for kind in _CLASSES} | _ALIASES | KINDS)


def mechanism_word(mechanism: CellMechanism | ThresholdMechanism, _: Path) -> str:
    """Return a mechanism's text; InputError for one that its text does not bring back."""
    name = mechanism.name
    try:
        # A name may be borrowed: equality makes sure that what is read back plans the same.
        is_known = mechanism_of(name) == mechanism
    except InputError:
        is_known = False
    if not is_known:
        raise InputError(
            f"a saved plan's mechanism must be one of hexveil's, got {name}; "
            "release such a plan without saving it."
        )
    return name


def mechanism_of(name: object, _: Path = ()) -> ThresholdMechanism | CellMechanism:
    """Return the mechanism of a text; InputError for one that there is not."""
    known = {one.name: one for one in (Baseline(), OptimalClipping())}
    return known[name] if name in known else parse(str(name))


def _term_of(text: str, _: Path) -> statistic_terms.Term:
    """Return the statistic of a text."""
    return statistic_terms.parse_statistics((text,))[1][0]


_TERM = Coder(lambda term, _: term.text, _term_of)
_MECHANISM = Coder(mechanism_word, mechanism_of)
_LABELS = Coder(
    lambda grid, _: [] if isinstance(grid, cells.OneCell) else list(grid.columns),
    lambda word, _: cells.Labels(*word) if word else cells.OneCell(),
)
CODERS |= {
    cells.Labels: _LABELS,
    CellMechanism: _MECHANISM,
    ThresholdMechanism: _MECHANISM,
    statistic_terms.Quantile: _TERM,
    statistic_terms.Share: _TERM,
    statistic_terms.Histogram: _TERM,
}
"""Classes that are written as text."""


def saved_of(plan: Plan) -> Any:  # noqa: ANN401  one of KINDS
    """Return what is saved of a plan: the part of its one value column, or itself."""
    return plan.single if plan.is_single else plan


def plan_of(saved: Any) -> Plan:  # noqa: ANN401  one of KINDS
    """Return the plan that was saved as a part, or as itself."""
    return saved if type(saved) is Plan else Plan.of(saved)


# ---- bytes of decisions ----


def pack_decisions(plan: Plan) -> tuple[Words, Arrays]:
    """Return the decisions of a plan as words and arrays, without the request and the records."""
    arrays: Arrays = {}
    saved = saved_of(plan)
    return Codec(arrays, saved.fixed()).pack(saved), arrays


def encode(plan: Plan) -> bytes:
    """Return a plan's decisions as bytes: equal decisions have equal bytes but for the version."""
    return pack_bytes(*pack_decisions(plan))


def made_by(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan."""
    return str(unpack_bytes(encoded)[0]["hexveil"])


def decode(encoded: bytes, like: Plan) -> Plan:
    """Return the encoded plan, for a plan of the same goal.

    Parameters
    ----------
    encoded : bytes
        As `encode` made them.
    like : Plan
        Of the same goal: its records, request and public facts are those of the encoded plan.

    Raises
    ------
    InputError
        If a later version of hexveil encoded it in a format unknown here.
    StorageError
        If it is damaged, or is not a plan of these counts.
    """
    saved = saved_of(like)
    header, arrays = unpack_bytes(encoded)
    try:
        with np.errstate(all="ignore"):  # of damaged numbers
            return plan_of(Codec(arrays, saved.fixed()).unpack(type(saved), header["plan"]))
    except OtherStagesError:  # what differs here from the machine of the plan is no damage
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        raise damaged() from None
