"""Columns of a release: their names, and their descriptions by templates/columns.txt.

The released table: a row per cell, made from noisy numbers and public facts only.

Each statistic has its own columns, named after it. The standard deviation is the root of the
variance: its interval holds the true one whenever the variance's does, so it needs no noise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.error_model import ErrorModel
from hexveil.base.arrays import Bools, Floats
from hexveil.mechanisms.stage_data import CutOff
from hexveil.model.cells import CellTable
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.moment_component import MomentComponent
from hexveil.publishing.estimates.accuracy import deviation_of, grade_intervals
from hexveil.publishing.estimates.posterior_estimates import PosteriorEstimates
from hexveil.report.accuracy_text import CUT_OFF
from hexveil.report.manifest_view import RANGE
from hexveil.report.templates import render_sentence, squared
from hexveil.smoothing.shrinkage import Smoothed

PLACE = ("cell", "hexagon", "slot", "slot_end", "starts_at_utc", "users", "records")
NOISED = ("noisy", "raw", "scale", "bias", "error", "bound95", "low", "high", "quality")
ROOT = ("raw", "bound95", "low", "high", "quality")
"""A standard deviation has no noise of its own, so it has neither scale nor bias."""
STATISTICS = {"mean": NOISED, "variance": NOISED, "sd": ROOT}
POSTERIOR = ("mean_estimate", "mean_expected_error")
"""Columns of means under a private range that have a posterior
(publishing/estimates/posterior_estimates.py)."""
TODAY = ("mean_today", "mean_today_low", "mean_today_high")
"""Columns of means that remember earlier releases (publishing/memory/): the day alone."""
COLUMNS = (*PLACE, *(f"{name}_{key}" for name, keys in STATISTICS.items() for key in keys))
"""Columns of releases within public bounds, without smoothed estimates; those that no step made are
absent."""
SMOOTHED = tuple(f"{name}_smoothed" for name in STATISTICS)
ALL_COLUMNS = frozenset((*COLUMNS, *POSTERIOR, *TODAY, *SMOOTHED, "geometry"))
_TEMPLATE = "columns.txt"


def split_column(name: str) -> tuple[str, str]:
    """Return the statistic and the key of a released column; two empty texts for other columns.

    Examples
    --------
    >>> split_column("mean_raw"), split_column("users"), split_column("mean_of_travel")
    (('mean', 'raw'), ('', ''), ('', ''))
    """
    # A label column may begin like a statistic: the whole name decides.
    if name not in ALL_COLUMNS or name in (*PLACE, "geometry"):
        return "", ""
    statistic, _, key = name.partition("_")
    return statistic, key


def describe_column(name: str, *, gaussian: bool = False, **context: Any) -> str:  # noqa: ANN401
    """Return the description of a column.

    Parameters
    ----------
    name : str
        Name of the column; any name but those of a release is that of a label.
    gaussian : bool
        Whether the noise is Gaussian, under a δ.
    context : str and bool
        `strategy` of the private clipping range, as in the manifest; "" within public bounds.
        Whether the release has `smoothed` estimates, every cell is published by a mechanism of one
        cell (`staged`), and the interval of the average is that of its `posterior`.

    Examples
    --------
    >>> describe_column("mean_raw"), describe_column("route")
    ('average with its noise, clamped to the bounds', 'public label of the cell')
    """
    statistic, key = split_column(name)
    if not statistic:
        return render_sentence(_TEMPLATE, "place", name=name)
    context = {"strategy": "", "smoothed": False, "staged": False, "posterior": False} | context
    context["posterior"] = context["posterior"] and statistic == "mean"
    if gaussian and key in ("scale", "bound95"):
        key = f"gaussian_{key}"
    return render_sentence(_TEMPLATE, key, statistic=statistic, **context)


def build_table(
    plan: MomentComponent,
    facts: PublicMetadata,
    noisy: Mapping[str, Floats],
    smoothed: Mapping[str, Smoothed] | None = None,
    cut_off: Mapping[str, CutOff] | None = None,
    posterior: PosteriorEstimates | None = None,
    today: Mapping[str, Floats] | None = None,
) -> pa.Table:
    """Return the released table with units of measure in its metadata.

    Parameters
    ----------
    plan : MomentComponent
    facts : PublicMetadata
    noisy : mapping of statistic to ndarray of float, shape (n_cells,)
        Noisy numbers of each statistic that noise was added to, in its own units.
    smoothed : mapping of statistic to Smoothed, optional
        Their smoothed estimates.
    cut_off : mapping of statistic to CutOff, optional
        Cells whose values a private range may have cut off.
    posterior : PosteriorEstimates, optional
        Estimates of the mean before clipping.
    today : mapping of str to ndarray of float, optional
        Columns of the mean by the day alone, where those estimates remember earlier days.
    """
    columns = name_counted_cells(facts, plan.occupancy)
    by_statistic = _statistic_columns(plan, noisy, smoothed or {}, cut_off or {}, posterior)
    by_statistic.get("mean", {}).update(today or {})
    for name in plan.statistics:
        columns |= {f"{name}_{key}": column for key, column in by_statistic[name].items()}

    def describe(name: str) -> tuple[str, str]:
        text = describe_column(
            name,
            strategy=plan.allocation.clipping.strategy,
            smoothed=bool(smoothed),
            staged=plan.allocation.clipping.has_stages,
            posterior=posterior is not None,
            gaussian=bool(plan.delta),
        )
        return text, _unit(name, facts.value_unit)

    return described_table(columns, describe, facts.value)


def described_table(
    columns: Mapping[str, Any], describe: Callable[[str], tuple[str, str]], value: str
) -> pa.Table:
    """Return a released table, with a description and perhaps a unit of each column.

    Parameters
    ----------
    columns : mapping of str to array
    describe : callable
        Returns the description of a column and its unit of measure, "" without one.
    value : str
        Name of the value column.
    """
    table, fields = pa.table(columns), []
    for field in table.schema:
        text, unit = describe(field.name)
        fields.append(field.with_metadata({"description": text} | ({"unit": unit} if unit else {})))
    return table.cast(pa.schema(fields, metadata={"value": value}))


def _statistic_columns(
    plan: MomentComponent,
    noisy: Mapping[str, Floats],
    smoothed: Mapping[str, Smoothed],
    cut_off: Mapping[str, CutOff],
    posterior: PosteriorEstimates | None,
) -> dict[str, dict[str, Any]]:
    """Return the columns of each statistic, without its name."""
    ends = {name: limits_of(name, plan.lower, plan.upper) for name in noisy}
    made = {
        name: _noised(plan.error_models[name], numbers, ends[name])
        for name, numbers in noisy.items()
    }
    if posterior is not None:
        made["mean"] = _with_posterior(made["mean"], posterior)
    root = _root(made["variance"]) if "sd" in plan.statistics else {}
    # Smoothing exchanges the ends before cut-off cells get theirs: a model must not hide a cut.
    for name, estimate in smoothed.items():
        made[name] |= {"smoothed": estimate.estimate, "low": estimate.low, "high": estimate.high}
    ranged = bool(plan.allocation.clipping.strategy)
    loud = _grade_against_map(plan, made, posterior) if ranged else {}
    for name, cells_cut in cut_off.items():
        made[name] |= _widen_cut_off(made[name], cells_cut, loud[name], ends[name])
    if root:
        informative = plan.error_models["variance"].informative
        width = plan.span * RANGE["sd"]
        flags = grade_intervals(root["bound95"], None, width, informative)
        own = pa.array(flags, type=pa.string())
        # Under a private range the root is as sure as its square.
        root["quality"] = made["variance"]["quality"] if ranged else own
        made["sd"] = root | _root(made["variance"]) | {"bound95": root["bound95"]}
    return made


def limits_of(name: str, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return the least and largest possible value of a statistic, by the bounds of each cell."""
    if name == "mean":
        return lower, upper
    return np.zeros_like(lower), (upper - lower) ** 2 * RANGE["variance"]


