"""One query that makes the table of `from_sums` from a table of records, in four dialects.

By the rules of reading (docs/reference/python.md), as in `records.duckdb.validation`: unusable
records, then drop_values, hours, dates and box leave; values are clamped, rounded to the quantum
half away from zero, and clamped again; of several with the same user and time one place counts,
with its average (`records.duckdb.counting` has the rule and the proof).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.cells import ALL_RECORDS, DAY, Cells, Labels, OneCell
from hexveil.records.feasible_sums import bin_number, decimal_format, squares_fit
from hexveil.records.read_request import ReadRequest, Rules
from hexveil.records.sql.dialects import Dialect, dialect_named
from hexveil.records.sums_table import check_labels

_FILES = (".parquet", ".pq", ".csv", ".tsv", ".gz", ".json", ".jsonl", ".ndjson")
_LARGEST = 1.7976931348623157e308


@dataclass(frozen=True)
class SumsQuery:
    """The query that makes sums per (cell, user) from records.

    Attributes
    ----------
    source : str
        A table's name, dots between its parts; or a file, which DuckDB reads by itself and other
        engines are assumed to have loaded into a table named like it.
    request : ReadRequest
        Columns and rules, as for reading.
    is_private : bool
        Whether presence is private.
    """

    source: str
    request: ReadRequest
    is_private: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source:
            raise InputError(f"source must be the name of one table or file, got {self.source!r}.")
        if len(self.request.columns.times) > 1:
            raise InputError(
                "time: a query takes one column of times; make one of the two where it runs, for "
                "example in a view."
            )
        check_labels(self.request.rules.cells, by_bin=bool(self.request.rules.terms))

    def render(self, dialect: str) -> str:
        """Return the query as text, for "duckdb", "postgres", "bigquery" or "spark".

        Raises
        ------
        InputError
            If there is no such dialect.
        """
        return _Writer(self, dialect_named(dialect), dialect).text()


class _Writer:
    """Writes one query in one dialect, step by step."""

    def __init__(self, query: SumsQuery, dialect: Dialect, name: str) -> None:
        self._query, self._sql, self._name = query, dialect, name
        self._columns, self._rules = query.request.columns, query.request.rules
        cells = self._rules.cells
        self._grid = cells if isinstance(cells, Cells) else None
        self._labels = () if isinstance(cells, Cells) else cells.columns
        # The last steps hold the rounded value, in quanta and as a decimal, beside the labels.
        self._k, self._x = (
            _unused_name(name, self._labels) for name in ("quanta", "rounded_value")
        )
        self._placed = self._grid is not None or self._rules.select.box is not None
        self._local = _needs_wall(self._rules)
        self._decimals = (
            decimal_format(self._rules.scale) if squares_fit(1, self._rules.scale) else None
        )
        self._dedupes = self._rules.repeats == "drop" and self._columns.time is not None

    def text(self) -> str:
        steps = {
            "records": self._records(),
            "identified": self._identified(),
            "usable": self._usable(),
            "selected": self._selected(),
        }
        if self._dedupes:
            steps |= {"counted": self._counted(), "averaged": self._averaged()}
        steps["keyed"] = self._keyed(next(reversed(steps)))
        written = ",\n".join(f"{name} AS (\n{body}\n)" for name, body in steps.items())
        return f"{self._comment()}\nWITH {written}\n{self._sums()};\n"

    def _records(self) -> str:
        """Return the columns of a record, by the names the later steps use."""
        sql, columns = self._sql, self._columns
        selected = {"value": sql.value.format(x=sql.name(columns.value), double=sql.double)}
        selected["user_id"] = f"CAST({sql.name(columns.user)} AS {sql.text})"
        selected["id_kind"] = sql.id_kind(sql.name(columns.user))
        for time in columns.times:
            selected["observed_at"] = f"CAST({sql.name(time)} AS {sql.instant})"
        if self._placed:
            selected |= self._place()
        selected |= {f"label{i}": self._label(name) for i, name in enumerate(self._labels)}
        return _select(selected, self._from())

    def _identified(self) -> str:
        """Return the records with canonical ids: floats and decimals are texts of one form."""
        placed = ["lat", "lon"] * self._placed
        timed = ["observed_at"] * (self._columns.time is not None)
        selected = {name: name for name in ("value", *timed, *placed, *self._labelled())}
        return _select({"user_id": self._sql.user_id("user_id", "id_kind")} | selected, "records")

    def _label(self, name: str) -> str:
        if isinstance(self._rules.cells, OneCell):
            return f"'{ALL_RECORDS}'"
        return f"NULLIF(CAST({self._sql.name(name)} AS {self._sql.text}), '')"

    def _place(self) -> dict[str, str]:
        sql, columns = self._sql, self._columns
        if columns.location is not None:
            location = sql.name(columns.location)
            lat, lon = (sql.element.format(x=location, i=i) for i in (1, 0))
        else:
            lat, lon = sql.name(columns.lat or ""), sql.name(columns.lon or "")
        return {"lat": f"CAST({lat} AS {sql.double})", "lon": f"CAST({lon} AS {sql.double})"}

    def _from(self) -> str:
        sql, source, user = self._sql, self._query.source, self._columns.user
        if not _is_path(source):
            return ".".join(sql.name(expression) for expression in source.split("."))
        if self._name != "duckdb":
            return sql.name(PurePath(source).name.partition(".")[0] or "records")
        if not source.lower().endswith(_FILES):
            raise InputError(
                f"source: a query cannot read the folder {source!r}; name its files, for example "
                f"{str(PurePath(source) / '*.parquet')!r}."
            )
        if source.lower().removesuffix(".gz").endswith((".csv", ".tsv")):
            # Guessed types would respell ids, such as 007.
            return f"read_csv({sql.literal(source)}, types={{{sql.literal(user)}: 'VARCHAR'}})"
        return sql.literal(source)

    def _usable(self) -> str:
        """Return the usable records with the clamped value in quanta and the wall clock."""
        scale = self._rules.scale
        low, high = (_number(float(bound)) for bound in (scale.lower, scale.upper))
        top, bottom = (
            _number(float(expression))
            for expression in (scale.quantum.denominator, scale.quantum.numerator)
        )
        selected = self._pass_through(["observed_at"] * self._dedupes)
        if self._local:
            zone = self._sql.literal(self._rules.clock or "")
            selected["local_s"] = self._sql.wall.format(t="observed_at", zone=zone)
        # Clamped before it is scaled, as in reading: no product can overflow, so no value fails.
        selected["scaled_value"] = f"LEAST(GREATEST(value, {low}), {high}) * {top} / {bottom}"
        return _select(selected, "identified", self._tests())

    def _pass_through(self, extra: list[str]) -> dict[str, str]:
        """Return the columns that pass from step to step unchanged."""
        return {name: name for name in ("user_id", *extra, *self._places())}

    def _labelled(self) -> list[str]:
        return [f"label{i}" for i in range(len(self._labels))]

    def _places(self) -> list[str]:
        return self._labelled() or ["lat", "lon"]

    def _tests(self) -> list[str]:
        # Infinity and NaN fail the comparison in each dialect; not all have a function for them.
        tests = [f"ABS(value) <= {_number(_LARGEST)}", "user_id IS NOT NULL"]
        if self._columns.time is not None:
            tests += [
                f"observed_at >= {self._instant(1970)}",
                f"observed_at < {self._instant(2100)}",
            ]
        tests += [f"{name} IS NOT NULL" for name in self._labelled()]
        if self._placed:
            tests += ["lat BETWEEN -90 AND 90", "lon BETWEEN -180 AND 180"]
        select = self._rules.select
        if select.drop_values:
            odd = ", ".join(_number(float(value)) for value in select.drop_values)
            tests.append(f"value NOT IN ({odd})")
        if select.box is not None:
            west, south, east, north = (_number(side) for side in select.box)
            tests += [f"lon BETWEEN {west} AND {east}", f"lat BETWEEN {south} AND {north}"]
        return tests

    def _instant(self, year: int) -> str:
        return f"CAST('{year}-01-01 00:00:00+00:00' AS {self._sql.instant})"

    def _selected(self) -> str:
        """Return the records within the hours and dates, with the rounded value in `quanta`."""
        sql, scale, select = self._sql, self._rules.scale, self._rules.select
        selected = self._pass_through(
            [*(["observed_at"] * self._dedupes), *(["local_s"] * self._local)]
        )
        location = f"CAST({sql.rounded.format(x='scaled_value')} AS {sql.integer})"
        lowest, highest = (int(bound / scale.quantum) for bound in (scale.lower, scale.upper))
        selected["quanta"] = f"LEAST(GREATEST({location}, {lowest}), {highest})"
        tests = []
        if select.hours is not None:
            # The start of the local hour, in seconds since midnight.
            hours = ", ".join(str(hour * 3600) for hour in select.hours)
            tests.append(f"MOD(local_s + {DAY}, {DAY}) - MOD(local_s + {DAY}, 3600) IN ({hours})")
        if select.days is not None:
            start, end = select.days
            tests.append(f"local_s BETWEEN {start * DAY} AND {end * DAY + DAY - 1}")
        return _select(selected, "usable", tests)

    def _counted(self) -> str:
        """Return the records with numbers and sums of repeats, and the hash that draws one."""
        sql, user_time = self._sql, "PARTITION BY user_id, observed_at"
        collate = sql.by_bytes if self._labels else ""
        places = ", ".join(f"{name}{collate}" for name in self._places())
        at_place = f"OVER ({user_time}, {', '.join(self._places())})"
        # From the lower bound, so that no sum is negative: divisions round down.
        lowest = int(self._rules.scale.lower / self._rules.scale.quantum)
        above = sql.total.format(k=f"quanta - ({lowest})")
        drawn = sql.drawn.format(t=f"CONCAT(user_id, ' ', {sql.micros.format(t='observed_at')})")
        selected = self._pass_through(["local_s"] * self._local) | {
            "place_records": f"COUNT(*) {at_place}",
            "place_quanta": f"{above}\n  {at_place}",
            # The value orders records of one place alone, whose average does not depend on it.
            "place_rank": f"ROW_NUMBER() OVER ({user_time} ORDER BY {places}, quanta)",
            "repeats": f"COUNT(*) OVER ({user_time})",
            "drawn": drawn,
        }
        return _select(selected, "selected")

    def _averaged(self) -> str:
        """Return one record of each user and time, with the average of the place that is drawn."""
        selected = self._pass_through(["local_s"] * self._local)
        lowest = int(self._rules.scale.lower / self._rules.scale.quantum)
        divided = self._sql.quotient.format
        half_down = f"MOD({divided(a='drawn', b='repeats')}, 2)"
        average = divided(
            a=f"(2 * place_quanta + place_records - {half_down})", b="(2 * place_records)"
        )
        selected["quanta"] = f"CAST({average} AS {self._sql.integer}) + ({lowest})"
        return _select(selected, "counted", ["place_rank = MOD(drawn, repeats) + 1"])

    def _keyed(self, source: str) -> str:
        """Return the records by cell and privacy unit."""
        selected = {self._sql.name(name): expression for name, expression in self._cell().items()}
        selected |= {self._sql.name("user"): self._unit(), self._k: "quanta", **self._exact()}
        return _select(selected, source)

    def _cell(self) -> dict[str, str]:
        cells = self._rules.cells
        if not isinstance(cells, Cells):
            return {name: f"label{i}" for i, name in enumerate(self._labels)}
        place = {"lat": "lat", "lon": "lon", "resolution": cells.resolution}
        selected = {"hexagon": self._sql.hexagon.format(**place)}
        if cells.seconds is not None:
            # Shifted by a day, since remainders of negative numbers are negative.
            start = f"local_s - MOD(local_s + {DAY}, {cells.seconds})"
            selected["slot"] = self._sql.starts[cells.slot].format(s=start)
        return selected

    def _unit(self) -> str:
        """Return the id of the privacy unit: the user, and its day or its week's Monday."""
        unit = self._rules.privacy_unit
        if unit == "user":
            return "user_id"
        # 1970-01-01 was a Thursday, three days after a Monday.
        past, length = (DAY, DAY) if unit == "user-day" else (10 * DAY, 7 * DAY)
        day = self._sql.starts["day"].format(s=f"local_s - MOD(local_s + {past}, {length})")
        return f"CONCAT(user_id, ' ', {day})"

    def _exact(self) -> dict[str, str]:
        """Return the rounded value as a decimal, where its squares fit one."""
        form = self._decimals
        if form is None:
            return {}
        kinds = ((form.digits, 0), (form.width, form.places))
        k, unit = (self._sql.decimal.format(width=w, places=p) for w, p in kinds)
        quantum = decimal_text(self._rules.scale.quantum)
        return {self._x: f"CAST(quanta AS {k}) * CAST('{quantum}' AS {unit})"}

    def _squares(self) -> dict[str, str]:
        """Return the sum of squares; none where from_sums could not keep it."""
        sql, scale = self._sql, self._rules.scale
        if not squares_fit(1, scale):
            return {}
        if self._decimals is not None:
            # About 0, in value units: readable by whoever makes the table, and independent of the
            # bounds.
            return {sql.name("sum_sq"): f"SUM({self._x} * {self._x})"}
        # No decimal text ends: as near as a double comes.
        terms = (scale.quantum.numerator, scale.quantum.denominator)
        top, bottom = (_number(float(expression)) for expression in terms)
        k = f"CAST({self._k} AS {sql.double})"
        return {sql.name("sum_sq"): f"SUM({k} * {k}) * {top} / {bottom} * {top} / {bottom}"}

    def _sums(self) -> str:
        sql, quantum = self._sql, self._rules.scale.quantum
        names = [sql.name(name) for name in (*self._cell(), "user")]
        top, bottom = _number(float(quantum.numerator)), _number(float(quantum.denominator))
        # Whole quanta are added up, and only the sum is scaled: the order of rows changes nothing.
        summed = sql.total.format(k=self._k)
        total = f"CAST({summed} AS {sql.double}) * {top} / {bottom}"
        selected = {name: name for name in names} | {"n": "COUNT(*)", sql.name("sum"): total}
        selected |= self._squares()
        # A row per bin as well, which from_sums adds up again.
        fine_bin = self._fine_bin()
        selected |= {sql.name("bin"): expression for expression in fine_bin}
        return f"{_select(selected, 'keyed', indent='')}\nGROUP BY {', '.join([*names, *fine_bin])}"

    def _fine_bin(self) -> list[str]:
        """Return the expression of the value's bin, where records are counted by bin."""
        bins, scale = self._rules.bins, self._rules.scale
        if bins is None:
            return []
        lowest = int(scale.lower / scale.quantum)
        return [bin_number(self._k, (bins.edges + lowest).tolist())]

    def _comment(self) -> str:
        return "\n".join(f"-- {line}" for line in self._comment_lines())

    def _comment_lines(self) -> Iterable[str]:
        rules, columns = self._rules, self._columns
        scale, is_private = rules.scale, self._query.is_private
        unit = rules.privacy_unit
        yield f"Sums per cell and {unit}, for hexveil ({self._name}). Pass the result to:"
        bounds = f"({decimal_text(scale.lower)}, {decimal_text(scale.upper)})"
        yield (
            f"  hv.from_sums(table, bounds={bounds}, quantum={decimal_text(scale.quantum)!r}, "
            f"privacy_unit={rules.privacy_unit!r},"
        )
        yield f"               cells=hv.{_python_call(rules.cells, is_private=is_private)},"
        yield f"               {self._options()})"
        if isinstance(rules.cells, Cells):
            yield f"Needs {self._sql.extension}"
        yield f"{columns.value!r} must be a column of numbers: text is not parsed. Unusable records"
        yield "are left out, however many they are (max_bad_rows is not applied)."
        if columns.time is not None:
            yield f"{columns.time!r} must hold instants (times with an offset, or in UTC)."
        if self._dedupes:
            yield "Repeats of a user and time are averaged, however many (no max_repeats)."
        if columns.location is not None:
            yield f"{columns.location!r} must be a list of numbers, longitude first."
        yield f"{columns.user!r} may be text or numbers: 7, 7.0 and 7.00 are one user; floats that"
        yield 'are not whole, or not exact, are none; of text "7.0" is "7", the rest is as it is.'
        if "." in columns.describe():
            yield "A name with dots is taken as one column's: give nested fields a name in a view."
        if self._decimals is not None:
            yield "Keep sum_sq a decimal, or text, on its way: a double may be too short for it."
        if is_private:
            yield "area and values as declared for reading; from_sums leaves out all other cells."
        else:
            yield "min_users and top are applied by from_sums."

    def _options(self) -> str:
        """Return the arguments of `from_sums` that depend on the privacy model, as Python."""
        select, terms = self._rules.select, [term.text for term in self._rules.terms]
        arguments = f", statistics={terms!r}" if terms else ""
        # An account takes sums and records of the same ids.
        arguments += f", id_space={self._query.request.id_space!r}"
        if self._query.is_private:
            dates = "" if select.dates is None else f", dates={select.dates!r}"
            return f'protect="presence"{dates}{arguments}'
        top = "" if select.top is None else f", top={select.top}"
        return f"min_users={select.min_users}{top}{arguments}"


