"""Counting the same records again on other grids: what capacity asks. No value is read.

The places, times and users that stay after the rules are put in a temporary table once; then one
scan per resolution counts them in slots of the finest length asked, and every timeslot adds up
from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.errors import InputError
from hexveil.records.duckdb import sums
from hexveil.records.duckdb.expressions import local_second
from hexveil.records.duckdb.rules import checked
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.progress import shown

if TYPE_CHECKING:
    from hexveil.cells import Cells
    from hexveil.facts import PublicFacts, Unit
    from hexveil.records.request import Request
    from hexveil.records.sources import Files, Table

_KEPT = "kept_records"
_FINE = "fine_counts"


@dataclass(frozen=True, repr=False)
class Recounter:
    """Counts the records of a source on other grids; see `hexveil.facts.Recount`.

    Attributes
    ----------
    source : Files or Table
    request : Request
        As the data set was read.
    facts : PublicFacts
        Of the data set, without its own `recount`.
    """

    source: Files | Table
    request: Request
    facts: PublicFacts

    def __call__(self, grids: tuple[Cells, ...], unit: Unit) -> tuple[PublicFacts | None, ...]:
        """Return the public facts on each grid; None where no cell is left after selection."""
        rules = replace(self.request.rules, unit=unit)
        request = replace(self.request, rules=rules)
        for grid in grids:
            if grid.timeslot is not None and request.columns.time is None:
                raise InputError("timeslots need times; these records were read without.")
        with shown("Counting records"), Session(request.memory) as session:
            self._keep(session, request)
            found: dict[Cells, PublicFacts | None] = {}
            for fine in dict.fromkeys((grid.resolution, grid.timezone) for grid in grids):
                same = [g for g in grids if (g.resolution, g.timezone) == fine]
                self._count_fine(session, request, same)
                for grid in same:
                    found[grid] = self._facts(session, request, grid)
        return tuple(found[grid] for grid in grids)

    def _keep(self, session: Session, request: Request) -> None:
        source = checked(session, open_source(session, self.source), request)
        query = source.query
        if sums.dedupes(request):
            query, _ = sums.without_repeats(session, source)
        columns = ["u", "p0", "p1", *(["t"] if source.timed else []), *(["w"] * source.local)]
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS SELECT {', '.join(columns)} "
            f"FROM ({query}) WHERE why = 0"
        )

    def _count_fine(self, session: Session, request: Request, grids: list[Cells]) -> None:
        """Count in slots of which every asked timeslot is a multiple."""
        lengths = [grid.seconds for grid in grids if grid.seconds is not None]
        grouping = sums.unit_keys(request.rules.unit)
        grouping["hexagon"] = session.hexagon("p0", "p1", grids[0].resolution)
        if lengths:
            wall = local_second("t", grids[0].timezone or "UTC")
            grouping["base"] = f"({wall} + 86400) // {math.gcd(*lengths)} * {math.gcd(*lengths)}"
        columns = ", ".join(f"{expression} AS {name}" for name, expression in grouping.items())
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {_FINE} AS SELECT {', '.join(grouping)}, count(*) AS n "
            f"FROM (SELECT {columns} FROM {_KEPT}) GROUP BY ALL"
        )

    def _facts(self, session: Session, request: Request, grid: Cells) -> PublicFacts | None:
        unit = {name: name for name in sums.unit_keys(request.rules.unit)}
        cell = {"hexagon": "hexagon"}
        if grid.seconds is not None:
            cell["slot"] = sums.slot("(base - 86400)", grid)
        grouping = sums.Keys(cell, unit)
        columns = ", ".join(f"{expression} AS {name}" for name, expression in grouping.all.items())
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {sums.PAIRS} AS SELECT "
            f"{', '.join(grouping.all)}, CAST(sum(n) AS BIGINT) AS n "
            f"FROM (SELECT {columns}, n FROM {_FINE}) GROUP BY ALL"
        )
        everything, _, used = sums.choose_cells(session, grouping, request.rules.select)
        if not used:
            return None
        occupancy, *_ = sums.in_order(sums.fetch_pairs(session, grouping, ()))
        counts = dict(self.facts.rules)
        counts.update(sums.cell_counts(everything, used, int(occupancy.n.sum())))
        return replace(
            self.facts,
            occupancy=occupancy,
            cells=sums.cell_table(session, grid, grouping),
            unit=request.rules.unit,
            rules=counts,
            identity={**self.facts.identity, "unit": request.rules.unit},
            recount=None,
        )
