"""From a plan to published numbers: booked first, noised once, stored before anyone sees them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.errors import InputError, StorageError
from hexveil.ledger import Ledger, losses_of
from hexveil.noise import secure
from hexveil.planning import Plan
from hexveil.publishing import ends, linear, moments, stepped, variance, weighted
from hexveil.publishing import folder as folders
from hexveil.publishing.manifest import fingerprint, manifest, odds, odds_words, request_of
from hexveil.publishing.smoothed import groupings_of, smoothed
from hexveil.publishing.table import check_labels, released, shown_columns
from hexveil.records.dataset import Dataset

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.facts import PublicFacts, ValueScale
    from hexveil.ledger import Booking
    from hexveil.ledger.ledger import Numbers
    from hexveil.publishing.linear import Lattice

    Whole = dict[str, NDArray[np.int64]]

SHOWN_ROWS = 20
SMOOTHED = "smoothed"
ENDS = "interval"
"""Under this name the ledger keeps the ends of a private interval."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Published numbers, and the statement of what is guaranteed about them.

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
        unit = html.escape(self.manifest["guarantee"]["unit"])
        most = f"odds change {odds_words(odds(self.epsilon))} per {unit}"
        said = f"{self.table.num_rows} cells; {most}"
        return f"<p>{said}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def release(
    dataset: Dataset,
    plan: Plan,
    *,
    ledger: Ledger | None = None,
    estimates: tuple[str, ...] | str = ("raw",),
) -> Release:
    """Publish a plan's numbers: book the loss, draw the noise once, return what may be shown.

    A plan of constants alone costs nothing: nothing is booked, and no value is read.

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

    Raises
    ------
    InputError
        Without a ledger, if the plan was made for other records, or if it asks for variances and
        there are no sums of squares; nothing is spent.
    BudgetError
        If the budget left is smaller than the loss; nothing is spent.
    StorageError
        If the ledger cannot be used.

    Privacy
    -------
    Neighbours, sensitivity and loss: publishing/linear.py for means, publishing/variance.py for
    variances; publishing/ends.py, weighted.py and moments.py under a private interval. The losses
    booked are those of each unit, rounded up; the largest is `plan.epsilon`.
    Noise is drawn after the booking is committed, by `noise.secure` alone, and only the numbers
    that the ledger stored are shown; the same public request again returns them and costs nothing.
    """
    book = _checked(dataset, plan, ledger, estimates)
    where = linear.lattice(plan, dataset.public.scale)
    variance.check(dataset, plan, where)
    weighted.check(plan, dataset.public.scale)
    moments.check(dataset, plan)
    stepped.check(plan, dataset.public.scale)
    request = request_of(book.dataset, dataset.public, plan)
    name = fingerprint(request)
    noisy, replayed, place = _constants(plan, where), False, None
    if any(part.live.any() for part in plan.parts.values()):
        stored = _booked(book, name, dataset, plan, request).published
        replayed = stored is not None
        if stored is None:
            book.mark(name)
            drawn = _draw(dataset, plan, where)
            stored = book.store(name, {k: v.tolist() for k, v in drawn.items()})
        noisy, place = _stored(stored, noisy), _place(book, name)
    shown = _found(plan, noisy, dataset.public)
    values = _values(noisy, shown, dataset.public.scale)
    smooth = smoothed(shown, dataset.public, values) if SMOOTHED in estimates else {}
    return Release(
        released(shown, dataset.public, values, smooth),
        manifest(book.dataset, dataset.public, shown, name, place, smooth),
        plan.epsilon,
        replayed,
    )


def _booked(
    book: Ledger, name: str, dataset: Dataset, plan: Plan, request: dict[str, str]
) -> Booking:
    """Return the booking of a request, made now unless its numbers are stored already."""
    known = book.find(name)
    if known is not None and known.published is not None:
        return known
    assert dataset.units is not None  # noqa: S101  checked at the start
    units = dataset.units
    losses = losses_of(
        units.ids(), plan.losses(), book.key, most=plan.epsilon, periods=units.periods()
    )
    return book.reserve(name, losses, unit=unit_of(dataset.public), facts=request)


def unit_of(facts: PublicFacts) -> str:
    """Return what adds up with what: the unit of privacy, and the clock by which its days begin.

    A day by one clock overlaps two days by another: a reading may count in both, so that what
    units of one clock lose says nothing about units of the other.
    """
    if facts.unit == "user":
        return facts.unit
    clock = facts.identity.get("timezone", "none")
    return f"{facts.unit} ({'clock not named' if clock == 'none' else clock})"


def _place(book: Ledger, name: str) -> dict[str, Any]:
    """Return where a request's stored numbers stand in the ledger: the same at every look."""
    booking = book.find(name)
    assert booking is not None  # noqa: S101  its numbers were stored
    return {"entry": booking.entry, "chain": booking.chain}


def _constants(plan: Plan, where: Lattice) -> Whole:
    """Return the whole numbers of a release without noise: the middle; variances have none."""
    none = np.zeros(plan.occupancy.n_cells, dtype=np.int64)
    if plan.rows.steps is not None:
        return stepped.empty(plan)
    if plan.rows.interval is not None:
        # Without a mean there is no variance either, asked for or not.
        names = dict.fromkeys(("mean", *plan.parts))
        return {ENDS: np.zeros(2, dtype=np.int64)} | {name: none.copy() for name in names}
    middle = where.steps * plan.occupancy.records_per_cell
    return {name: middle.copy() if name == "mean" else none.copy() for name in plan.parts}