def _unused_name(name: str, used_names: Iterable[str]) -> str:
    """Return a name that differs from all used ones, also without regard to case."""
    while name in {used.lower() for used in used_names}:
        name += "_"
    return name


def _needs_wall(rules: Rules) -> bool:
    """Return whether the local wall clock of a record is needed."""
    slots = isinstance(rules.cells, Cells) and rules.cells.seconds is not None
    selects = rules.select.hours is not None or rules.select.dates is not None
    return slots or selects or rules.privacy_unit != "user"


def _python_call(cells: Cells | Labels, *, is_private: bool) -> str:
    """Return the cells as they are written in Python; declarations, which may be long, as dots."""
    if isinstance(cells, OneCell):
        return "OneCell()"
    if isinstance(cells, Cells):
        return f"{repr(cells)[:-1]}, area=...)" if is_private else repr(cells)
    values = ", values=..." if is_private else ""
    return f"Labels({', '.join(map(repr, cells.columns))}{values})"


def _is_path(source: str) -> bool:
    """Return whether a source is a file or folder rather than a table."""
    return source.lower().endswith(_FILES) or any(mark in source for mark in "/\\*")


def _number(value: float) -> str:
    """Return a double that every dialect reads back exactly, as a double."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _select(
    columns: dict[str, str], source: str, tests: Iterable[str] = (), indent: str = "  "
) -> str:
    """Return a SELECT, a line for each column and each test."""
    select_list = (
        expression if expression == name else f"{expression} AS {name}"
        for name, expression in columns.items()
    )
    text = f"SELECT\n  {f',{chr(10)}  '.join(select_list)}\nFROM {source}"
    condition = "\n  AND ".join(tests)
    text += f"\nWHERE {condition}" if condition else ""
    return "\n".join(indent + line for line in text.split("\n"))
