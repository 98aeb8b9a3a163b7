"""From records to a run that can be released, for `hexveil map` and the studio.

Names and types of columns are looked at, and who reported where and when; never a value. Under
private presence a run follows from declarations alone. Before the last answer nothing is spent.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hexveil.base import atomic_files, hexagons
from hexveil.base.errors import InputError
from hexveil.cli import formatting, grid_text, planned_release, questions, shared_steps
from hexveil.cli.questions import DECLARATIONS, QUESTIONS
from hexveil.config import Run, arguments, load
from hexveil.config.fields import option
from hexveil.config.run_file import FILL_IN, checked, run_file_text
from hexveil.config.run_file_template import draft_run_file
from hexveil.model.cells import Cells
from hexveil.planning.feasibility.grid_assessment import GridAssessment
from hexveil.planning.feasibility.grids import counted, with_min_users
from hexveil.planning.feasibility.prediction import ErrorPredictor
from hexveil.planning.feasibility.recommendation import choose, distinct
from hexveil.records.sources.schema_preview import SourceSchema, inspect_schema
from hexveil.report.geography.background import words_of

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from hexveil.base.arrays import Floats
    from hexveil.cli.grid_text import Changes
    from hexveil.model.public_metadata import PublicMetadata


ROLES = {"user": "vehicle", "value": "value", "time": "time"}
PLACES = ("location", "lat", "lon")


# ---- columns ----


def look_at_columns(run: Run, *, trust: bool = False) -> SourceSchema:
    """Return names and types of the columns of the run's source."""
    labelled = run.columns.explicit_fields().values()
    column_names = [
        *(name for names in labelled for name in ([names] if isinstance(names, str) else names)),
        *(run.cells.labels or ()),
    ]
    return inspect_schema(
        arguments.source(run),
        column_names,
        trusted=trust,
        record_format=arguments.record_format(run),
        look_at_rows=not arguments.is_presence_private(run),
        times=(run.columns.time,) if isinstance(run.columns.time, str) else (),
        places=[name for name in (run.columns.lat, run.columns.lon) if name],
    )


def drafted(run: Run, look: SourceSchema) -> Run:
    """Return the run completed from names and types of the columns; questions stay open."""
    raw = tomllib.loads(draft_run_file(run, look), parse_float=Decimal)
    open_keys = {question.key for question in (*DECLARATIONS, *QUESTIONS)} - run.fields().keys()
    filled = {
        section: {
            name: value
            for name, value in fields.items()
            if value != FILL_IN and (section, name) not in open_keys
        }
        for section, fields in raw.items()
        if section != "source"
    }
    return checked({"source": raw["source"], **filled}, "map")


def check_columns(run: Run, look: SourceSchema) -> None:
    """Refuse records if a needed column is not recognised."""
    missing = [role for role in ("user", "value") if getattr(run.columns, role) is None]
    if not (arguments.has_places(run) or run.cells.explicit_fields().keys() & {"labels"}):
        missing.append("location")
    if missing:
        options = ", ".join(f"{option('columns', role)} COLUMN" for role in missing)
        options = options.replace("--location", "--lat COLUMN --lon COLUMN or --location")
        named = " and the ".join(ROLES.get(role, "place") for role in missing)
        ids = " and ".join(sorted(look.constant_ids)) if "user" in missing else ""
        same = f" (all rows have the same id in {ids})" if ids else ""
        raise InputError(f"no column is called like the {named}{same}: name it, with {options}.")


def recognised(run: Run) -> dict[str, str]:
    """Return the columns that were recognised, by their roles in words."""
    columns = run.columns.explicit_fields()
    columns_by_word = {word: columns[role] for role, word in ROLES.items() if role in columns}
    columns_by_word.setdefault("time", "none, so that all times count together")
    places = [columns[name] for name in PLACES if name in columns]
    columns_by_word["place"] = places or run.cells.labels or ()
    if run.format.decimal == ",":
        columns_by_word["numbers"] = "with a decimal comma"
    return {
        word: names if isinstance(names, str) else " and ".join(names)
        for word, names in columns_by_word.items()
        if names
    }


# ---- grids ----


@dataclass(frozen=True, eq=False)
class Offer:
    """A grid that is proposed, and its expected errors.

    Attributes
    ----------
    changes : dict
        Fields of the run that make its grid this one.
    words : str
    is_balanced : bool
        Whether it is the one in between, which is proposed.
    baseline_error : float
        What one number for the whole map is expected to be off by, in value units.
    hexagon : ndarray of uint64
        Hexagons of the map.
    error : ndarray of float
        By how much the averages of each are expected to be off, in value units.
    days : (str, str), optional
        First and last local day on which enough vehicles reported; declared areas have none.
    """

    changes: Changes
    words: str
    is_balanced: bool
    baseline_error: float
    hexagon: NDArray[np.uint64]
    error: Floats
    days: tuple[str, str] | None = None

    def applied_to(self, run: Run) -> Run:
        """Return a run on this grid."""
        for (section, name), value in self.changes.items():
            run = run.with_fields(section, **{name: value})
        return run


def offers_of(run: Run) -> list[Offer]:
    """Return the grids that are proposed for a fleet, from public counts or from declarations.

    Raises
    ------
    InputError
        If no grid is expected to say more than one number for the whole map.
    """
    return (_declared if arguments.is_presence_private(run) else _counted)(run)