def _noised(error: ErrorModel, noisy: Floats, ends: tuple[Floats, Floats]) -> dict[str, Any]:
    """Return the columns of a statistic with noise, without its name."""
    lower, upper = ends
    raw, bound = np.clip(noisy, lower, upper), error.bound95
    return {
        "noisy": noisy,
        "raw": raw,
        "scale": error.scale,
        "bias": error.bias,
        "error": error.error,
        "bound95": bound,
        "low": np.maximum(raw - bound, lower),
        "high": np.minimum(raw + bound, upper),
        "quality": pa.array(
            grade_intervals(error.graded_bound, None, upper - lower, error.informative),
            type=pa.string(),
        ),
    }


def _with_posterior(columns: dict[str, Any], posterior: PosteriorEstimates) -> dict[str, Any]:
    """Return the columns of the mean with those that its posterior adds or exchanges."""
    # Stated numbers first, then what is inferred from them.
    stated = {key: columns[key] for key in columns if key not in ("low", "high", "quality")}
    return stated | {
        "estimate": posterior.estimate,
        "expected_error": posterior.expected_error,
        "low": posterior.low,
        "high": posterior.high,
        "quality": columns["quality"],
    }


def _grade_against_map(
    plan: MomentComponent,
    by_statistic: dict[str, dict[str, Any]],
    posterior: PosteriorEstimates | None,
) -> dict[str, Bools]:
    """Exchange the grades of statistics under a private range, where the map has several cells.

    Returned is, by statistic, which cells have too much noise to say that the range cut them off.
    """
    loud = {}
    for name, error in plan.error_models.items():
        columns = by_statistic[name]
        deviation = deviation_of(name, columns, posterior, error.law)
        loud[name] = np.array(columns["quality"].to_pylist()) == "noise"
        if deviation is not None:
            half, informative = (columns["high"] - columns["low"]) / 2.0, error.informative
            flags = grade_intervals(half, deviation, 0.0, informative)
            if name == "mean" and posterior is not None:
                careful = posterior.tight & (np.array(flags) == "good")
                flags = np.where(careful, "caution", flags).tolist()
            columns["quality"] = pa.array(flags, type=pa.string())
            noise = columns["bound95"] - columns["bias"]
            by_noise = grade_intervals(noise, deviation, 0.0, informative)
            loud[name] = np.array(by_noise) == "noise"
    return loud


