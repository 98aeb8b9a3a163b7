"""Count the same records on other grids, for capacity tables; no value is read.

The places, times and units that stay after the rules are put in a temporary table once, units by
number; then one statement per resolution counts them in slots of the finest length asked, and every
timeslot adds up from there by the statement that adds up cached tables, too
(`aggregation.number_pairs`). Labels are counted once by all columns, and every choice of columns
adds up from there. Grids come one after another: the pairs of one are in memory at a time, and the
engine's tables are on disk meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from hexveil.base.errors import InputError
from hexveil.base.work_share import COUNTING, QUERY, share_of_work
from hexveil.model.cells import Cells, Labels
from hexveil.model.occupancy import Occupancy
from hexveil.model.public_metadata import PublicMetadata, Unit
from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.counting import deduplicate
from hexveil.records.duckdb.refusals import pairs_exceed
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.source import open_source
from hexveil.records.duckdb.spilled_pairs import spill_occupancy
from hexveil.records.duckdb.times import local_second
from hexveil.records.duckdb.validation import validate_records
from hexveil.records.progress import show_progress
from hexveil.records.read_request import ReadRequest, memory_size
from hexveil.records.select import selection_counts
from hexveil.records.sources.source_files import Files, MemoryTable

KEEPING_SHARE = 0.8
"""Share of the first grid's counting that reading the records again takes, about."""
_KEPT = "kept_records"
_UNIT = {"kept_unit": "kept_unit"}
"""Key of a kept record's unit: its number in the order of ids, then days."""
FINE = "fine_counts"
LEAST_ENGINE = 10**9
"""Bytes that the engine may use for counts, if a quarter of the memory is less."""


@dataclass(frozen=True, repr=False)
class DuckDBRegridder:
    """Counts the records of a source on other grids; see `hexveil.model.public_metadata.Recount`.

    Attributes
    ----------
    source : Files or MemoryTable
    request : ReadRequest
        As the data set was read.
    facts : PublicMetadata
        Of the data set, without its own `recount`.
    """

    source: Files | MemoryTable
    request: ReadRequest
    facts: PublicMetadata

    def __call__(
        self, grids: tuple[Cells | Labels, ...], privacy_unit: Unit
    ) -> Iterator[PublicMetadata | None]:
        """Yield the public metadata on each grid; None if no cell is left after selection."""
        rules = replace(self.request.rules, privacy_unit=privacy_unit)
        request = replace(self.request, rules=rules)
        refuse_slots(grids, request)
        return self._on_grids(grids, request)

    def _on_grids(
        self, grids: tuple[Cells | Labels, ...], request: ReadRequest
    ) -> Iterator[PublicMetadata | None]:
        """Yield the metadata on each grid, one after another."""
        size = memory_size(request.memory)
        # The rest is for pairs beside the engine.
        memory = f"{min(size, max(size / 4.0, LEAST_ENGINE)) / 1000.0:.0f}KB"
        with Session(memory, scratch=request.scratch) as session:
            with show_progress(COUNTING), share_of_work(COUNTING, 0.0, KEEPING_SHARE, QUERY):
                self._keep(session, request)
            for _, group in groupby(grids, _fine):
                for found in _facts_of_group(session, request, self.facts, list(group)):
                    # Whoever looks at this grid has the memory: its pairs have no name here, and
                    # the engine's tables go to disk.
                    with session.resting():
                        yield found.pop()

    def _keep(self, session: Session, request: ReadRequest) -> None:
        # Repeats are looked for in all records, and only then is one of each kept.
        drop = request.drops_repeats
        # Of repeats the one of smallest place stays: values break ties alone, and change no count.
        relation = open_source(session, self.source, request.column_names, request.format)
        relation.check_files(())
        source = validate_records(session, relation, request, parse=drop)
        if drop:
            query, _ = deduplicate(session, source)
            source = replace(source, query=query)
        places = [*source.places, *["time_us"] * source.timed, *["local_s"] * source.local]
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS SELECT user_id, "
            f"{', '.join(places)} FROM ({source.query}) WHERE reject_reason = 0"
        )
        unit = aggregation.unit_keys(request.rules.privacy_unit)
        keys = ", ".join(f"{expression} AS {name}" for name, expression in unit.items())
        session.run(
            f"CREATE OR REPLACE TEMP TABLE kept_units AS SELECT *, CAST(row_number() OVER (ORDER "
            f"BY {', '.join(unit)}) - 1 AS INTEGER) AS kept_unit "
            f"FROM (SELECT DISTINCT {keys} FROM {_KEPT})"
        )
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS SELECT kept_unit, {', '.join(places)} FROM "
            f"(SELECT {keys}, {', '.join(places)} FROM {_KEPT}) JOIN kept_units "
            f"USING ({', '.join(unit)})"
        )


