"""The table of grids, as people read it, and the one that is proposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from hexveil.cli.output import formatting

if TYPE_CHECKING:
    from hexveil.planning import Capacity, GridAssessment


def show(table: Capacity, value_unit: str) -> None:
    """Print what a fleet can support on each grid, and the proposal."""
    several = len({offer.privacy_unit for offer in table.offers}) > 1
    labels = any(offer.labels is not None for offer in table.offers)
    shown = Table(box=None, pad_edge=False, header_style="", padding=(0, 2, 0, 0))
    for name in ["Unit"] * several + (["Labels"] if labels else ["Resolution", "Timeslot"]):
        shown.add_column(name, justify="left" if name in ("Unit", "Labels") else "right")
    for name in ("Cells", "Users", "Floor", "Error", "Baseline"):
        shown.add_column(name, justify="right")
    for name in ("Usable", "Below half"):
        shown.add_column(name)
    for offer in table.offers:
        row = _row(offer, proposed=offer is table.proposed)
        shown.add_row(*([offer.privacy_unit, *row] if several else row))
    Console(width=100, highlight=False, markup=False).print(shown)
    unit = f" in {value_unit}" if value_unit else ""
    typer.echo(
        f"Floor: least noise{unit} of any plan without clipping. Error: expected error of the plan."
        "\nBaseline: assumed error of one number for all cells. Usable: the error is below the "
        "baseline.\nBelow half: it is below half the baseline, or the epsilon at which it would be."
    )
    typer.echo("\n".join(formatting.wrapped("Grid", capital(table.sentence))))


def _row(offer: GridAssessment, *, proposed: bool) -> list[str]:
    where = [str(offer.resolution), offer.timeslot or "none"]
    if offer.labels is not None:
        where = [", ".join(offer.labels)]
    where.append(f"{offer.cells:,}")
    if not offer.cells:
        return [*where, "0", "-", "-", "-", "no", "no cell left"]
    return [
        *where,
        f"{offer.users:,}",
        formatting.plain(offer.floor),
        ("" if offer.planned else "> ") + formatting.plain(offer.predicted_error),
        formatting.plain(offer.baseline_error),
        "yes" if offer.supported else "no",
        _half(offer) + (", proposed" if proposed else ""),
    ]


def _half(offer: GridAssessment) -> str:
    """Return whether the error is under half of one constant's, or which loss it would take."""
    if offer.halved:
        return "yes"
    if offer.epsilon_halved is not None:
        return f"at {offer.epsilon_halved:g}"
    return f"above {formatting.at_least(offer.epsilon_least)}" if offer.epsilon_least else "no"


def capital(sentence: str) -> str:
    """Return a sentence with a capital letter."""
    return sentence[:1].upper() + sentence[1:]
