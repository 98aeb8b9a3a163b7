"""The released table: a row per cell, made from noisy numbers and public facts only.

Each statistic has its own columns, named after it. The standard deviation is the root of the
variance: its interval holds the true one whenever the variance's does, so it needs no noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.base.errors import InputError
from hexveil.planning.allocation import WithinBounds
from hexveil.planning.release_allocation import released_strategy
from hexveil.report.clipping_text import CUT_OFF
from hexveil.report.manifest_view import RANGE, squared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hexveil.accounting.error_model import ErrorModel
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning import Plan
    from hexveil.publishing.estimates.cut_off import CutOff
    from hexveil.smoothing import Smoothed

    Floats = NDArray[np.float64]

GOOD, CAUTION = 10, 4
"""A bound within range/10 is good, within range/4 a caution; beyond, or a constant, is noise."""

WHERE = {
    "cell": "name of the cell, unique in this release",
    "hexagon": "H3 index of the hexagon, as hex text",
    "slot": "local start of the timeslot",
    "slot_end": "local end of the timeslot",
    "starts_at_utc": "first instant of the timeslot, UTC",
    "users": "units of privacy that reported in the cell (public)",
    "records": "records in the cell (public)",
}
NOISED = {
    "noisy": "{name} with its noise, not clamped to {ends}",
    "raw": "{name} with its noise, clamped to {ends}",
    "scale": "Laplace scale of the {name}'s noise, also its expected size; 0 for a constant",
    "bias": "largest bias of the {name} that the plan's clipping can cause, whatever the values",
    "error": "planning error of the {name}: {s}_bias + {s}_scale",
    "bound95": "{s}_bias + {s}_scale * ln 20; not exceeded with probability 95 percent",
    "low": "{s}_raw - {s}_bound95, within {ends}",
    "high": "{s}_raw + {s}_bound95, within {ends}",
    "quality": "good ({s}_bound95 within a tenth of {range}), caution (a quarter), noise (above, "
    "or a constant without data)",
}
WORDS = {
    "mean": {"name": "average", "ends": "the bounds", "range": "the span"},
    "variance": {
        "name": "variance",
        "ends": "0 and a quarter of the squared span",
        "range": "its range, a quarter of the squared span",
    },
}
ROOT = {
    "sd_raw": "standard deviation: root of the clamped variance with its noise",
    "sd_bound95": "larger distance from sd_raw to sd_low and sd_high; not exceeded with "
    "probability 95 percent",
    "sd_low": "root of the variance's lower end",
    "sd_high": "root of the variance's upper end",
    "sd_quality": "good (sd_bound95 within a tenth of its range, half the span), caution (a "
    "quarter), noise (above, or a constant without data)",
}
COLUMNS = {
    **WHERE,
    **{
        f"{s}_{key}": text.format(s=s, **words)
        for s, words in WORDS.items()
        for key, text in NOISED.items()
    },
    **ROOT,
}
"""What each column holds; columns that no step made are absent."""
PROJECTED = "the average of user means projected to the interval"
BEYOND = "in a cell that is cut off there, the end of what is possible"
GRADED = (
    "; first of these, for what is not noise: cut off ({s}_noisy within its noise of an end of the "
    "range found privately, so that values may lie beyond it)"
)
CUT = "the variance of what was projected: see docs/understand/clipping-range.md"
UNDER_INTERVAL = {
    "mean_noisy": "weighted average of user means projected to the private interval, with noise",
    "mean_bias": f"most by which the weights can make it differ from {PROJECTED}",
    "mean_error": "predicted error: what weights and projection are likely to cost, and mean_scale",
    "mean_bound95": "mean_bias + mean_scale * ln 20; how far it can be from "
    f"{PROJECTED}, exceeded with probability 5 percent at most",
    "mean_low": f"mean_raw - mean_bound95, within the bounds; of {PROJECTED}",
    "mean_high": f"mean_raw + mean_bound95, within the bounds; of {PROJECTED}",
    "mean_quality": COLUMNS["mean_quality"] + GRADED.format(s="mean"),
    "variance_noisy": "weighted average of users' second moments about the middle of the private "
    "interval, projected, with noise, less the square of the noisy average's distance from there, "
    "freed of what noise adds on average",
    "variance_scale": "Laplace scale of the second moment's noise; the average's comes on top",
    "variance_bias": f"most by which weights and rounding can make it differ from {CUT}",
    "variance_error": "predicted error: what weights, projection and the average's noise are "
    "likely to cost, and variance_scale",
    "variance_bound95": "variance_bias + variance_scale * ln 40 + what the average's noise can "
    f"add; how far it can be from {CUT}; exceeded with probability 5 percent at most",
    "variance_low": f"variance_raw - variance_bound95, 0 at least; of {CUT}",
    "variance_high": "variance_raw + variance_bound95, a quarter of the squared span at most; of "
    f"{CUT}",
    "variance_quality": COLUMNS["variance_quality"]
    + "; first of these, for what is not noise: cut off (the average, or the second moment, within "
    "its noise of an end of the range found privately)",
    "sd_bound95": COLUMNS["sd_bound95"] + ", before a cell that is cut off is given its wider ends",
    "sd_low": f"root of the variance's lower end; of {CUT}",
    "sd_high": f"root of the variance's upper end; of {CUT}",
    "sd_quality": COLUMNS["sd_quality"] + "; cut off as for the variance",
}
"""What columns hold instead where a plan has a private interval."""
ABOUT = {
    "user_residuals": "the average of user means taken in two parts: the user's own mean over all "
    "cells and its distance from that here, each projected to a range found privately",
    "cell_residuals": "the average of user means projected to the half width around the cell's "
    "centre that manifest.json says",
}
BY_WAY = {
    way: {
        "mean_bias": "most by which weights"
        f"{' and classes' * (way == 'user_residuals')} can make it differ from {about}",
        "mean_low": f"mean_raw - mean_bound95, within the bounds; of {about}",
        "mean_high": f"mean_raw + mean_bound95, within the bounds; of {about}",
        "mean_quality": COLUMNS["mean_quality"]
        + "; first of these, for what is not noise: cut off (the noisy average of distances within "
        "its noise of an end of its range, so that values may lie beyond it)",
    }
    for way, about in ABOUT.items()
}
BY_WAY["user_residuals"] |= {
    "mean_noisy": "means of classes of users, mixed as in the cell's records, and the weighted "
    "average of distances of user means from users' own means, all projected, with noise",
    "mean_scale": "Laplace scale of as large a variance as all noise of the cell has; the noise of "
    "classes is shared by cells",
    "mean_error": "predicted error: what weights, classes and projection are likely to cost, and "
    "mean_scale",
    "mean_bound95": "mean_bias + what all noise of the cell exceeds with probability 5 percent at "
    f"most; how far it can be from {ABOUT['user_residuals']}",
}
BY_WAY["cell_residuals"] |= {
    "mean_noisy": "the cell's centre, made of a first noisy average, and the weighted average of "
    "distances of user means from it, projected, with noise",
    "mean_scale": "Laplace scale of the noise of the last step, also its expected size",
    "mean_error": "predicted error of mean_smoothed, which undoes the projection: what weights and "
    "its model are likely to cost, and the noise that undoing makes larger",
    "mean_bound95": "mean_bias + mean_scale * ln 20; how far it can be from "
    f"{ABOUT['cell_residuals']}, exceeded with probability 5 percent at most",
}
"""And where it was made in several steps, by the way that they went."""
BY_MODEL = {
    key: text.format(s=s, **words)
    for s, words in (*WORDS.items(), ("sd", {"name": "standard deviation"}))
    for key, text in {
        f"{s}_smoothed": "{name} drawn towards cells that it resembles, as far as noise is large",
        f"{s}_low": "lower end of the interval about {s}_smoothed by the model in manifest.json: "
        "95 percent on average over cells of maps like it, no guarantee for one cell",
        f"{s}_high": "upper end of the same interval",
    }.items()
}
"""What smoothing adds, and what low and high hold then."""
BY_MODEL_AND_WAY = {
    "user_residuals": {
        "mean_smoothed": "average, noisy means of classes first clamped to their range, drawn "
        "towards cells that it resembles, as far as noise is large"
    },
    "cell_residuals": {
        "mean_smoothed": "average, the projection of both steps first undone by a normal model, "
        "drawn towards cells that it resembles, as far as noise is large"
    },
}
ALL = COLUMNS | BY_MODEL
"""Every column that a release can have."""


def released(
    plan: Plan,
    facts: PublicMetadata,
    noisy: Mapping[str, Floats],
    smoothed: Mapping[str, Smoothed] | None = None,
    cut_off: Mapping[str, CutOff] | None = None,
) -> pa.Table:
    """Return the released table with units of measure in its metadata.

    Parameters
    ----------
    plan : Plan
    facts : PublicMetadata
    noisy : mapping of statistic to ndarray of float, shape (n_cells,)
        Noisy numbers of each statistic that noise was added to, in its own units.
    smoothed : mapping of statistic to Smoothed, optional
        Their smoothed estimates.
    cut_off : mapping of statistic to CutOff, optional
        Cells whose values a private range may have cut off.
    """
    made = {
        name: _noised(plan.error_models[name], numbers, _ends(plan, name))
        for name, numbers in noisy.items()
    }
    if "sd" in plan.statistics:
        made["sd"] = _root(plan.error_models["variance"], made["variance"], plan.span)
    for name, estimate in (smoothed or {}).items():
        made[name] |= _smooth(estimate)
        if name == "variance" and "sd" in made:
            made["sd"] |= {key: np.sqrt(column) for key, column in _smooth(estimate).items()}
    for name, cut in (cut_off or {}).items():
        made[name] |= _reaching(made[name], cut, _ends(plan, name))
        if name == "variance" and "sd" in made:
            ends = np.zeros_like(plan.span), plan.span * RANGE["sd"]
            made["sd"] |= _reaching(made["sd"], cut, ends)
    columns = _where(facts) | {
        "users": plan.occupancy.users_per_cell,
        "records": plan.occupancy.records_per_cell,
    }
    for name in plan.statistics:
        columns |= {f"{name}_{key}": column for key, column in made[name].items()}
    table = pa.table(columns)
    words = _words(plan, smoothed=bool(smoothed))
    fields = [
        field.with_metadata(
            {"description": words.get(field.name, "public label of the cell")}
            | _unit(field.name, facts.value_unit)
        )
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata={"value": facts.value}))


def _words(plan: Plan, *, smoothed: bool) -> dict[str, str]:
    """Return the description of each column, under this plan."""
    strategy, clipped = (
        released_strategy(plan),
        not isinstance(plan.allocation.clipping, WithinBounds),
    )
    told = COLUMNS | UNDER_INTERVAL if clipped else COLUMNS
    told = told | BY_WAY.get(strategy, {})
    if smoothed:
        told = told | BY_MODEL | BY_MODEL_AND_WAY.get(strategy, {})
    if not clipped:
        return told
    ends = [name for name in told if name.endswith(("_low", "_high"))]
    return told | {name: f"{told[name]}; {BEYOND}" for name in ends}


def check_labels(facts: PublicMetadata) -> None:
    """Refuse label columns with names that the released table needs for itself.

    A label column `cell` that stands alone is the cell's name, and is written once.
    """
    labels = tuple(facts.cells.labels)
    taken = sorted({*ALL, "geometry"}.intersection(labels))
    if taken and labels != ("cell",):
        raise InputError(
            f"the label column {taken[0]!r} has the name of a column of every release; "
            "give it another name in the records."
        )


def quality(bound: Floats, width: Floats, told: NDArray[np.bool_]) -> list[str]:
    """Return each cell's flag, from its bound and the range of the statistic."""
    flags = np.where(
        bound <= width / GOOD, "good", np.where(bound <= width / CAUTION, "caution", "noise")
    )
    return [str(f) for f in np.where(told, flags, "noise")]


