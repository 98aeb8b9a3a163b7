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

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.accounting.gaussian_composition import LATTICE
from hexveil.accounting.promise import PARTS, of_amount
from hexveil.base.errors import InputError
from hexveil.learning.remembering import estimate_day
from hexveil.mechanisms.distribution.pooled_shape import CELL_BINS
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import (
    Histogram,
    Quantile,
    Share,
    Term,
    column_names,
    half_bin,
    parse_statistics,
)
from hexveil.planning.distribution_measures import MOMENTS, SCORES, SHAPE
from hexveil.publishing.estimates.accuracy import beats_constant
from hexveil.publishing.kinds import distribution_table as released
from hexveil.publishing.kinds import guarantee, loss_checks, moment_checks, value_manifest
from hexveil.publishing.kinds.guarantee import (
    TOLERANCE,
    added_losses,
    delta_of,
    epsilon_text,
    is_ascending,
    is_interval,
)
from hexveil.publishing.kinds.moment_checks import is_same
from hexveil.publishing.kinds.recomputed_losses import ReleaseStatements
from hexveil.publishing.kinds.value_manifest import nested_manifest
from hexveil.publishing.memory import stored_day
from hexveil.publishing.memory.score_history import read_shape
from hexveil.report.manifest_view import numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from hexveil.base.arrays import Floats

    Json = dict[str, Any]

CLOSE, LOOSE = 1e-7, 1e-6
"""Part by which rounding may set losses, or statistics of a cell, apart: sums of thousands."""
MOST_COST = 1e6
"""Far above any square that a release is paid for: a stranger's is not converted beyond it."""
NEEDED = {"indicator": {SCORES}, "ranks": {SHAPE, SCORES}, "bins": {SHAPE}}
"""Components by the form in which a distribution was measured."""
RECOMPUTED = (
    "the sum of all losses, by scales, weights and bounds",
    "grades, typical errors, and that quantiles and shares of each cell agree",
)
UNKNOWN = (
    moment_checks.UNKNOWN[0],
    "estimates and intervals of the distribution: they follow from numbers not in the folder",
)
"""What a folder lets anybody recompute, and what it does not."""


def check_statements(manifest: Json) -> Iterator[str]:  # noqa: C901  a statement each
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
    memory = manifest.get("memory", {})
    if ("shape" in memory) != (bool(memory) and plan["estimator"] == "ranks"):
        yield "manifest.json states a shape to remember where none is, or none where one is."
        return
    stated = [component["name"] for component in plan["components"]]
    # Where an earlier release published the shape, nothing is paid for it.
    if "shape" in memory and SHAPE not in stated:
        needed = needed - {SHAPE}
    if set(stated) != needed or len(stated) > len(needed):
        yield "manifest.json does not name the components of its plan."
        return
    sections = needed - {SHAPE}
    cell_keys = {"cell", *sections} | ({"weight"} if plan["estimator"] == "bins" else set())
    if faults := list(_check_delta(manifest)):
        yield from faults
        return
    if delta_of(manifest) and "weight" in cell_keys:
        cell_keys.add("squared_weight")
    if any((name in manifest) != (name in sections) for name in (MOMENTS, SCORES)) or any(
        set(row) != cell_keys for row in manifest["cells"]
    ):
        yield "a component of the plan, or a cell, lacks what its loss follows from."
    elif moments and manifest[MOMENTS]["plan"]["statistics"] != list(moments):
        yield "means and variances are not those of the plan."
    elif SCORES in sections and manifest[SCORES]["plan"]["statistics"] != ["mean"]:
        yield "scores have a statistic other than their mean."


def _check_delta(manifest: Json) -> Iterator[str]:
    """Yield if δ is none that a release has, or squares are stated without it."""
    yield from guarantee.check_delta(manifest, manifest["losses"]["units"])
    stating = [manifest["losses"], *manifest["plan"]["components"]]
    if any(("squared_mu" in entry) != ("delta" in manifest["guarantee"]) for entry in stating):
        yield "squares of mu are stated without a delta, or a delta without them."
    elif any(entry.get("squared_mu", {"max": 0})["max"] > MOST_COST for entry in stating):
        yield "a square of mu is larger than that of any release."


