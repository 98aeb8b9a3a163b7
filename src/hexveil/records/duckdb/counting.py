"""From a relation of records to the table of pairs, and how many records each rule left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.packing.packed_records import pack
from hexveil.records.duckdb.validation import UNPARSABLE, Checked, checked
from hexveil.records.feasible_sums import squares_fit

if TYPE_CHECKING:
    from hexveil.records.duckdb.session import Session
    from hexveil.records.duckdb.source import Relation
    from hexveil.records.read_request import Request


@dataclass(frozen=True)
class Counted:
    """What is known once the table of pairs is there, before cells are chosen.

    Attributes
    ----------
    request : Request
        With the version that is stated.
    records : Checked
        All records, for finding out what is wrong with them.
    grouping : Keys
        The keys of the table of pairs.
    left_out : dict of int to int
        Per reason (0: kept, repeats among them) how many records it covers.
    repeats : int
    """

    request: Request
    records: Checked
    grouping: aggregation.Keys
    left_out: dict[int, int]
    repeats: int


def count_all(session: Session, relation: Relation, request: Request) -> Counted:
    """Return the counts of all records of a source, in one pass; make the table of pairs."""
    records, rules = checked(session, relation, request, parse=True), request.rules
    grouping = aggregation.keys(session, rules.cells, rules.privacy_unit, records.places)
    left_out, repeats = count(session, records, grouping, request)
    left_out[UNPARSABLE] = left_out.get(UNPARSABLE, 0) + relation.skipped(session)
    return Counted(request, records, grouping, left_out, repeats)


def with_offsets(session: Session, records: Checked, request: Request) -> Request:
    """Return the request, with whether every kept time has an offset if that matters."""
    if not records.naive:
        return request
    some = f"SELECT 1 FROM ({records.query}) WHERE reject_reason = 0 AND naive LIMIT 1"
    without = int(str(session.rows(f"SELECT count(*) FROM ({some})")[0][0]))
    return replace(request, offsets=not without)


def count(
    session: Session, records: Checked, grouping: aggregation.Keys, request: Request
) -> tuple[dict[int, int], int]:
    """Return per reason how many checked records it covers, and repeats; make the table of pairs.

    Malformed lines are no records and are not counted here. Where pairs were packed, the functions
    of `sums` find them in the session instead of in the table.
    """
    query, repeats = records.query, 0
    if aggregation.dedupes(request):
        query, repeats = aggregation.without_repeats(session, records)
    rules = request.rules
    session.packed = pack(session, records, grouping, rules, alone=query != records.query)
    if session.packed is None:
        aggregation.make_pairs(session, query, grouping, squares=squares_fit(1, rules.scale))
    left_out = aggregation.reasons(session, grouping)
    left_out[0] = left_out.get(0, 0) + repeats
    return left_out, repeats