def _facts_of_group(
    session: Session, request: ReadRequest, own: PublicMetadata, grids: list[Cells | Labels]
) -> Iterator[list[PublicMetadata | None]]:
    """Yield the metadata on each grid of one fine count.

    Alone in a list, which the caller empties so that nothing here keeps them.
    """
    with show_progress(COUNTING):
        keys = _UNIT | _fine_places(session, request, grids)
        columns = ", ".join(f"{expression} AS {name}" for name, expression in keys.items())
        session.run(
            f"CREATE OR REPLACE TEMP TABLE {FINE} AS SELECT {', '.join(keys)}, count(*) AS n "
            f"FROM (SELECT {columns} FROM {_KEPT}) GROUP BY ALL"
        )
    for grid in grids:
        with show_progress(COUNTING):
            found = [_facts_on(session, request, own, grid)]
        yield found


def _facts_on(
    session: Session, request: ReadRequest, own: PublicMetadata, grid: Cells | Labels
) -> PublicMetadata | None:
    """Return the metadata on a grid, added up from the fine counts; None without a cell."""
    if isinstance(grid, Cells):
        cell = {"hexagon": "hexagon"}
        if grid.seconds is not None:
            # `base` is shifted by a day, as whole-number division rounds towards zero.
            cell["slot"] = aggregation.slot("(base - 86400)", grid)
    else:
        places = _label_places(request)
        cell = {f"label{i}": places[name] for i, name in enumerate(grid.columns)}
    keys = aggregation.GroupKeys(cell, _UNIT)
    columns = ", ".join(f"{expression} AS {name}" for name, expression in keys.all.items())
    fine = f"(SELECT {columns}, n FROM {FINE})"
    return facts_of_pairs(
        session, request, own, grid, aggregation.number_pairs(session, fine, keys, (), {})
    )


def facts_of_pairs(
    session: Session,
    request: ReadRequest,
    own: PublicMetadata,
    grid: Cells | Labels,
    pairs: aggregation.PairStore,
) -> PublicMetadata | None:
    """Return the metadata of the pairs on a grid, which are used up; None without a cell."""
    keys = pairs.keys
    everything, _, used = aggregation.select_cells(session, keys, request.rules.select)
    if not used:
        return None
    cells = aggregation.cell_table(session, grid, keys)
    # By the memory of the data set: the engine has a part of it.
    memory, n_pairs = memory_size(request.memory), aggregation.count_pairs(session, keys)
    held = own.occupancy.n_pairs if own.occupancy.is_local else 0
    occupancy: Occupancy
    if pairs_exceed(memory, n_pairs, held):
        occupancy = spill_occupancy(session, pairs, request.scratch)
        session.forget(aggregation.NUMBERED_PAIRS)
    else:
        occupancy, _ = aggregation.to_occupancy(pairs.fetch_pairs(()))
    session.forget(aggregation.PAIRS)
    privacy_unit = request.rules.privacy_unit
    counts = selection_counts(everything, occupancy.n_cells, occupancy.n_records)
    return replace(
        own,
        occupancy=occupancy,
        cells=cells,
        privacy_unit=privacy_unit,
        rules={**own.rules, **counts},
        identity={**own.identity, "privacy_unit": privacy_unit},
        recount=None,
    )


def refuse_slots(grids: tuple[Cells | Labels, ...], request: ReadRequest) -> None:
    """Raise InputError if slots are asked for of records without a time."""
    if request.columns.time is None and any(
        isinstance(grid, Cells) and grid.timeslot is not None for grid in grids
    ):
        raise InputError("timeslots need times; these records were read without.")


def _fine(grid: Cells | Labels) -> tuple[int, str | None] | None:
    """Return the key of a grid's fine count: resolution and time zone; None for labels."""
    # Not from one resolution to a coarser one: H3's hexagons do not lie within their parents.
    return (grid.resolution, grid.timezone) if isinstance(grid, Cells) else None


def _label_places(request: ReadRequest) -> dict[str, str]:
    """Return the column of each label in the validating query."""
    assert isinstance(request.rules.cells, Labels)  # noqa: S101  labels are merged from labels
    return {name: f"place{i}" for i, name in enumerate(request.rules.cells.columns)}


def _fine_places(
    session: Session, request: ReadRequest, grids: list[Cells | Labels]
) -> dict[str, str]:
    """Return the keys of places: all labels, or the hexagon and a slot that divides all slots."""
    hexagons = [grid for grid in grids if isinstance(grid, Cells)]
    if not hexagons:
        return {place: place for place in _label_places(request).values()}
    keys = {"hexagon": session.hexagon("place0", "place1", hexagons[0].resolution)}
    lengths = [grid.seconds for grid in hexagons if grid.seconds is not None]
    if lengths:
        timezone = hexagons[0].timezone or "UTC"
        # Kept records have the wall clock of the request.
        is_same = timezone == request.rules.clock
        wall = "local_s" if is_same else local_second("time_us", timezone)
        # The greatest common divisor: every requested slot is made of whole slots of this length.
        keys["base"] = f"({wall} + 86400) // {math.gcd(*lengths)} * {math.gcd(*lengths)}"
    return keys
