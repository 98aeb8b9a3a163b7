"""Steps that commands share under private presence: declare, plan, read, describe.

What is printed on stdout, and the exit code, follow from declarations and noisy numbers. Counts of
a reading go to the holder's terminal alone, each line marked PRIVATE.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.base.work_share import PLANNING
from hexveil.cli.output import formatting
from hexveil.config import arguments
from hexveil.planning.api import plan as make_plan
from hexveil.planning.columns.column_plan import DeclaredColumnPlans
from hexveil.planning.presence.counted_request import CountedPrediction, CountedRequest
from hexveil.planning.presence.presence_prediction import UnitCountPrediction
from hexveil.planning.presence.shape_prediction import ShapePrediction
from hexveil.records.columns.column_datasets import PrivateColumns
from hexveil.records.progress import show_progress
from hexveil.records.read import declare
from hexveil.records.read import read as read_records
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from hexveil.config import Run
    from hexveil.model.column_facts import DeclaredColumns
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.planning.presence.presence_plan import PresencePlan
    from hexveil.planning.presence.presence_prediction import PresencePrediction
    from hexveil.publishing.privacy_models import DeclaredPlan
    from hexveil.records.private_presence.private_dataset import PrivateDataset

ON_PAPER = "On paper"


def declare_run(run: Run) -> DeclaredFacts | DeclaredColumns:
    """Return the declared facts of the run; no record is read."""
    facts: DeclaredFacts | DeclaredColumns = declare(**read_options(run))
    return facts


def read_options(run: Run) -> arguments.Arguments:
    """Return the keyword arguments of `read`, with the statistics that records are counted for."""
    options = arguments.read_arguments(run, read_records)
    if run.plan.statistics is not None:
        options["statistics"] = run.plan.statistics
    return options


def plan_declared(run: Run, facts: DeclaredFacts | DeclaredColumns) -> DeclaredPlan:
    """Return the plan of the run, made from declarations alone."""
    with show_progress(PLANNING):
        plan: DeclaredPlan = make_plan(facts, **arguments.presence_arguments(run), advise=False)
    return plan


def refuse_noise(run: Run, plan: DeclaredPlan) -> None:
    """Raise InputError for a map that is predicted to say nothing, unless the noise is accepted.

    Raises
    ------
    InputError
        From declarations alone, before a record is read.
    """
    if plan.refusal is not None and not run.release.accept_noise:
        raise InputError(
            f"nothing was spent: {plan.refusal.removesuffix('.')}; --set release.accept_noise=true "
            "releases the "
            "map anyway."
        )


def read_private_records(run: Run) -> PrivateDataset | PrivateColumns:
    """Return the run's records; show their counts on the holder's terminal. PRIVATE."""
    source = arguments.source(run)
    options = read_options(run)
    del options["protect"]  # named below, where the type of the data set depends on it
    dataset: PrivateDataset | PrivateColumns
    dataset = read_records(source, protect="presence", **options)
    # Only on a terminal: a file or a log of another's must not have them.
    if sys.stderr.isatty() and not run.privacy.quiet_records:
        for line in _count_lines(dataset):
            typer.echo(line, err=True)
    return dataset


def _count_lines(dataset: PrivateDataset | PrivateColumns) -> list[str]:
    """Return the counts of a reading as text, each line marked. PRIVATE."""
    if not isinstance(dataset, PrivateColumns):
        return dataset.counts.lines()
    return [
        line
        for column, one in dataset.datasets.items()
        for line in (f"PRIVATE  {column}:", *one.counts.lines())
    ]


def declared_lines(facts: DeclaredFacts) -> list[str]:
    """Return the declared grid as text."""
    grid = facts.grid
    tested = "declared to be in use" if grid.is_in_use else "some may be closed"
    return formatting.wrapped(
        "Cells",
        f"{grid.n_cells:,} declared: {formatting.grid_words(grid.table.grid)}; {tested}.",
    )


def plan_lines(plan: DeclaredPlan) -> list[str]:
    """Return cells, price, promise and prediction of a plan as text."""
    if isinstance(plan, DeclaredColumnPlans):
        return _column_lines(plan)
    price, unit = formatting.price(float(plan.epsilon)), plan.facts.privacy_unit
    at = f" at delta {decimal_text(plan.delta)}" if plan.delta else ""
    lines = [
        *declared_lines(plan.facts),
        *_fleet_lines(plan),
        *formatting.wrapped("Price", f"{price} (epsilon){at}, for any {unit}. {_promise(plan)}"),
        *_prediction_lines(plan),
    ]
    gain = plan.delta_gain
    if gain is not None:
        lines += formatting.wrapped("With a delta", gain.sentence)
    if plan.refusal is not None:
        lines += formatting.wrapped("Warning", plan.refusal)
    return lines


def _column_lines(plan: DeclaredColumnPlans) -> list[str]:
    """Return cells, price and promise of several value columns, and the prediction of each."""
    price, unit = formatting.price(float(plan.epsilon)), plan.facts.privacy_unit
    leading, *others = plan.plans.values()
    is_same = all(one.request.fleet == leading.request.fleet for one in others)
    parts = ", ".join(
        f"{column} {formatting.price(loss)}" for column, loss in plan.column_epsilons().items()
    )
    lines = [
        *declared_lines(leading.facts),
        *(_fleet_lines(leading) if is_same else []),
        *formatting.wrapped(
            "Price",
            f"{price} (epsilon) for all value columns together, for any {unit}. {_promise(plan)}",
        ),
        *formatting.wrapped("Parts", f"{parts} (epsilon)."),
    ]
    for column, own in plan.plans.items():
        lines += [] if is_same else _fleet_lines(own, f"{column}: ")
        lines += _prediction_lines(own, f"{column}: ")
    if plan.refusal is not None:
        lines += formatting.wrapped("Warning", plan.refusal)
    return lines


def _fleet_lines(plan: PresencePlan, about: str = "") -> list[str]:
    """Return the declared fleet as text."""
    fleet = plan.request.fleet
    return formatting.wrapped(
        "Fleet",
        f"{about}{fleet.units:,} {plan.facts.privacy_unit}s declared, typically "
        f"{fleet.records_per_unit:,} records and {fleet.cells_per_unit:,} cells each.",
    )


def _promise(plan: DeclaredPlan) -> str:
    unit = plan.facts.privacy_unit
    return promise(unit, plan.epsilon, protect="presence", delta=plan.delta)


def _prediction_lines(plan: PresencePlan, about: str = "") -> list[str]:
    """Return the expected accuracy as text: on paper, from declarations."""
    prediction, unit = plan.prediction, plan.facts.privacy_unit
    if isinstance(prediction, UnitCountPrediction):
        return formatting.wrapped(ON_PAPER, f"{about}{_count_text(prediction, unit)}.")
    if not isinstance(prediction, CountedPrediction):
        return _map_lines(plan, prediction, about)
    assert isinstance(plan.request, CountedRequest)  # noqa: S101  its prediction
    share, loss = plan.request.count_share, "the square of mu" if plan.delta else "epsilon"
    counted = f"{_count_text(prediction.counts, unit)}; for it {share:.1%} of {loss} is spent."
    return [
        *_map_lines(plan, prediction.statistics, about),
        *formatting.wrapped(ON_PAPER, about + counted),
    ]


def _count_text(prediction: UnitCountPrediction, unit: str) -> str:
    """Return the expected accuracy of numbers of units as text."""
    return (
        f"the number of {unit}s in a cell is expected to be off by "
        f"{prediction.count_error:.3g}, where typically {prediction.typical_count:.3g} are"
    )


def _map_lines(
    plan: PresencePlan, prediction: PresencePrediction | ShapePrediction, about: str
) -> list[str]:
    """Return the expected accuracy of averages or distributions as text."""
    measure = f" {plan.facts.value_unit}" if plan.facts.value_unit else ""
    if isinstance(prediction, ShapePrediction):
        named, error = "medians", prediction.quantile_error
        low, high = prediction.quantile_error_low, prediction.quantile_error_high
        shares = f"shares by {100 * prediction.share_error:.2g} percentage points; "
    else:
        named, error, shares = "averages", prediction.mean_error, ""
        low, high = prediction.mean_error_low, prediction.mean_error_high
    lines = formatting.wrapped(
        ON_PAPER,
        f"{about}{named} of open cells are expected to be off by {error:.2g}{measure} "
        f"({low:.2g} to {high:.2g}, by how values "
        f"spread; one number for all cells: {prediction.baseline_error:.2g}{measure}); {shares}"
        "weights by "
        f"{prediction.weight_error:.2g}, where typically {prediction.typical_weight:.3g} are; "
        f"{prediction.open_cells:,.0f} cells are expected to be open, with "
        f"{prediction.open_traffic:.0%} of the traffic.",
    )
    if isinstance(prediction, ShapePrediction):
        compared = formatting.compared_errors(plan.statistic_errors, plan.facts.value_unit)
        lines += formatting.wrapped("Beside one number", about + compared)
    return lines


def plan_json(plan: DeclaredPlan) -> dict[str, Any]:
    """Return a plan as JSON data, with its promise."""
    return plan.to_json() | {"promise": _promise(plan)}