def _counted(run: Run) -> list[Offer]:
    """Return the proposed grids, and the expected error of each hexagon on average over slots."""
    epsilon = str(run.plan.epsilon)
    facts = shared_steps.read_facts(run)
    plan, table = shared_steps.proposed_runs(run, facts, epsilon)
    if not table.proposals:
        raise InputError(f"nothing was spent: {table.sentence} {grid_text.USUAL_CAUSE}")
    proposed = [offer for _, offer in distinct(table.proposals)]
    # One reading serves all grids, and the days.
    daily = _daily(run, facts)
    grids = (*dict.fromkeys(offer.grid for offer in proposed), *filter(None, [daily]))
    on_grids: dict[Any, Any] = dict(zip(grids, counted(facts, grids), strict=True))
    days = _days_of(on_grids.get(daily)) if daily else None
    offers = []
    for offer in proposed:
        # Proposed grids have cells, and hexagons.
        remaining: Any = with_min_users(on_grids[offer.grid], offer.min_users)
        error = ErrorPredictor(plan, remaining).predict(plan.requested_epsilon).error
        hexagon, row = np.unique(remaining.cells.hexagon, return_inverse=True)
        offers.append(
            Offer(
                grid_text.changed_fields(offer),
                _offer_words(offer, hexagon, remaining.value_unit),
                offer is table.proposed,
                offer.baseline_error,
                hexagon,
                np.bincount(row, weights=error) / np.bincount(row),
                days,
            )
        )
    return offers


def _daily(run: Run, facts: PublicMetadata) -> Cells | None:
    """Return the grid on which days are counted, if there are times and places."""
    has_days = run.columns.time is not None and isinstance(facts.cells.grid, Cells)
    return Cells(0, "1d", str(run.cells.timezone or "UTC")) if has_days else None


def counted_days(run: Run, facts: PublicMetadata) -> tuple[str, str] | None:
    """Return the first and last local day on which enough vehicles reported, if they are known."""
    daily, stated = _daily(run, facts), run.select.dates
    return stated if stated or daily is None else _days_of(*counted(facts, (daily,)))


def _days_of(daily: PublicMetadata | None) -> tuple[str, str] | None:
    slots = None if daily is None else daily.cells.slot_names()
    return (min(slots)[:10], max(slots)[:10]) if slots else None


def _declared(run: Run) -> list[Offer]:
    """Return the proposed grids on the declared area: which cells open is private, so all alike."""
    # Other grids with a mistake are left out: here it is refused.
    planned_release.plan_declared(run, planned_release.declare_run(run))
    plans = planned_release.comparable_plans(run)
    proposals = choose(GridAssessment.on_paper(plan.single) for plan in plans)
    if not proposals:
        raise InputError(
            "nothing was spent: no grid is expected to say more than one number for the whole map. "
            "Declare a smaller area or a longer timeslot, or take a larger epsilon."
        )
    offers = []
    offer: Any
    for offer in dict.fromkeys(proposals.values()):
        table, unit = offer.declared.facts.cells, offer.declared.facts.value_unit
        hexagon = np.unique(table.hexagon)
        offers.append(
            Offer(
                grid_text.cell_fields(offer.grid),
                _offer_words(offer, hexagon, unit, offer.declared.prediction.map.open_cells),
                offer is proposals["balanced"],
                offer.baseline_error,
                hexagon,
                np.full(hexagon.size, offer.predicted_error),
            )
        )
    return offers


def _offer_words(
    offer: Any,  # noqa: ANN401  of counted or declared facts
    hexagon: NDArray[np.uint64],
    value_unit: str,
    n_open: float | None = None,
) -> str:
    """Describe a proposed grid as a reader of the map sees it."""
    counted_text = f"{offer.cells:,} averages"
    if n_open is not None:
        counted_text = f"about {n_open:,.0f} of {counted_text} have enough vehicles to be shown"
    error, constant = (
        formatting.measured(float(f"{number:.2g}"), value_unit)
        for number in (offer.predicted_error, offer.baseline_error)
    )
    is_whole = offer.grid.timeslot in (None, "1d")
    slots = "all hours together" if is_whole else f"slots of {offer.grid.timeslot}"
    # With latitude and longitude exchanged the map would be elsewhere in the world.
    area = hexagons.names(hexagons.parents(hexagon[:1], min(offer.grid.resolution, 4)))
    where = "".join(f"around {place}" for place in words_of(area)) or "far from any known place"
    return (
        f"{hexagon.size:,} hexagons, {hexagons.across(offer.grid.resolution):.2g} km across, "
        f"{where}, {slots}: "
        f"{counted_text}, typically {error} off. One number for all would be {constant} off."
    )


# ---- the run file ----


def refuse_existing(file: Path) -> None:
    """Refuse to write over a run file."""
    if file.exists():
        raise InputError(
            f"{file.name!r} exists already: hexveil map {file.name} makes its map. For other "
            "answers move it away; the account stays. Other vehicles need another --dataset."
        )


def saved(run: Run, file: Path) -> Run:
    """Return the run as a new run file has it; refuse one that exists."""
    refuse_existing(file)
    text = questions.WORDS["map"]["file"].format(file=file) + run_file_text(run, {}, file.parent)
    try:
        atomic_files.write(file, text.encode())
    except OSError as error:
        raise InputError(
            f"the run file {file} cannot be written ({atomic_files.reason(error)}); start in a "
            "folder where you may write. Nothing was spent."
        ) from None
    return load(str(file))


def price_words(run: Run) -> str:
    """Return the cost of a release, as the end of a sentence."""
    epsilon = str(run.plan.epsilon)
    of_budget = f" of a budget of {run.ledger.budget}" if run.ledger.budget else ""
    return (
        f"costs epsilon {epsilon} (factor {formatting.factor(float(epsilon))}){of_budget}, and "
        "cannot be taken back"
    )
