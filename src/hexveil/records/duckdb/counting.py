"""One pass over a relation of records: pairs, and the number of records each rule rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexveil.base.work_share import QUERY, READING, steps_of_work
from hexveil.records.duckdb import aggregation, fast_path, record_repeats
from hexveil.records.duckdb.pair_store import PairStore
from hexveil.records.duckdb.validation import UNPARSABLE, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import squares_fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest, Rules


@dataclass(frozen=True)
class PairCounts:
    """Pairs of a set of records, and public counts of these records.

    Attributes
    ----------
    pairs : PairStore
        Private.
    left_out : dict of int to int
        Records per reject reason (0: kept, repeats included).
    repeats : int
    """

    pairs: PairStore
    left_out: dict[int, int]
    repeats: int

    def with_malformed(self, n: int) -> PairCounts:
        """Return the counts with malformed lines, which are known only once they were scanned."""
        malformed = {UNPARSABLE: self.left_out.get(UNPARSABLE, 0) + n}
        return replace(self, left_out=self.left_out | malformed)


@dataclass(frozen=True)
class CountResult:
    """State of a reading once its pairs are counted, before cells are selected.

    Attributes
    ----------
    request : ReadRequest
        With the declared version.
    records : ValidatedRecords
        All records, to explain a refusal.
    counts : PairCounts
    """

    request: ReadRequest
    records: ValidatedRecords
    counts: PairCounts


def count_source(session: Session, relation: Relation, request: ReadRequest) -> CountResult:
    """Count all records of a source, in one pass."""
    relation.load_files()
    # Of text alone: it is parsed into a table.
    with steps_of_work(READING, 0.0, 0.5, QUERY):
        records, rules = validate_records(session, relation, request, parse=True), request.rules
    keys = aggregation.group_keys(session, rules.cells, rules.privacy_unit, records.places)
    counts = count_records(session, records, keys, request)
    return CountResult(request, records, counts.with_malformed(relation.skipped()))


def check_offsets(session: Session, records: ValidatedRecords, request: ReadRequest) -> ReadRequest:
    """Return the request with `offsets` set, where the identity of the reading depends on it."""
    if not records.naive:
        return request
    # Counted, so that Spark can add up what its tasks find; one such record decides.
    naive = f"SELECT 1 FROM ({records.query}) WHERE reject_reason = 0 AND naive LIMIT 1"
    n_naive = int(str(session.rows(f"SELECT count(*) FROM ({naive})")[0][0]))
    return replace(request, offsets=not n_naive)


def count_records(
    session: Session,
    records: ValidatedRecords,
    keys: aggregation.GroupKeys,
    request: ReadRequest,
) -> PairCounts:
    """Count validated records per cell and unit; malformed lines are no records."""
    query, repeats = records.query, 0
    # Counted once; where columns are not scanned alone it would take another reading.
    n_records = aggregation.count_raw(session, records) if records.columnar else None
    if request.drops_repeats:
        # Before counting: a record that a vehicle sent twice must not weigh twice, nor use up its
        # cap.
        query, repeats = record_repeats.deduplicate(session, records, n_records)
    rules = request.rules
    records = replace(records, query=query)
    pairs = fast_path.pack(session, records, keys, rules, n_records)
    if pairs is None:
        # If not even one square fits, no sum of squares will: it is not computed at all.
        squares = squares_fit(1, rules.scale)
        with steps_of_work(READING, 0.5, 0.95, QUERY):
            left_out = aggregation.create_pairs(
                session, query, keys, squares=squares, bins=rules.bins
            )
        pairs = PairStore(session, keys, left_out)
    kept = {0: pairs.left_out.get(0, 0) + repeats}
    return PairCounts(pairs, {**pairs.left_out, **kept}, repeats)


def add_up(
    session: Session,
    rows: str,
    keys: aggregation.GroupKeys,
    rules: Rules,
    sums: Sequence[str],
    left_out: Mapping[int, int],
) -> PairStore:
    """Return the sum of rows of pairs, or of pairs and bins, by columns that are named as keys.

    Parameters
    ----------
    session : Session
    rows : str
        What stands after FROM.
    keys : GroupKeys
    rules : Rules
    sums : sequence of str
        Names of the sums that the rows have beside their counts.
    left_out : mapping of int to int
        Per reason (0: kept) how many records it covers.
    """
    found = fast_path.add_up(session, rows, keys, rules, sums, left_out)
    if found is not None:
        return found
    by_bin = rules.bins is not None
    aggregation.number_pairs(session, rows, keys, sums, by_bin=by_bin)
    return PairStore(session, keys, left_out)
