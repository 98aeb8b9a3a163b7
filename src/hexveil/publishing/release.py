"""From a plan to published numbers: booked first, noised once, stored before anyone sees them."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hexveil.errors import InputError, StorageError
from hexveil.ledger import Ledger
from hexveil.noise import secure
from hexveil.planning import Plan
from hexveil.publishing import folder as folders
from hexveil.publishing.linear import lattice, live_cells, means, statistic
from hexveil.publishing.manifest import fingerprint, manifest, odds, odds_words, request_of
from hexveil.publishing.table import check_labels, released
from hexveil.records.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from hexveil.publishing.linear import Lattice

SHOWN_ROWS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """Published numbers, and the statement of what is guaranteed about them.

    Attributes
    ----------
    table : pyarrow.Table
        A row per cell; the columns are described in docs/reference.md.
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

    def write(self, folder: str | Path, *, context: str | Path | None = None) -> Path:
        """Write the release folder and return it.

        Parameters
        ----------
        folder : str or Path
            New; an existing folder is never written into.
        context : str or Path, optional
            GeoJSON file drawn beneath the map.

        Raises
        ------
        InputError
            If the folder exists or cannot be made, or the context cannot be read.
        StorageError
            If writing fails midway; nothing half-written stays.
        """
        return folders.write(self.table, self.manifest, folder, context=context)

    def __repr__(self) -> str:
        return (
            f"Release({self.manifest['dataset']['value']!r}, n_cells={self.table.num_rows}, "
            f"epsilon={float(self.epsilon):.6g}, replayed={self.replayed})"
        )

    def _repr_html_(self) -> str:
        """Return a short table for a notebook."""
        import html  # noqa: PLC0415  only notebooks ask

        names = ["cell", "users", "mean_raw", "mean_bound95", "mean_quality"]
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

    Parameters
    ----------
    dataset : Dataset
        The records that the plan was made for.
    plan : Plan
    ledger : Ledger
        Where the loss is booked before any noise is drawn.
    estimates : tuple of str
        ("raw",).

    Raises
    ------
    InputError
        Without a ledger, or if the plan was made for other records; nothing is spent.
    BudgetError
        If the budget left is smaller than the loss; nothing is spent.
    StorageError
        If the ledger cannot be used.

    Privacy
    -------
    Neighbours, sensitivity and loss: publishing/linear.py. The loss booked is `plan.epsilon`,
    that of the most exposed unit, rounded up. Noise is drawn after the booking is committed, by
    `noise.secure` alone, and only the numbers that the ledger stored are shown; the same public
    request again returns them and costs nothing.
    """
    book = _checked(dataset, plan, ledger, estimates)
    where = lattice(plan, dataset.public.scale)
    request = request_of(book.dataset, dataset.public, plan)
    name = fingerprint(request)
    booking = book.book(name, plan.epsilon, unit=dataset.public.unit, facts=request)
    noisy = booking.published
    replayed = noisy is not None
    if noisy is None:
        drawn = _draw(dataset, plan, where)
        noisy = book.complete(name, {"mean": drawn.tolist()})
    values = means(_stored(noisy, plan), plan, dataset.public.scale)
    return Release(
        released(plan, dataset.public, values),
        manifest(book.dataset, dataset.public, plan, name),
        plan.epsilon,
        replayed,
    )


def _draw(dataset: Dataset, plan: Plan, where: Lattice) -> NDArray[np.int64]:
    """Return the noisy whole number of each cell; a cell that keeps nothing gets its middle."""
    noisy = where.steps * plan.occupancy.records_per_cell
    live = live_cells(plan)
    if live.size:
        noisy[live] = secure.add_laplace(statistic(dataset, plan, where), where.noise[live])
    return noisy


def _stored(numbers: Mapping[str, list[int]], plan: Plan) -> NDArray[np.int64]:
    """Return the noisy whole numbers that the ledger holds for this request."""
    noisy = np.array(numbers.get("mean", ()), dtype=np.int64)
    if noisy.shape != (plan.occupancy.n_cells,):
        raise StorageError(
            "the ledger's numbers of this request do not have one entry for each cell: the file "
            "was changed by something else; restore it from a copy."
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
    if estimates not in ("raw", ("raw",), ["raw"]):
        raise InputError(f'estimates must be ("raw",) in this version, got {estimates!r}.')
    _check_plan(dataset, plan)
    check_labels(dataset.public)
    return ledger


def _check_plan(dataset: Dataset, plan: Plan) -> None:
    """Refuse a plan whose promise was not made for these records."""
    if not isinstance(plan, Plan):
        raise InputError(f"a release needs a plan made by hv.plan, got {type(plan).__name__}.")
    if plan.facts is None:
        raise InputError("the plan was made for a bare occupancy; plan the records as read.")
    here, there = dataset.public, plan.facts
    if plan.occupancy.fingerprint != here.occupancy.fingerprint:
        differs = "who reported how often where"
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
