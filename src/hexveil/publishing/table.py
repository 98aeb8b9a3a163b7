"""The released table: a row per cell, made from noisy numbers and public facts only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hexveil.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexveil.facts import PublicFacts
    from hexveil.planning import Plan

GOOD, CAUTION = 10, 4
"""A bound within span/10 is good, within span/4 a caution; beyond, or a constant, is noise."""

COLUMNS = {
    "cell": "name of the cell, unique in this release",
    "hexagon": "H3 index of the hexagon, as hex text",
    "slot": "local start of the timeslot",
    "slot_end": "local end of the timeslot",
    "starts_at_utc": "first instant of the timeslot, UTC",
    "users": "units of privacy that reported in the cell (public)",
    "records": "records in the cell (public)",
    "mean_noisy": "average with its noise, not clamped to the bounds",
    "mean_raw": "average with its noise, clamped to the bounds",
    "mean_scale": "Laplace scale of the noise, also its expected size; 0 for a constant",
    "mean_bias": "largest bias that the clipping can cause, whatever the values",
    "mean_error": "planning error: mean_bias + mean_scale",
    "mean_bound95": "mean_bias + mean_scale * ln 20; not exceeded with probability 95 percent",
    "mean_low": "mean_raw - mean_bound95, within the bounds",
    "mean_high": "mean_raw + mean_bound95, within the bounds",
    "mean_quality": "good (bound within a tenth of the span), caution (a quarter), noise (above, "
    "or a constant without data)",
}
"""What each column holds; columns that no step made are absent."""


def released(plan: Plan, facts: PublicFacts, noisy: NDArray[np.float64]) -> pa.Table:
    """Return the released table with units of measure in its metadata.

    Parameters
    ----------
    plan : Plan
    facts : PublicFacts
    noisy : ndarray of float, shape (n_cells,)
        Noisy mean of each cell, in value units.
    """
    raw = np.clip(noisy, plan.lower, plan.upper)
    bound = plan.bound95
    columns: dict[str, object] = {
        **_where(facts),
        "users": plan.occupancy.users_per_cell,
        "records": plan.occupancy.records_per_cell,
        "mean_noisy": noisy,
        "mean_raw": raw,
        "mean_scale": plan.scale,
        "mean_bias": plan.bias,
        "mean_error": plan.error,
        "mean_bound95": bound,
        "mean_low": np.maximum(raw - bound, plan.lower),
        "mean_high": np.minimum(raw + bound, plan.upper),
        "mean_quality": pa.array(quality(plan), type=pa.string()),
    }
    table = pa.table(columns)
    fields = [
        field.with_metadata(
            {"description": COLUMNS.get(field.name, "public label")}
            | _unit(field.name, facts.value_unit)
        )
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata={"value": facts.value}))


def check_labels(facts: PublicFacts) -> None:
    """Refuse label columns whose names the released table needs for itself."""
    taken = sorted({*COLUMNS, "geometry"}.intersection(facts.cells.labels))
    if taken:
        raise InputError(
            f"the label column {taken[0]!r} has the name of a column of every release; "
            "give it another name in the records."
        )


def quality(plan: Plan) -> list[str]:
    """Return each cell's flag, from its bound and span."""
    bound, span = plan.bound95, plan.span
    flags = np.where(
        bound <= span / GOOD, "good", np.where(bound <= span / CAUTION, "caution", "noise")
    )
    return [str(f) for f in np.where(plan.kept > 0, flags, "noise")]


def _where(facts: PublicFacts) -> dict[str, object]:
    cells = facts.cells
    columns: dict[str, object] = {"cell": pa.array(cells.names(), type=pa.string())}
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
    measured = name in COLUMNS and name.startswith("mean_") and name != "mean_quality"
    return {"unit": unit} if unit and measured else {}