def lattice_of(manifest: Json) -> ValueLattice:
    """Return bounds and quantum of a manifest."""
    lower, upper, quantum = (
        Fraction(manifest["bounds"][name]) for name in ("lower", "upper", "quantum")
    )
    return ValueLattice.of((lower, upper), quantum)


def typed_columns(manifest: Json) -> dict[str, pa.DataType]:
    """Return the columns of a release of distributions, with their types."""
    nested = [nested_manifest(manifest, MOMENTS)] if MOMENTS in manifest else []
    moments = [name for own in nested for name in value_manifest.moment_columns(own)]
    names = ("users", "records", *moments, *released.released_columns(_terms(manifest)))
    return value_manifest.types_of(names)


def _terms(manifest: Json) -> tuple[Term, ...]:
    return parse_statistics(manifest["plan"]["statistics"])[1]


def check_distribution(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield losses, statements and numbers that do not follow from each other."""
    for name in (MOMENTS, SCORES):
        if name in manifest:
            stated = ReleaseStatements.from_release(nested_manifest(manifest, name), table)
            for problem in loss_checks.find_problems(stated):
                yield f"{name}: {problem}"
            if name == MOMENTS:
                yield from moment_checks.check_moment_numbers(table, stated)
    yield from _check_components(manifest)
    yield from guarantee.check_spent(manifest)
    yield from moment_checks.check_counts(table, manifest)
    yield from _check_numbers(table, manifest)


def check_remembered(content: bytes, table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield columns that are not those of the forecasts and likelihoods in `memory.npy`."""
    memory, terms = manifest["memory"], _terms(manifest)
    if not memory["releases"]:
        return
    rows = stored_day.from_bytes(content, table.num_rows)
    day = stored_day.unpack(rows, stored_day.places_of(table), memory, (0.0, 1.0))
    scores = released.scores_of(estimate_day(day, stored_day.forecast_of(rows)))
    if "shape" in memory:
        means = released.means_of(table) if "mean_raw" in table.column_names else None
        shape, lattice = read_shape(memory["shape"]), lattice_of(manifest)
        made = released.statistics_of_scores(terms, lattice, shape, scores, means)
    else:
        made = {terms[0].column: scores}
    for name, column in made.items():
        for key in released.KEYS[:-1]:
            shown = numbers_of(table, f"{name}_{key}")
            if not np.allclose(shown, getattr(column, key), rtol=LOOSE, atol=LOOSE):
                yield f"{name}_{key} is not that of {stored_day.FILE}."


# ---- losses ----


def _check_components(manifest: Json) -> Iterator[str]:
    """Yield losses of components that are not those of their parts, or do not add up."""
    losses = manifest["losses"]
    for component in manifest["plan"]["components"]:
        name, largest = component["name"], _cost(component)[0]
        # The epsilon of an amount of what adds up: itself, or that of a square.
        epsilon = epsilon_text(of_amount(Fraction(largest), delta_of(manifest)).epsilon)
        if name == SHAPE:
            yield from _check_shape(component, manifest)
            if "squared_mu" in component and component["epsilon"] != epsilon:
                yield "the loss of the shape is not that of its largest square of mu."
            continue
        own = manifest[name]["losses"]
        same = component["epsilon"] == epsilon_text(Fraction(own["max"])) and _close(
            component["mean_loss"], own["mean"]
        )
        if not same or component.get("squared_mu") != own.get("squared_mu"):
            yield f"the losses of the component {name} are not those of its cells."
    added = added_losses(manifest)
    if delta_of(manifest):
        stated = of_amount(Fraction(added["max"]), delta_of(manifest))
        if not math.isclose(losses["max"], float(stated.epsilon), rel_tol=CLOSE):
            yield "the largest loss is not that of the largest square of mu at this delta."
    maxima, means = zip(*map(_cost, manifest["plan"]["components"]), strict=True)
    if not _close(added["mean"], math.fsum(means)):
        yield "the mean losses of the components do not add up to that of the release."
    slack = TOLERANCE * (1.0 + added["max"])
    if not max(maxima) - slack <= added["max"] <= math.fsum(maxima) + slack:
        yield "the largest loss is not within those of the components and their sum."


def _cost(component: Json) -> tuple[float, float]:
    """Return the largest and the mean cost of a component: of ε, or of squares of μ."""
    if square := component.get("squared_mu"):
        return square["max"], square["mean"]
    return float(component["epsilon"]), component["mean_loss"]


def _check_shape(component: Json, manifest: Json) -> Iterator[str]:
    """Yield if the loss of the shape, and of bins, is not that of its noise."""
    stages, delta = component["stages"], delta_of(manifest)
    # Products, which overflow to infinity: powers of a stranger's numbers would raise.
    rates = [
        (one["stage"], (1.0 / one["scale"]) * (1.0 / one["scale"] if delta else 1.0))
        for one in stages
    ]
    bins = [rate for name, rate in rates if name == CELL_BINS]
    if (manifest["plan"]["estimator"] == "bins") != (len(bins) == 1):
        yield "the stages of the shape are not those of its form."
        return
    shared = 2.0 * math.fsum(rate for name, rate in rates if name != CELL_BINS)
    of_bins, units = math.fsum(bins), max(manifest["losses"]["units"], 1)
    weights, squares = (
        math.fsum(row.get(name, 0.0) for row in manifest["cells"])
        for name in ("weight", "squared_weight")
    )
    expected = shared + 2.0 * of_bins * (squares if delta else weights) / units
    lattice = 2.0 * of_bins * weights / units / PARTS / float(LATTICE) if delta else 0.0
    largest, mean = _cost(component)
    room = CLOSE * (1.0 + mean) if delta else CLOSE * expected + TOLERANCE
    if not expected - room <= mean <= expected + lattice + room:
        yield "the mean loss of the shape is not that of its noise scales and weights."
    # Nobody weighs more than one over all cells.
    if not expected - LOOSE <= largest <= (shared + 2.0 * of_bins) * (1.0 + LOOSE):
        yield "the largest loss of the shape is not within what its noise scales allow."


# ---- numbers ----


def _check_numbers(table: pa.Table, manifest: Json) -> Iterator[str]:
    """Yield numbers of the distribution that do not follow from each other, or the manifest."""
    statements, terms, lattice = manifest["accuracy"], _terms(manifest), lattice_of(manifest)
    own = [] if MOMENTS not in manifest else manifest[MOMENTS]["accuracy"]
    described = [*released.describe_terms(terms, lattice)]
    if statements[: len(own)] != own or len(statements) != len(own) + len(described):
        yield "the accuracy in manifest.json is not that of the statistics of the plan."
        return
    for (prefix, _, is_value), statement in zip(described, statements[len(own) :], strict=True):
        half, width = (half_bin(lattice), float(lattice.span)) if is_value else (0.0, 1.0)
        yield from _check_column(table, prefix, width, half, statement)
    limits = released.limits_of((), terms, lattice)
    yield from check_estimates(
        limits, terms, lattice, partial(numbers_of, table), "_estimate", LOOSE
    )


def _check_column(
    table: pa.Table, prefix: str, width: float, half: float, statement: Json
) -> Iterator[str]:
    """Yield if an error, a grade or the accuracy of a column contradict each other."""
    low, middle, high, errors = (
        numbers_of(table, f"{prefix}_{key}") for key in ("low", "estimate", "high", "error")
    )
    if (errors < 0).any():
        yield f"{prefix}_error is negative."
    # By stated numbers: rounding must not turn a grade or a statement.
    stated, between = statement["between_cells"], released.deviation_of_estimates
    expected = released.estimate_accuracy(table, prefix, between(middle, errors, half))
    expected["beats_constant"] = beats_constant(statement["typical_error"], stated)
    if any(
        not is_same(statement[key], number, CLOSE)
        if key in {"typical_error", "between_cells"}
        else statement[key] != number
        for key, number in expected.items()
    ):
        yield f"the accuracy of {prefix} is not that of the cells."
    elif (
        released.grade_estimates(low, high, stated, width) != table[f"{prefix}_quality"].to_pylist()
    ):
        yield f"{prefix}_quality is not that of its interval."


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
            total = np.sum([estimate(prefix) for prefix in column_names(term)], axis=0)
            if not np.allclose(total, 1.0, rtol=0.0, atol=slack):
                yield "the bins of a histogram do not add up to 1."


def _close(number: float, expected: float) -> bool:
    return math.isclose(number, expected, rel_tol=CLOSE, abs_tol=TOLERANCE)
