"""From a plan to published numbers: booked first, noised once, stored before anyone sees them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.ledger import Ledger, hash_losses
from hexveil.mechanisms.contract import DONE, Meter, Outputs, execute, replay
from hexveil.mechanisms.noise import VettedNoise
from hexveil.planning import Plan
from hexveil.planning.feasibility.advice import advice
from hexveil.planning.release_allocation import allocation_of, check_allocation, with_outputs
from hexveil.planning.serialization import encoding
from hexveil.publishing import folder as folders
from hexveil.publishing.estimates.cut_off import cut_off
from hexveil.publishing.estimates.smoothed_estimates import groupings_of, smoothed
from hexveil.publishing.estimates.table import cells_cut_off, check_labels, released, shown_columns
from hexveil.publishing.ledger_journal import LedgerJournal, rows_of
from hexveil.publishing.manifest import fingerprint, manifest, request_of
from hexveil.publishing.pinned_unit import unit_of
from hexveil.publishing.private_sums import private_sums
from hexveil.records.dataset import Dataset

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    import pyarrow as pa

    from hexveil.model.public_metadata import PublicMetadata
    from hexveil.planning.release_allocation import ReleaseAllocation

SHOWN_ROWS = 20
SMOOTHED = "smoothed"


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Published numbers, and the statement of their guarantee.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell; the columns are described in docs/reference/python.md.
    manifest : dict
        As written to `manifest.json`.
    epsilon : Fraction
        What the most exposed unit loses.
    replayed : bool
        Whether the same request had been published before: the same numbers, at no cost.
    """

    table: pa.Table
    manifest: dict[str, Any]
    epsilon: Fraction
    replayed: bool

    def to_arrow(self) -> pa.Table:
        """Return the numbers as an Arrow table."""
        return self.table

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may not be installed
        """Return the numbers as a pandas data frame; InputError without pandas."""
        _need("pandas")
        return self.table.to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401  polars may not be installed
        """Return the numbers as a polars data frame; InputError without polars."""
        _need("polars")
        import polars as pl  # noqa: PLC0415  an extra

        return pl.from_arrow(self.table)

    def to_spark(self, session: Any) -> Any:  # noqa: ANN401  pyspark may not be installed
        """Return the numbers as a Spark data frame, for example to be written as a table.

        Parameters
        ----------
        session : pyspark.sql.SparkSession

        Raises
        ------
        InputError
            If it is no session.
        """
        if not hasattr(session, "createDataFrame"):
            raise InputError(f"a Spark session is needed, got {type(session).__name__}.")
        return session.createDataFrame(self.table)

    def write(
        self,
        folder: str | Path,
        *,
        context: str | Path | None = None,
        sign: str | Path | None = None,
    ) -> Path:
        """Write the release folder and return it.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            GeoJSON file drawn beneath the map.
        sign : str or Path, optional
            File of the private key that signs the folder (`hexveil ledger keygen`).

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context or the key cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return folders.write(self.table, self.manifest, folder, context=context, sign=sign)

    def __repr__(self) -> str:
        return (
            f"Release({self.manifest['dataset']['value']!r}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def _repr_html_(self) -> str:
        """Return a short table for a notebook."""
        import html  # noqa: PLC0415  only notebooks ask

        names = shown_columns(self.manifest["plan"]["statistics"][0])
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = [
            "".join(f"<td>{html.escape(_text(row[name]))}</td>" for name in names)
            for row in self.table.slice(0, SHOWN_ROWS).select(names).to_pylist()
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        said = f"{self.table.num_rows} cells. {html.escape(self.manifest['guarantee']['promise'])}"
        return f"<p>{said}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def release(
    dataset: Dataset,
    plan: Plan,
    *,
    ledger: Ledger | None = None,
    estimates: tuple[str, ...] | str = ("raw",),
    accept_noise: bool = False,
) -> Release:
    """Publish a plan's numbers: book the loss, draw the noise once, return the release.

    A request is its goal (planning/goal.py). The first plan booked for a goal is kept in the
    ledger, and the same goal asked again gets that plan and those numbers, at no cost: on another
    processor, and from another version of hexveil that plans better. To have it planned anew, and
    pay again, give the plan another `edition`. A plan of constants alone costs nothing: nothing is
    booked, and no value is read.

    Parameters
    ----------
    dataset : Dataset
        The records that the plan was made for.
    plan : Plan
    ledger : Ledger
        Where the loss is booked before any noise is drawn.
    estimates : tuple of str
        ("raw",), or ("raw", "smoothed"): estimates in which cells borrow from those they resemble,
        with intervals by a stated model. They are made from the noisy numbers and cost nothing.
    accept_noise : bool
        Release even a map that says no more than one constant for all cells.

    Raises
    ------
    InputError
        Without a ledger, if the plan was made for other records, its grid is too fine and the noise
        was not accepted, or if it asks for variances and there are no sums of squares; nothing is
        spent.
    BudgetError
        If the budget left is smaller than the loss; nothing is spent.
    StorageError
        If the ledger cannot be used.

    Privacy
    -------
    Neighbours, sensitivity and loss: mechanisms/clipped/clipped_mean.py for means,
    mechanisms/clipped/clipped_variance.py for variances; mechanisms/map_quantiles.py,
    weighted_mean.py, weighted_variance.py and two_stage_mean.py in a private clipping range. The
    losses booked are those of each unit, rounded up; the largest is the release's `epsilon`. They
    are computed again from the scales that go to the noise library, and compared with what was
    booked. Noise is drawn after the booking is committed, by mechanisms/noise.py alone. The result
    of each private stage is stored before the next is computed, nothing is drawn twice under one
    booking, and only what the ledger stored is shown.
    """
    book = _checked(dataset, plan, ledger, estimates)
    request = request_of(book.dataset, dataset.public, plan)
    name = fingerprint(request)
    known = book.find(name)
    plan = _with_booked(dataset, plan, book)
    allocation = allocation_of(plan, dataset.public.lattice)
    if known is not None and known.complete:
        outputs, replayed = replay(allocation, rows_of(known.stages)), True
    else:
        _check_request(dataset, plan, allocation, accept_noise=accept_noise)
        plan, allocation, outputs, replayed = _drawn(dataset, plan, allocation, book, request)
    shown = with_outputs(plan, allocation, outputs)
    values = {one.statistic: one.estimate[0] for one in allocation.decode(outputs)}
    smooth = smoothed(shown, dataset.public, values) if SMOOTHED in estimates else {}
    cut = cut_off(shown, allocation.numbers(outputs))
    table = released(shown, dataset.public, values, smooth, cut)
    counted = cells_cut_off(table, plan.statistics if cut else ())
    place = _place(book, name)
    return Release(
        table,
        manifest(book.dataset, dataset.public, shown, name, place, smooth, counted),
        plan.epsilon,
        replayed,
    )


def booked_plan(dataset: Dataset, plan: Plan, ledger: Ledger) -> Plan | None:
    """Return the plan that was booked for this plan's goal, or None if none was.

    Raises
    ------
    InputError
        If a version of hexveil kept it that this one cannot read, or another version began to draw
        by it.
    """
    name = fingerprint(request_of(ledger.dataset, dataset.public, plan))
    kept = ledger.plan_of(name)
    if kept is None:
        return None
    known, version = ledger.find(name), encoding.made_by(kept)
    if known is not None and known.state == "measured" and version != hexveil_version():
        raise InputError(
            f"noise was drawn for a part of this release by hexveil {version}; finish it with that "
            "version, or abandon it (hexveil ledger resolve)."
        )
    return encoding.decode(kept, plan)


def hexveil_version() -> str:
    """Return the version of this package."""
    return importlib.metadata.version("hexveil")


def _with_booked(dataset: Dataset, plan: Plan, book: Ledger) -> Plan:
    """Return the plan that is booked for this goal, else this one: nothing it computed is kept."""
    return booked_plan(dataset, plan, book) or replace(plan)


def _drawn(
    dataset: Dataset,
    plan: Plan,
    allocation: ReleaseAllocation,
    book: Ledger,
    request: dict[str, str],
) -> tuple[Plan, ReleaseAllocation, Outputs, bool]:
    """Return a request's booked plan, its outputs, and whether another process drew them.

    One process at a time is here, so that whoever waits gets what was drawn. Where no value is
    read nothing is booked.
    """
    if allocation.next_stage(Outputs()) is DONE:
        return plan, allocation, Outputs(), False
    assert dataset.units is not None  # noqa: S101  checked at the start
    units, name = dataset.units, fingerprint(request)
    with book.drawing():
        plan = _with_booked(dataset, plan, book)
        allocation = allocation_of(plan, dataset.public.lattice)
        booked = allocation.losses()
        booking = book.reserve(
            name,
            hash_losses(
                units.ids(), booked, book.key, max_loss=plan.epsilon, periods=units.periods()
            ),
            privacy_unit=unit_of(dataset.public),
            facts=request,
            plan=book.plan_of(name) or encoding.encode(plan),
        )
        if booking.complete:
            return plan, allocation, replay(allocation, rows_of(booking.stages)), True
        journal = LedgerJournal(book, name)
        # The vetted door is made here and nowhere else: no caller can give a release another one.
        outputs = execute(allocation, private_sums(dataset), VettedNoise(), journal, Meter(booked))
        book.complete(name)
    return plan, allocation, outputs, False


def _check_request(
    dataset: Dataset, plan: Plan, allocation: ReleaseAllocation, *, accept_noise: bool
) -> None:
    """Refuse, from public metadata, plans that cannot be computed or noised, or that say nothing.

    Raises
    ------
    InputError
        See `release`.
    """
    check_allocation(allocation, plan, dataset.public.lattice, has_squares=dataset.has_squares)
    if not (accept_noise or plan.support.beats_constant):
        raise InputError(
            f"nothing was spent: {advice(plan).text.removesuffix('.')}; accept_noise=True releases "
            "it all the same."
        )


def _place(book: Ledger, name: str) -> dict[str, Any] | None:
    """Return where a request's stored numbers stand in the ledger; None if it cost nothing."""
    booking = book.find(name)
    if booking is None or not booking.complete:
        return None
    return {"entry": booking.entry, "chain": booking.chain}


