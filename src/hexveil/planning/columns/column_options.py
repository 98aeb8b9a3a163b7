"""Options of a plan of several value columns, and those of each column.

Statements of a request that hold for all value columns, or for each its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_positive_fraction
from hexveil.model.column_facts import ColumnFacts
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import Estimator, has_distribution
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.moment_options import MomentOptions, check_edition
from hexveil.planning.plan_moments import plan_moments
from hexveil.planning.request import STATISTICS

if TYPE_CHECKING:
    from hexveil.planning.part import Part


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
        self,
        facts: Occupancy | PublicMetadata,
        epsilon: Number | None,
        kinds: Mapping[str, Any] | None,
    ) -> Part:
        """Return the plan of one column within its part of ε or its targets, as if alone."""
        if self.statistics is not None and self.has_distribution:
            from hexveil.planning.distribution.plan_distribution import (  # noqa: PLC0415  if used
                plan_distribution,
            )

            return plan_distribution(
                facts,
                statistics=self.statistics,
                epsilon=epsilon,
                weights=kinds,
                estimator=self.estimator or "auto",
                edition=self.edition,
                delta=self.options.delta,
                baseline_error=cast("Number | None", self.baseline_error),
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


TARGET_NAMES = (*STATISTICS, "sum")
"""What targets of one column are for, if they are stated by name."""


def targets_by_column(stated: object, columns: Sequence[str]) -> dict[str, object]:
    """Return the target errors of each value column, as `hexveil.plan` takes them of one.

    Parameters
    ----------
    stated : number, text, sequence or mapping
        For all columns, perhaps by statistic, or a mapping with those of each column.
    columns : sequence of str

    Raises
    ------
    InputError
        If a mapping names what is no value column, or leaves one out.

    Examples
    --------
    >>> targets_by_column({"pm25": 2, "no2": "5%"}, ["pm25", "no2"])
    {'pm25': 2, 'no2': '5%'}
    >>> targets_by_column({"mean": 2, "variance": "5%"}, ["pm25"])
    {'pm25': {'mean': 2, 'variance': '5%'}}
    """
    if not isinstance(stated, Mapping) or not _is_by_column(stated, columns):
        return dict.fromkeys(columns, stated)
    _refuse_others("target_error", stated, columns)
    for column in columns:
        if column not in stated:
            raise InputError(
                f"target_error leaves out the value column {column!r}; name each of "
                f"{', '.join(columns)}."
            )
    return {column: stated[column] for column in columns}


def baseline_errors(stated: object, columns: Sequence[str]) -> dict[str, Any]:
    """Return the baseline error of each value column; None for the default.

    Raises
    ------
    InputError
        If a mapping names what is no value column, or a number is not above 0.
    """
    if not isinstance(stated, Mapping):
        return dict.fromkeys(columns, stated)
    _refuse_others("baseline_error", stated, columns)
    for column, error in stated.items():
        to_positive_fraction(error, f"baseline_error of {column}")
    return {column: stated.get(column) for column in columns}


def own_target(stated: object, column: str, cells: Callable[[], Sequence[str]]) -> object:
    """Return the target errors of the one value column of a reading.

    Parameters
    ----------
    stated : object
        Perhaps a mapping by value column: others in it are not read, so that one run file serves
        for all columns and for each alone.
    column : str
    cells : callable
        Returns the names of the cells: a mapping that names all of them is by cell.

    Examples
    --------
    >>> own_target({"pm25": 2, "no2": 5}, "pm25", tuple), own_target(3, "pm25", tuple)
    (2, 3)
    """
    if not isinstance(stated, Mapping) or column not in stated or not _is_by_column(stated, ()):
        return stated
    names = cells()
    return stated if column in names and set(names) <= set(stated) else stated[column]


def own_baseline_error(stated: Any, column: str) -> Any:  # noqa: ANN401  a number of any kind
    """Return the baseline error of the one value column of a reading; others are not read.

    Raises
    ------
    InputError
        If a mapping leaves the column out.
    """
    if not isinstance(stated, Mapping):
        return stated
    if column not in stated:
        raise InputError(f"baseline_error leaves out the value column {column!r}; name it.")
    return stated[column]


def weights_beside_targets() -> InputError:
    """Return the error for weights of value columns where their targets decide."""
    return InputError(
        "weights divide epsilon among value columns, and target_error takes the place of epsilon: "
        "each column costs what its own targets need; leave weights out."
    )


def _is_by_column(stated: Mapping[Any, object], columns: Sequence[str]) -> bool:
    """Return whether a mapping is by value column and not by statistic."""
    # A column may have the name of a statistic: then it is the column that is meant.
    return not set(stated) <= {*TARGET_NAMES} or not set(stated).isdisjoint(columns)


def _refuse_others(name: str, stated: Mapping[Any, object], columns: Sequence[str]) -> None:
    """Refuse names that are no value column."""
    for column in stated:
        if column not in columns:
            raise InputError(
                f"{name} has {column!r}, which is no value column; name each of "
                f"{', '.join(columns)}."
            )
