"""Comparison of two releases cell by cell from their noisy numbers alone: nothing is spent.

Changes, their intervals and p-values. Cells are called changed under a false
discovery rate over all pairs.

Covered is the noise of publication, with clipping and weights: the interval is about the averages
of the records that were read. Not covered is which vehicles happened to report: two days of the
same traffic have different averages, since other buses were on the road.

Post-processing of released numbers and public facts: it costs no privacy beyond both releases.

Changes of cells between two releases, with intervals and p-values.

The change of a cell is the second number minus the first. Its error is the difference of two
independent noises and of two biases (cell_numbers.py). With both numbers within public bounds, the
noise is a sum of two Laplace numbers, whose bound q is exact, and the interval

    change - q - bias,   change + q + bias

covers the true change of the cell's records with probability at least 95 percent. Otherwise q joins
the bounds of each side as the root of their squared sum (square-and-add; Newcombe, Statistics in
Medicine 17, 1998; Zou and Donner, 27, 2008). For two Laplace numbers that root is never below the
exact bound, for every ratio of scales (a test computes both). For sums of several it is a rule
that is known to be good, and no theorem. For Gaussian noises, under a δ, the root is the
exact bound, and for one of either kind it is never below it (the test computes both).

The p-value of "no change" is the chance that noise alone is as far from 0 as the change less the
bias.

Control of false discoveries: of the cells that are called changed, a share of at most `rate` is
called so wrongly, on average over the noise. Benjamini and Hochberg (JRSS B 57, 1995) need p-values
of unchanged cells that are independent of each other and of the rest. That holds within public
bounds: given the records, a p-value depends on the noise of its own two cells alone, and each is
drawn on its own. Bias only makes p-values larger, which keeps the bound. Benjamini and Yekutieli
(Annals of Statistics 29, 2001) need no independence and pay a factor of 1 + 1/2 + ... + 1/m. They
are used where cells share a private range or noise: one unlucky range moves many cells at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.work_share import FOLDER_CHECK, parts_of_work
from hexveil.model.statistic_terms import column_of
from hexveil.publishing.components import refuse_labels
from hexveil.publishing.derived.cell_numbers import CellNumbers, bounded_tail, pair_bound, pair_tail
from hexveil.publishing.derived.derived_cells import (
    CellPairs,
    check_comparable,
    pair_cells,
    place_columns,
)
from hexveil.publishing.derived.derived_numbers import (
    DerivedTable,
    ReleaseSource,
    numbers_to_compare,
    open_source,
)
from hexveil.publishing.derived.open_cells import map_numbers
from hexveil.publishing.derived.roll_up import RolledUpRelease
from hexveil.publishing.published_numbers import Release
from hexveil.report.manifest_view import noun
from hexveil.report.templates import render_sentence
from hexveil.smoothing.user_mean_law import take_rows

Comparable = Release | RolledUpRelease | str | Path

DEFAULT_RATE = 0.05
HIGHER, LOWER, UNCLEAR = "higher", "lower", "cannot be told"
"""Verdicts on a cell."""
SIDES = ("before", "after")
COUNTS = ("records", "weight")
"""Columns of what cells are weighted by: under private presence weights take the place of records,
and numbers of units have neither."""


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
        counts: dict[str, int] = self.statement["verdicts"]
        return counts


def compare_releases(
    before: Comparable,
    after: Comparable,
    *,
    value: str | None = None,
    statistic: str | None = None,
    false_discovery_rate: float = DEFAULT_RATE,
    key: str | Path | None = None,
) -> ReleaseComparison:
    """Compare two releases cell by cell; nothing is spent.

    Parameters
    ----------
    before, after : Release, RolledUpRelease, str or Path
        Releases, roll-ups, or release folders, which are checked as by `hv.verify`.
    value : str, optional
        The value column, of releases of several.
    statistic : str, optional
        "mean", "variance", "sd", "p85", "share<30", a bin such as "histogram_03", or "users" under
        private presence; default the first that was released.
    false_discovery_rate : float
        Share of the cells called changed that may be called so wrongly, on average.
    key : str or Path, optional
        File of the holder's public key: then folders must be signed with it.

    Returns
    -------
    ReleaseComparison
        Of the cells that both have.

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
    sources = earlier, later = [
        side.source if isinstance(side, RolledUpRelease) else open_source(side, value, key=key)
        for side in parts_of_work(FOLDER_CHECK, (before, after))
    ]
    if earlier.identity["request"] == later.identity["request"]:
        raise InputError(
            "both are the same release, or answer the same request: nothing but noise can differ; "
            "give another release; timeslots of one are compared on its page."
        )
    default = earlier.rolled_up[0] if earlier.rolled_up else earlier.statistics[0]
    column = column_of(statistic or default)
    check_comparable(earlier, later, column)
    numbers = [_numbers(source, column) for source in sources]
    pairs = pair_cells(earlier.table, later.table)
    paired = [*map(take_rows, numbers, (pairs.before, pairs.after))]
    change, p_value = find_changes(*paired)
    are_independent = change.basis == "proven"
    is_found = find_discoveries(p_value, false_discovery_rate, are_independent=are_independent)
    is_exact = all(np.isfinite(side.scale).all() for side in paired)
    is_exact = is_exact or all(side.is_gaussian for side in paired)
    # Averages of roll-ups have sums of Laplace noise, whose bounds are joined by a rule and no
    # theorem, and so have releases of which one alone has a delta.
    basis = ("proven" if is_exact else "approximate") if are_independent else "model"
    limits = earlier.view(column).limits
    verdict = np.where(is_found, np.where(change.number > 0.0, HIGHER, LOWER), UNCLEAR)
    width = limits[1] - limits[0]
    numbers_of_pairs: dict[str, Any] = {
        **{side: np.clip(of.number, *limits) for side, of in zip(SIDES, paired, strict=True)},
        "change": np.clip(change.number, -width, width),
        "change_low": np.clip(change.low, -width, width),
        "change_high": np.clip(change.high, -width, width),
        "p_value": p_value,
        "verdict": verdict.tolist(),
    }
    covers = {"basis": basis}
    if earlier.is_map:
        covers |= {"statistic": column, "noun": noun(column)}
    sentence = "map_comparison_covers" if earlier.is_map else "comparison_covers"
    statement = _statement(sources, column, pairs) | {
        "false_discovery_rate": false_discovery_rate,
        "procedure": "Benjamini-Hochberg" if are_independent else "Benjamini-Yekutieli",
        "basis": basis,
        "covers": render_sentence("derived.txt", sentence, **covers),
        "not_covered": render_sentence("derived.txt", "comparison_not_covered"),
        "verdicts": {one: int((verdict == one).sum()) for one in (HIGHER, LOWER, UNCLEAR)},
    }
    return ReleaseComparison(_table(sources, pairs, numbers_of_pairs), statement)


