"""Roll-up of a map with private presence: averages by noisy weights, and sums of units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hexveil.accounting.promise import PARTS
from hexveil.base.errors import InputError
from hexveil.mechanisms.presence.count_map import COUNT_MAP
from hexveil.model.statistic_terms import column_of
from hexveil.publishing.derived.presence.open_cell_averages import (
    GroupWeights,
    add_units,
    add_weights,
    average_open_cells,
    most_per_unit,
    with_cut,
)
from hexveil.publishing.derived.presence.open_cells import (
    USERS,
    open_cells,
    published_noise,
    unit_numbers,
)
from hexveil.publishing.presence.presence_manifest import GAUSSIAN
from hexveil.report.manifest_view import is_share, noun

if TYPE_CHECKING:
    from hexveil.base.arrays import Ints
    from hexveil.publishing.derived.cell_numbers import CellNumbers
    from hexveil.publishing.derived.release_source import ReleaseSource


MEAN = "mean"
GRID_OF_RELEASE = ("cells", "fingerprint", "in_use")
"""Facts of the declared grid that a coarser one does not have."""


@dataclass(frozen=True, eq=False)
class RolledUpMap:
    """Averages or sums over groups of open cells.

    Attributes
    ----------
    column : str
        Prefix of the statistic's columns.
    numbers : CellNumbers
    weights : GroupWeights or None
        None for numbers of units.
    """

    column: str
    numbers: CellNumbers
    weights: GroupWeights | None

    def weight_columns(self) -> dict[str, Any]:
        """Return the columns of weights; none for numbers of units."""
        if self.weights is None:
            return {}
        ends = (self.weights.weight, self.weights.low, self.weights.high)
        return dict(zip(("weight", "weight_low", "weight_high"), ends, strict=True))


def statistic_to_roll_up(source: ReleaseSource, statistic: str | None) -> str:
    """Return the prefix of the statistic of a map to roll up: the one named, or the first.

    Raises
    ------
    InputError
        If it does not follow from those of finer cells; the message names what does.
    """
    column = column_of(statistic) if statistic else ""
    possible = [one for one in source.statistics if _adds_up(one)]
    if statistic and not _adds_up(column):
        raise InputError(
            f"the {noun(column)} of coarser cells does not follow from those of finer ones; roll "
            "up mean, a share, a bin of the histogram or users, or publish the coarser grid."
        )
    if not possible:
        raise InputError(
            f"the release of {source.identity['dataset']} has {', '.join(source.statistics)}, of "
            "which none can be averaged or added up over cells; publish the coarser grid."
        )
    return column or column_of(possible[0])


def roll_up_map(source: ReleaseSource, column: str, group: Ints) -> RolledUpMap:
    """Return the statistic of each group of open cells.

    Raises
    ------
    InputError
        If the statistic was not released.
    """
    units = source.manifest["plan"]["fleet"]["units"]
    if column == USERS:
        law = published_noise(source.manifest, COUNT_MAP)
        numbers = unit_numbers(source)
        largest_count = units * most_per_unit(group, law, _cell_cap(source))
        if f"{USERS}_noisy" not in source.table.column_names:
            numbers = with_cut(numbers, law.scale / PARTS, group)
        return RolledUpMap(
            column, add_units(numbers, law.scale / PARTS, group, most=largest_count), None
        )
    cells = open_cells(source, column)
    largest_count = units * most_per_unit(group, cells.noise)
    return RolledUpMap(
        column, average_open_cells(cells, group), add_weights(cells, group, largest_count)
    )


def _cell_cap(source: ReleaseSource) -> float:
    """Return in how many cells a unit counts fully, by the sensitivity of their stage."""
    stages = source.manifest["plan"]["stages"]
    stage = next(entry for entry in stages if entry["stage"] == COUNT_MAP)
    cap = stage["sensitivity"] / PARTS
    return float(cap**2 if stage["noise"] == GAUSSIAN else cap)


def _adds_up(statistic: str) -> bool:
    return statistic in (MEAN, USERS) or is_share(statistic)