def _draw(dataset: Dataset, plan: Plan, where: Lattice) -> Whole:
    """Return the noisy whole numbers of each statistic; the noise is drawn in one call.

    Under a private interval its ends are chosen first, by calls of their own.
    """
    if plan.rows.steps is not None:
        return stepped.draw(dataset, plan)
    if plan.rows.interval is not None:
        return _draw_weighted(dataset, plan)
    noisy, parts = _constants(plan, where), []
    if "mean" in noisy and (live := linear.live_cells(plan)).size:
        numbers = linear.statistic(dataset, plan, where)
        parts.append(("mean", live, numbers, where.noise[live]))
    if "variance" in noisy and (live := variance.live_cells(plan)).size:
        numbers = variance.statistic(dataset, plan, where)
        parts.append(("variance", live, numbers, np.full(live.size, float(variance.STEPS))))
    names, rows, values, scales = zip(*parts, strict=True)
    drawn = secure.add_laplace(np.concatenate(values), np.concatenate(scales))
    ends = np.cumsum([live.size for live in rows])[:-1]
    for name, live, own in zip(names, rows, np.split(drawn, ends), strict=True):
        noisy[name][live] = own
    return noisy


def _draw_weighted(dataset: Dataset, plan: Plan) -> Whole:
    """Return the interval's ends, the noisy weighted sums of user means, and those of squares."""
    interval, facts = plan.rows.interval, dataset.public
    assert interval is not None  # noqa: S101  see _draw
    asked = ends.ballot(facts, interval.quantiles, interval.epsilon)
    found = ends.draw(dataset, asked)
    chosen = ends.interval(found, asked, facts.scale.steps, interval.stretch)
    numbers = [weighted.statistic(dataset, interval.weight, chosen)]
    scales = [weighted.scales(plan, chosen[1] - chosen[0])]
    if "variance" in plan.parts:
        numbers.append(moments.statistic(dataset, interval, chosen))
        scales.append(moments.scales(plan))
    drawn = secure.add_laplace(np.concatenate(numbers), np.concatenate(scales))
    noisy = zip(("mean", "variance"), np.split(drawn, len(numbers)), strict=False)
    return {ENDS: np.array(chosen, dtype=np.int64), **dict(noisy)}


def _found(plan: Plan, noisy: Whole, facts: PublicFacts) -> Plan:
    """Return the plan with the interval that was found, if it has one, and what else was."""
    interval = plan.rows.interval
    if interval is None:
        return plan
    if not _possible(plan, noisy[ENDS], facts.scale.steps):
        raise StorageError(
            "the ledger's interval of this request is not within the bounds: the file was changed "
            "by something else; restore it from a copy."
        )
    if plan.rows.steps is not None:
        return stepped.found_by(plan, noisy, facts)
    low, high = map(int, noisy[ENDS])
    rows = replace(plan.rows, interval=interval.found((low, high), facts.scale.steps))
    return replace(plan, rows=rows)


def _possible(plan: Plan, found: NDArray[np.int64], steps: int) -> bool:
    """Return whether these are ends that a release can have found, and what goes with them."""
    ends_fit = 0 <= found[0] < found[1] <= steps
    return bool(ends_fit and (plan.rows.steps is None or stepped.possible(found, steps)))


def _values(noisy: Whole, plan: Plan, scale: ValueScale) -> dict[str, NDArray[np.float64]]:
    """Return each noised statistic as published, in its own units, from its noisy numbers."""
    made = {
        "mean": lambda: linear.means(noisy["mean"], plan, scale),
        "variance": lambda: variance.variances(noisy["variance"], plan),
    }
    if plan.rows.interval is not None:
        made = {
            "mean": lambda: (
                weighted.means(noisy["mean"], plan, scale)
                if plan.rows.steps is None
                else stepped.means(noisy, plan, scale)
            ),
            "variance": lambda: moments.variances(noisy, plan),
        }
    return {name: made[name]() for name in plan.parts}


def _stored(numbers: Numbers, like: Whole) -> Whole:
    """Return the noisy whole numbers that the ledger holds for this request."""
    try:
        noisy = {name: np.array(numbers.get(name, ()), dtype=np.int64) for name in like}
    except OverflowError:  # a whole number of more than 64 bits
        noisy = {}
    if any(name not in noisy or noisy[name].shape != like[name].shape for name in like):
        raise StorageError(
            "the ledger's numbers of this request are not one entry for each cell, of 64 bits at "
            "most: the file was changed by something else; restore it from a copy."
        )
    return noisy


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


def _check_estimates(estimates: tuple[str, ...] | str, facts: PublicFacts) -> None:
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
    if dataset.public.unit != "user" and dataset.units.periods() is None:
        raise InputError(
            f"user: a release of {dataset.public.unit}s needs the day of each, to add up what its "
            "user loses; let every id of the sums end with a blank and the day (of a week, its "
            'Monday), like "bus 7 2026-11-20", as the query of hexveil inspect --sql does.'
        )


def _check_plan(dataset: Dataset, plan: Plan) -> None:
    """Refuse a plan whose promise was not made for these records."""
    if not isinstance(plan, Plan):
        raise InputError(f"a release needs a plan made by hv.plan, got {type(plan).__name__}.")
    if plan.facts is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    here, there = dataset.public, plan.facts
    if plan.occupancy.fingerprint != here.occupancy.fingerprint:
        differs = "who reported how often where"
    elif there.scale != here.scale:
        differs = "the bounds or the quantum they were read with"
    elif there.unit != here.unit:
        differs = f"the unit of privacy, {there.unit} and not {here.unit},"
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