def _numbers(source: ReleaseSource, statistic: str) -> CellNumbers:
    """Return the numbers of a release or of a roll-up, with the parts of their error."""
    if source.rolled_up is None:
        return (map_numbers if source.is_map else numbers_to_compare)(source, statistic)
    rolled_up, numbers = source.rolled_up
    if statistic != rolled_up:
        raise InputError(
            f"a roll-up has {'averages' if rolled_up == 'mean' else rolled_up} and no {statistic}; "
            f"compare the statistic {rolled_up}."
        )
    return numbers


def _table(
    sources: Sequence[ReleaseSource], pairs: CellPairs, numbers: Mapping[str, Any]
) -> pa.Table:
    """Return the row of each pair of cells: place, slots, and its numbers."""
    tables = sources[0].table.take(pairs.before), sources[1].table.take(pairs.after)
    # Slots and counts of a side each, where there are any.
    sided = [name for name in ("slot", *COUNTS) if name in tables[0].column_names]
    pairs_of = [*zip(SIDES, tables, strict=True)]
    columns: dict[str, Any] = {f"{name}_{s}": of[name] for name in sided for s, of in pairs_of}
    places = place_columns(tables[0])
    refuse_labels(places, (*columns, *numbers))
    return pa.table({name: tables[0][name] for name in places} | columns | dict(numbers))