def _checked(
    dataset: Dataset, plan: Plan, ledger: Ledger | None, estimates: tuple[str, ...] | str
) -> Ledger:
    if not isinstance(dataset, Dataset):
        raise InputError(f"a release needs the records as read, got {type(dataset).__name__}.")
    if not isinstance(ledger, Ledger):
        raise InputError(
            "a release needs a ledger with a budget, in which its cost is booked first: "
            'ledger=hv.Ledger("ledger.sqlite", dataset="buses", budget="5").'
        )
    _check_estimates(estimates, dataset.public)
    _check_units(dataset)
    _check_plan(dataset, plan)
    check_labels(dataset.public)
    return ledger


def _check_estimates(estimates: tuple[str, ...] | str, facts: PublicMetadata) -> None:
    """Refuse unknown estimates, and smoothing where there is nothing to borrow from."""
    names = (estimates,) if isinstance(estimates, str) else tuple(estimates)
    if names not in (("raw",), ("raw", SMOOTHED)):
        raise InputError(f'estimates must be ("raw",) or ("raw", "smoothed"), got {estimates!r}.')
    if SMOOTHED in names and facts.occupancy.n_cells < 2:
        raise InputError(
            "smoothed needs more than one cell to borrow from; ask for raw alone, or for a finer "
            "grid."
        )
    if SMOOTHED in names:
        groupings_of(facts.cells)  # refuses cells without a place among others


