"""A planned release, under either privacy model: cost, text, files, and how it is published.

Where presence is public a plan follows from the occupancy of the records, which are read first.
Where it is private, a plan follows from declarations: so does what is printed on stdout, and the
exit code. No record is read before noise is drawn, so that a release that was made before is known
without its records, and late records alone never make it another request. Counts of a reading go to
the holder's terminal alone, each line marked PRIVATE.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click
from numpy.linalg import LinAlgError

from hexveil.base.errors import InputError
from hexveil.base.work_share import DRAWS, ESTIMATES, PLANNING, RELEASING, WRITING
from hexveil.cli import receipts, shared_steps
from hexveil.cli.plan_text import map_rows, price_rows
from hexveil.config import Run, arguments
from hexveil.ledger import Ledger
from hexveil.model.cells import Cells
from hexveil.model.declared_grid import ColumnFacts, DeclaredColumns
from hexveil.planning import saved_plans
from hexveil.planning.api import plan as make_plan
from hexveil.planning.feasibility.grids import OTHER_GRIDS, on_declared_grids
from hexveil.planning.plan import Plan
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.publishing import signing
from hexveil.publishing.catalogue.holder_statements import Catalogue
from hexveil.publishing.folder import FolderOptions
from hexveil.publishing.kinds.presence_manifest import presence_request, request_name
from hexveil.publishing.manifest import fingerprint, request_of
from hexveil.publishing.memory.history import History
from hexveil.publishing.memory.planned_days import expected_errors
from hexveil.publishing.memory.presence_history import forecast_declared
from hexveil.publishing.pipeline import booked_plan, preview_release, replay_presence
from hexveil.publishing.pipeline import release as publish_numbers
from hexveil.publishing.release_checks import check_declared
from hexveil.records.progress import show_progress
from hexveil.records.read import declare
from hexveil.records.read import read as read_records
from hexveil.report.promise_wording import promise

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hexveil.cli.formatting import Row
    from hexveil.model.declared_grid import DeclaredFacts
    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.publishing.booking import ReleasableDataset
    from hexveil.publishing.published_numbers import Release
    from hexveil.publishing.signing import SigningKey

    Account = dict[str, Any]
    AnyFacts = PublicMetadata | ColumnFacts | DeclaredFacts | DeclaredColumns

DAYS_AHEAD = 30
"""Days of a series that are looked at for one from which it is usable."""


@dataclass(frozen=True, eq=False)
class PlannedRelease:
    """A release of the run that is planned, and not booked yet.

    Attributes
    ----------
    run : Run
    plan : Plan
    warning : str or None
        Why the grid is too fine, where the run accepts that.
    dataset : Dataset or ColumnDatasets, optional
        The records, which made the plan; None under private presence, where declarations do.
    history : History, optional
        Earlier releases that are remembered.
    """

    run: Run
    plan: Plan
    warning: str | None = None
    dataset: ReleasableDataset | None = None
    history: History | None = None

    @property
    def facts(self) -> AnyFacts:
        """Counted or declared facts of the records."""
        return cast("AnyFacts", self.plan.facts) if self.dataset is None else self.dataset.public

    def request(self, dataset: str) -> str:
        """Return the fingerprint of the request, under the name of a data set."""
        if self.dataset is None:
            return request_name(presence_request(dataset, self.plan))
        return fingerprint(request_of(dataset, self.dataset.public, self.plan))

    def price_rows(self) -> list[Row]:
        """Return the price; under private presence also the prediction on paper."""
        paper = map_rows(self.plan, warning=self.plan.refusal) if self.dataset is None else []
        return [*price_rows(self.plan, self.facts), *paper]

    def plan_json(self) -> dict[str, Any]:
        """Return the figures of the plan as JSON data; from declarations, with its promise."""
        if self.dataset is not None:
            return self.plan.to_json()
        unit, plan = self.facts.privacy_unit, self.plan
        stated = promise(unit, plan.epsilon, protect="presence", delta=plan.delta)
        return {**plan.to_json(), "promise": stated}

    def open_ledger(self, account: Account) -> Ledger | None:
        """Return the ledger, opened; None for a new one that is to be opened after the reading.

        So a run under private presence that fails leaves no trace in it.
        """
        is_later = self.dataset is None and receipts.known_spend(account) is None
        return None if is_later else Ledger(**account)

    def as_booked(self, book: Ledger) -> PlannedRelease:
        """Return this release by the plan booked first: solvers differ in late digits."""
        booked = None if self.dataset is None else booked_plan(self.dataset, self.plan, book)
        return self if booked is None else replace(self, plan=booked)

    def preview(self, book: Ledger) -> tuple[PlannedRelease, bool]:
        """Return the release as it would be made, and whether it would only replay numbers.

        Every check of a release is made; nothing is booked, drawn or decoded, and under private
        presence no record is read.
        """
        if self.dataset is None:
            check_declared(self.plan.facts, self.plan, book)
            return self, replay_presence(self.plan, book, self.history) is not None
        estimates = self.run.release.estimates or ("raw",)
        used, replayed = preview_release(self.dataset, self.plan, ledger=book, estimates=estimates)
        return replace(self, plan=used), replayed

    def publish(self, account: Account, book: Ledger | None) -> tuple[Release, Ledger]:
        """Book the privacy cost, then draw the noise; a repeated request costs nothing.

        Under private presence records are read only where noise is to be drawn.
        """
        dataset = self.dataset
        if dataset is None:
            stored = None if book is None else replay_presence(self.plan, book, self.history)
            if book is not None and stored is not None:
                return stored, book
            dataset = read_private_records(self.run)
        book = book or Ledger(**account)
        estimates = self.run.release.estimates or ("raw",)
        steps = (ESTIMATES, DRAWS) if self.dataset is None else ()
        # Whoever comes here was warned of a grid that is too fine.
        with show_progress(RELEASING, *steps):
            built = publish_numbers(
                dataset, self.plan, ledger=book, estimates=estimates, accept_noise=True,
                history=self.history,
            )  # fmt: skip
        return built, book

    def open_cells(self, published: Release) -> dict[str, int]:
        """Return the number of open cells by value column, "" for a single one, if some are not."""
        if self.dataset is not None:
            return {}
        releases = published.releases if len(published.releases) > 1 else {"": published}
        return {name: sum(item.table["is_open"].to_pylist()) for name, item in releases.items()}


def plan_release(
    run: Run,
    saved: Path | None = None,
    *,
    accept_noise: bool | None = None,
    history: History | None = None,
) -> PlannedRelease:
    """Return the planned release of a run; refuse a grid that is too fine, unless it is accepted.

    Parameters
    ----------
    run : Run
    saved : Path, optional
        Folder of a plan that is released instead: its reviewer has seen the warning.
    accept_noise : bool, optional
        In place of what the run accepts.
    history : History, optional
        Earlier releases, for clipping ranges and estimates.
    """
    dataset: Any = None
    if arguments.is_presence_private(run):
        built = plan_declared(run, declare_run(run), history)
        warning = built.refusal
    elif saved is not None:
        # Any other folder is refused before records are read.
        saved_plans.read_words(saved)
        dataset = shared_steps.read_releasable(run)
        return PlannedRelease(run, Plan.load(saved, dataset), None, dataset)
    else:
        dataset = shared_steps.read_releasable(run)
        built = shared_steps.plan_run(run, dataset.public, history)
        warning = shared_steps.describe_infeasibility(built)
    if warning is not None and history is not None and built.is_single:
        warning = _judge_in_series(run, built.single, len(history.releases), warning)
    planned = PlannedRelease(run, built, warning, dataset, history)
    accepted = run.release.accept_noise if accept_noise is None else accept_noise
    if planned.warning is not None and not accepted:
        raise InputError(
            f"nothing was spent: {planned.warning.removesuffix('.')}; --set "
            "release.accept_noise=true releases the map anyway."
        )
    return planned


def _judge_in_series(run: Run, component: Any, earlier: int, warning: str) -> str | None:  # noqa: ANN401  of any kind
    """Return the warning about a day of an archive: its estimates remember earlier days.

    None if these are expected to make up for the noise; else with the day from which they do.
    """
    asked = PlanArguments(**arguments.plan_arguments(run)).of_column(component.facts.value)
    is_bought = asked.clipping_range != "auto" or 'clipping_range="bounds"' in asked.terms()
    # Days help against noise alone: not where little of the traffic is in open cells.
    judged = [error for error in component.statistic_errors if not error.beats_constant]
    if is_bought or not judged:
        return warning
    asked, days = replace(asked, epsilon=component.epsilon), max(DAYS_AHEAD, earlier + 1)
    try:
        errors = expected_errors(component.facts, asked, days).errors
    except (InputError, LinAlgError):  # of what is not remembered, or cannot be computed
        return warning
    usable = next(
        (day for day, error in enumerate(errors) if error < judged[0].baseline_error), None
    )
    if usable is None:
        return warning
    if usable <= earlier:
        return None
    return (
        f"{warning.removesuffix('.')}; as a daily series it is expected to be usable from day "
        f"{usable + 1} on, since its estimates remember earlier days: accept noise until then."
    )


# ---- declarations ----


def declare_run(run: Run) -> DeclaredFacts | DeclaredColumns:
    """Return the declared facts of the run; no record is read."""
    facts: DeclaredFacts | DeclaredColumns = declare(**arguments.read_arguments(run, read_records))
    return facts


def plan_declared(
    run: Run, facts: DeclaredFacts | DeclaredColumns, history: History | None = None
) -> Plan:
    """Return the plan of the run, made from declarations, and perhaps from earlier releases."""
    options = arguments.plan_arguments(run)
    options["history"] = forecast_declared(facts, history, options.get("statistics"))
    with show_progress(PLANNING):
        plan: Plan = make_plan(facts, **options, advise=False)
    return plan


def comparable_plans(run: Run) -> Iterator[Any]:
    """Yield plans on the declared area at other resolutions and timeslots; none for labels."""
    options = arguments.read_arguments(run, read_records)
    cells = options.pop("cells")
    if isinstance(cells, Cells):
        with show_progress(OTHER_GRIDS):
            yield from on_declared_grids(
                cells, lambda grid: declare(**options, cells=grid), partial(plan_declared, run)
            )


def read_private_records(run: Run) -> Any:  # noqa: ANN401  private records of one column, or several
    """Return the run's records; show their counts on the holder's terminal. PRIVATE."""
    source, options = arguments.source(run), arguments.read_arguments(run, read_records)
    dataset = read_records(source, **options)
    # Only on a terminal: a file or a log of another's must not have them.
    if sys.stderr.isatty() and not run.privacy.quiet_records:
        columns = getattr(dataset, "datasets", {"": dataset})
        for column, column_dataset in columns.items():
            lines = [f"PRIVATE  {column}:"] * bool(column) + column_dataset.counts.lines()
            click.echo("\n".join(lines), err=True)
    return dataset


# ---- optional inputs of a release folder ----


def write(run: Run, published: Release, folder: Path) -> list[Path]:
    """Write the folder and return its files."""
    with show_progress(WRITING):
        published.write(folder, **folder_extras(run))
    return sorted(folder.iterdir())


def signer_of(run: Run) -> SigningKey | None:
    """Return the signing key of the run, if any; refuse an unusable one."""
    return None if run.release.sign is None else signing.read_signing_key(run.release.sign)


def folder_extras(run: Run, path: str = "") -> dict[str, Any]:
    """Return the optional inputs of a folder, checked: context, key, page, facts.

    Parameters
    ----------
    run : Run
    path : str, optional
        Where the folder is, below the address that the run states.
    """
    signer_of(run)
    names = ("context", "sign", "title", "subtitle", "language", "hide_geography")
    # Refuses a title that the folder would refuse after the budget is spent.
    FolderOptions(
        title=run.release.title or "",
        subtitle=run.release.subtitle or "",
        language=run.release.language or "en",
    )
    extras = {name: getattr(run.release, name) for name in names}
    if facts := run.catalogue.explicit_fields():
        catalogue = Catalogue(**facts)
        extras["catalogue"] = catalogue.below(path) if path else catalogue
    return {name: extra for name, extra in extras.items() if extra is not None}