def _statement(
    sources: Sequence[ReleaseSource], statistic: str, pairs: CellPairs
) -> dict[str, Any]:
    """Return both releases, the statistic, and how cells were paired, for `comparison.json`."""
    manifest = sources[0].manifest
    return ({"model": manifest["model"]} if sources[0].is_map else {}) | {
        "kind": "comparison",
        **{side: dict(source.identity) for side, source in zip(SIDES, sources, strict=True)},
        **{name: dict(manifest[name]) for name in ("dataset", "bounds", "grid")},
        "statistic": statistic,
        "days_between": pairs.days,
        "cells": {
            "compared": int(pairs.before.size),
            "only_before": pairs.only_before,
            "only_after": pairs.only_after,
        },
    }


def find_changes(before: CellNumbers, after: CellNumbers) -> tuple[CellNumbers, Floats]:
    """Return the changes of paired cells, with intervals and p-values; see the module.

    Parameters
    ----------
    before, after : CellNumbers
        Of the same cells in the same order.
    """
    change = after.number - before.number
    is_single = np.isfinite(before.scale) & np.isfinite(after.scale)
    scales = [np.where(is_single, piece.scale, 0.0) for piece in (before, after)]
    exact = pair_bound(scales[0], scales[1])
    noise_low = np.where(is_single, exact, np.hypot(after.noise_low, before.noise_high))
    noise_high = np.where(is_single, exact, np.hypot(after.noise_high, before.noise_low))
    bias_low, bias_high = after.bias_low + before.bias_high, after.bias_high + before.bias_low
    # What bias cannot explain: at most one side of it is positive.
    is_up = change > 0.0
    excess = np.maximum(np.where(is_up, change - bias_low, -change - bias_high), 0.0)
    loose = bounded_tail(excess, np.where(is_up, noise_low, noise_high))
    p_value = np.where(is_single, pair_tail(excess, scales[0], scales[1]), loose)
    # Both cells must be told to be used, too: see open_cells.py.
    p_value = np.maximum(p_value, np.maximum(before.empty, after.empty))
    unknown = np.full_like(change, np.nan)
    basis = after.basis if before.basis == "proven" else before.basis
    found = CellNumbers(change, noise_low, noise_high, bias_low, bias_high, unknown, basis)
    return found, p_value


def find_discoveries(
    p_value: NDArray[np.float64], rate: float, *, are_independent: bool
) -> NDArray[np.bool_]:
    """Return the hypotheses that are rejected.

    Parameters
    ----------
    p_value : ndarray of float, shape (n,)
    rate : float
        False discovery rate, in (0, 1).
    are_independent : bool
        Whether p-values of true hypotheses are independent; else the rate is divided by
        1 + 1/2 + ... + 1/n.

    Examples
    --------
    >>> p_value = np.array([0.01, 0.5, 0.03, 0.8])
    >>> find_discoveries(p_value, 0.1, are_independent=True)
    array([ True, False,  True, False])
    >>> find_discoveries(p_value, 0.1, are_independent=False).sum()
    np.int64(1)
    """
    count = p_value.size
    if not count:
        return np.zeros(0, dtype=np.bool_)
    rank = np.arange(1, count + 1)
    divisor = 1.0 if are_independent else float(np.sum(1.0 / rank))
    ordered = np.sort(p_value)
    passing = np.flatnonzero(ordered <= rate * rank / (count * divisor))
    limit = ordered[passing[-1]] if passing.size else -1.0
    return np.asarray(p_value <= limit)
