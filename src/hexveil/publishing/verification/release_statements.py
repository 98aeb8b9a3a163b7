"""Statements of a release's manifest and table from which its losses are recomputed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from hexveil.accounting.noise_law import NoiseLaw, law_at
from hexveil.base.arrays import Floats
from hexveil.publishing.verification import cell_range_checks as cell_ranges
from hexveil.publishing.verification.guarantee_checks import added_losses, delta_of

Json = dict[str, Any]

_FIELDS = ("contribution_cap", "scale", "bias", "bound95", "grid_start", "grid_step")


@dataclass(frozen=True, eq=False)
class StatedStatistic:
    """A statistic of every cell, as the manifest states it.

    Attributes
    ----------
    name : "mean" or "variance"
    contribution_cap, scale, bias, bound95, start, step : ndarray of float, shape (n_cells,)
    """

    name: str
    contribution_cap: Floats
    scale: Floats
    bias: Floats
    bound95: Floats
    start: Floats
    step: Floats


@dataclass(frozen=True, eq=False)
class ReleaseStatements:
    """Statements of a manifest and its table from which losses are recomputed.

    Attributes
    ----------
    manifest : dict
    users, records, lower, upper : ndarray of float, shape (n_cells,)
    statistics : dict of str to StatedStatistic
    divisor : ndarray of float, shape (n_cells,), or None
        Samples by which sums are divided, where users are left out; else all records.
    """

    manifest: Json
    users: Floats
    records: Floats
    lower: Floats
    upper: Floats
    statistics: dict[str, StatedStatistic]
    divisor: Floats | None = None

    @classmethod
    def from_release(cls, manifest: Json, table: pa.Table) -> ReleaseStatements:
        """Return the statements of a release; ValueError if cells name different statistics."""
        cells = manifest["cells"]
        names = [entry["statistic"] for entry in cells[0]["noised"]]
        if any([entry["statistic"] for entry in cell["noised"]] != names for cell in cells):
            raise ValueError("cells of other statistics")

        def column(index: int, key: str) -> Floats:
            return np.array([cell["noised"][index][key] for cell in cells], dtype=np.float64)

        users, records = (table[name].to_numpy().astype(float) for name in ("users", "records"))
        lower, upper = (
            np.array([cell[end] for cell in cells], float) for end in ("lower", "upper")
        )
        statistics = {
            name: StatedStatistic(name, *(column(index, key) for key in _FIELDS))
            for index, name in enumerate(names)
        }
        has_divisor = "divisor" in cells[0]["noised"][0] if names else False
        divisor = column(0, "divisor") if has_divisor else None
        return cls(manifest, users, records, lower, upper, statistics, divisor)

    @property
    def delta(self) -> Fraction:
        """δ of the promise; 0 of a pure one."""
        return delta_of(self.manifest)

    @property
    def law(self) -> NoiseLaw:
        """Law of the noise."""
        return law_at(self.delta)

    @property
    def added(self) -> Json:
        """Figures of the losses that add up: of ε, or squares of μ."""
        return added_losses(self.manifest)

    def cost(self, step: Json) -> float:
        """Return the cost of a privacy step: ε, or its square of μ under a δ."""
        if self.delta:
            return float(step.get("squared_mu", math.nan))
        return float(Fraction(step["epsilon"]))

    @property
    def span(self) -> Floats:
        """Width of each cell's bounds."""
        return self.upper - self.lower

    @property
    def steps(self) -> dict[str, Json]:
        """The privacy steps by name."""
        return {step["step"]: step for step in self.manifest["plan"]["privacy_steps"]}

    @property
    def radius(self) -> float:
        """Largest distance from the middle of a private range at which squares are not clipped."""
        return float(self.steps["clipping_range"]["radius"])

    @property
    def has_cell_stages(self) -> bool:
        """Whether each cell was published by a mechanism of one cell, in stages of its own."""
        return "cell_stages" in self.steps

    @property
    def has_no_range(self) -> bool:
        """Whether values were clipped to public bounds alone."""
        return not {"clipping_range", cell_ranges.STEP} & self.steps.keys()