def _check_units(dataset: Dataset) -> None:
    """Refuse units that the ledger could not add up."""
    if dataset.units is None:
        raise InputError("a release needs the ids of its units, to book what each loses.")
    if dataset.public.privacy_unit != "user" and dataset.units.periods() is None:
        raise InputError(
            f"user: a release of {dataset.public.privacy_unit}s needs the day of each, to add "
            f"up what its "
            "user loses; let every id of the sums end with a blank and the day (of a week, its "
            'Monday), like "bus 7 2026-11-20", as the query of hexveil inspect --sql does.'
        )


def _check_plan(dataset: Dataset, plan: Plan) -> None:
    """Refuse a plan that was made for other records."""
    if not isinstance(plan, Plan):
        raise InputError(f"a release needs a plan made by hv.plan, got {type(plan).__name__}.")
    if plan.facts is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    here, there = dataset.public, plan.facts
    if plan.occupancy.fingerprint != here.occupancy.fingerprint:
        differs = "who reported how often where"
    elif there.lattice != here.lattice:
        differs = "the bounds or the quantum they were read with"
    elif there.privacy_unit != here.privacy_unit:
        differs = f"the unit of privacy, {there.privacy_unit} and not {here.privacy_unit},"
    elif there.cells.names() != here.cells.names():
        differs = "the names of the cells"
    else:
        return
    raise InputError(
        f"the plan was made for other records ({differs} differs); plan these records again."
    )


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise InputError(f'{package} is not installed: pip install "hexveil[{package}]".')


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
