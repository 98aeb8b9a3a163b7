{% set double, integer, text, instant, by_bytes = "double precision", "bigint", "text", "timestamptz", ' COLLATE "C"' %}
{% set extension = "the extension h3-pg: CREATE EXTENSION h3;" %}
{% macro hexagon(lat, lon, resolution) %}h3_latlng_to_cell(point({{ lon }}, {{ lat }}), {{ resolution }}){% endmacro %}
{# Products that come to nothing are refused here: numbers below any quantum are 0. #}
{% macro value(x) %}CAST(CASE
      WHEN {{ x }} > -1e-200 AND {{ x }} < 1e-200 THEN 0
      WHEN pg_typeof({{ x }}) = 'numeric'::regtype AND CAST({{ x }} AS text) NOT LIKE '%Infinity'
        AND ({{ x }} > 1e300 OR {{ x }} < -1e300) THEN SIGN({{ x }}) * 1e300
      ELSE {{ x }} END AS double precision){% endmacro %}
{# round() of a double takes halves to the even neighbour. #}
{% macro rounded(x) %}(trunc({{ x }}) + CASE WHEN abs({{ x }} - trunc({{ x }})) >= 0.5 THEN sign({{ x }}) ELSE 0 END){% endmacro %}
{% macro wall(t, zone) %}CAST(floor(extract(epoch FROM {{ t }} AT TIME ZONE {{ zone }})) AS bigint){% endmacro %}
{% macro start(s, kind) %}to_char(timestamp '1970-01-01' + ({{ s }}) * interval '1 second', '{{ {"calendar": 'YYYY-MM-DD"T"HH24:MI', "pooled": "HH24:MI", "day": "YYYY-MM-DD"}[kind] }}'){% endmacro %}
{% macro element(x, i) %}({{ x }})[{{ i }} + 1]{% endmacro %}
{% macro kinds(x) %}
      WHEN pg_typeof({{ x }}) = 'real'::regtype THEN 16777216
      WHEN pg_typeof({{ x }}) = 'double precision'::regtype THEN 9007199254740992
      WHEN pg_typeof({{ x }}) = 'numeric'::regtype THEN 0
      WHEN pg_typeof({{ x }}) = 'boolean'::regtype THEN -1
{% endmacro %}
{% macro parsed(t) %}CAST({{ t }} AS double precision){% endmacro %}
{% macro integral(x) %}CAST({{ x }} AS bigint){% endmacro %}
{% macro trimmed(t) %}CASE WHEN {{ t }} IN ('NaN', 'Infinity', '-Infinity') THEN NULL
        WHEN position('.' IN {{ t }}) > 0 THEN rtrim(rtrim({{ t }}, '0'), '.') ELSE {{ t }} END{% endmacro %}
{% macro matches(t, pattern) %}{{ t }} ~ {{ pattern }}{% endmacro %}
{% macro total(k) %}SUM({{ k }}){% endmacro %}
{% macro micros(t) %}CAST(CAST(extract(epoch FROM {{ t }}) * 1000000 AS bigint) AS text){% endmacro %}
{% macro drawn(t) %}CAST(CAST('x' || substr(md5({{ t }}), 1, 15) AS bit(60)) AS bigint){% endmacro %}
{% macro quotient(a, b) %}div({{ a }}, {{ b }}){% endmacro %}
