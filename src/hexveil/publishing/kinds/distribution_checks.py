"""Checks of a release with quantiles, shares or histograms: its losses, its table, its statements.

Recomputed: the losses of means, variances and mean scores as those of a release of their own
(recomputed_losses.py); that of the shape over all cells from its noise scales; that of bins, over
all units together, from their scale and the weights of the cells; and that the losses of the
components add up to what is stated. Of each statistic: grades, typical errors, and that all
statistics of a cell agree. Estimates cannot be recomputed: the noisy numbers that they follow from
are not in the folder.

Every unit weighs fully in the pooled shape: 2 / r^p for each of its stages, r the scale of the
noise in full weights, p its power: losses add up, or squares of μ under a δ. In the bins of cells a
unit of weights w costs Σ 2 w^p / r^p, of which the manifest has Σ w^p for each cell; under a δ
groups of very few parts may be charged more, by the lattice
(mechanisms/distribution/binned_stage.py).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.accounting.promise import PARTS, of_amount
from hexveil.base.arrays import Floats
from hexveil.learning.remembering import estimate_day
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.model import statistic_terms
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import Histogram, Quantile, Share, Term, parse_statistics
from hexveil.planning.distribution_measures import MOMENTS, SCORES, SHAPE
from hexveil.publishing.kinds import distribution_table as released
from hexveil.publishing.kinds import loss_checks, moment_checks, value_manifest
from hexveil.publishing.kinds.guarantee import (
    CLOSE,
    TOLERANCE,
    added_losses,
    check_losses,
    delta_of,
    epsilon_text,
    find_differences,
    is_ascending,
    is_interval,
    is_same,
    lattice_of,
)
from hexveil.publishing.kinds.loss_checks import ReleaseStatements
from hexveil.publishing.kinds.presence_table import map_statistics
from hexveil.publishing.memory import stored_day
from hexveil.publishing.memory.score_history import read_shape
from hexveil.report.manifest_view import numbers_of

Json = dict[str, Any]

LOOSE = 1e-6
"""Part by which rounding may set statistics of a cell apart."""
NEEDED = {"indicator": {SCORES}, "ranks": {SHAPE, SCORES}, "bins": {SHAPE}}
"""Components by the form in which a distribution was measured."""


def check_statements(manifest: Json) -> Iterator[str]:
    """Yield statements that no release of this kind has; run before any part is used.

    Raises
    ------
    InputError
        If there is no such statistic.
    """
    plan = manifest["plan"]
    moments, terms = parse_statistics(plan["statistics"])
    needed = NEEDED[plan["estimator"]] | ({MOMENTS} if moments else set())
    names = [component["name"] for component in plan["components"]]
    statistics = {MOMENTS: [*moments], SCORES: ["mean"]}
    expected = {name: own for name, own in statistics.items() if name in needed}
    # Where an earlier release published the shape, nothing is paid for it.
    if plan["estimator"] == "ranks" and manifest.get("memory", {}).get("releases"):
        needed = needed - {SHAPE} | needed & {*names}
    stated = {name: manifest[name]["plan"]["statistics"] for name in statistics if name in manifest}
    if not terms or plan["statistics"] != [*moments, *(term.text for term in terms)]:
        yield "manifest.json does not name its statistics as a release does."
    if sorted(names) != sorted(needed) or stated != expected:
        yield "manifest.json does not name the components of its plan."


def typed_columns(manifest: Json) -> dict[str, pa.DataType]:
    """Return the columns of a release of distributions, with their types."""
    nested = [value_manifest.nested_manifest(manifest, MOMENTS)] if MOMENTS in manifest else []
    moments = [name for own in nested for name in value_manifest.moment_columns(own)]
    names = ("users", "records", *moments, *released.released_columns(_terms(manifest)))
    return value_manifest.types_of(names)


def _terms(manifest: Json) -> tuple[Term, ...]:
    return parse_statistics(map_statistics(manifest["plan"]["statistics"]))[1]


def check_distribution(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    for name in (MOMENTS, SCORES):
        if name in manifest:
            own = value_manifest.nested_manifest(manifest, name)
            stated = ReleaseStatements.from_release(own, table)
            for problem in loss_checks.find_problems(stated):
                yield f"{name}: {problem}"
            if name == MOMENTS:
                yield from moment_checks.check_moment_numbers(table, stated)
    yield from check_losses(manifest)
    yield from _check_components(manifest)
    yield from moment_checks.check_counts(table, manifest)
    yield from _check_numbers(table, manifest)


def check_remembered(content: bytes, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns that are not those of the forecasts and likelihoods in `memory.npy`."""
    memory, terms = manifest["memory"], _terms(manifest)
    if not memory["releases"]:
        return
    is_open = stored_day.open_rows(table)
    rows, table = (
        stored_day.from_bytes(content, table.num_rows, memory)[is_open],
        table.filter(is_open),
    )
    suffixes = {key: f"_{key}" for key in released.KEYS[:-1]}
    if manifest["kind"] == "presence":
        suffixes = {"estimate": "", "low": "_low", "high": "_high"}
    day = stored_day.unpack(rows, stored_day.places_of(table), memory, (0.0, 1.0))
    own_share = stored_day.own_share_of(memory)
    scores = released.scores_of(estimate_day(day, stored_day.forecast_of(rows), own_share))
    if "shape" in memory:
        means = released.means_of(table) if "mean_raw" in table.column_names else None
        shape, lattice = read_shape(memory["shape"]), lattice_of(manifest)
        narrowing = float(memory.get("narrowing", 0.0))  # drafts state none
        columns = released.statistics_of_scores(terms, lattice, shape, scores, narrowing, means)
    else:
        columns = {terms[0].column: scores}
    for name, column in columns.items():
        for key, suffix in suffixes.items():
            published = numbers_of(table, f"{name}{suffix}")
            if not np.allclose(published, getattr(column, key), rtol=LOOSE, atol=LOOSE):
                yield f"{name}{suffix} is not that of {stored_day.FILE}."


