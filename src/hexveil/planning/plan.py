"""Plan of a release: frozen data that can be saved, loaded and certified.

The lower bound that certifies a plan is computed on demand, and stored with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hexveil.base.arrays import Floats
from hexveil.base.errors import InputError
from hexveil.base.html_tables import html_table, paragraph
from hexveil.base.optional_packages import require_package
from hexveil.model.occupancy import Occupancy
from hexveil.planning.cell_mechanisms import SavedStages
from hexveil.planning.optimizers.mean_error_bound import with_lower_bound
from hexveil.planning.plan_data import PlanData
from hexveil.planning.plan_rows import PlanningProblem, refuse_rows
from hexveil.planning.serialization.codec import plan_folder


class Plan(PlanData):
    """Plan of a release: clipping and noise of each cell, and the loss of each user."""

    @classmethod
    def from_saved(cls, **fields: Any) -> Plan:  # noqa: ANN401  as of the class
        """Return the plan of fields that a stranger may have written.

        Raises
        ------
        InputError
            If no plan has these.
        """
        occupancy, request, allocation = (
            fields[name] for name in ("occupancy", "request", "allocation")
        )
        lower, upper = fields["lower"], fields["upper"]
        per_cell = lower, upper, *(request.target or {}).values()
        if any(array.shape != (occupancy.n_cells,) for array in per_cell):
            raise InputError("it was made for other cells: bounds or targets have another length.")
        rise = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
        refuse_rows(~rise, "bounds do not rise")
        if not 0 < fields["baseline_error"] < np.inf:
            raise InputError("its baseline error must be above 0 and finite.")
        if request.delta:
            # What a δ goes with may be less than what the words of a plan say.
            request.check_delta()
        if isinstance(allocation.clipping, SavedStages):
            problem = PlanningProblem(occupancy, upper - lower, request, fields.get("facts"))
            allocation = allocation.clipping.allocate(problem, allocation.cell_epsilon)
        allocation.check_against(occupancy, request)
        return cls(**fields | {"allocation": allocation})

    def with_lower_bound(self) -> Plan:
        """Return the plan with the lower bound of its error or loss computed and stored.

        The bound of a mean error is a search of its own, longer than that of the plan.
        """
        return with_lower_bound(self)

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the row of each cell as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.to_pandas()

    def _repr_html_(self) -> str:
        """Return the price, the error and the first cells for a notebook; public facts alone."""
        return paragraph(repr(self)) + html_table(self.table)

    def save(self, folder: str | Path) -> Path:
        """Write the plan into a new folder, to be reviewed and then released; return its path.

        A plan is for the records it was made for: a release refuses records whose occupancy
        differs. For tomorrow's records keep the goal, a run file (TOML), and plan them.

        Parameters
        ----------
        folder : str or Path
            New, in a folder that exists. It holds plan.json, cells.parquet, users.parquet and
            pairs.parquet (without rows where pairs do not fit in memory): public facts, users by
            number. They show where each numbered user reported: give them to reviewers, not to
            everybody.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the plan's mechanism is not of hexveil.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        saved: Path = plan_folder().save(self, folder)
        return saved

    @staticmethod
    def load(folder: str | Path, occupancy: Occupancy | None = None) -> Plan:
        """Return the plan that `save` wrote into a folder; releasing it is releasing that plan.

        It cannot count the records again, so that it does not advise on coarser grids.

        Parameters
        ----------
        folder : str or Path
        occupancy : Occupancy, optional
            That of the data set that was planned, `dataset.occupancy`: needed where (cell, user)
            pairs do not fit in memory, because the folder then has none of them.

        Raises
        ------
        InputError
            If a file is missing, was edited, is of another format, or holds what no plan has.
        StorageError
            If a file cannot be read.
        """
        loaded: Plan = plan_folder().load(folder, Plan, occupancy)
        return loaded


def _inverse(noise: Floats) -> Floats:
    return np.divide(1.0, noise, out=np.zeros_like(noise), where=noise > 0)
