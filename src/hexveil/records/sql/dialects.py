"""Differences of four SQL dialects, for the query that makes a table of sums.

Templates hold `{x}` and the like. A local wall clock is whole seconds since 1970 on that clock,
so that flooring to slots is the same arithmetic everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from hexveil.base.errors import InputError
from hexveil.records.units import WHOLE_WITH_ZEROS

DialectName = Literal["duckdb", "postgres", "bigquery", "spark"]
StartName = Literal["calendar", "pooled", "day"]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """SQL syntax of one engine, as far as the query needs it.

    Attributes
    ----------
    double, integer, text, instant : str
        Names of types.
    decimal : str
        The type of decimals of at least `{width}` digits, `{places}` of them behind the point.
    mark : str
        What encloses a name.
    backslashes : bool
        Whether a backslash in text and, between backticks, in a name is an escape.
    rounded : str
        A double `{x}` to the nearest whole number, halves away from zero.
    wall : str
        The local wall clock of instant `{t}` in `{zone}`, in seconds.
    starts : mapping
        Text of `{s}` seconds of a wall clock: a slot's start, or a day.
    hexagon : str
        The H3 cell of `{lat}`, `{lon}` at `{resolution}`.
    extension : str
        What `hexagon` needs.
    element : str
        Element `{i}` (from 0) of the list `{x}`, null where there is none.
    floats : mapping of int to str
        By the bits of a float's significand: whether the column `{x}` holds such floats.
    parsed, integral : str
        The double in the text `{t}` of a float, and a whole number near the double `{x}`, which
        is of 64 bits; where an engine may evaluate them for other ids, they are null there.
    decimals : str
        Whether the column `{x}` holds decimals whose text may end in zeros; empty where none does.
    trimmed : str
        The text `{t}` of a decimal without zeros that end its fraction.
    matches : str
        Whether the text `{t}` fits a pattern.
    boolean : str
        Whether the column `{x}` holds true and false, which are no ids.
    by_bytes : str
        What makes text sort by its bytes.
    value : str
        The column of numbers `{x}` as a double, which no number can make fail. Where an engine
        refuses products that come to nothing, numbers below any quantum are 0.
    total : str
        The sum of whole numbers `{k}` of up to 53 bits, of more records than there can be.
    micros : str
        The instant `{t}` in microseconds since 1970, as text.
    drawn : str
        The first 60 bits of md5 of the text `{t}`, as a whole number.
    quotient : str
        The whole number `{a}`, not below 0, divided by `{b}` and rounded down.
    """

    double: str = "DOUBLE"
    integer: str = "BIGINT"
    text: str
    instant: str
    decimal: str
    mark: str = '"'
    backslashes: bool = False
    rounded: str = "round({x})"
    wall: str
    starts: Mapping[StartName, str]
    hexagon: str
    extension: str
    element: str
    floats: Mapping[int, str]
    parsed: str = "TRY_CAST({t} AS DOUBLE)"
    integral: str = "TRY_CAST({x} AS BIGINT)"
    decimals: str
    trimmed: str
    micros: str
    drawn: str
    quotient: str
    matches: str
    boolean: str
    by_bytes: str = ""
    value: str = "CAST({x} AS {double})"
    total: str = "SUM({k})"

    def name(self, name: str) -> str:
        """Return the name of a column or table, quoted."""
        if not name.isprintable():
            raise InputError(
                f"the name {name!r} cannot be written in a query; give the column a name without "
                "line breaks or other control characters."
            )
        if self.backslashes and self.mark == "`":
            name = _escaped(name)
            # BigQuery escapes a backtick by a backslash, where the others double it.
            return f"`{name.replace('`', _TICK)}`"
        return self.mark + name.replace(self.mark, 2 * self.mark) + self.mark

    def id_kind(self, x: str) -> str:
        """Return the expression of the kind of id in a column, by its type.

        Of a float the whole number below which its whole numbers are exact, 0 of a decimal, -1 of
        true and false, and null of all others.
        """
        kinds = [f"WHEN {test.format(x=x)} THEN {2**bits}" for bits, test in self.floats.items()]
        kinds += [f"WHEN {self.decimals.format(x=x)} THEN 0"] * bool(self.decimals)
        kinds.append(f"WHEN {self.boolean.format(x=x)} THEN -1")
        return "\n  ".join(("CASE", *kinds, "END"))

    def user_id(self, text: str, kind: str) -> str:
        """Return the canonical text of an id (see `records.units`) from its text and kind.

        A float that names no vehicle exactly is null, and so are true and false, since a query
        cannot refuse them.
        """
        integer_id = self.matches.format(t=text, pattern=self.literal(f"^{WHOLE_WITH_ZEROS}$"))
        number = self.parsed.format(t=text)
        integer = self.integral.format(x=number)
        return "\n  ".join(
            (
                f"CASE WHEN {kind} > 0 THEN CASE WHEN ABS({number}) < {kind}",
                f"  THEN CASE WHEN {number} = {integer}",
                f"  THEN CAST({integer} AS {self.text}) END END",
                f"WHEN {kind} = 0 THEN {self.trimmed.format(t=text)}",
                f"WHEN {kind} < 0 THEN NULL",
                # Text that went through a column of floats or decimals.
                f"WHEN {integer_id}",
                f"  THEN COALESCE(NULLIF(REGEXP_REPLACE({text}, '[.]0+$', ''), '-0'), '0')",
                f"ELSE NULLIF({text}, '') END",
            )
        )

    def literal(self, text: str) -> str:
        """Return text quoted."""
        if self.backslashes:
            return "'" + _escaped(text).replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"


_TICK = "\\`"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def _formatted(template: str, calendar: str, pooled: str, day: str) -> dict[StartName, str]:
    formats: dict[StartName, str] = {"calendar": calendar, "pooled": pooled, "day": day}
    return {kind: template.replace("{f}", pattern) for kind, pattern in formats.items()}


_PERCENT = ("%Y-%m-%dT%H:%M", "%H:%M", "%Y-%m-%d")
_SPARK_START = (
    "CAST(TIMESTAMP_NTZ '1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, {s}) AS STRING)"
)

DIALECTS: dict[DialectName, Dialect] = {
    "duckdb": Dialect(
        text="VARCHAR",
        instant="TIMESTAMPTZ",
        # A product of two decimals of up to 18 digits would have to fit into 18.
        decimal="DECIMAL(38, {places})",
        # floor, since a cast would round to the next second.
        wall="CAST(floor(epoch(timezone({zone}, {t}))) AS BIGINT)",
        starts=_formatted("strftime(make_timestamp(({s}) * 1000000), '{f}')", *_PERCENT),
        hexagon="h3_latlng_to_cell({lat}, {lon}, {resolution})",
        extension="the community extension h3: INSTALL h3 FROM community; LOAD h3;",
        element="{x}[{i} + 1]",
        floats={24: "typeof({x}) = 'FLOAT'", 53: "typeof({x}) = 'DOUBLE'"},
        decimals="typeof({x}) LIKE 'DECIMAL%'",
        trimmed="CASE WHEN contains({t}, '.') THEN rtrim(rtrim({t}, '0'), '.') ELSE {t} END",
        micros="CAST(epoch_us({t}) AS VARCHAR)",
        drawn="CAST('0x' || substr(md5({t}), 1, 15) AS BIGINT)",
        quotient="{a} // {b}",
        matches="regexp_matches({t}, {pattern})",
        boolean="typeof({x}) = 'BOOLEAN'",
    ),
    "postgres": Dialect(
        double="double precision",
        integer="bigint",
        text="text",
        instant="timestamptz",
        decimal="numeric({width}, {places})",
        # round() of a double takes halves to the even neighbour.
        rounded="(trunc({x}) + CASE WHEN abs({x} - trunc({x})) >= 0.5 THEN sign({x}) ELSE 0 END)",
        wall="CAST(floor(extract(epoch FROM {t} AT TIME ZONE {zone})) AS bigint)",
        starts=_formatted(
            "to_char(timestamp '1970-01-01' + ({s}) * interval '1 second', '{f}')",
            'YYYY-MM-DD"T"HH24:MI',
            "HH24:MI",
            "YYYY-MM-DD",
        ),
        hexagon="h3_latlng_to_cell(point({lon}, {lat}), {resolution})",
        extension="the extension h3-pg: CREATE EXTENSION h3;",
        element="({x})[{i} + 1]",
        floats={
            24: "pg_typeof({x}) = 'real'::regtype",
            53: "pg_typeof({x}) = 'double precision'::regtype",
        },
        parsed="CAST({t} AS double precision)",
        integral="CAST({x} AS bigint)",
        decimals="pg_typeof({x}) = 'numeric'::regtype",
        trimmed=(
            "CASE WHEN {t} IN ('NaN', 'Infinity', '-Infinity') THEN NULL\n    "
            "WHEN position('.' IN {t}) > 0 THEN rtrim(rtrim({t}, '0'), '.') ELSE {t} END"
        ),
        micros="CAST(CAST(extract(epoch FROM {t}) * 1000000 AS bigint) AS text)",
        drawn="CAST(CAST('x' || substr(md5({t}), 1, 15) AS bit(60)) AS bigint)",
        quotient="div({a}, {b})",
        by_bytes=' COLLATE "C"',
        value=(
            "CAST(CASE\n    WHEN {x} > -1e-200 AND {x} < 1e-200 THEN 0\n    "
            "WHEN pg_typeof({x}) = 'numeric'::regtype AND CAST({x} AS text) NOT LIKE '%Infinity'\n"
            "      AND ({x} > 1e300 OR {x} < -1e300) THEN SIGN({x}) * 1e300\n    "
            "ELSE {x} END AS {double})"
        ),
        matches="{t} ~ {pattern}",
        boolean="pg_typeof({x}) = 'boolean'::regtype",
    ),
    "bigquery": Dialect(
        double="FLOAT64",
        integer="INT64",
        text="STRING",
        instant="TIMESTAMP",
        decimal="BIGNUMERIC",
        mark="`",
        backslashes=True,
        rounded="ROUND({x})",
        wall="DATETIME_DIFF(DATETIME({t}, {zone}), DATETIME '1970-01-01 00:00:00', SECOND)",
        starts=_formatted(
            "FORMAT_DATETIME('{f}', "
            "DATETIME_ADD(DATETIME '1970-01-01 00:00:00', INTERVAL ({s}) SECOND))",
            *_PERCENT,
        ),
        hexagon="`carto-os`.carto.H3_FROMLONGLAT({lon}, {lat}, {resolution})",
        extension="CARTO's Analytics Toolbox, here in its US copy; elsewhere name that region's.",
        element="{x}[SAFE_OFFSET({i})]",
        # No function tells a type, but only a float's literal begins so.
        floats={53: "REGEXP_CONTAINS(FORMAT('%T', {x}), r'^(-?[0-9]+([.]|e)|CAST[(])')"},
        parsed="SAFE_CAST({t} AS FLOAT64)",
        integral="SAFE_CAST({x} AS INT64)",
        decimals="",  # their text never ends in such zeros
        trimmed="{t}",
        micros="CAST(UNIX_MICROS({t}) AS STRING)",
        drawn="CAST(CONCAT('0x', SUBSTR(TO_HEX(MD5({t})), 1, 15)) AS INT64)",
        quotient="DIV({a}, {b})",
        total="SUM(CAST({k} AS NUMERIC))",
        matches="REGEXP_CONTAINS({t}, {pattern})",
        boolean="FORMAT('%T', {x}) IN ('true', 'false')",
    ),
    "spark": Dialect(
        text="STRING",
        instant="TIMESTAMP",
        decimal="DECIMAL({width}, {places})",
        mark="`",
        # The wall clock comes back as if it were UTC, whatever the session's time zone.
        wall="unix_seconds(from_utc_timestamp({t}, {zone}))",
        starts={
            "calendar": f"replace(substring({_SPARK_START}, 1, 16), ' ', 'T')",
            "pooled": f"substring({_SPARK_START}, 12, 5)",
            "day": f"substring({_SPARK_START}, 1, 10)",
        },
        hexagon="h3_longlatash3({lon}, {lat}, {resolution})",
        extension="the H3 functions of Databricks, or a function of this name.",
        element="try_element_at({x}, {i} + 1)",
        floats={24: "typeof({x}) = 'float'", 53: "typeof({x}) = 'double'"},
        decimals="typeof({x}) LIKE 'decimal%'",
        # A zero of many places is written with an exponent.
        trimmed=(
            "CASE WHEN TRY_CAST({t} AS DOUBLE) = 0 THEN '0'\n    WHEN locate('.', {t}) > 0 "
            "THEN rtrim('.', rtrim('0', {t})) ELSE {t} END"
        ),
        micros="CAST(unix_micros({t}) AS STRING)",
        drawn="CAST(conv(substr(md5({t}), 1, 15), 16, 10) AS BIGINT)",
        quotient="{a} div {b}",
        total="SUM(CAST({k} AS DECIMAL(18, 0)))",
        # Here a pattern's end is before a line break that ends the text, too.
        matches="{t} RLIKE {pattern} AND translate({t}, '-.0123456789', '') = ''",
        boolean="typeof({x}) = 'boolean'",
    ),
}


def dialect_named(name: str) -> Dialect:
    """Return a dialect; raise InputError if there is none of this name."""
    for dialect_name in get_args(DialectName):
        if dialect_name == name:
            return DIALECTS[dialect_name]
    raise InputError(f"sql must be one of {', '.join(get_args(DialectName))}, got {name!r}.")