# ---- losses ----


def _check_components(manifest: Json) -> Iterator[str]:
    """Yield losses of components that are not those of their parts, or do not add up."""
    components, delta = manifest["plan"]["components"], delta_of(manifest)
    for component in components:
        name = component["name"]
        if name == SHAPE:
            yield from _check_shape(component, manifest)
            largest, expected = Fraction(_cost(component, delta)[0]), {}
            if delta:
                expected = {"epsilon": epsilon_text(of_amount(largest, delta).epsilon)}
        else:
            own = manifest[name]["losses"]
            expected = {"epsilon": epsilon_text(Fraction(own["max"])), "mean_loss": own["mean"]}
            expected["squared_mu"] = own.get("squared_mu")
        yield from find_differences(component, expected, name, "its losses", CLOSE)
    added = added_losses(manifest)
    maxima, means = zip(*(_cost(component, delta) for component in components), strict=True)
    if not is_same(added["mean"], math.fsum(means), CLOSE):
        yield "the mean losses of the components do not add up to that of the release."
    slack = TOLERANCE * (1.0 + added["max"])
    if not max(maxima) - slack <= added["max"] <= math.fsum(maxima) + slack:
        yield "the largest loss is not within those of the components and their sum."


def _cost(component: Json, delta: Fraction) -> tuple[float, float]:
    """Return the largest and the mean cost of a component: of ε, or of squares of μ."""
    if delta:
        return component["squared_mu"]["max"], component["squared_mu"]["mean"]
    return float(component["epsilon"]), component["mean_loss"]


