"""Accuracy of a map with private presence, as its manifest states it. Post-processing, public.

How much open cells differ is estimated from noisy numbers and their noise, never from published
intervals: these are widened for weights, clipping and bounds. Of averages by the method of moments,
as in the other privacy model; of distributions by the spread of their tilts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.mechanisms.presence.count_map import CountedMap, UnitCountMap
from hexveil.mechanisms.presence.shape_decoding import ShapeMap
from hexveil.publishing.estimates.quality_grades import beats_constant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.base.arrays import Floats
    from hexveil.mechanisms.presence.presence_decoding import PresenceMap
    from hexveil.model.public_metadata import ValueLattice
    from hexveil.planning.presence.presence_request import PresenceRequest

    Statement = dict[str, Any]

MIN_COMPARED = 3
"""Open cells from which on cells are compared with each other."""


def map_accuracy(
    request: PresenceRequest, decoded: PresenceMap | UnitCountMap | ShapeMap | CountedMap
) -> list[Statement]:
    """Return the manifest's statement on accuracy, an entry for each column of estimates."""
    if isinstance(decoded, CountedMap):
        return map_accuracy(request, decoded.statistics)
    if isinstance(decoded, UnitCountMap):
        return []
    is_open = decoded.is_open
    if isinstance(decoded, ShapeMap):
        return [
            _statement(name, decoded.error[is_open, k], float(decoded.between[k]))
            for k, name in enumerate(request.measured.columns)
        ]
    return [mean_accuracy(request.lattice, decoded)]


def mean_accuracy(lattice: ValueLattice, decoded: PresenceMap) -> Statement:
    """Return the statement on averages."""
    span = float(lattice.span)
    return _statement("mean", span * decoded.error[decoded.is_open], span * decoded.between)


def stated_deviations(statements: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the deviation between cells of each column, by statements on accuracy."""
    return {statement["statistic"]: statement["between_cells"] for statement in statements}


def _statement(name: str, errors: Floats, between: float) -> Statement:
    """Return the statement of one column, from the errors of its open cells."""
    error = float(np.mean(errors)) if errors.size else None
    compared = between if errors.size >= MIN_COMPARED else None
    return {
        "statistic": name,
        "typical_error": error,
        "between_cells": compared,
        "beats_constant": beats_constant(error, compared),
    }
