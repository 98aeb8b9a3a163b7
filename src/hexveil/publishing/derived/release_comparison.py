"""Comparison of two releases cell by cell from their noisy numbers alone: nothing is spent.

Changes, their intervals and p-values: cell_changes.py. Cells are called changed under a false
discovery rate over all pairs.

Covered is the noise of publication, with clipping and weights: the interval is about the averages
of the records that were read. Not covered is which vehicles happened to report: two days of the
same traffic have different averages, since other buses were on the road.

Post-processing of released numbers and public facts: it costs no privacy beyond both releases.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, parts_of_work
from hexveil.model.statistic_terms import column_of
from hexveil.publishing.derived.cell_changes import find_changes, find_discoveries
from hexveil.publishing.derived.cell_numbers import CellNumbers, numbers_to_compare
from hexveil.publishing.derived.cell_pairs import (
    check_comparable,
    check_maps,
    pair_cells,
)
from hexveil.publishing.derived.comparison_table import (
    changes_table,
    comparison_statement,
    count_verdicts,
    keep_within,
    range_of,
)
from hexveil.publishing.derived.derived_columns import (
    DerivedColumns,
    check_same_columns,
    sources_by_column,
)
from hexveil.publishing.derived.derived_table import DerivedTable
from hexveil.publishing.derived.presence.open_cells import (
    empty_chances,
    limits_of_statistic,
    map_numbers,
)
from hexveil.publishing.derived.release_source import ReleaseSource, open_source
from hexveil.publishing.derived.roll_up import RolledUpRelease
from hexveil.report.manifest_view import ManifestView, noun
from hexveil.report.templates import render_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from hexveil.publishing.published_numbers import Release

    Comparable = Release | RolledUpRelease | DerivedColumns[RolledUpRelease] | str | Path
    Opened = Release | RolledUpRelease | ReleaseSource | str | Path

DEFAULT_RATE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class ReleaseComparison(DerivedTable):
    """Changes from one release to another, cell by cell.

    `table` has a row per cell of both releases: its place and slots, `before`, `after`, `change`
    with `change_low` and `change_high`, `p_value`, and `verdict`: "higher", "lower" or "cannot be
    told". `statement` has both releases with their receipts, what the intervals cover, and the
    false discovery rate.
    """

    @property
    def verdicts(self) -> dict[str, int]:
        """Number of cells of each verdict."""
        return count_verdicts(self.table)

    def __repr__(self) -> str:
        return f"ReleaseComparison(n_cells={len(self)}, {self.verdicts})"


def compare_releases(
    before: Comparable,
    after: Comparable,
    *,
    statistic: str | None = None,
    slots: tuple[str, str] | None = None,
    false_discovery_rate: float = DEFAULT_RATE,
    key: str | Path | None = None,
) -> ReleaseComparison | DerivedColumns[ReleaseComparison]:
    """Compare two releases cell by cell; nothing is spent.

    Parameters
    ----------
    before, after : Release, RolledUpRelease, DerivedColumns, str or Path
        Releases, roll-ups, or release folders, which are checked as by `hv.verify`.
    statistic : str, optional
        "mean", "variance", "sd", "p85", "share<30", a bin such as "histogram_03", or "users" under
        private presence; default the first that was released.
    slots : pair of str, optional
        A slot of each release, to compare these; both may be of one release.
    false_discovery_rate : float
        Share of the cells called changed that may be called so wrongly, on average.
    key : str or Path, optional
        File of the holder's public key: then folders must be signed with it.

    Returns
    -------
    ReleaseComparison
        Of the cells that both have. Of several value columns one for each, as `DerivedColumns`:
        verdicts and the false discovery rate are a column's own.

    Raises
    ------
    InputError
        If a folder is not as it was written; if statistics, units, bounds, quanta or grids differ;
        if both are the same release, or have no cell in common.
    """
    if not 0.0 < false_discovery_rate < 1.0:
        raise InputError(
            f"the false discovery rate must lie between 0 and 1, got {false_discovery_rate!r}; "
            "write for example 0.05."
        )
    sides = [sources_by_column(release, key) for release in (before, after)]
    options = _Options(statistic, slots, false_discovery_rate, key)
    if sides == [None, None]:
        return _compare_tables(cast("Opened", before), cast("Opened", after), options)
    check_same_columns(*sides)
    earlier, later = (side or {} for side in sides)
    return DerivedColumns(
        {column: _compare_tables(earlier[column], later[column], options) for column in earlier}
    )


@dataclass(frozen=True)
class _Options:
    """Options of a comparison; see `compare_releases`."""

    statistic: str | None
    slots: tuple[str, str] | None
    false_discovery_rate: float
    key: str | Path | None


def _compare_tables(before: Opened, after: Opened, options: _Options) -> ReleaseComparison:
    """Compare two releases of one value column; see `compare_releases`."""
    slots, false_discovery_rate = options.slots, options.false_discovery_rate
    opened = parts_of_work(FOLDER_CHECK, (before, after))
    sources = [_open(release, options.key) for release in opened]
    is_same = sources[0].identity["request"] == sources[1].identity["request"]
    if is_same and (slots is None or slots[0] == slots[1]):
        raise InputError(
            "both are the same release, or answer the same request: nothing but noise can differ; "
            "give two slots of it, or another release."
        )
    check_comparable(*sources)
    statistic = _statistic(before, sources[0], options)
    if sources[0].is_map:
        check_maps(sources[0], sources[1], statistic)
    numbers = [_numbers(*pair, statistic) for pair in zip((before, after), sources, strict=True)]
    pairs = pair_cells(sources[0].table, sources[1].table, slots)
    paired = [_take(numbers[0], pairs.before), _take(numbers[1], pairs.after)]
    change = find_changes(*paired)
    for release, source, rows in zip(
        (before, after), sources, (pairs.before, pairs.after), strict=True
    ):
        if source.is_map and not isinstance(release, RolledUpRelease):
            # Both cells must be told to be used, too: see presence/open_cells.py.
            empty = empty_chances(source, statistic)[rows]
            change = replace(change, p_value=np.maximum(change.p_value, empty))
    are_independent = all(side.basis == "proven" for side in numbers)
    is_found = find_discoveries(
        change.p_value, false_discovery_rate, are_independent=are_independent
    )
    is_exact = all(np.isfinite(side.scale).all() for side in paired)
    is_exact = is_exact or all(side.is_gaussian for side in paired)
    # Averages of roll-ups have sums of Laplace noise, whose bounds are joined by a rule and no
    # theorem, and so have releases of which one alone has a delta.
    basis = ("proven" if is_exact else "approximate") if are_independent else "model"
    statement = comparison_statement(sources, statistic, pairs, slots) | {
        "false_discovery_rate": false_discovery_rate,
        "procedure": "Benjamini-Hochberg" if are_independent else "Benjamini-Yekutieli",
        "basis": basis,
        "covers": _covers(sources[0], statistic, basis),
        "not_covered": render_sentence("derived.txt", "comparison_not_covered"),
    }
    view = ManifestView.from_manifest(sources[0].manifest)
    limit = (limits_of_statistic if sources[0].is_map else range_of)(view, statistic)
    possible = keep_within(change, limit[1] - limit[0])
    table = changes_table(sources, pairs, paired, possible, is_found, limit)
    return ReleaseComparison(table, statement | {"verdicts": count_verdicts(table)})


def _open(release: Opened, key: str | Path | None) -> ReleaseSource:
    return release.source if isinstance(release, RolledUpRelease) else open_source(release, key=key)


def _numbers(release: Opened, source: ReleaseSource, statistic: str) -> CellNumbers:
    if not isinstance(release, RolledUpRelease):
        return (map_numbers if source.is_map else numbers_to_compare)(source, statistic)
    rolled_up = release.statement["statistic"]
    if statistic != rolled_up:
        raise InputError(
            f"a roll-up has {'averages' if rolled_up == 'mean' else rolled_up} and no {statistic}; "
            f"compare the statistic {rolled_up}."
        )
    return release.numbers


def _statistic(release: Opened, source: ReleaseSource, options: _Options) -> str:
    """Return the prefix of the statistic that is compared: the one named, or the first."""
    if options.statistic:
        return column_of(options.statistic)
    if isinstance(release, RolledUpRelease):
        return str(release.statement["statistic"])
    return column_of(source.statistics[0])


def _covers(source: ReleaseSource, statistic: str, basis: str) -> str:
    if source.is_map:
        return render_sentence(
            "derived.txt", "map_comparison_covers", statistic=statistic, noun=noun(statistic),
            basis=basis,
        )  # fmt: skip
    return render_sentence("derived.txt", "comparison_covers", basis=basis)


def _take(numbers: CellNumbers, rows: NDArray[np.int64]) -> CellNumbers:
    columns = {
        field.name: getattr(numbers, field.name)[rows]
        for field in dataclasses.fields(numbers)
        if isinstance(getattr(numbers, field.name), np.ndarray)
    }
    return dataclasses.replace(numbers, **columns)
