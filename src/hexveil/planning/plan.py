"""Plan of a release: public facts, and a component for each value column under one promise.

A plan of one value column answers with the figures of its component. Whatever comes after a plan
goes over its components and never asks of which kind they are (planning/component.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hexveil.accounting.promise import Promise, of_amount, summed
from hexveil.base.arrays import Floats
from hexveil.base.arrow_tables import html_table, paragraph
from hexveil.base.errors import InputError
from hexveil.base.optional_packages import require_package
from hexveil.mechanisms.contract import StagedPlan
from hexveil.mechanisms.distribution import CombinedStages, Component
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns, DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning.codec import saved_plans
from hexveil.planning.component import BookedStages, PlanComponent

Facts = PublicMetadata | ColumnFacts | DeclaredFacts | DeclaredColumns
"""Public or declared facts, of one value column or of several."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(BookedStages):
    """Plan of a release. Public; nothing is spent.

    A plan of one value column has the figures of its component, too: of means and variances
    `method`, `mechanism`, `table`, `users`, `error_models`, `support`, `lower_bound`, `gap`,
    `l0_epsilon`; of quantiles, shares and histograms `estimator`, `table`,
    `component_epsilons()`; under private presence `prediction`; of all `request`, `expected_error`,
    `statistic_errors`.

    Attributes
    ----------
    facts : PublicMetadata, ColumnFacts, DeclaredFacts, DeclaredColumns or None
        None for a bare occupancy, which can be planned but not released.
    components : mapping of str to PlanComponent
        Statistics of each value column, in the order of the facts.
    requested_epsilon : Fraction or None
        Largest loss of a unit; None where target errors of several columns decide.
    weights : mapping of str to Fraction
        Importance of each of several columns in the division of ε; empty where targets decide.
    edition : str or None
        The same request under another edition is drawn, and paid for, again.
    """

    facts: Facts | None
    components: Mapping[str, PlanComponent] = field(metadata={"word": "plans"})
    requested_epsilon: Fraction | None
    weights: Mapping[str, Fraction] = field(default_factory=dict)
    edition: str | None = None
    saved_as: ClassVar[str] = "ColumnPlans"

    @classmethod
    def of(cls, component: PlanComponent) -> Plan:
        """Return the plan of one value column."""
        facts = component.facts
        components = {"" if facts is None else facts.value: component}
        return cls(facts, components, component.requested_epsilon, {}, component.edition)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  a figure of the component
        """Return a figure of the only component."""
        # Not yet there while a copy is being made.
        components = self.__dict__.get("components", {})
        parts = list(components.values())
        if len(parts) == 1 and (hasattr(type(parts[0]), name) or name in vars(parts[0])):
            return getattr(parts[0], name)
        if len(parts) < 2:
            raise AttributeError(f"the plan has no {name!r}.")
        raise AttributeError(
            f"the plan of several value columns has no {name!r}; that of one column is "
            f"plan.plans[{next(iter(components))!r}].{name}."
        )

    @property
    def single(self) -> Any:  # noqa: ANN401  of any kind
        """The component of a single value column."""
        (component,) = self.components.values()
        return component

    @property
    def columns_facts(self) -> ColumnFacts | DeclaredColumns:
        """Facts of several value columns."""
        assert isinstance(self.facts, (ColumnFacts, DeclaredColumns))  # noqa: S101  of several
        return self.facts

    @property
    def is_single(self) -> bool:
        """Whether there is a single value column."""
        return not isinstance(self.facts, (ColumnFacts, DeclaredColumns))

    @property
    def is_declared(self) -> bool:
        """Whether presence is private, so that the facts are declared."""
        return isinstance(self.facts, (DeclaredFacts, DeclaredColumns))

    @property
    def searches_grids(self) -> bool:
        """Whether other grids are compared by its error: of one value column's means."""
        return self.is_single and bool(self.single.searches_grids)

    @property
    def plans(self) -> dict[str, Plan]:
        """The plan of each value column as one of its own."""
        return {name: Plan.of(component) for name, component in self.components.items()}

    def changed(self, **fields: Any) -> Plan:  # noqa: ANN401  of the component
        """Return the plan of one value column with some fields of its component changed."""
        return Plan.of(replace(self.single, **fields))

    def anew(self) -> Plan:
        """Return the same plan with all figures computed again from its decisions."""
        return Plan.of(replace(self.single)) if self.is_single else replace(self)

    def with_lower_bound(self) -> Plan:
        """Return the plan with the lower bound of its error or loss computed and stored.

        The bound of a mean error is a search of its own, longer than that of the plan. Means and
        variances of one value column have one.
        """
        return Plan.of(self.single.with_lower_bound())

    # ---- the promise ----

    @property
    def delta(self) -> Fraction:
        """δ of the promise, the same for all components; 0 for a pure one."""
        delta: Fraction = next(iter(self.components.values())).delta
        return delta

    @cached_property
    def booked_losses(self) -> Floats:
        """Booking of each unit over all components: its loss, or its square of μ."""
        losses: Floats = self.single.booked_losses if self.is_single else super().booked_losses
        return losses

    @cached_property
    def user_losses(self) -> Floats:
        """Loss of each unit over all components, at `delta`, rounded up; shape (n_units,)."""
        losses: Floats = self.single.user_losses if self.is_single else super().user_losses
        return losses

    @property
    def promise(self) -> Promise:
        """The promise that is kept: of declared facts the exact sum over all columns."""
        if not self.is_declared:
            return of_amount(self.booked_limit, self.delta)
        if self.is_single:
            promise: Promise = self.single.promise
            return promise
        return summed((component.epsilon for component in self.components.values()), self.delta)

    @property
    def epsilon(self) -> Fraction:
        """Privacy loss of the most exposed unit, or of any: the cost of the release."""
        if self.is_single:
            epsilon: Fraction = self.single.epsilon
            return epsilon
        return self.promise.epsilon if self.is_declared else super().epsilon

    @property
    def epsilon_limit(self) -> Fraction:
        """Largest loss of a unit that was asked for; with target errors the cost of these."""
        return self.epsilon if self.requested_epsilon is None else self.requested_epsilon

    def column_epsilons(self) -> dict[str, float]:
        """Return the largest loss of a unit in each column."""
        return {column: float(component.epsilon) for column, component in self.components.items()}

    # ---- what it says ----

    @property
    def statistics(self) -> tuple[str, ...]:
        """Statistics of each column."""
        statistics: tuple[str, ...] = next(iter(self.components.values())).statistics
        return statistics

    @property
    def refusal(self) -> str | None:
        """The sentence that refuses a map with nothing to say; None where each component has."""
        refusals = ((name, component.refusal) for name, component in self.components.items())
        refused = next(((name, reason) for name, reason in refusals if reason), None)
        if refused is None or self.is_single:
            return None if refused is None else refused[1]
        return f"{refused[0]}: {refused[1].removesuffix('.')}, or leave the column out."

    def __repr__(self) -> str:
        if self.is_single:
            return f"Plan({self.single.summary})"
        return f"Plan({', '.join(self.components)}, epsilon={float(self.epsilon):.6g})"

    def _repr_html_(self) -> str:
        """Return the price, the error and the first cells for a notebook; public facts alone."""
        table = getattr(self, "table", None)
        return paragraph(repr(self)) + ("" if table is None else html_table(table))

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the row of each cell as a pandas data frame; InputError without pandas."""
        require_package("pandas")
        return self.table.to_pandas()

    def to_json(self) -> dict[str, Any]:
        """Return the plan's figures as JSON data; all of it is public."""
        if self.is_single:
            figures: dict[str, Any] = self.single.to_json()
            return figures
        if isinstance(self.facts, ColumnFacts):
            head: dict[str, Any] = {
                "units": self.facts.n_units,
                "epsilon_requested": float(self.epsilon_limit),
                "median_loss": float(np.median(self.user_losses)),
            }
        else:
            head = {"protect": "presence"}
        return {
            **head,
            "epsilon": float(self.epsilon),
            "statistics": list(self.statistics),
            "weights": {name: float(weight) for name, weight in self.weights.items()},
            "refusal": self.refusal,
            "columns": {name: plan.column_json() for name, plan in self.components.items()},
        }

    # ---- stages ----

    def stages(self) -> StagedPlan:
        """Return the stages of a release."""
        if self.is_single:
            stages: StagedPlan = self.single.stages()
            return stages
        return self.with_stages({name: plan.stages() for name, plan in self.components.items()})

    def with_stages(self, stages: Mapping[str, StagedPlan]) -> CombinedStages:
        """Return stages of each of several columns as those of one release."""
        facts = self.columns_facts
        components = [
            Component(column, column_stages, units=facts.units[column])
            for column, column_stages in stages.items()
        ]
        return CombinedStages.of(components, facts.n_units)

    # ---- saved ----

    def save(self, folder: str | Path) -> Path:
        """Write the plan into a new folder, to be reviewed and then released; return its path.

        A plan is for the records it was made for: a release refuses records whose occupancy
        differs. For tomorrow's records keep the goal, a run file (TOML), and plan them.

        Parameters
        ----------
        folder : str or Path
            New, in a folder that exists. It holds plan.json, arrays.bin and tables for reviewers,
            cells.parquet and users.parquet, which show how much each numbered user reported: give
            them to reviewers, not to everybody.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, the plan's mechanism is not of hexveil, or
            presence is private.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        if self.is_declared:
            raise InputError(
                'a plan with protect="presence" follows from declarations alone: keep its run '
                "file, and plan again."
            )
        saved: Path = saved_plans().save(self, folder)
        return saved

    @staticmethod
    def load(folder: str | Path, source: Any) -> Plan:  # noqa: ANN401  records, or their facts
        """Return the plan that `save` wrote into a folder; releasing it is releasing that plan.

        Parameters
        ----------
        folder : str or Path
        source : Dataset, ColumnDatasets or their public facts
            The records that were planned, read in the same way.

        Raises
        ------
        InputError
            If a file is missing, was edited, is of another format, or holds what no plan has; if
            the records are missing, or others.
        StorageError
            If a file cannot be read.
        """
        loaded: Plan = saved_plans().load(folder, getattr(source, "public", source))
        return loaded

    @classmethod
    def from_saved(cls, **fields: Any) -> Plan:  # noqa: ANN401  as of the class
        """Return the plan of fields that a stranger may have written; see `check`."""
        columns, components = fields["facts"].columns, fields["components"]
        if set(components) != set(columns):
            raise InputError("it was made for other value columns than were read.")
        return cls(**fields | {"components": {column: components[column] for column in columns}})

    def fixed(self) -> dict[tuple[str, ...], Any]:
        """Return by path all fields that are no decisions, also those of the components."""
        names = ("facts", "requested_epsilon", "weights", "edition")
        fixed: dict[tuple[str, ...], Any] = {(name,): getattr(self, name) for name in names}
        components: Any = self.components
        for column, component in components.items():
            fixed |= {("plans", column, *path): value for path, value in component.fixed().items()}
        return fixed

    def check(self) -> None:
        """Refuse fields that no plan of these records has: a stranger may have written them.

        Raises
        ------
        InputError
            Naming what does not fit.
        """
        components: Any = self.components
        requested = self.requested_epsilon
        if len({component.statistics for component in components.values()}) > 1:
            raise InputError("its columns have different statistics.")
        if len({component.delta for component in components.values()}) > 1:
            raise InputError("its columns promise different deltas.")
        # A column asks for errors, or for its part of the whole: all alike.
        if any(bool(component.targets) != (requested is None) for component in components.values()):
            raise InputError("its columns ask for errors and the whole for epsilon, or conversely.")
        weighed = set() if requested is None else set(components)
        if set(self.weights) != weighed or any(w <= 0 for w in self.weights.values()):
            raise InputError("its weights are not one number above 0 for each column.")
        if self.epsilon > self.epsilon_limit:
            raise InputError("its loss is above the epsilon that it was asked for.")