def cells_cut_off(table: pa.Table, statistics: Sequence[str]) -> dict[str, int]:
    """Return how many cells of each statistic are graded as cut off."""
    return {name: table[f"{name}_quality"].to_pylist().count(CUT_OFF) for name in statistics}


def shown_columns(statistic: str) -> list[str]:
    """Return the columns of a short table about one statistic."""
    return ["cell", "users", *(f"{statistic}_{key}" for key in ("raw", "bound95", "quality"))]


def _ends(plan: Plan, name: str) -> tuple[Floats, Floats]:
    """Return the range of possible values of a statistic."""
    if name == "mean":
        return plan.lower, plan.upper
    return np.zeros_like(plan.span), plan.span**2 * RANGE["variance"]


def _noised(part: ErrorModel, noisy: Floats, ends: tuple[Floats, Floats]) -> dict[str, Any]:
    """Return the columns of a statistic with noise, without its name."""
    lower, upper = ends
    raw, bound = np.clip(noisy, lower, upper), part.bound95
    return {
        "noisy": noisy,
        "raw": raw,
        "scale": part.scale,
        "bias": part.bias,
        "error": part.error,
        "bound95": bound,
        "low": np.maximum(raw - bound, lower),
        "high": np.minimum(raw + bound, upper),
        "quality": pa.array(quality(bound, upper - lower, part.informative), type=pa.string()),
    }


