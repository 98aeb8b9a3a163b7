{% import dialect + ".sql" as sql %}
{% macro name(text) %}{{ text|name(dialect) }}{% endmacro %}
{% macro literal(text) %}{{ text|literal(dialect) }}{% endmacro %}
{% macro carried(timed, local) %}
    user_id
{% if timed %}
    observed_at
{% endif %}
{% if local %}
    local_s
{% endif %}
{% for place in places %}
    {{ place }}
{% endfor %}
{% endmacro %}
-- Sums per cell and {{ rules.privacy_unit }}, for hexveil ({{ dialect }}). Pass the result to:
--   hv.from_sums(table, bounds=({{ scale.lower|decimal }}, {{ scale.upper|decimal }}), quantum={{ scale.quantum|decimal|python }}, privacy_unit={{ rules.privacy_unit|python }},
--                cells=hv.{{ python_cells }},
--                {{ python_options }})
{% if grid %}
-- Needs {{ sql.extension }}
{% endif %}
-- {{ columns.value|python }} must be a column of numbers: text is not parsed. Unusable records
-- are left out, however many they are (max_bad_rows is not applied).
{% if columns.time %}
-- {{ columns.time|python }} must hold instants (times with an offset, or in UTC).
{% endif %}
{% if dedupes %}
-- Repeats of a user and time are averaged, however many (no max_repeats).
{% endif %}
{% if columns.location %}
-- {{ columns.location|python }} must be a list of numbers, longitude first.
{% endif %}
-- {{ columns.user|python }} may be text or numbers: 7, 7.0 and 7.00 are one user; floats that
-- are not whole, or not exact, are none; of text "7.0" is "7", the rest is as it is.
{% if "." in columns.describe() %}
-- A name with dots is taken as one column's: give nested fields a name in a view.
{% endif %}
-- min_users and top are applied by from_sums.
WITH records AS (
  SELECT
{% filter columns %}
    {{ sql.value(name(columns.value)) }} AS value
    CAST({{ name(columns.user) }} AS {{ sql.text }}) AS user_id
    CASE
{{ sql.kinds(name(columns.user)) }}
      END AS id_kind
{% if columns.time %}
    CAST({{ name(columns.time) }} AS {{ sql.instant }}) AS observed_at
{% endif %}
{% if placed %}
    CAST({{ sql.element(name(columns.location), 1) if columns.location else name(columns.lat) }} AS {{ sql.double }}) AS lat
    CAST({{ sql.element(name(columns.location), 0) if columns.location else name(columns.lon) }} AS {{ sql.double }}) AS lon
{% endif %}
{% for label in labels %}
    {{ all_records if all_records else "NULLIF(CAST(%s AS %s), '')"|format(name(label), sql.text) }} AS label{{ loop.index0 }}
{% endfor %}
{% endfilter %}
  FROM {{ source }}
),
identified AS (
  SELECT
{% filter columns %}
{# A float that names no vehicle exactly is null, and so are true and false: a query cannot refuse. #}
{% set number = sql.parsed("user_id") %}
{% set integer = sql.integral(number) %}
    CASE WHEN id_kind > 0 THEN CASE WHEN ABS({{ number }}) < id_kind
        THEN CASE WHEN {{ number }} = {{ integer }}
        THEN CAST({{ integer }} AS {{ sql.text }}) END END
      WHEN id_kind = 0 THEN {{ sql.trimmed("user_id") }}
      WHEN id_kind < 0 THEN NULL
{# Text that went through a column of floats or decimals. #}
      WHEN {{ sql.matches("user_id", literal(whole_number)) }}
        THEN COALESCE(NULLIF(REGEXP_REPLACE(user_id, '[.]0+$', ''), '-0'), '0')
      ELSE NULLIF(user_id, '') END AS user_id
    value
{% if columns.time %}
    observed_at
{% endif %}
{% if placed %}
    lat
    lon
{% endif %}
{% for label in labels %}
    label{{ loop.index0 }}
{% endfor %}
{% endfilter %}
  FROM records
),
usable AS (
  SELECT
{% filter columns %}
{{ carried(dedupes, false) }}
{% if local %}
    {{ sql.wall("observed_at", literal(rules.clock)) }} AS local_s
{% endif %}
{# Clamped before it is scaled, as in reading: no product can overflow, so no value fails. #}
    LEAST(GREATEST(value, {{ scale.lower|number }}), {{ scale.upper|number }}) * {{ scale.quantum.denominator|number }} / {{ scale.quantum.numerator|number }} AS scaled_value
{% endfilter %}
  FROM identified
{# Infinity and NaN fail the comparison in each dialect; not all have a function for them. #}
  WHERE ABS(value) <= 1.7976931348623157e+308
    AND user_id IS NOT NULL
{% if columns.time %}
    AND observed_at >= CAST('1970-01-01 00:00:00+00:00' AS {{ sql.instant }})
    AND observed_at < CAST('2100-01-01 00:00:00+00:00' AS {{ sql.instant }})
{% endif %}
{% for label in labels %}
    AND label{{ loop.index0 }} IS NOT NULL
{% endfor %}
{% if placed %}
    AND lat BETWEEN -90 AND 90
    AND lon BETWEEN -180 AND 180
{% endif %}
{% if select.drop_values %}
    AND value NOT IN ({{ select.drop_values|map("number")|join(", ") }})
{% endif %}
{% if select.box %}
{% set west, south, east, north = select.box %}
    AND lon BETWEEN {{ west|number }} AND {{ east|number }}
    AND lat BETWEEN {{ south|number }} AND {{ north|number }}
{% endif %}
),
selected AS (
  SELECT
{% filter columns %}
{{ carried(dedupes, local) }}
    LEAST(GREATEST(CAST({{ sql.rounded("scaled_value") }} AS {{ sql.integer }}), {{ lowest }}), {{ highest }}) AS quanta
{% endfilter %}
  FROM usable
{% if select.hours is not none %}
{# The start of the local hour, in seconds since midnight. #}
  WHERE MOD(local_s + 86400, 86400) - MOD(local_s + 86400, 3600) IN ({{ hours|join(", ") }})
{% endif %}
{% if select.days is not none %}
  {{ "WHERE" if select.hours is none else "  AND" }} local_s BETWEEN {{ select.days[0] * 86400 }} AND {{ select.days[1] * 86400 + 86399 }}
{% endif %}
),
{% if dedupes %}
counted AS (
  SELECT
{% filter columns %}
{{ carried(false, local) }}
{% set at_place = "OVER (PARTITION BY user_id, observed_at, %s)"|format(places|join(", ")) %}
    COUNT(*) {{ at_place }} AS place_records
{# From the lower bound, so that no sum is negative: divisions round down. #}
    {{ sql.total("quanta - (%s)"|format(lowest)) }} {{ at_place }} AS place_quanta
{# The value orders records of one place alone, whose average does not depend on it. #}
    ROW_NUMBER() OVER (PARTITION BY user_id, observed_at ORDER BY {% for place in places %}{{ place }}{{ sql.by_bytes if labels }}, {% endfor %}quanta) AS place_rank
    COUNT(*) OVER (PARTITION BY user_id, observed_at) AS repeats
    {{ sql.drawn("CONCAT(user_id, ' ', %s)"|format(sql.micros("observed_at"))) }} AS drawn
{% endfilter %}
  FROM selected
),
averaged AS (
  SELECT
{% filter columns %}
{{ carried(false, local) }}
{% set half_down = "MOD(%s, 2)"|format(sql.quotient("drawn", "repeats")) %}
{% set average = sql.quotient("(2 * place_quanta + place_records - %s)"|format(half_down), "(2 * place_records)") %}
    CAST({{ average }} AS {{ sql.integer }}) + ({{ lowest }}) AS quanta
{% endfilter %}
  FROM counted
  WHERE place_rank = MOD(drawn, repeats) + 1
),
{% endif %}
keyed AS (
  SELECT
{% filter columns %}
{% if grid %}
    {{ sql.hexagon("lat", "lon", grid.resolution) }} AS {{ name("hexagon") }}
{% if grid.seconds %}
{# Shifted by a day, since remainders of negative numbers are negative. #}
    {{ sql.start("local_s - MOD(local_s + 86400, %s)"|format(grid.seconds), grid.slot) }} AS {{ name("slot") }}
{% endif %}
{% endif %}
{% for label in labels %}
    label{{ loop.index0 }} AS {{ name(label) }}
{% endfor %}
{% if rules.privacy_unit == "user" %}
    user_id AS {{ name("user") }}
{% elif rules.privacy_unit == "user-day" %}
    CONCAT(user_id, ' ', {{ sql.start("local_s - MOD(local_s + 86400, 86400)", "day") }}) AS {{ name("user") }}
{% else %}
{# 1970-01-01 was a Thursday, three days after a Monday. #}
    CONCAT(user_id, ' ', {{ sql.start("local_s - MOD(local_s + 864000, 604800)", "day") }}) AS {{ name("user") }}
{% endif %}
    quanta{{ " AS " + k if k != "quanta" }}
{% endfilter %}
  FROM {{ "averaged" if dedupes else "selected" }}
)
SELECT
{% filter columns %}
{% for key in keys %}
  {{ name(key) }}
{% endfor %}
  COUNT(*) AS n
{# Whole quanta are added up, and only the sum is scaled: the order of rows changes nothing. #}
  CAST({{ sql.total(k) }} AS {{ sql.double }}) * {{ scale.quantum.numerator|number }} / {{ scale.quantum.denominator|number }} AS {{ name("sum") }}
{% if squares %}
{# About 0, in value units: readable by whoever makes the table, and independent of the bounds. #}
{% set double, step = "CAST(%s AS %s)"|format(k, sql.double), " * %s / %s"|format(scale.quantum.numerator|number, scale.quantum.denominator|number) %}
{% if whole_squares %}
  CAST({{ sql.total("%s * %s"|format(k, k)) }} AS {{ sql.double }}){{ step }}{{ step }} AS {{ name("sum_sq") }}
{% else %}
  SUM({{ double }} * {{ double }}){{ step }}{{ step }} AS {{ name("sum_sq") }}
{% endif %}
{% endif %}
{% if fine_bin %}
{# A row per bin as well, which from_sums adds up again. #}
  {{ fine_bin }} AS {{ name("bin") }}
{% endif %}
{% endfilter %}
FROM keyed
GROUP BY {% for key in keys %}{{ name(key) }}{{ ", " if not loop.last }}{% endfor %}{{ ", " + fine_bin if fine_bin }};
