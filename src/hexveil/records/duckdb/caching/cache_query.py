"""Query of a cached reading: all that shapes the table of an entry but its files, and its hash.

The hash is taken of the SQL that checks records, which follows from the types of columns and from
the request. Two readings with one hash make the same table of the same files, by either engine.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hexveil.records.duckdb import aggregation
from hexveil.records.duckdb.validation import ValidatedRecords, validate_records
from hexveil.records.feasible_sums import squares_fit
from hexveil.records.sources.cache import query_hash
from hexveil.records.units import CANONICAL_IDS
from hexveil.records.utc_offsets import END_OF_TIMES

if TYPE_CHECKING:
    from hexveil.model.public_metadata import FineBins
    from hexveil.records.duckdb.relation import Relation
    from hexveil.records.duckdb.session import Session
    from hexveil.records.read_request import ReadRequest

VIEW = "some_records"
"""The records that are looked at: of one group of files, or of all."""
_MADE_BY = ("hexveil", "duckdb", "h3ronpy")


@dataclass(frozen=True)
class CacheQuery:
    """Queries of a reading that name no file, and their hash.

    Attributes
    ----------
    session : Session
        With a view of rows like those of the relation.
    relation : Relation
    request : ReadRequest
    kind : str
        Kind of the files.
    terms : tuple of str
        What else shapes the tables, where another engine reads the files.
    view : str
        The view that queries read; part of the hash.
    """

    session: Session
    relation: Relation
    request: ReadRequest
    kind: str
    terms: tuple[str, ...] = ()
    view: str = VIEW

    @cached_property
    def _viewed(self) -> Relation:
        return replace(self.relation, query=f"SELECT * FROM {self.view}")

    @cached_property
    def checked(self) -> ValidatedRecords:
        """All rules."""
        return validate_records(self.session, self._viewed, self.request)

    @cached_property
    def undated(self) -> ValidatedRecords:
        """All rules but that of dates."""
        return validate_records(self.session, self._viewed, without_dates(self.request))

    @cached_property
    def grouping(self) -> aggregation.GroupKeys:
        """The keys of pairs."""
        rules = self.request.rules
        return aggregation.group_keys(
            self.session, rules.cells, rules.privacy_unit, self.undated.places
        )

    @cached_property
    def maker(self) -> str:
        """Versions of the software that makes tables."""
        # Another engine or H3 may parse a text or place a point differently: its sums are not
        # mixed.
        versions = (f"{name} {importlib.metadata.version(name)}" for name in _MADE_BY)
        return ", ".join(versions)

    @cached_property
    def hash(self) -> str:
        """Hash of all that shapes a table, but for dates."""
        return query_hash(
            [
                self.maker,
                CANONICAL_IDS,
                self.kind,
                self.request.format.describe(),
                self.undated.clocked,
                self.undated.query,
                asdict(self.grouping),
                self.request.repeats_rule,
                self.squares,
                *([] if self.bins is None else [self.bins.identity()]),
                *self.terms,
            ]
        )

    @property
    def bins(self) -> FineBins | None:
        """Bins that records are counted by; None without."""
        return self.request.rules.bins

    @property
    def n_bins(self) -> int:
        """How many there are; 0 without."""
        return 0 if self.bins is None else self.bins.n_bins

    @property
    def squares(self) -> bool:
        """Whether tables have sums of squares."""
        return squares_fit(1, self.request.rules.scale)

    @property
    def drops_repeats(self) -> bool:
        """Whether repeats are dropped."""
        return self.request.drops_repeats

    @property
    def timed(self) -> bool:
        """Whether the time span of files matters."""
        return self.drops_repeats or self.request.rules.select.dates is not None

    @property
    def span_query(self) -> str:
        """The query of the first and last usable instant, and local second; nulls without."""
        local = "min(local_s), max(local_s)" if self.undated.local else "NULL, NULL"
        return (
            f"SELECT min(time_us), max(time_us), {local} FROM ({self.undated.clocked}) "
            f"WHERE time_us BETWEEN 0 AND {END_OF_TIMES * 10**6 - 1}"
        )


def without_dates(request: ReadRequest) -> ReadRequest:
    """Return the request of the same records at any date."""
    select = replace(request.rules.select, dates=None)
    return replace(request, rules=replace(request.rules, select=select))
