"""Options of a plan of several value columns, and those of each column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hexveil.base.errors import InputError
from hexveil.model.statistic_terms import has_distribution
from hexveil.planning.columns.column_statements import (
    baseline_errors,
    targets_by_column,
    weights_beside_targets,
)
from hexveil.planning.distribution.plan_distribution import plan_distribution
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.moments.moment_options import MomentOptions, check_edition
from hexveil.planning.moments.plan_moments import plan_moments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from hexveil.base.rational import Number
    from hexveil.model.column_facts import ColumnFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.model.statistic_terms import Estimator
    from hexveil.planning.columns.column_plan import SingleColumnPlan

OF_ONE_COLUMN = ("bounds", "error", "cell_epsilon", "clip_user", "unfinished_stage", "exempt")
"""Options in the units of one column, or of the printed CLIP-USER, which has an ε of its own."""


@dataclass(frozen=True, eq=False)
class ColumnOptions:
    """Options of `hexveil.plan` that go with several value columns, the same for each.

    Attributes
    ----------
    statistics, weights, estimator, edition
        As `hexveil.plan` has them.
    options : MomentOptions
        Of means and variances; target errors perhaps by column.
    baseline_error : number or mapping of column to number, optional
    """

    statistics: Sequence[str] | str | None
    weights: Mapping[str, Any] | None
    estimator: Estimator | None
    edition: str | None
    options: MomentOptions
    baseline_error: Number | Mapping[str, Number] | None = None

    def check(self, unused: Mapping[str, object]) -> None:
        """Refuse options in the units of one column, and others of `unused` that were given."""
        refused = (name for name in self.options.given() if name in OF_ONE_COLUMN)
        refuse_of_one_column(dict.fromkeys(refused, True) | dict(unused))
        beside = [name for name in self.options.given() if name != "delta"]
        beside += ["baseline_error"] * (self.baseline_error is not None)
        if beside and self.has_distribution:
            raise InputError(
                f"{beside[0]} has no meaning with quantiles, shares and histograms; leave it out "
                "(docs/how-to/medians-and-shares.md lists what can be chosen)."
            )
        if self.weights is not None and self.options.target_error is not None:
            raise weights_beside_targets()
        check_edition(self.edition)

    @property
    def has_distribution(self) -> bool:
        """Whether there are quantiles, shares or histograms among the statistics."""
        return self.statistics is not None and has_distribution(self.statistics)

    def of_columns(self, facts: ColumnFacts) -> dict[str, ColumnOptions]:
        """Return the options of each column, with its own targets and baseline error.

        Raises
        ------
        InputError
            If these name another column, leave one out, or are bad for one, which is named.
        """
        columns = [*facts.columns]
        targets = targets_by_column(self.options.target_error, columns)
        errors = baseline_errors(self.baseline_error, columns)
        by_column = {}
        for column, column_facts in facts.columns.items():
            options = replace(self.options, target_error=targets[column])
            by_column[column] = replace(self, options=options, baseline_error=errors[column])
            try:
                # Before planning: a bad target of the last column must not cost minutes first.
                by_column[column].check_errors(column_facts)
            except InputError as error:
                raise InputError(f"{column}: {error}") from None
        return by_column

    def check_errors(self, facts: PublicMetadata) -> None:
        """Refuse bad targets and a bad baseline error of one column."""
        lower, upper = (np.array([float(x)]) for x in (facts.lattice.lower, facts.lattice.upper))
        default_baseline_error(lower, upper, cast("Number | None", self.baseline_error))
        if self.options.target_error is not None:
            span = np.full(facts.occupancy.n_cells, (upper - lower)[0])
            self.options.request(None, self.statistics, self.edition, (span, facts.cells.names()))

    def plan_column(
        self, facts: PublicMetadata, epsilon: Fraction | None, kinds: Mapping[str, Any] | None
    ) -> SingleColumnPlan:
        """Return the plan of one column within its part of ε or its targets, as if alone."""
        if self.statistics is not None and self.has_distribution:
            return plan_distribution(
                facts,
                statistics=self.statistics,
                epsilon=epsilon,
                weights=kinds,
                estimator=self.estimator or "auto",
                edition=self.edition,
                delta=self.options.delta,
            )
        if kinds is not None or self.estimator is not None:
            raise without_distribution()
        return plan_moments(
            facts,
            epsilon=epsilon,
            statistics=self.statistics,
            options=self.options,
            edition=self.edition,
            baseline_error=cast("Number | None", self.baseline_error),
        )


def refuse_of_one_column(options: Mapping[str, object]) -> None:
    """Refuse options in the units of one column: the first that is not None."""
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"{name} goes with a single value column; leave it out, or plan and release the "
                "columns one by one."
            )


def without_distribution() -> InputError:
    """Return the error for options that go with quantiles, shares or histograms alone."""
    return InputError(
        "weights and estimator go with quantiles, shares or histograms in statistics, and weights "
        "by column with several value columns."
    )
