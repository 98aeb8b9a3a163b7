"""Table of grids, and the proposed grid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from hexveil.cli.output import formatting

if TYPE_CHECKING:
    from hexveil.planning import Capacity, GridAssessment


_PLACES = (
    "Km: average width of a hexagon. Hexagons: how many of them have cells; with one, a map "
    "is one number for the whole area, in each slot. "
)


def show(table: Capacity, value_unit: str, *, sentence: bool = True) -> None:
    """Print the error of each grid for a fleet, and the proposed grid unless told otherwise."""
    several = len({offer.privacy_unit for offer in table.offers}) > 1
    labels = any(offer.labels is not None for offer in table.offers)
    between = 1 if several else 2
    printed = Table(box=None, pad_edge=False, header_style="", padding=(0, between, 0, 0))
    places = ["Labels"] if labels else ["Resolution", "Km", "Hexagons", "Timeslot"]
    for name in ["Unit"] * several + places:
        printed.add_column(name, justify="left" if name in ("Unit", "Labels") else "right")
    for name in ("Cells", "Users", "Floor", "Error", "Baseline"):
        printed.add_column(name, justify="right")
    for name in ("Usable", "Below half"):
        printed.add_column(name)
    for offer in table.offers:
        row = _row(offer, proposed=sentence and offer is table.proposed)
        printed.add_row(*([offer.privacy_unit, *row] if several else row))
    # Labels come from the records: they must not be read as markup.
    Console(width=formatting.terminal_width(), highlight=False, markup=False).print(printed)
    unit = f" in {value_unit}" if value_unit else ""
    legend = (
        f"{'' if labels else _PLACES}Floor: least noise{unit} of any plan without clipping. Error: "
        "expected error of the plan. Baseline: assumed error of one number for all cells. Usable: "
        "the error is below the baseline. Below half: it is below half the baseline, or the "
        "epsilon at which it would be."
    )
    typer.echo("\n".join(formatting.wrapped("", legend, indent=0)))
    if sentence:
        typer.echo("\n".join(formatting.wrapped("Grid", formatting.capital(table.sentence))))


def _row(offer: GridAssessment, *, proposed: bool) -> list[str]:
    if offer.labels is not None:
        cells = [", ".join(offer.labels)]
    else:
        places = "one number" if offer.hexagons == 1 else f"{offer.hexagons or 0:,}"
        wide = f"{offer.kilometres:.2g}"
        cells = [str(offer.resolution), wide, places, offer.timeslot or "none"]
    cells.append(f"{offer.cells:,}")
    if not offer.cells:
        return [*cells, "0", "-", "-", "-", "no", "no cell"]
    return [
        *cells,
        f"{offer.users:,}",
        formatting.number_text(offer.floor),
        # Grids that are far too fine are not planned: their error is a lower bound.
        ("" if offer.planned else "> ") + formatting.number_text(offer.predicted_error),
        formatting.number_text(offer.baseline_error),
        "yes" if offer.beats_constant else "no",
        # A proposed grid is always below half.
        "proposed" if proposed else _half(offer),
    ]


def _half(offer: GridAssessment) -> str:
    """Return whether the error is below half the baseline, or the epsilon at which it would be."""
    if offer.halved:
        return "yes"
    if offer.epsilon_halved is not None:
        return f"at {offer.epsilon_halved:g}"
    return f"above {formatting.at_least(offer.epsilon_least)}" if offer.epsilon_least else "no"
