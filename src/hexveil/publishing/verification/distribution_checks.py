"""Checks of a release with quantiles, shares or histograms: its losses, its table, its statements.

Recomputed: the losses of means, variances and mean scores as those of a release of their own
(recomputed_losses.py); that of the shape over all cells from its noise scales; that of bins, over
all units together, from their scale and the weights of the cells; and that the losses of the
components add up to what is stated: with a δ as squares of μ, of which ε is that of the largest. Of
each statistic: grades, typical errors, and that all statistics of a cell agree. Estimates cannot be
recomputed: the noisy numbers that they follow from are not in the folder.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.base.errors import InputError
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import (
    Histogram,
    Quantile,
    Share,
    column_names,
    half_bin,
    parse_statistics,
)
from hexveil.planning.distribution.distribution_components import MOMENTS, SCORES, SHAPE
from hexveil.publishing.distribution.distribution_manifest import nested_manifest
from hexveil.publishing.distribution.distribution_table import (
    KEYS,
    deviation_of_estimates,
    estimate_accuracy,
    grade_estimates,
)
from hexveil.publishing.estimates.quality_grades import beats_constant
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.verification import distribution_squares as squares
from hexveil.publishing.verification import loss_checks, stated_facts
from hexveil.publishing.verification.distribution_squares import stated_delta
from hexveil.publishing.verification.files import file_comparison
from hexveil.publishing.verification.files.file_comparison import TOLERANCE
from hexveil.publishing.verification.moment_checks import check_moment_numbers
from hexveil.publishing.verification.release_statements import ReleaseStatements
from hexveil.publishing.verification.square_checks import check_squares
from hexveil.report.promise_wording import assumptions, neighbours, probability_factor, promise

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from hexveil.base.arrays import Floats
    from hexveil.model.statistic_terms import Term

    Json = dict[str, Any]

LOOSE = 1e-6
"""Part by which rounding may set statistics of a cell apart: shares add up thousands of numbers."""
NEEDED = {"indicator": {SCORES}, "ranks": {SHAPE, SCORES}, "bins": {SHAPE}}
"""Components by the form in which a distribution was measured."""
AGREEMENT = "grades, typical errors, and that quantiles and shares of each cell agree"
UNKNOWN = (
    "estimates and intervals of the distribution: they follow from numbers not in the folder",
    "the loss of each unit: the folder does not say who reported where, only how many",
)
"""What a folder does not let anybody recompute."""


def check_statements(manifest: Json) -> Iterator[str]:
    """Yield statements that no release of this kind has; run before any part is used."""
    plan = manifest["plan"]
    try:
        moments, terms = parse_statistics(plan["statistics"])
    except InputError:
        yield "manifest.json names a statistic that no release has."
        return
    if not terms or plan["statistics"] != [*moments, *(term.text for term in terms)]:
        yield "manifest.json does not name its statistics as a release does."
        return
    needed = NEEDED[plan["estimator"]] | ({MOMENTS} if moments else set())
    stated = [component["name"] for component in plan["components"]]
    if set(stated) != needed or len(stated) > len(needed):
        yield "manifest.json does not name the components of its plan."
        return
    sections = needed - {SHAPE}
    cell_keys = {"cell", *sections} | ({"weight"} if plan["estimator"] == "bins" else set())
    if faults := list(squares.check_stated_squares(manifest)):
        yield from faults
        return
    if stated_delta(manifest) and "weight" in cell_keys:
        cell_keys.add("squared_weight")
    if any((name in manifest) != (name in sections) for name in (MOMENTS, SCORES)) or any(
        set(row) != cell_keys for row in manifest["cells"]
    ):
        yield "a component of the plan, or a cell, lacks what its loss follows from."
    elif moments and manifest[MOMENTS]["plan"]["statistics"] != list(moments):
        yield "means and variances are not those of the plan."
    elif SCORES in sections and manifest[SCORES]["plan"]["statistics"] != ["mean"]:
        yield "scores have a statistic other than their mean."


def number_columns(manifest: Json) -> tuple[str, ...]:
    """Return the columns of numbers beside those of means and variances; none for other kinds."""
    if manifest.get("kind") is None:
        return ()
    return tuple(name for name in _columns(manifest) if not name.endswith("_quality"))


def _columns(manifest: Json) -> list[str]:
    return [f"{prefix}_{key}" for prefix in _prefixes(manifest) for key in KEYS]


def _terms(manifest: Json) -> tuple[Term, ...]:
    return parse_statistics(manifest["plan"]["statistics"])[1]


def _prefixes(manifest: Json) -> list[str]:
    return [prefix for term in _terms(manifest) for prefix in column_names(term)]


def check_distribution_table(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield the faults of columns and cells of the table; numbers come afterwards."""
    issues = [*check_distribution_columns(table, manifest)]
    yield from issues or file_comparison.check_places(table, manifest)


