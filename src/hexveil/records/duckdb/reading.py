"""One reading, from an opened source to a data set: check, count, choose cells, fetch sums."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexveil.errors import InputError
from hexveil.facts import PublicFacts
from hexveil.records.dataset import Dataset, Sums
from hexveil.records.duckdb import refusals, sums
from hexveil.records.duckdb.recount import Recounter
from hexveil.records.duckdb.rules import (
    BOX,
    DATES,
    DROPPED,
    HOURS,
    REASONS,
    UNPARSABLE,
    UNUSABLE,
    checked,
)
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.possible import LARGEST_SUM, squares_fit
from hexveil.records.progress import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexveil.cells import CellTable
    from hexveil.occupancy import Occupancy
    from hexveil.records.request import Request
    from hexveil.records.sources import Files, Table


def read_dataset(source: Files | Table, request: Request) -> Dataset:
    """Return the records of a source as counts, sums and, unless they could overflow, squares.

    Raises
    ------
    InputError
        If the source, a column or the selection leaves nothing that can be used.
    """
    with shown("Reading records"), Session(request.memory) as session:
        relation = open_source(session, source)
        records = checked(session, relation, request)
        rules = request.rules
        grouping = sums.keys(session, rules.cells, rules.unit, records.places)
        query, repeats = records.query, 0
        if sums.dedupes(request):
            query, repeats = sums.without_repeats(session, records)
        sums.make_pairs(session, query, grouping, squares=squares_fit(1, rules.scale))
        left_out = sums.reasons(session, grouping)
        left_out[0] = left_out.get(0, 0) + repeats
        left_out[UNPARSABLE] = left_out.get(UNPARSABLE, 0) + relation.skipped(session)
        refusals.refuse_unusable(session, records, request, left_out)
        _refuse_overflow(left_out[0], request)
        everything, enough, used = sums.choose_cells(session, grouping, rules.select)
        refusals.refuse_no_cell(everything, enough, request)
        cells = sums.cell_table(session, rules.cells, grouping)
        refusals.refuse_swapped(cells, request)
        fit = squares_fit(sums.largest_count(session, grouping), rules.scale)
        named = (sums.TOTAL, sums.SQUARES) if fit else (sums.TOTAL,)
        pairs = sums.fetch_pairs(session, grouping, named)
        units = sums.fetch_units(session, rules.unit, grouping)
    # The engine's memory is free before the pairs are put in order.
    occupancy, found, used_units = sums.in_order(pairs)
    counts = rule_counts(request, left_out, repeats)
    counts.update(sums.cell_counts(everything, used, int(occupancy.n.sum())))
    facts = _facts(source, request, occupancy, cells, counts)
    private = Sums(found[sums.TOTAL], found.get(sums.SQUARES))
    return Dataset(facts, private, units.take(used_units))


def _facts(
    source: Files | Table,
    request: Request,
    occupancy: Occupancy,
    cells: CellTable,
    counts: Mapping[str, int],
) -> PublicFacts:
    facts = PublicFacts(
        occupancy=occupancy,
        cells=cells,
        scale=request.rules.scale,
        unit=request.rules.unit,
        value=request.columns.value,
        value_unit=request.value_unit,
        rules=counts,
        identity=request.identity(source.shown),
    )
    return replace(facts, recount=Recounter(source, request, facts))


def rule_counts(request: Request, left_out: Mapping[int, int], repeats: int) -> dict[str, int]:
    """Return how many records each public rule left out, in the order of the rules."""
    select = request.rules.select
    asked = {
        DROPPED: bool(select.drop_values),
        HOURS: select.hours is not None,
        DATES: select.dates is not None,
        BOX: select.box is not None,
    }
    counts = {"records read": sum(left_out.values())}
    for reason in (*UNUSABLE, *(reason for reason, used in asked.items() if used)):
        counts[REASONS[reason]] = left_out.get(reason, 0)
    if sums.dedupes(request):
        counts["repeats of a user and time"] = repeats
    return counts


def _refuse_overflow(records: int, request: Request) -> None:
    if records * request.rules.scale.steps >= LARGEST_SUM:
        raise InputError(
            f"quantum: sums of {records} records in steps this fine could overflow; use a coarser "
            "quantum."
        )
