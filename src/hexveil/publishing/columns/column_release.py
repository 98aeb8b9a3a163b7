"""Published numbers of several value columns in memory: one table, and a release of each."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import BudgetError, InputError
from hexveil.publishing.columns.column_folder import write_columns
from hexveil.publishing.columns.column_manifest import as_one_of_columns
from hexveil.publishing.columns.column_table import join_columns
from hexveil.publishing.folder import FolderOptions
from hexveil.publishing.manifest import epsilon_text
from hexveil.publishing.published_numbers import Release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from matplotlib.axes import Axes

    from hexveil.planning.plan import Plan
    from hexveil.report.cell_differences import CellDifference


@dataclass(frozen=True, eq=False, repr=False)
class ColumnReleases(Release):
    """Published numbers of several value columns under one booking.

    The table has a row per cell of any value column, and the columns of each with its name before
    them: `release["pm25_mean_estimate"]`. `releases["pm25"]` is the release of one value column,
    with everything that a `Release` can do.

    Attributes
    ----------
    table, manifest, epsilon, replayed
        As `Release` has them; the loss is that over all value columns.
    releases : mapping of str to Release
    """

    releases: Mapping[str, Release] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        made: Mapping[str, Release],
        plan: Plan,
        manifest: dict[str, Any],
        *,
        replayed: bool,
    ) -> ColumnReleases:
        """Return releases of each value column as one; each then names the whole."""
        releases = {
            column: replace(release, manifest=as_one_of_columns(release.manifest, plan))
            for column, release in made.items()
        }
        table = join_columns({column: release.table for column, release in releases.items()})
        return cls(table, manifest, plan.epsilon, replayed, releases=releases)

    @property
    def no_better_than_constant(self) -> tuple[str, ...]:
        """The same of every value column, its name before each: "pm25_mean"."""
        return tuple(
            f"{column}_{statistic}"
            for column, release in self.releases.items()
            for statistic in release.no_better_than_constant
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each of these statistics, after its value column."""
        return tuple(
            f"{column}: {text}"
            for column, release in self.releases.items()
            for text in release.warnings
        )

    def plot(
        self, column: str | None = None, *, slot: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Draw a value column, the first by default; see `Release.plot`.

        Raises
        ------
        InputError
            If there is no such value column.
        """
        name = column or next(iter(self.releases))
        if name not in self.releases:
            raise InputError(
                f"plot draws one value column of {', '.join(self.releases)}, got {name!r}; "
                f'.releases["{next(iter(self.releases))}"].plot(...) draws its statistics.'
            )
        return self.releases[name].plot(slot=slot, ax=ax)

    def difference(
        self, a: str, b: str, *, statistic: str | None = None, column: str | None = None
    ) -> CellDifference:
        """Return the difference between two cells in a value column, the first by default.

        See `Release.difference`.

        Raises
        ------
        InputError
            If there is no such value column, or as `Release.difference`.
        """
        name = column or next(iter(self.releases))
        if name not in self.releases:
            raise InputError(
                f"the release has the value columns {', '.join(self.releases)}, got {name!r}."
            )
        return self.releases[name].difference(a, b, statistic=statistic)

    def _write(self, folder: str | Path, options: FolderOptions) -> Path:
        """Write a folder with one for each value column, and the table and manifest of all."""
        return write_columns(self.manifest, self.releases, folder, options)

    def __repr__(self) -> str:
        return (
            f"ColumnReleases({', '.join(self.releases)}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def _repr_html_(self) -> str:
        """Return the summary of each value column for a notebook."""
        return "".join(release._repr_html_() for release in self.releases.values())


@contextmanager
def with_column_costs(plan: Plan) -> Iterator[None]:
    """Add the loss of each column within its target errors to the ledger's refusal of a booking.

    Where ε was divided among columns, all of them share one limit, and the refusal stays as it is.

    Raises
    ------
    BudgetError
        As the ledger does, with the costs.
    """
    try:
        yield
    except BudgetError as error:
        if plan.requested_epsilon is not None:
            raise
        costs = ", ".join(
            f"{name} {epsilon_text(own.epsilon)}" for name, own in plan.components.items()
        )
        message = f"{error} Target errors decide what each value column costs: {costs}."
        raise BudgetError(message, requested=error.requested, remaining=error.remaining) from None