def _widen_cut_off(
    columns: Mapping[str, Any], cells_cut: CutOff, loud: Bools, ends: tuple[Floats, Floats]
) -> dict[str, Any]:
    """Return ends and quality of a statistic with cells that may have been cut off."""
    flags = np.array(columns["quality"].to_pylist())
    # A cell of noise stays one: it tells even less than a cell that is cut off.
    graded = np.where(cells_cut.either, np.where(loud, "noise", CUT_OFF), flags)
    return {
        "low": np.where(cells_cut.below, ends[0], columns["low"]),
        "high": np.where(cells_cut.above, ends[1], columns["high"]),
        "quality": pa.array(graded.tolist(), type=pa.string()),
    }


def _root(variance: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the standard deviation from those of the variance, but its quality."""
    raw, low, high = (np.sqrt(variance[key]) for key in ("raw", "low", "high"))
    # The root bends the interval, so the larger side is stated.
    bound = np.maximum(raw - low, high - raw)
    made = {"raw": raw, "bound95": bound, "low": low, "high": high}
    return made | {key: np.sqrt(variance[key]) for key in ("smoothed",) if key in variance}


def name_counted_cells(facts: PublicMetadata, occupancy: Occupancy) -> dict[str, Any]:
    """Return the columns that name each cell, and its public counts."""
    counts = {"users": occupancy.users_per_cell, "records": occupancy.records_per_cell}
    return name_columns(facts.cells) | counts


def name_columns(cells: CellTable) -> dict[str, Any]:
    """Return the columns that name each cell of a table of cells."""
    columns: dict[str, Any] = {"cell": pa.array(cells.names(), type=pa.string())}
    place_names = {
        "hexagon": cells.hexagon_names(),
        "slot": cells.slot_names(),
        "slot_end": cells.slot_names(end=True),
    }
    columns |= {k: pa.array(v, type=pa.string()) for k, v in place_names.items() if v is not None}
    starts = cells.starts_at_utc()
    if starts is not None:
        columns["starts_at_utc"] = pa.array(starts, type=pa.timestamp("s", tz="UTC"))
    return columns | {k: pa.array(v, type=pa.string()) for k, v in cells.labels.items()}


def _unit(name: str, unit: str) -> str:
    statistic, key = split_column(name)
    if not unit or not statistic or key == "quality":
        return ""
    return squared(unit) if statistic == "variance" else unit
