"""One pass over a relation of records: pairs, and the number of records each rule rejected.

Several records of one user and time (repeats): one place of them counts, with its average.

Rule. The N records of a user and time that passed all other rules are put in the order of their
places. The record of rank md5(user, time) mod N, counted from 0, is drawn; its place counts, once,
with the average of all records of that user, time and place: whole quanta after clamping, rounded
to the nearest, a half up or down as the next bit of the hash says, (md5 div N) mod 2. Records of
the other places do not count.

1. *No value decides who is counted, where and how often.* The ranks of a place are an interval
   that numbers of records and the order of places determine; the drawn rank, and the bit, follow
   from user, time and N. Values take part in neither. Whether a record is among the N is decided
   before: by its user, time, place and whether its value is usable, all public under `"values"`.
2. *No other unit decides.* User, time, N and places are of one user and one instant, so of one
   unit (a user, or its day or week). Adding or removing the records of others changes nothing.
3. *A change of one unit's values changes its own sums alone*, and in each as one record does: an
   average of numbers in 0..span is in 0..span, and so it is after rounding, which is monotone and
   leaves whole numbers as they are. Sensitivities, which count records, hold as they are.
4. *No order of additions, and no engine.* The sum S of n whole numbers is exact in any order, and
   rounding is one whole division, (2 S + n - bit) div 2n: of all fractions of n the bit moves only
   halves.
5. *No direction is favoured.* The hash draws each of the N records with the same probability (up to
   N / 2^60), so that the place and its average are those of a record drawn at random: the rule
   biases no average of a cell. The smallest place and value would.

`records.sql` writes the same rule for warehouses; the tests compare both with plain Python, and
enumerate all small instances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hexveil.base.work_share import QUERY, READING, steps_of_work
from hexveil.records.duckdb import aggregation, fast_path
from hexveil.records.duckdb.aggregation import PairStore
from hexveil.records.duckdb.relation import Relation
from hexveil.records.duckdb.session import Session
from hexveil.records.duckdb.validation import UNPARSABLE, ValidatedRecords, validate_records
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.read_request import ReadRequest


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
    relation.check_files(())
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
    return replace(request, offsets=session.numbers(f"SELECT count(*) FROM ({naive})") == [0])


def count_records(
    session: Session, records: ValidatedRecords, keys: aggregation.GroupKeys, request: ReadRequest
) -> PairCounts:
    """Count validated records per cell and unit; malformed lines are no records."""
    query, repeats = records.query, 0
    if request.drops_repeats:
        # Before counting: a record that a vehicle sent twice must not weigh twice, nor use up its
        # cap.
        query, repeats = deduplicate(session, records)
    rules = request.rules
    records = replace(records, query=query)
    pairs = fast_path.pack(session, records, keys, request)
    if pairs is None:
        squares = squares_fit(1, rules.scale)
        with steps_of_work(READING, 0.5, 0.95, QUERY):
            pairs = aggregation.create_pairs(session, query, keys, squares=squares, bins=rules.bins)
    left_out = {0: pairs.left_out.get(0, 0) + repeats}
    return PairCounts(pairs, {**pairs.left_out, **left_out}, repeats)


DRAWN_DIGITS = 15
"""Hexadecimal digits of the hash that draws: as many as fit into 64 bits with a sign."""


def deduplicate(session: Session, source: ValidatedRecords) -> tuple[str, int]:
    """Drop repeats of a user and time; return the query of the rest and the number dropped.

    Few records usually share their user and time with another. These are found by a hash first,
    before any rule; a collision, or a twin that a rule leaves out, only suspects a record
    needlessly. Suspects are then resolved exactly.
    """
    session.run(
        "CREATE OR REPLACE TEMP TABLE suspects AS SELECT hash(user_id, time_us) AS record_hash "
        f"FROM ({source.raw}) WHERE user_id IS NOT NULL AND time_us IS NOT NULL "
        "GROUP BY record_hash HAVING count(*) > 1"
    )
    # The usual case: nothing is repeated, and the records are grouped as they are.
    if not session.rows("SELECT 1 FROM suspects LIMIT 1"):
        return source.query, 0
    # Kept records alone have a hash, so that one that a rule rejects cannot displace one that
    # counts.
    shared = f"SELECT * FROM ({_hashed(source)}) SEMI JOIN suspects USING (record_hash)"
    session.run(f"CREATE OR REPLACE TEMP TABLE resolved AS {_drawn(source, shared)}")
    dropped = session.numbers("SELECT coalesce(sum(n_records - 1)::BIGINT, 0) FROM resolved")
    wall = ["local_s"] * source.local
    columns = ", ".join(("reject_reason", "user_id", "time_us", *wall, *source.places, "quanta"))
    # A null hash, of a record that is left out, is never in the other table: it passes.
    query = (
        f"SELECT {columns} FROM ({_hashed(source)}) ANTI JOIN suspects USING (record_hash) "
        f"UNION ALL SELECT {columns} FROM resolved"
    )
    return query, dropped[0]


def _hashed(source: ValidatedRecords) -> str:
    return (
        "SELECT *, CASE WHEN reject_reason = 0 THEN hash(user_id, time_us) END AS record_hash "
        f"FROM ({source.query})"
    )


def _drawn(source: ValidatedRecords, query: str) -> str:
    """Return the query of one record per (user, time), with the number of repeats `n_records`."""
    # Any value: the wall clock follows from the instant, which all repeats share.
    wall = ("any_value(local_s) AS local_s, ", "local_s, ") if source.local else ("", "")
    of_user, places = "PARTITION BY user_id, time_us", ", ".join(source.places)
    drawn = f"CAST('0x' || md5(user_id || ' ' || time_us)[:{DRAWN_DIGITS}] AS BIGINT)"
    return (
        f"SELECT CAST(0 AS TINYINT) AS reject_reason, user_id, time_us, {wall[1]}{places}, "
        "CAST((2 * total + n - drawn // n_records % 2) // (2 * n) AS BIGINT) AS quanta, n_records "
        f"FROM (SELECT *, {drawn} AS drawn, sum(n) OVER ({of_user}) AS n_records, "
        f"sum(n) OVER ({of_user} ORDER BY {places} ROWS UNBOUNDED PRECEDING) AS upto FROM ("
        f"SELECT user_id, time_us, {wall[0]}{places}, count(*) AS n, sum(quanta) AS total "
        f"FROM ({query}) GROUP BY user_id, time_us, {places})"
        f") WHERE drawn % n_records BETWEEN upto - n AND upto - 1"
    )