def check_distribution(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    yield from check_distribution_losses(table, manifest)
    yield from check_distribution_numbers(table, manifest)


def check_distribution_columns(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns that are missing, that no such release has, or that hold no numbers."""
    further = frozenset(_columns(manifest))
    if MOMENTS in manifest:
        nested = nested_manifest(manifest, MOMENTS)
    else:
        nested = manifest | {"plan": {"statistics": []}, "smoothing": [], "accuracy": []}
    yield from file_comparison.check_columns(table, nested, further)


# ---- losses ----


def check_distribution_losses(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses that do not follow from noise scales, or do not add up."""
    for name in (MOMENTS, SCORES):
        if name in manifest:
            stated = ReleaseStatements.from_release(nested_manifest(manifest, name), table)
            for problem in loss_checks.find_problems(stated, check_squares):
                yield f"{name}: {problem}"
    components = {one["name"]: one for one in manifest["plan"]["components"]}
    for name, component in components.items():
        if name != SHAPE:
            losses = manifest[name]["losses"]
            known = epsilon_text(Fraction(losses["max"])), losses["mean"]
            same = component["epsilon"] == known[0] and _close(component["mean_loss"], known[1])
            if not same or component.get("squared_mu") != losses.get("squared_mu"):
                yield f"the losses of the component {name} are not those of its cells."
    if SHAPE in components:
        yield from _check_shape(components[SHAPE], manifest)
    yield from _check_sum(list(components.values()), manifest)
    yield from _check_guarantee(manifest)


def shape_losses(component: Json, manifest: Json) -> tuple[float, float]:
    """Return the loss of every unit by the shape over all cells, and the mean loss by bins."""
    shared = math.fsum(2.0 / one["scale"] for one in component["stages"] if not _is_bins(one))
    bins = [one for one in component["stages"] if _is_bins(one)]
    weight = math.fsum(row.get("weight", 0.0) for row in manifest["cells"])
    units = max(manifest["losses"]["units"], 1)
    return shared, math.fsum(2.0 * weight / one["scale"] / units for one in bins)


def _is_bins(stage: Json) -> bool:
    return bool(stage["stage"] == CELL_BINS)


def _check_shape(component: Json, manifest: Json) -> Iterator[str]:
    """Yield if the loss of the shape, and of bins, is not that of its noise."""
    scales = [one["scale"] for one in component["stages"] if _is_bins(one)]
    if (manifest["plan"]["estimator"] == "bins") != (len(scales) == 1):
        yield "the stages of the shape are not those of its form."
        return
    if stated_delta(manifest):
        yield from squares.check_shape_squares(component, manifest)
        return
    shared, bins = shape_losses(component, manifest)
    if not _close(component["mean_loss"], shared + bins):
        yield "the mean loss of the shape is not that of its noise scales and weights."
    # Nobody weighs more than one over all cells.
    largest = shared + math.fsum(2.0 / scale for scale in scales)
    if not shared + bins - LOOSE <= float(component["epsilon"]) <= largest * (1.0 + LOOSE):
        yield "the largest loss of the shape is not within what its noise scales allow."


def _check_sum(components: list[Json], manifest: Json) -> Iterator[str]:
    """Yield if the losses of the components do not add up."""
    losses = manifest["losses"]
    order = [losses[key] for key in ("median", "p90", "p99", "max")]
    if order != sorted(order) or losses["mean"] > losses["max"] * (1.0 + TOLERANCE):
        yield "the quantiles of the losses are not in order."
    if stated_delta(manifest):
        yield from squares.check_sum_of_squares(manifest)
        return
    if not _close(losses["mean"], math.fsum(one["mean_loss"] for one in components)):
        yield "the mean losses of the components do not add up to that of the release."
    epsilons = [float(one["epsilon"]) for one in components]
    slack = TOLERANCE * (1.0 + losses["max"])
    if not max(epsilons) - slack <= losses["max"] <= math.fsum(epsilons) + slack:
        yield "the largest loss is not within those of the components and their sum."


def _check_guarantee(manifest: Json) -> Iterator[str]:
    """Yield if the guarantee is not that of the stated losses, in words or numbers."""
    guarantee, losses = manifest["guarantee"], manifest["losses"]
    unit, spent = guarantee["privacy_unit"], Fraction(guarantee["epsilon_spent"])
    if guarantee["epsilon_spent"] != epsilon_text(Fraction(losses["max"])):
        yield "epsilon_spent is not the largest loss, rounded up."
    if spent > Fraction(guarantee["epsilon_requested"]) + Fraction(1, 10**11):
        yield "more was spent than asked for."
    factor = probability_factor(spent)
    stated = guarantee["probability_factor"]
    if (stated is None) == math.isfinite(factor) or (stated and not _close(stated, factor)):
        yield "guarantee/probability_factor is not e to the power of epsilon_spent."
    delta = stated_delta(manifest)
    words = promise(unit, spent, delta=delta), neighbours(unit)
    if (guarantee["promise"], guarantee["neighbours"]) != words:
        yield "guarantee/promise or guarantee/neighbours is not that of this loss."
    dropped = manifest["selection"].get("drop_values", "none")
    n_own = len(assumptions(unit, dropped, delta=delta)) + ("columns_together" in manifest)
    if len(guarantee["assumptions"]) != n_own:
        yield "guarantee/assumptions are not those of this model."


# ---- numbers ----


def check_distribution_numbers(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers that do not follow from each other, or from the manifest."""
    if MOMENTS in manifest:
        nested = nested_manifest(manifest, MOMENTS)
        stated = ReleaseStatements.from_release(nested, table)
        yield from check_moment_numbers(table, stated)
    yield from stated_facts.check_counts(table, manifest)
    statements = manifest["accuracy"]
    own = [] if MOMENTS not in manifest else manifest[MOMENTS]["accuracy"]
    if statements[: len(own)] != own or len(statements) != len(own) + len(_prefixes(manifest)):
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    bounds = [float(Fraction(manifest["bounds"][end])) for end in ("lower", "upper")]
    by_prefix = iter(statements[len(own) :])
    for term in _terms(manifest):
        limits, half = ([0.0, 1.0], 0.0)
        if isinstance(term, Quantile):
            limits, half = bounds, half_bin(ValueLattice.of(bounds, manifest["bounds"]["quantum"]))
        for prefix in column_names(term):
            yield from _check_column(table, prefix, limits, half, next(by_prefix))
    yield from _check_agreement(table, manifest)


def _check_column(
    table: pa.Table, prefix: str, limits: list[float], half: float, statement: Json
) -> Iterator[str]:
    """Yield if an estimate, its interval, its grade or its accuracy contradict each other."""
    low, middle, high = (_column(table, f"{prefix}_{key}") for key in ("low", "estimate", "high"))
    slack = LOOSE * (limits[1] - limits[0])
    ends = [np.full_like(low, limits[0]), low, middle, high, np.full_like(low, limits[1])]
    if any((above < below - slack).any() for below, above in itertools.pairwise(ends)):
        yield f"{prefix}_low, {prefix}_estimate and {prefix}_high are no interval in its range."
    if (_column(table, f"{prefix}_error") < 0).any():
        yield f"{prefix}_error is negative."
    # Earlier versions estimated the deviation by intervals, and stated no more than that.
    stated, is_earlier = statement["between_cells"], "beats_constant" not in statement
    errors = _column(table, f"{prefix}_error")
    between = stated if is_earlier else deviation_of_estimates(middle, errors, half)
    expected = estimate_accuracy(table, prefix, between)
    del expected["beats_constant"]
    # By stated numbers: rounding must not turn a grade or a statement.
    grades = grade_estimates(low, high, stated, limits[1] - limits[0])
    numbers = ("typical_error", "between_cells")
    beats = is_earlier or statement["beats_constant"] == beats_constant(
        statement["typical_error"], stated
    )
    if (
        not beats
        or any(not _is_same(statement[key], expected[key]) for key in numbers)
        or any(statement[key] != expected[key] for key in expected if key not in numbers)
    ):
        yield f"the accuracy of {prefix} is not that of the cells."
    elif grades != table[f"{prefix}_quality"].to_pylist():
        yield f"{prefix}_quality is not that of its interval."


def _check_agreement(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield if the statistics of a cell contradict each other."""
    terms = _terms(manifest)

    def estimate(prefix: str) -> Floats:
        return _column(table, f"{prefix}_estimate")

    levels = [estimate(term.column) for term in terms if isinstance(term, Quantile)]
    slack = LOOSE * float(np.ptp(levels)) if levels else 0.0
    if any((later < earlier - slack).any() for earlier, later in itertools.pairwise(levels)):
        yield "a quantile is above one of a higher level."
    shares = [term for term in terms if isinstance(term, Share)]
    # Of equal thresholds "<" leaves out what "<=" counts; ">" is what "<=" leaves.
    order = sorted(shares, key=lambda one: (one.threshold, one.sign in ("<=", ">")))
    below = [1.0 - estimate(one.column) if one.is_above else estimate(one.column) for one in order]
    if any((later < earlier - LOOSE).any() for earlier, later in itertools.pairwise(below)):
        yield "a share below a threshold is above that of a higher one."
    for term in terms:
        if isinstance(term, Histogram):
            total = np.sum([estimate(prefix) for prefix in column_names(term)], axis=0)
            if not np.allclose(total, 1.0, rtol=0.0, atol=LOOSE):
                yield "the bins of a histogram do not add up to 1."


def describe_distribution(manifest: Json) -> tuple[str, ...]:
    """Return the figures that were recomputed and agree, in words."""
    losses, unit = manifest["losses"], manifest["guarantee"]["privacy_unit"]
    if stated_delta(manifest):
        return squares.describe_squares(manifest), AGREEMENT
    parts = ", ".join(
        f"{one['releases']} {one['mean_loss']:.6g}" for one in manifest["plan"]["components"]
    )
    loss = (
        f"mean loss of {losses['units']:,} {unit}s: {losses['mean']:.6g} as stated, the sum of "
        f"{parts}, by noise scales, weights and bounds"
    )
    return loss, AGREEMENT


def _column(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), dtype=np.float64)


def _close(number: float, expected: float) -> bool:
    return math.isclose(number, expected, rel_tol=1e-7, abs_tol=TOLERANCE)


def _is_same(number: float | None, expected: float | None) -> bool:
    if number is None or expected is None:
        return number is expected
    return _close(number, expected)