def _smooth(estimate: Smoothed) -> dict[str, Any]:
    """Return the columns that smoothing adds or exchanges, without the statistic's name."""
    return {"smoothed": estimate.estimate, "low": estimate.low, "high": estimate.high}


def _reaching(made: Mapping[str, Any], cut: CutOff, ends: tuple[Floats, Floats]) -> dict[str, Any]:
    """Return ends and quality of a statistic with cells that may have been cut off.

    Noise says less than a cut: it stays what a cell is graded.
    """
    flags = np.array(made["quality"].to_pylist())
    graded = np.where(cut.either & (flags != "noise"), CUT_OFF, flags)
    return {
        "low": np.where(cut.below, ends[0], made["low"]),
        "high": np.where(cut.above, ends[1], made["high"]),
        "quality": pa.array(graded.tolist(), type=pa.string()),
    }


def _root(part: ErrorModel, variance: Mapping[str, Any], span: Floats) -> dict[str, Any]:
    """Return the columns of the standard deviation from those of the variance."""
    raw, low, high = (np.sqrt(variance[key]) for key in ("raw", "low", "high"))
    bound = np.maximum(raw - low, high - raw)
    flags = quality(bound, span * RANGE["sd"], part.informative)
    return {
        "raw": raw,
        "bound95": bound,
        "low": low,
        "high": high,
        "quality": pa.array(flags, type=pa.string()),
    }


def _where(facts: PublicMetadata) -> dict[str, Any]:
    cells = facts.cells
    columns: dict[str, Any] = {"cell": pa.array(cells.names(), type=pa.string())}
    named = {
        "hexagon": cells.hexagon_names(),
        "slot": cells.slot_names(),
        "slot_end": cells.slot_names(end=True),
    }
    columns |= {k: pa.array(v, type=pa.string()) for k, v in named.items() if v is not None}
    starts = cells.starts_at_utc()
    if starts is not None:
        columns["starts_at_utc"] = pa.array(starts, type=pa.timestamp("s", tz="UTC"))
    return columns | {k: pa.array(v, type=pa.string()) for k, v in cells.labels.items()}


def _unit(name: str, unit: str) -> dict[str, str]:
    statistic, _, key = name.partition("_")
    if not unit or name not in ALL or statistic not in RANGE or key == "quality":
        return {}
    return {"unit": squared(unit) if statistic == "variance" else unit}