def _check_shape(component: Json, manifest: Json) -> Iterator[str]:
    """Yield if the loss of the shape, and of bins, is not that of its noise."""
    delta, has_bins = delta_of(manifest), manifest["plan"]["estimator"] == "bins"
    # Products, which overflow to infinity: powers of a stranger's numbers would raise.
    rates = [
        (one["stage"], (1.0 / one["scale"]) * (1.0 / one["scale"] if delta else 1.0))
        for one in component["stages"]
    ]
    shared = 2.0 * math.fsum(rate for name, rate in rates if name != CELL_BINS)
    of_bins = 2.0 * math.fsum(rate for name, rate in rates if name == CELL_BINS)
    cells, units = manifest["cells"] if has_bins else (), max(manifest["losses"]["units"], 1)
    weights = math.fsum(row["weight"] for row in cells) / units
    added = math.fsum(row["squared_weight"] for row in cells) / units if delta else weights
    expected = shared + of_bins * added
    lattice = of_bins * weights / PARTS / float(LATTICE) if delta else 0.0
    largest, mean = _cost(component, delta)
    room = CLOSE * (1.0 + mean) if delta else CLOSE * expected + TOLERANCE
    if has_bins != bool(of_bins) or not expected - room <= mean <= expected + lattice + room:
        yield "the mean loss of the shape is not that of its noise scales and weights."
    # Nobody weighs more than one over all cells.
    if not expected - LOOSE <= largest <= (shared + of_bins) * (1.0 + LOOSE):
        yield "the largest loss of the shape is not within what its noise scales allow."


# ---- numbers ----


def _check_numbers(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers of the distribution that do not follow from each other, or the manifest."""
    statements, terms, lattice = manifest["accuracy"], _terms(manifest), lattice_of(manifest)
    own = [] if MOMENTS not in manifest else manifest[MOMENTS]["accuracy"]
    described = {name: is_value for name, _, is_value in released.describe_terms(terms, lattice)}
    if statements[: len(own)] != own:
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
    of_terms = statements[len(own) :]
    faults = [*moment_checks.check_accuracy(table, of_terms, described)]
    yield from faults
    for stated in () if faults else of_terms:
        name = stated["statistic"]
        low, high = (numbers_of(table, f"{name}_{key}") for key in ("low", "high"))
        width = float(lattice.span) if described[name] else 1.0
        # By the stated number: rounding must not turn a grade.
        grades = released.grade_estimates(low, high, stated["between_cells"], width)
        if grades != table[f"{name}_quality"].to_pylist():
            yield f"{name}_quality is not that of its interval."
    limits = released.limits_of((), terms, lattice)
    yield from check_estimates(
        limits, terms, lattice, partial(numbers_of, table), "_estimate", LOOSE
    )


def check_estimates(
    limits: Mapping[str, tuple[float, float]],
    terms: Sequence[Term],
    lattice: ValueLattice,
    numbers: Callable[[str], Floats],
    middle: str,
    slack: float,
) -> Iterator[str]:
    """Yield estimates that are no intervals within limits, and statistics that do not agree.

    Parameters
    ----------
    limits : mapping of str to tuple of float
        Least and largest value of each column of estimates.
    terms : sequence of Term
    lattice : ValueLattice
    numbers : callable
        Returns a column by its name.
    middle : str
        What the names of estimates end in.
    slack : float
        Of shares; of values as a part of the bounds.
    """
    for name, (least, largest) in limits.items():
        names = f"{name}_low", f"{name}{middle}", f"{name}_high"
        rows, room = [*map(numbers, names)], slack * max(1.0, largest - least)
        if not is_interval(rows, (least, largest), room):
            yield f"{names[0]}, {names[1]} and {names[2]} are no interval within its limits."

    def estimate(name: str) -> Floats:
        return numbers(f"{name}{middle}")

    levels = [estimate(term.column) for term in terms if isinstance(term, Quantile)]
    if not is_ascending(levels, slack * float(lattice.span)):
        yield "a quantile is above one of a higher level."
    shares = sorted(
        (term.edge(lattice), term.column, term.is_above)
        for term in terms
        if isinstance(term, Share)
    )
    below = [1.0 - estimate(name) if is_above else estimate(name) for _, name, is_above in shares]
    if not is_ascending(below, slack):
        yield "a share below a threshold is above that of a higher one."
    for term in terms:
        if isinstance(term, Histogram):
            total = np.sum(
                [estimate(prefix) for prefix in statistic_terms.column_names(term)], axis=0
            )
            if not np.allclose(total, 1.0, rtol=0.0, atol=slack):
                yield "the bins of a histogram do not add up to 1."
